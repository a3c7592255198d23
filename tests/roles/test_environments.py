"""Workers of environments with packages, and tasks whose packages cannot be had."""

import pytest

from tests.roles.desk import DRIVER, JOB, Desk
from zray.exceptions import decode_system_error
from zray.roles.effects import ProcessLeft, WorkerStartFailed
from zray.wire.environment import Environment
from zray.wire.task_spec import TaskOptions, encode_options
from zray.wire.tasks import JobStarted, ObjectsReady

PACKAGES = "a request"


@pytest.fixture
def desk():
    return Desk(cpus=2)


def spec_of(desk, packages="", **more):
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(environment=Environment(packages=packages, **more)))
    return spec


def starting(desk, packages):
    return [order for order in desk.starting if order.packages == packages]


def refuse_all(desk, packages):
    for order in starting(desk, packages):
        desk.starting.remove(order)
        desk.tell("host", WorkerStartFailed(order.worker, "pip exited with code 1", is_unfit=True))


def test_workers_with_packages_are_started_by_that_name_and_serve_no_others(desk):
    desk.submit(spec_of(desk), spec_of(desk, PACKAGES), spec_of(desk, "another request"))
    assert starting(desk, PACKAGES) and starting(desk, "another request")
    packages = {order.worker: order.packages for order in desk.starting}
    desk.run_all()
    told = {worker: message.environment.packages for worker, message in desk.take_sent(JobStarted)}
    packages.update({order.worker: order.packages for order in desk.starting})
    assert sorted(told.values()) == ["", PACKAGES, "another request"]
    assert all(packages.get(worker, "") == name for worker, name in told.items())


def test_packages_that_cannot_be_had_fail_their_tasks_at_once_and_no_others(desk):
    (plain,) = desk.submit(spec_of(desk))
    doomed = desk.submit(*[spec_of(desk, PACKAGES) for _ in range(5)])
    refuse_all(desk, PACKAGES)
    desk.run_all()
    told = dict(item for _, message in desk.take_sent(ObjectsReady) for item in message.objects)
    for object_id in doomed:
        error = decode_system_error(told[object_id])
        assert type(error).__name__ == "RuntimeEnvSetupError" and "pip exited with code 1" in str(error)
    assert told[plain] == b"\1"
    assert not starting(desk, PACKAGES), "it is tried again"


def test_tasks_that_come_after_a_failure_ask_anew(desk):
    desk.submit(spec_of(desk, PACKAGES))
    refuse_all(desk, PACKAGES)
    (later,) = desk.submit(spec_of(desk, PACKAGES))
    assert starting(desk, PACKAGES)
    desk.run_all()
    assert (DRIVER, ObjectsReady([(later, b"\1")])) in desk.take_sent()


def test_idle_workers_with_packages_end_with_their_job(desk):
    """Also one that is ready only then: its fork server is to end when it has no workers."""
    desk.submit(spec_of(desk, PACKAGES), spec_of(desk, PACKAGES))
    late = starting(desk, PACKAGES)[-1]
    desk.starting.remove(late)
    desk.run_all()
    desk.tell("host", ProcessLeft(DRIVER, "it has ended"))
    assert desk.scheduler.jobs.get(JOB) is None
    desk.starting.insert(0, late)
    assert desk.give_birth() in desk.killed
    own = [worker.address for worker in desk.scheduler.pool.workers.values() if worker.packages]
    assert own and set(own) <= set(desk.killed)


def test_idle_workers_make_room_for_other_environments(desk):
    """The pool is bounded, whatever a program asks for."""
    for number in range(30):
        desk.submit(spec_of(desk, f"request {number}"))
        desk.run_all()
        for worker in dict.fromkeys(desk.killed):
            desk.kill(worker)
        desk.killed.clear()
        desk.run_all()
    pool = desk.scheduler.pool
    assert len(pool.workers) <= pool.count_max
    assert len(pool.idle) <= len(pool.workers) + 1 and not pool.starting


def test_environments_differ_in_each_field(desk):
    """A worker serves one of them, though all have the same fork server."""
    variables = [(("A", "1"),), (("A", "2"),), ()]
    desk.submit(*[spec_of(desk, PACKAGES, env_vars=each) for each in variables])
    desk.run_all()
    told = [message.environment for _, message in desk.take_sent(JobStarted)]
    assert len(set(told)) == len(told) == 3
