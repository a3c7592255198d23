"""A host speaks for itself alone: a name in a message is compared with its sender (docs/security.md, S5, B11, B12)."""

import random

import pytest

from tests.host.raw import random_message
from zray.host.links.host_link import Neighbour
from zray.host.security.keyring import Key
from zray.ids import function_id
from zray.wire.actors import PlaceActor
from zray.wire.allowed import ALLOWED, ROLES_OF_KEY
from zray.wire.chain import ChainRead, ChainWrite
from zray.wire.claims import OWN_NAME
from zray.wire.codec import Letter
from zray.wire.gcs import GiveUpNode, HoldAtNode, NodeLost, RegisterNode, SubscribeObject
from zray.wire.objects import FetchObject, HoldObjects, PullObject, ReadInline
from zray.wire.scheduling import LocateObjects, PlaceTask, SpillTask
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import Function, PublishFunction, WaitObjects

HEAD, ME, OTHER = "a" * 16, "b" * 16, "c" * 16
ROLES = {f"{HEAD}/{role}" for role in ("monitor", "global", "gcs-0", "local", "relay", "objects")}
KEY = b"k" * 32


def heard(message, role="local", target="monitor", kind="node"):
    """Whether the head hears that from a host with a key of that kind."""
    host = Neighbour(ME, Key(KEY, kind, ME), "", 0.0)
    letter, reasons = host.sift(Letter(f"{ME}/{role}", f"{HEAD}/{target}", [message]), ROLES)
    assert len(reasons) == 1 - len(letter.messages)
    assert all(reason.startswith("PermissionDenied: ") for reason in reasons)
    return not reasons


def registration(kind="node", node=ME, key=KEY):
    return RegisterNode(f"{node}/local", {"CPU": 10_000}, kind, "1.2.3.4:5", key)


def test_a_host_registers_as_what_it_has_joined_as_and_with_its_own_key():
    for kind in ("node", "driver"):
        assert heard(registration(kind), kind=kind)
    assert not heard(registration("node"), kind="driver")
    assert not heard(registration("driver"), kind="node")
    assert not heard(registration("head"), kind="node")
    assert not heard(registration(node=OTHER))
    assert not heard(registration(key=b"o" * 32))


def target_of(message):
    return next(target for target in ("monitor", "global", "gcs") if type(message) in ALLOWED["local", target])


@pytest.mark.parametrize("kind", OWN_NAME, ids=lambda kind: kind.__name__)
def test_nobody_speaks_for_a_neighbour(kind):
    message = random_message(kind, random.Random(1))
    target = target_of(message)
    target = "gcs-0" if target == "gcs" else target
    for name, is_own in ((f"{ME}/local", True), (f"{OTHER}/local", False), (f"{ME}/objects", False), ("", False)):
        setattr(message, OWN_NAME[kind], name)
        if kind is RegisterNode:
            message.kind, message.public_key = "node", KEY
        assert heard(message, target=target) is is_own


def requests(*pairs):
    return ChainWrite(1, 1, 0, list(pairs))


def test_what_is_said_to_a_replicated_shard_is_looked_into():
    hold, lost = HoldAtNode(f"{ME}/local", [], 0), NodeLost(f"{OTHER}/local", "I say so")
    mine, theirs = f"{ME}/local", f"{OTHER}/local"

    def is_heard(*pairs, kind="node"):
        return heard(requests(*pairs), "shard-0", "gcs-0", kind)

    assert is_heard((mine, hold), (mine, hold))
    assert not is_heard((theirs, HoldAtNode(theirs, [], 0)))  # another host's role
    assert not is_heard((mine, hold), (mine, HoldAtNode(theirs, [], 0)))  # in another's name
    assert not is_heard((mine, lost))  # only the monitor says so
    assert not is_heard((f"{ME}/monitor", lost))  # and a node has none
    assert not is_heard(("monitor", lost)) and not is_heard(("", hold))
    assert not is_heard((mine, LocateObjects(1, [])))
    assert is_heard((f"{ME}/monitor", lost), kind="head")


def test_a_question_to_a_replicated_shard_is_of_a_scheduler_of_that_host():
    assert heard(ChainRead(1, 1, f"{ME}/global", LocateObjects(1, [])), "shard-0", "gcs-0", "scheduler")
    assert not heard(ChainRead(1, 1, f"{OTHER}/global", LocateObjects(1, [])), "shard-0", "gcs-0", "scheduler")
    assert not heard(ChainRead(1, 1, f"{ME}/global", LocateObjects(1, [])), "shard-0", "gcs-0", "node")


def test_a_program_from_outside_has_no_say_in_who_is_a_member():
    given_up = GiveUpNode(f"{OTHER}/local", "why")
    assert heard(given_up, target="monitor") and not heard(given_up, target="monitor", kind="driver")


def test_code_is_published_under_its_own_name():
    """The name of code is its hash (docs/security.md, S9 and B17)."""
    good, bad = (PublishFunction(Function(name, "f", b"code")) for name in (function_id(b"code"), function_id(b"x")))
    assert heard(good, target="gcs-0") and not heard(bad, target="gcs-0")
    mine = f"{ME}/local"
    assert heard(requests((mine, good)), "shard-0", "gcs-0") and not heard(requests((mine, bad)), "shard-0", "gcs-0")


def test_the_rest_of_a_letter_stands():
    host = Neighbour(ME, Key(KEY, "node", ME), "", 0.0)
    spec = TaskSpec(b"t" * 16, b"f" * 16)
    mine, theirs = (SpillTask(spec, f"{who}/local", b"j") for who in (ME, OTHER))
    letter, reasons = host.sift(Letter(f"{ME}/local", f"{HEAD}/global", [mine, theirs, mine]), ROLES)
    assert letter.messages == [mine, mine] and len(reasons) == 1 and OTHER in reasons[0]


# Fields that are like names of a sender, and are not: whom a message is about.
ABOUT_OTHERS = {
    ("GiveUpNode", "node"),  # whom it can do nothing for any more
    ("ActorAt", "node"),  # where it will live, when it is handed over
    ("PublishFunction", "node"),  # who says when the job ends; what is published is its publisher's, up to so much
    ("RegisterActor", "node"),  # as well; the shard takes that only of who has the name so far
    ("ReplicaEnded", "host"),  # of those that run on the node that says it: roles/hosting looks whether it is one
    ("ReplicaStuck", "host"),  # whoever cannot connect to it
}


def test_no_field_that_names_a_sender_is_left_out():
    said = {
        message
        for (source, target), messages in ALLOWED.items()
        if source in ROLES_OF_KEY["node"] and target not in ("driver", "worker", "command")
        for message in messages
    }
    names = {"node", "origin", "owner", "caller", "host", "role"}
    fields = {(message.__name__, name) for message in said for name in message.__struct_fields__ if name in names}
    known = {(message.__name__, name) for message, name in OWN_NAME.items()}
    placements = {("PlaceTask", "origin"), ("PlaceActor", "origin")}  # see the last test
    assert fields - known - placements == ABOUT_OTHERS and not (known | placements) - fields


@pytest.mark.parametrize("kind", [PlaceTask, PlaceActor])
def test_a_node_places_what_is_its_own_and_a_global_scheduler_what_is_anybodys(kind):
    message = random_message(kind, random.Random(1))
    for origin in (f"{ME}/local", f"{OTHER}/local"):
        message.origin = origin
        assert heard(message, target="local") == (origin == f"{ME}/local")
    assert heard(message, role="global", target="local", kind="scheduler")


OBJECT = b"t" * 16 + b"\0\0\0\1"
# What asks for an object, or to be one of those it is kept for: a role of which kind says it, and to which.
ASKS = [
    (PullObject(OBJECT, 1, 0, 1), "objects", "objects"),
    (SubscribeObject(f"{ME}/local", OBJECT), "local", "gcs-0"),
    (HoldAtNode(f"{ME}/local", [OBJECT], 1), "local", "gcs-0"),
    (requests((f"{ME}/local", SubscribeObject(f"{ME}/local", OBJECT))), "shard", "gcs-0"),
    # Within a node only:
    (WaitObjects(1, [OBJECT], 1, True, True), "", ""),
    (HoldObjects([OBJECT]), "", ""),
    (FetchObject(OBJECT, 1, [f"{ME}/objects"]), "", ""),
    (ReadInline(OBJECT, f"{ME}/objects"), "", ""),
]


@pytest.mark.parametrize("ask, source, target", ASKS, ids=[type(ask).__name__ for ask, *_ in ASKS])
@pytest.mark.parametrize("kind", sorted(ROLES_OF_KEY))
def test_only_hosts_that_have_jobs_ask_for_objects(ask, source, target, kind):
    """Joiners, readers, replicas and schedulers have no job, under any name (docs/security.md, B23)."""
    has_jobs = kind in ("head", "node", "driver")
    for named in {name for pair in ALLOWED for name in pair}:
        for asked in (role.partition("/")[2] for role in ROLES):
            assert heard(ask, named, asked, kind) == (has_jobs and (named, asked) == (source, target)), (named, asked)
