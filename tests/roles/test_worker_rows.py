"""Workers of a node: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.desk import DRIVER, Desk
from tests.roles.test_environments import PACKAGES, spec_of, starting
from tests.roles.test_lending import OneCpu
from tests.roles.test_shutdowns import ShutdownDesk
from zray.roles.effects import ProcessLeft, WorkerStartFailed
from zray.roles.local_scheduler.tasks.pool import TRANSITIONS, WorkerPool
from zray.wire.objects import ReleaseObjects
from zray.wire.task_spec import ActorOptions
from zray.wire.tasks import WaitObjects


def leases():
    """A worker works off a queue, rests, and dies; another one dies in its task, a third one does not start."""
    desk = Desk(cpus=3)
    first = desk.give_birth()
    desk.submit(desk.new_spec())
    desk.finish_one(first)
    desk.kill(first)
    desk.submit(desk.new_spec())
    desk.kill(desk.give_birth())
    desk.tell("host", WorkerStartFailed(desk.starting.pop(0).worker, "no memory"))


def end_of_job():
    """The workers of a job go with it; also one that is ready only then."""
    desk = Desk(cpus=2)
    desk.submit(spec_of(desk, PACKAGES), spec_of(desk, PACKAGES))
    late = starting(desk, PACKAGES)[-1]
    desk.starting.remove(late)
    desk.run_all()
    desk.tell("host", ProcessLeft(DRIVER, "it has ended"))
    desk.starting.insert(0, late)
    for worker in {desk.give_birth(), *desk.killed}:
        desk.kill(worker)


def worker_beyond_the_cap():
    """A worker that was started for a wait with a timeout goes when its task has ended."""
    desk = OneCpu()
    desk.scheduler.pool.count_max = 1
    desk.tell(desk.worker, WaitObjects(1, [desk.second], 1, False, True, False, True))
    desk.run_second()
    assert desk.killed


def actors():
    """An actor takes an idle worker, and one that has just started; one leaves, and the other one dies."""
    desk = ShutdownDesk()
    worker, ref = desk.actor()
    desk.tell(DRIVER, ReleaseObjects([ref]))
    assert desk.stopped() == [worker]
    desk.exit(worker)
    desk.kill(worker)
    for number in range(5):
        desk.create(b"another actor %02d" % number, ActorOptions(resources={}))
    desk.settle()
    desk.kill(next(iter(desk.actors)))


@pytest.fixture
def taken(monkeypatch):
    taken, happened = set(), WorkerPool.happened

    def record(self, worker, event):
        taken.add((worker.state, event))
        happened(self, worker, event)

    monkeypatch.setattr(WorkerPool, "happened", record)
    return taken


def test_each_row_is_taken(taken):
    for scenario in (leases, end_of_job, worker_beyond_the_cap, actors):
        scenario()
    assert taken == set(TRANSITIONS)
