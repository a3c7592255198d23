"""Actors with something to run before their processes end: told to stop where others are killed, and not for ever."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, JOB
from zray.roles.effects import ProcessLeft, SetTimer
from zray.roles.work_effects import ActorsHaveStopped, SessionEnds
from zray.sim.trace import name_of
from zray.wire.actors import SHUTDOWN_SECONDS, ActorStarted
from zray.wire.objects import ReleaseObjects
from zray.wire.task_spec import ActorOptions
from zray.wire.tasks import StopWorker, SubmitTasks

ACTOR = b"a" * 16
KILL_OVERDUE = "ActorEnds.kill_overdue"


class ShutdownDesk(ActorDesk):
    """Notes when the session may end, and the timers of stops."""

    def __init__(self):
        self.may_end = 0
        self.deadlines = []
        super().__init__()

    def _perform(self, effects):
        for effect in effects:
            if type(effect) is ActorsHaveStopped:
                self.may_end += 1
            elif type(effect) is SetTimer and name_of(effect.message) == KILL_OVERDUE:
                self.deadlines.append(self.now + effect.delay)
            super()._perform([effect])

    def actor(self, *, has_shutdown=True, **options):
        """A worker that has become one, and its actor's object."""
        ref = self.create(ACTOR, ActorOptions(resources={}, **options))
        self.settle()
        (worker,) = self.actors
        self.tell(worker, ActorStarted(ACTOR, has_shutdown))
        self.take_sent()
        return worker, ref

    def call(self):
        """One that has been sent to the actor."""
        self.tell(DRIVER, SubmitTasks([self.new_call(JOB, ACTOR)]))
        self.take_sent()

    def stopped(self):
        """The workers that were told to stop since the last look."""
        return [target for target, message in self.take_sent() if type(message) is StopWorker]

    def time_out(self):
        self.now = self.deadlines[-1]
        self.timer(KILL_OVERDUE)

    @property
    def are_due(self):
        return self.scheduler.ends.are_due()


@pytest.fixture
def desk():
    return ShutdownDesk()


def test_session_without_such_actors_waits_for_nothing(desk):
    desk.actor(has_shutdown=False)
    assert not desk.are_due
    desk.tell("local", SessionEnds())
    assert desk.may_end and not desk.stopped()


def test_session_ends_when_such_an_actor_has_stopped(desk):
    worker, _ = desk.actor()
    assert desk.are_due
    desk.tell("local", SessionEnds())
    assert desk.stopped() == [worker] and worker not in desk.killed
    desk.call()
    assert not desk.queues[worker]  # nothing begins there any more
    assert not desk.may_end
    desk.kill(worker)
    assert desk.may_end == 1


def test_session_does_not_wait_longer_than_it_may(desk):
    worker, _ = desk.actor()
    desk.tell("local", SessionEnds())
    assert SHUTDOWN_SECONDS < desk.deadlines[-1] - desk.now < SHUTDOWN_SECONDS + 1
    desk.time_out()
    assert worker in desk.killed and desk.may_end == 1


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}, {"is_async": True}])
def test_session_waits_for_an_actor_in_the_middle_of_a_call(desk, options):
    worker, _ = desk.actor(**options)
    desk.call()
    assert desk.are_due
    desk.tell("local", SessionEnds())
    assert desk.stopped() == [worker]


def test_session_waits_for_an_actor_whose_last_handle_has_gone_before(desk):
    worker, ref = desk.actor()
    desk.tell(DRIVER, ReleaseObjects([ref]))
    assert desk.stopped() == [worker]
    assert not desk.deadlines and desk.are_due
    desk.tell("local", SessionEnds())
    assert desk.deadlines and not desk.may_end
    desk.kill(worker)
    assert desk.may_end == 1


@pytest.mark.parametrize("has_shutdown", [True, False])
def test_end_of_a_job_stops_such_an_actor_and_kills_others(desk, has_shutdown):
    worker, _ = desk.actor(has_shutdown=has_shutdown)
    desk.tell("host", ProcessLeft(DRIVER, "ended"))
    assert desk.stopped() == [worker] * has_shutdown
    assert (worker in desk.killed) == (not has_shutdown)
    if has_shutdown:
        desk.time_out()
        assert worker in desk.killed


def test_actor_that_stops_with_its_session_is_not_restarted(desk):
    worker, _ = desk.actor(max_restarts=-1)
    desk.tell("local", SessionEnds())
    desk.kill(worker)
    assert desk.may_end == 1 and not desk.actors and not desk.scheduler.calls.actors
