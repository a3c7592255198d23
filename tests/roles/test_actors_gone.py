"""Actors of other nodes that are gone: killed by a process of this one, or with the last of the others."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, Acknowledged, Desk
from zray.exceptions import decode_system_error
from zray.ids import FIRST_RETURN
from zray.roles.effects import ProcessJoined, ProcessLeft
from zray.roles.local_scheduler.routes.actor_names import KILLED_SECONDS
from zray.wire.actors import (
    ActorNameTaken,
    ActorRegistered,
    CreateActor,
    FindActor,
    FindActorReply,
    KillActor,
    LookUpActorReply,
    RegisterActor,
)
from zray.wire.gcs import HoldAtNode, HoldAtNodeReply, NodeLost, ReleaseAtNode
from zray.wire.handles import NamedFound, SeekNamed
from zray.wire.homes import ActorLocated, LocateActor
from zray.wire.objects import HoldObjects, ReleaseObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import ObjectsReady, SubmitTasks

OTHER = "other/local"
OLD = b"a" * 16


@pytest.fixture
def desk():
    class Node(Acknowledged, Desk):
        pass

    desk = Node()
    desk.join(OTHER)
    desk.tell(DRIVER, HoldObjects([OLD + FIRST_RETURN]))
    desk.tell(DRIVER, KillActor(OLD))
    desk.heard()
    return desk


def find(desk, request):
    """What the driver is told, where the shard has not heard of the end."""
    desk.tell(DRIVER, FindActor(request, "", "n"))
    desk.tell("gcs-0", LookUpActorReply("", "n", OLD, b"handle", OTHER))
    sent = desk.heard()
    for _, question in [item for item in sent if type(item[1]) is SeekNamed]:  # it lives there
        desk.tell(OTHER, NamedFound(question.request, is_gone=False))
    (reply,) = [message for _, message in (*sent, *desk.heard()) if type(message) is FindActorReply]
    return reply.actor_id


def test_it_is_not_found_by_it(desk):
    assert find(desk, 1) == b""
    desk.now += KILLED_SECONDS  # whoever made it may have made it anew
    assert find(desk, 2) == OLD


def test_another_has_it_as_soon_as_the_shard_has_heard(desk):
    spec = desk.new_spec()
    desk.tell(DRIVER, CreateActor(spec, ActorOptions(resources={}, name="n")))
    for _ in range(2):
        desk.heard()
        assert any(type(message) is RegisterActor for message in desk.told)
        desk.told.clear()
        desk.tell("gcs-0", ActorNameTaken(spec.task_id, OLD))
        assert not any(type(message) is ObjectsReady for _, message in desk.heard())
        assert not desk.told
        desk.timer("ActorNames.register_again")
    desk.tell("gcs-0", ActorRegistered(spec.task_id))
    assert spec.task_id in desk.scheduler.calls.actors


def test_one_that_a_living_actor_has_is_taken(desk):
    spec = desk.new_spec()
    desk.tell(DRIVER, CreateActor(spec, ActorOptions(resources={}, name="n")))
    desk.tell("gcs-0", ActorNameTaken(spec.task_id, b"b" * 16))
    assert spec.task_id not in desk.scheduler.calls.actors


def test_of_one_that_was_on_the_last_other_node_its_shard_says_what_became_of_it(desk):
    """Of a node that was drained in vain, say; it was said that there is no such actor, and never was."""
    actor = b"b" * 16
    desk.tell(DRIVER, HoldObjects([actor + FIRST_RETURN]))
    desk.tell("monitor", NodeLost(OTHER, "it was drained, and had not finished"))
    desk.heard()
    desk.told.clear()
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(resources={}, actor_id=actor, method="m"))
    desk.submit(spec)
    desk.heard()
    assert LocateActor(actor, "local") in desk.told
    desk.tell("gcs-0", ActorLocated(actor, "", OTHER))
    (ready,) = [message for _, message in desk.heard() if type(message) is ObjectsReady]
    ((_, error),) = ready.objects
    assert "died: its node other is lost (it was drained" in str(decode_system_error(error))


class Named(ActorDesk):
    """Questions for the name of an actor of this node."""

    def __init__(self):
        super().__init__()
        self.actor = b"a" * 16
        self.handle = self.create(self.actor, ActorOptions(resources={}, name="n"))
        self.settle()
        (self.worker,) = self.actors
        self.take_sent()

    def in_one_turn(self, *messages):
        """The answer to FindActor of a shard that has not heard of the end."""
        for sender, message in messages:
            self._perform(self.scheduler.handle(sender, message, self.now))
        self.tell("gcs-0", LookUpActorReply("", "n", self.actor, b"handle", "local"))
        sent = self.take_sent()
        (reply,) = [message for _, message in sent if type(message) is FindActorReply]
        return reply.actor_id


@pytest.mark.parametrize("is_weak", [False, True])
def test_actor_whose_last_handle_went_in_the_same_turn_is_not_found(is_weak):
    desk = Named()
    gone, question = ReleaseObjects([desk.handle]), FindActor(1, "", "n", is_weak)
    assert desk.in_one_turn((DRIVER, gone), (DRIVER, question)) == b""
    assert desk.actors[desk.worker].is_told_to_stop
    assert desk.in_one_turn((DRIVER, FindActor(2, "", "n"))) == b""


def test_name_of_one_whose_last_handle_is_gone_is_free_before_its_process_has_ended():
    desk = Named()
    desk.tell(DRIVER, ReleaseObjects([desk.handle]))
    desk.create(b"b" * 16, ActorOptions(resources={}, name="n"))
    assert len(desk.registering) == 2
    desk.answer_name()
    desk.answer_name()
    assert desk.names == {"n": b"b" * 16}
    desk.settle()
    assert desk.names == {"n": b"b" * 16}
    assert [process.actor_id for process in desk.actors.values()] == [b"b" * 16]


@pytest.mark.parametrize("is_same_turn", [True, False])
def test_actor_that_has_calls_to_end_is_found_and_stays(is_same_turn):
    desk = Named()
    call = desk.new_call(b"driver", desk.actor)
    desk.tell(DRIVER, SubmitTasks([call]))
    gone, question = (DRIVER, ReleaseObjects([desk.handle])), (DRIVER, FindActor(1, "", "n"))
    if is_same_turn:
        assert desk.in_one_turn(gone, question) == desk.actor
    else:
        desk.tell(*gone)
        assert desk.in_one_turn(question) == desk.actor
    desk.settle()
    assert desk.worker in desk.actors
    desk.tell(DRIVER, ReleaseObjects([desk.handle]))
    desk.settle()
    assert not desk.actors


FAR = b"f" * 16


def far_desk():
    class Node(Acknowledged, Desk):
        pass

    desk = Node()
    desk.join(OTHER)
    desk.take_sent()
    return desk


def question_of(desk, request=1, **reply):
    """The question to the shard about an actor of the other node that a process has found by its name."""
    desk.tell(DRIVER, FindActor(request, "", "n"))
    desk.tell("gcs-0", LookUpActorReply("", "n", FAR, b"handle", OTHER, **reply))
    sent = desk.take_sent()
    holds = [message for _, message in sent if type(message) is HoldAtNode]
    return holds, [message for _, message in sent if type(message) is FindActorReply]


def say_that_it_lives(desk):
    """Answer the question to the home of the actor."""
    (question,) = [message for _, message in desk.take_sent() if type(message) is SeekNamed]
    desk.tell(OTHER, NamedFound(question.request, is_gone=False))


def test_actor_of_another_node_that_nobody_holds_any_more_is_not_found():
    desk = far_desk()
    (hold,), replies = question_of(desk)
    assert hold == HoldAtNode("local", [FAR + FIRST_RETURN], hold.request, True) and not replies
    desk.tell("gcs-0", HoldAtNodeReply(hold.request, True))
    (reply,) = [message for _, message in desk.heard() if type(message) is FindActorReply]
    assert reply.actor_id == b"" and FAR + FIRST_RETURN not in desk.scheduler.objects.entries
    spec = desk.new_spec()
    desk.tell(DRIVER, CreateActor(spec, ActorOptions(resources={}, name="n")))
    desk.tell("gcs-0", ActorNameTaken(spec.task_id, FAR))  # its node has not said so yet
    assert spec.task_id in desk.scheduler.calls.actors


def test_actor_of_another_node_that_others_hold_is_found_and_held():
    desk = far_desk()
    (hold,), replies = question_of(desk)
    desk.tell("gcs-0", HoldAtNodeReply(hold.request))
    say_that_it_lives(desk)
    (reply,) = [message for _, message in desk.heard() if type(message) is FindActorReply]
    assert reply.actor_id == FAR
    desk.tell(DRIVER, FindActor(2, "", "n"))
    desk.take_sent()
    desk.tell("gcs-0", LookUpActorReply("", "n", FAR, b"handle", OTHER))  # it is held by now
    assert not [message for _, message in desk.sent if type(message) is HoldAtNode]
    say_that_it_lives(desk)
    (reply,) = [message for _, message in desk.heard() if type(message) is FindActorReply]
    assert reply.actor_id == FAR
    desk.tell(DRIVER, ReleaseObjects([FAR + FIRST_RETURN]))
    assert any(type(message) is ReleaseAtNode for _, message in desk.take_sent())


def test_detached_one_of_another_node_is_found_at_once():
    holds, (reply,) = question_of(far_desk(), is_detached=True)
    assert reply.actor_id == FAR and not any(hold.are_inside for hold in holds)


def test_process_that_ends_while_its_question_is_asked_holds_nothing():
    desk = far_desk()
    desk.tell("host", ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    desk.tell("driver-2", FindActor(1, "", "n"))
    desk.tell("gcs-0", LookUpActorReply("", "n", FAR, b"handle", OTHER))
    (hold,) = [message for _, message in desk.take_sent() if type(message) is HoldAtNode]
    desk.tell("host", ProcessLeft("driver-2", "killed"))
    desk.tell("gcs-0", HoldAtNodeReply(hold.request))
    say_that_it_lives(desk)
    assert any(type(message) is ReleaseAtNode for _, message in desk.take_sent())
    assert not any(type(message) is FindActorReply for _, message in desk.heard())
