"""Actors of other nodes that are gone: killed by a process of this one, or with the last of the others."""

import pytest

from tests.roles.desk import DRIVER, Acknowledged, Desk
from zray.exceptions import decode_system_error
from zray.ids import FIRST_RETURN
from zray.roles.local_scheduler.actor_names import KILLED_SECONDS, RegisterAgain
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
from zray.wire.gcs import NodeLost
from zray.wire.homes import ActorLocated, LocateActor
from zray.wire.objects import HoldObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import ObjectsReady

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
    (reply,) = [message for _, message in desk.heard() if type(message) is FindActorReply]
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
        desk.tell("local", RegisterAgain(spec.task_id))
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
