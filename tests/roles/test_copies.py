"""What an actor of another node recovers from, at its guardian: what was lost, and put again by its calls; and whether
it is all that somebody has seen."""

import pytest
from msgspec.structs import replace

from tests.roles.desk import DRIVER
from tests.roles.test_begun import ACTOR, AGAIN, N1, N2, GuardedDesk, GuardianDesk
from zray.ids import checkpoint_id, put_id
from zray.wire.gcs import NodeLost, ObjectLocated, ObjectLost, SubscribeObject
from zray.wire.homes import ActorClaimed
from zray.wire.objects import FetchObject, HoldObjects, ObjectFetched
from zray.wire.task_spec import StoredValue
from zray.wire.tasks import WaitObjects
from zray.wire.wards import BegunCall, CallsLogged, LogCalls, LogCheckpoint, LoggedCall, LogStart

PUT = put_id(b"a call of it ran"[:16], 0)
CHECKPOINT = checkpoint_id(ACTOR, 1, 1)


class LossDesk(GuardianDesk):
    """What one of the actor's calls had put went with its former node; here an error stands in its place."""

    def __init__(self):
        super().__init__()
        self.tell(N1, LogCalls(ACTOR, 1, [LoggedCall(self.spec(1))]))
        self.tell(DRIVER, HoldObjects([PUT]))
        self.tell(DRIVER, WaitObjects(1, [PUT], 1, True, False))
        self.lose()
        self.take_sent()
        self.entry = self.scheduler.objects.entries[PUT]
        assert self.entry.is_lost

    @property
    def copy(self):
        return self.scheduler.guards.guarded[ACTOR].copy

    def lose(self):
        self.tell("gcs-0", ObjectLost(PUT, "It was put, and all its copies went with a node that is lost."))

    def fetch(self, object_id, place):
        """It lies at the actor's home."""
        self.tell("gcs-0", ObjectLocated(object_id, 4000, [N1]))
        assert [message.object_id for _, message in self.take_sent(FetchObject)] == [object_id]
        self.tell(self.scheduler.addresses.object_manager, ObjectFetched(object_id, StoredValue(0, place, 4000)))

    def heard(self):
        """What its home was told last: calls, checkpoint, words of calls that have begun."""
        message = [message for _, message in self.take_sent(CallsLogged)][-1]
        return message.count, message.offered, message.nested

    def is_asked_for(self):
        sent = self.sent
        asked = [message.object_id for _, message in sent if type(message) is SubscribeObject]
        self.answer_shards()
        return PUT in asked


def test_a_checkpoint_waits_for_what_was_lost_before_and_put_again_at_the_next_home():
    """An error stood here for it: the checkpoint was taken without it, and with the next loss it was gone for good."""
    desk = LossDesk()
    desk.tell(N1, LogCheckpoint(ACTOR, 1, CHECKPOINT, 1, beside=[PUT]))
    assert desk.is_asked_for()
    desk.fetch(CHECKPOINT, 0)
    assert not desk.copy.journal.checkpoint
    desk.fetch(PUT, 4096)
    assert desk.heard() == (1, 1, 0)
    assert desk.copy.journal.checkpoint == CHECKPOINT
    assert not desk.copy.journal.calls
    assert not desk.entry.is_lost


def test_a_checkpoint_that_lacks_what_its_refs_refer_to_is_not_taken():
    """The calls that it was to stand for are there still."""
    desk = LossDesk()
    desk.tell(N1, LogCheckpoint(ACTOR, 1, CHECKPOINT, 1, beside=[PUT]))
    assert desk.is_asked_for()
    desk.fetch(CHECKPOINT, 0)
    desk.lose()
    assert desk.heard() == (1, 1, 0)  # its home may offer the next one
    assert not desk.copy.journal.checkpoint
    assert desk.adopt() == [desk.spec(1)]


def test_a_log_that_begins_with_such_a_checkpoint_is_none():
    desk = LossDesk()
    desk.tell(N1, LogStart(ACTOR, 2, 1, CHECKPOINT, [PUT]))
    assert desk.is_asked_for()
    desk.fetch(CHECKPOINT, 0)
    desk.lose()
    (message,) = (message for _, message in desk.take_sent(CallsLogged))
    assert message.epoch == 2
    assert message.broken


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_call_waits_for_what_was_lost_before_and_put_again_too(has_begun):
    desk = LossDesk()
    call = replace(desk.spec(2), holds=(PUT,))
    begun = [BegunCall(call, N1, [PUT])] if has_begun else []
    desk.tell(N1, LogCalls(ACTOR, 1, [] if has_begun else [LoggedCall(call, beside=[PUT])], begun=begun))
    assert desk.is_asked_for()
    assert desk.copy.steps
    desk.fetch(PUT, 0)
    assert desk.heard() == ((1, 0, 1) if has_begun else (2, 0, 0))


@pytest.mark.parametrize("number", [1, 2])
def test_an_actor_is_not_had_again_in_a_state_that_somebody_has_seen_it_leave(number):
    """Its home was lost before a new guardian had the calls that the former one had."""
    desk = GuardianDesk()
    desk.tell(N1, LogStart(ACTOR, 2, 0, seen=2))
    desk.tell(N1, LogCalls(ACTOR, 2, [LoggedCall(desk.spec(each)) for each in range(1, 1 + number)]))
    if number == 2:
        assert desk.adopt() == [desk.spec(1), desk.spec(2)]
        return
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    desk.tell("gcs-0", ActorClaimed(ACTOR, AGAIN, is_held=True))
    assert b"had not yet been copied to another node" in desk.scheduler.ends.graves[ACTOR]


def test_a_new_guardian_is_told_how_many_calls_somebody_has_seen():
    """Of the last one nobody has: the former guardian had not said that it has it."""
    desk = GuardedDesk()
    for _ in range(2):
        desk.call()
        desk.run_calls(1)
    desk.logged(1)
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    (start,) = [message for target, message in desk.take_sent(LogStart) if target == N2]
    assert (start.count, start.seen) == (0, 1)
