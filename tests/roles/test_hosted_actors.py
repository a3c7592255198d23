"""Hosted actors of a local scheduler, one message at a time: many in one process."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION, Desk
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.worker import WorkerState
from zray.wire.actors import ActorEnded, ActorExited, ActorStarted, CreateActor, EndActor, KillActor, StartActor
from zray.wire.objects import FreeObjects, ReleaseObjects, UnpinObjects
from zray.wire.task_spec import ActorOptions, StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import (
    CancelTask,
    InterruptTask,
    ObjectsReady,
    StartTasks,
    SubmitTasks,
    TaskResult,
    TasksFinished,
)

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


class HostedDesk(Desk):
    """A desk with a driver that makes hosted actors."""

    def create(self, actor_id, sender=DRIVER, **options):
        self.tell(sender, CreateActor(TaskSpec(actor_id, FUNCTION), ActorOptions(resources={}, hosted=True, **options)))

    def make(self, *actors, **options):
        """Create actors and have them start.  Returns their process."""
        for actor_id in actors:
            self.create(actor_id, **options)
        while self.starting:
            self.give_birth()
        (host,) = {target for target, message in self.take_sent(StartActor)}
        for actor_id in actors:
            self.tell(host, ActorStarted(actor_id))
        return host

    def call(self, actor_id, *, retries=0):
        """Returns the spec of a call that the driver has made."""
        self.count += 1
        options = encode_options(TaskOptions({}, actor_id=actor_id, method="m", max_retries=retries))
        spec = TaskSpec(b"driver".ljust(10, b"\0") + self.count.to_bytes(6, "big"), b"", options=options)
        self.tell(DRIVER, SubmitTasks([spec]))
        return spec

    def drop(self, actor_id):
        self.tell(DRIVER, ReleaseObjects([return_id(actor_id, 1)]))

    def errors(self):
        """Names of the errors that the driver was sent."""
        values = [value for _, message in self.take_sent(ObjectsReady) for _, value in message.objects]
        return [value for value in values if b"Error" in value]


@pytest.fixture
def desk():
    return HostedDesk(cpus=1)


def test_actors_of_a_job_share_one_process(desk):
    host = desk.make(A, B, C)
    worker = desk.scheduler.pool.workers[host]
    assert list(worker.guests) == [A, B, C] and worker.state == WorkerState.ACTOR
    assert {desk.scheduler.calls.actors[each].worker.address for each in (A, B, C)} == {host}
    assert not desk.scheduler.calls.wanting and not desk.starting


def test_many_actors_order_one_process_while_none_is_there(desk):
    desk.starting.clear()
    desk.scheduler.pool.starting.clear()
    desk.scheduler.pool.workers.clear()
    for number in range(1, 50):
        desk.create(bytes([number]) * 16)
    assert len(desk.starting) == 1


def test_hosted_actors_do_not_count_towards_the_cap_of_processes(desk):
    desk.make(A, B)
    pool = desk.scheduler.pool
    assert pool._task_worker_count() == len(pool.workers) - 1


def test_calls_go_without_a_claim_window_and_results_end_them(desk):
    host = desk.make(A, B)
    window = desk.windows[host]
    first, second = desk.call(A), desk.call(B)
    sent = [spec for target, message in desk.take_sent(StartTasks) for spec in message.specs if target == host]
    assert sent == [first, second] and desk.windows[host] == window
    desk.tell(host, TasksFinished([TaskResult(second.task_id, [b"\1"]), TaskResult(first.task_id, [b"\1"])]))
    assert not desk.scheduler.calls.actors[A].inflight and not desk.scheduler.calls.actors[B].inflight
    assert [value for _, message in desk.take_sent(ObjectsReady) for _, value in message.objects] == [b"\1"] * 2


def test_restartable_actors_get_no_calls_ahead(desk):
    host = desk.make(A, max_restarts=1)
    first, second = desk.call(A), desk.call(A)
    assert [message.specs for _, message in desk.take_sent(StartTasks)] == [[first]]
    desk.tell(host, TasksFinished([TaskResult(first.task_id, [b"\1"])]))
    assert [message.specs for _, message in desk.take_sent(StartTasks)] == [[second]]


def test_an_actor_without_handles_ends_in_order_and_the_others_stay(desk):
    host = desk.make(A, B)
    desk.drop(A)
    assert desk.take_sent(EndActor) == [(host, EndActor(A))]
    desk.tell(host, ActorEnded(A, "in order"))
    assert list(desk.scheduler.pool.workers[host].guests) == [B] and not desk.killed
    assert A not in desk.scheduler.calls.actors


def test_the_process_ends_some_seconds_after_its_last_actor(desk):
    host = desk.make(A)
    desk.drop(A)
    desk.tell(host, ActorEnded(A, "in order"))
    desk.timer("Hosts.end_idle", stays=True)
    assert not desk.killed
    desk.now += 5
    desk.timer("Hosts.end_idle")
    assert desk.killed == [host]


def test_a_new_actor_keeps_the_process(desk):
    host = desk.make(A)
    desk.drop(A)
    desk.tell(host, ActorEnded(A, "in order"))
    assert desk.make(B) == host
    desk.now += 5
    desk.timer("Hosts.end_idle")
    assert not desk.killed


def test_a_killed_actor_ends_alone_and_its_calls_fail(desk):
    host = desk.make(A, B)
    desk.call(A)
    desk.tell(DRIVER, KillActor(A))
    assert (host, EndActor(A, True)) in desk.sent
    assert len(desk.errors()) == 1
    desk.tell(host, ActorEnded(A, "killed"))
    assert list(desk.scheduler.pool.workers[host].guests) == [B] and not desk.killed


def test_a_large_result_that_nobody_awaits_is_freed_though_its_process_lives(desk):
    host = desk.make(A, B)
    call = desk.call(A)
    desk.tell(DRIVER, KillActor(A))
    desk.take_sent()
    answer = return_id(call.task_id, 1)
    desk.tell(host, TasksFinished([TaskResult(call.task_id, [StoredValue(0, 0, 5_000)])]))
    desk.tell(host, UnpinObjects([(answer, 1)]))
    assert desk.take_sent(FreeObjects) == [("objects", FreeObjects([answer]))]


def test_a_killed_actor_that_may_restart_starts_again_in_its_process(desk):
    host = desk.make(A, B, max_restarts=-1)
    call = desk.call(A, retries=-1)
    desk.take_sent()
    desk.tell(DRIVER, KillActor(A, no_restart=False))
    assert desk.take_sent(StartActor) == []
    desk.tell(host, ActorEnded(A, "killed"))
    ((target, order),) = desk.take_sent(StartActor)
    assert (target, order.restart_count) == (host, 1)
    desk.tell(host, ActorStarted(A))
    assert [message.specs for _, message in desk.take_sent(StartTasks)] == [[call]]


def test_an_actor_whose_method_runs_on_starts_again_in_another_process(desk):
    host = desk.make(A, B, max_restarts=-1)
    desk.call(A, retries=-1)
    desk.tell(DRIVER, KillActor(A, no_restart=False))
    desk.take_sent()
    desk.tell(host, ActorEnded(A, "killed", runs_on=True))
    while desk.starting:
        desk.give_birth()
    ((target, _),) = desk.take_sent(StartActor)
    assert target != host


def test_an_actor_made_anew_waits_for_the_end_of_the_first_one(desk):
    host = desk.make(A)
    desk.drop(A)
    desk.create(A)
    assert desk.take_sent(StartActor) == []
    desk.tell(host, ActorEnded(A, "in order"))
    assert [target for target, _ in desk.take_sent(StartActor)] == [host]


def test_an_exit_of_an_actor_is_its_own(desk):
    host = desk.make(A, B)
    call, later = desk.call(A), desk.call(A)
    desk.tell(host, TasksFinished([TaskResult(call.task_id, [b"\1"])]))
    desk.tell(host, ActorExited(A, "it left"))
    assert len(desk.errors()) == 1, "the later call"
    desk.tell(host, ActorEnded(A, "in order", 1))
    assert list(desk.scheduler.pool.workers[host].guests) == [B]
    assert later.task_id not in desk.scheduler.tasks


def test_the_death_of_the_process_ends_all_its_actors(desk):
    host = desk.make(A, B)
    desk.create(C, max_restarts=1)
    desk.tell(host, ActorStarted(C))
    desk.call(A)
    desk.call(C, retries=1)
    desk.take_sent()
    desk.tell("host", e.WorkerExited(host, "killed by signal 9", 0, pid=101))
    assert any(b"killed by signal 9" in error for error in desk.errors())
    assert list(desk.scheduler.calls.actors) == [C]
    while desk.starting:
        desk.give_birth()
    assert desk.scheduler.calls.actors[C].worker.address != host


def test_a_process_speaks_only_for_its_own_actors(desk):
    host = desk.make(A)
    desk.submit(desk.new_spec())
    while desk.starting:
        desk.give_birth()
    other = next(address for address in desk.scheduler.pool.workers if address != host)
    before = sum(desk.scheduler.rejected.values())
    desk.tell(other, ActorEnded(A, "a lie"))
    desk.tell(host, ActorEnded(C, "nobody's"))
    desk.tell(DRIVER, ActorEnded(A, "a lie"))
    desk.tell(other, ActorExited(A, "a lie"))
    assert sum(desk.scheduler.rejected.values()) == before + 3
    assert A in desk.scheduler.calls.actors and A in desk.scheduler.pool.workers[host].guests


def test_a_cancelled_call_is_told_without_a_signal(desk):
    host = desk.make(A)
    call = desk.call(A)
    desk.take_sent()
    desk.tell(DRIVER, CancelTask(call.task_id))
    assert desk.take_sent(InterruptTask) == [(host, InterruptTask(call.task_id))]


def test_the_end_of_the_job_ends_the_process_unless_an_actor_is_detached(desk):
    host = desk.make(A)
    desk.create(B, detached=True)
    desk.tell(host, ActorStarted(B))
    desk.take_sent()
    desk.tell("host", e.ProcessLeft(DRIVER, "it has ended"))
    assert (host, EndActor(A, True)) in desk.take_sent(EndActor)
    assert host not in desk.killed and list(desk.scheduler.calls.actors) == [B]
    desk.tell(host, ActorEnded(A, "killed"))
    assert host not in desk.killed


def with_shutdown(desk, **options):
    """A driver ends that has an actor with shutdown code, and another one; the first is told to end."""
    host = desk.make(A)
    desk.tell(host, ActorStarted(A, has_shutdown=True))
    desk.create(B, **options)
    desk.tell(host, ActorStarted(B))
    desk.take_sent()
    desk.tell("host", e.ProcessLeft(DRIVER, "it has ended"))
    return host


def test_shutdown_code_of_an_actor_runs_at_the_end_of_the_job_before_the_process_ends(desk):
    host = with_shutdown(desk)
    assert desk.take_sent(EndActor) == [(host, EndActor(A)), (host, EndActor(B, True))] and not desk.killed
    desk.tell(host, ActorEnded(B, "killed"))
    assert not desk.killed, "it would end the code of the other one"
    desk.tell(host, ActorEnded(A, "in order"))
    assert desk.killed == [host]


def test_shutdown_code_that_does_not_end_ends_with_the_process(desk):
    host = with_shutdown(desk)
    desk.now += 10
    desk.timer("ActorEnds.kill_overdue")
    assert desk.killed == [host]


def test_shutdown_code_that_does_not_end_does_not_end_a_detached_actor(desk):
    host = with_shutdown(desk, detached=True)
    desk.take_sent()
    desk.now += 10
    desk.timer("ActorEnds.kill_overdue")
    assert not desk.killed and desk.take_sent(EndActor) == [(host, EndActor(A, True))]
