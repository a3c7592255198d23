"""Logs of recoverable actors: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.rows_taken import record_rows
from tests.roles.test_begun import N1, GuardedDesk
from tests.roles.test_journals import ACTOR, FUNCTION
from tests.sim.scenarios import failover_with_replay
from zray.ids import return_id
from zray.roles.local_scheduler.actor_logs.shipping import TRANSITIONS, Shipping
from zray.wire.actors import CreateActor, KillActor
from zray.wire.task_spec import ActorOptions, TaskSpec
from zray.wire.wards import CallsLogged

OTHER = b"o" * 16


def guardian_breaks():
    """A guardian is chosen, has the log, and has no space for it any more."""
    desk = GuardedDesk()
    desk.tell(N1, CallsLogged(ACTOR, 1, 0, broken="there is no space"))


def actor_ends_before_the_guardian_is_asked():
    """The shards have not acknowledged the arguments when the actor is killed."""
    desk = GuardedDesk()
    spec = desk.new_spec()
    desk.submit(spec)
    options = ActorOptions(class_name="C", max_restarts=-1, checkpoint_interval=2, detached=True)
    desk.tell("driver-1", CreateActor(TaskSpec(OTHER, FUNCTION, deps=(return_id(spec.task_id, 1),)), options))
    desk.tell("driver-1", KillActor(OTHER, True))


@pytest.fixture
def taken(monkeypatch):
    return record_rows(monkeypatch, Shipping, "_happened")


def test_each_row_is_taken(taken):
    for scenario in (guardian_breaks, actor_ends_before_the_guardian_is_asked, failover_with_replay):
        scenario()
    assert taken == set(TRANSITIONS)
