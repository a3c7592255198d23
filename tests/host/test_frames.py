"""A frame that is none, or that lies, costs its sender: nobody else notices."""

import os
import random
from pathlib import Path

import pytest

import zray
from tests.gates import is_running, until
from tests.host.raw import RawPeer, random_message
from tests.leftovers import windows
from zray.host import context
from zray.host.links.compatibility import python_version
from zray.version import __version__
from zray.wire.codec import MESSAGE_TYPES, encode
from zray.wire.gcs import FreeCopies, NodeLost
from zray.wire.hosts import MessageRefused
from zray.wire.message import PROTOCOL_VERSION
from zray.wire.objects import FetchObject, HoldObjects, PullObject, ReadInline, ReleaseObjects, UnpinObjects
from zray.wire.scheduling import SpillRefused
from zray.wire.session import GetStatus, Goodbye, HelloRefused, ProcessDropped, StatusReply, StopSession, Welcome
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import SubmitTasks, TasksFinished, WaitObjects

pytestmark = pytest.mark.usefixtures("session")

BAD_FRAMES = {
    "empty": b"",
    "random bytes": random.Random(1).randbytes(10_000),
    "zeros": bytes(1 << 20),
    "a string": encode("hello"),
    "a map": encode({"epoch": 1}),
    "wrong types": encode(["1", None, [], {}]),
    "messages of no tag": encode([1, 1, 0, [[], [None], ["1"]]]),
    "unknown tag": encode([1, 1, 0, [[9999, 1, 2, 3]]]),
    "not a Hello": encode([1, 1, 0, [GetStatus(1)]]),
    "no message": encode([1, 1, 0, []]),
    "trailing bytes": encode([1, 1, 0, [GetStatus(1)]]) + b"more",
    "cut short": encode([1, 1, 0, [GetStatus(1)]])[:-2],
    "giant array": b"\xdd\xff\xff\xff\xff",
    "giant array of messages": b"\x94\x01\x01\x00\xdd\xff\xff\xff\xff\x91\x06",
    "giant map": b"\xdf\xff\xff\xff\xff",
    "giant string": b"\xdb\xff\xff\xff\xff",
    "giant bytes": b"\xc6\xff\xff\xff\xff",
    "deep": b"\x91" * 200_000,
    "huge numbers": encode([1 << 63, 1 << 63, 1 << 63, []]),
    "no UTF-8": b"\x94\x01\x01\x00\x91\x94\x01\x01\xa2\xff\xfe\xa1x",
    "a reason of 1 MB": encode([1, 1, 0, [Goodbye("x" * (1 << 20))]]),
    "200,000 ids": encode([1, 1, 0, [FreeCopies([b"o" * 20] * 200_000)]]),
    "Hello of wrong types": encode([1, 1, 0, [[1, PROTOCOL_VERSION, 5, [], "pid"]]]),
}


def address():
    return context.runtime.paths.address


@pytest.fixture
def others_work():
    """The node is the same afterwards, and works for others during and after."""
    echo = zray.remote(lambda x: x)
    node_pid = context.runtime.node_pid
    before = [echo.remote(i) for i in range(50)]
    yield
    assert zray.get(before + [echo.remote(i) for i in range(50)], timeout=20) == [*range(50), *range(50)]
    assert context.runtime.node_pid == node_pid and is_running(node_pid)


def bad_frames():
    return context.runtime.ask(GetStatus).counts["bad_frames"]


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_bad_frame_from_a_stranger_is_counted_and_dropped(name, others_work):
    before = bad_frames()
    with RawPeer(address()) as peer:
        peer.send(BAD_FRAMES[name])
        until(lambda: bad_frames() > before)
        # A slip is forgiven: it may still come in.
        assert type(peer.hello()) is Welcome


def test_several_parts_in_one_message(others_work):
    before = bad_frames()
    with RawPeer(address()) as peer:
        peer.send(b"one", b"two", b"three")
        peer.send(*[b""] * 1000)
        until(lambda: bad_frames() >= before + 2)
        assert type(peer.hello()) is Welcome


@pytest.mark.parametrize("name", [name for name in BAD_FRAMES if name not in ("not a Hello", "no message")])
def test_a_bad_frame_of_one_who_has_joined_ends_its_link_with_a_reason(name, others_work):
    with RawPeer(address()) as peer:
        assert type(peer.hello()) is Welcome
        peer.send(BAD_FRAMES[name])
        (last,) = peer.hear()
        assert type(last) is ProcessDropped and "ProtocolError" in last.reason


def test_a_flood_of_bad_frames(others_work):
    """The log of it has an end (the first hundred)."""
    before = bad_frames()
    with RawPeer(address()) as peer:
        for number in range(5_000):
            peer.send(random.Random(number).randbytes(100))
        until(lambda: bad_frames() >= before + 5_000)
    assert os.path.getsize(context.runtime.paths.log_path("node")) < 100_000


def test_another_protocol_is_refused_in_words_that_name_both(others_work):
    with RawPeer(address()) as peer:
        refused = peer.hello(protocol=PROTOCOL_VERSION + 41, version="9.9")
        assert type(refused) is HelloRefused
        assert f"protocol {PROTOCOL_VERSION}," in refused.reason and str(PROTOCOL_VERSION + 41) in refused.reason


def test_another_protocol_whose_hello_looks_different(others_work):
    with RawPeer(address()) as peer:
        peer.send(encode([1, 1, 0, [[1, 77, {"version": "new"}, "what", "ever"]]]))
        (refused,) = peer.hear()
        assert type(refused) is HelloRefused
        assert f"protocol {PROTOCOL_VERSION}," in refused.reason and "77" in refused.reason


@pytest.mark.parametrize(
    "changed",
    [
        {"python": "2.7"},
        {"version": "9.8.7"},
        {"kind": "worker", "worker_id": 1},
        {"kind": "worker", "worker_id": 99},
        {"kind": "emperor"},
        {"pid": 0},
        {"pid": -1},
        {"pid": 1 << 22},
        {"pid": (1 << 63) - 1},
        {"job_id": b""},
        {"job_id": b"x" * 100},
    ],
    ids=str,
)
def test_a_hello_that_does_not_fit_is_refused(changed, others_work):
    until(lambda: not windows(context.runtime.session))  # the workers that were ordered have come in
    with RawPeer(address()) as peer:
        assert type(peer.hello(**changed)) is HelloRefused


@pytest.mark.parametrize(
    "changed, why",
    [
        ({"python": "2.7"}, f"runs Python {python_version()}, the driver 2.7"),
        ({"version": "9.8.7"}, f"runs zray {__version__}, the driver 9.8.7"),
    ],
    ids=str,
)
def test_another_version_is_refused_in_words_that_name_both(changed, why, others_work):
    with RawPeer(address()) as peer:
        assert why in peer.hello(**changed).reason


def test_another_patch_of_the_same_version_is_let_in_and_told_ours(others_work):
    with RawPeer(address()) as peer:
        welcome = peer.hello(version=f"{__version__}.post7")
        assert type(welcome) is Welcome and welcome.version == __version__


def test_a_message_that_no_handler_can_digest_costs_its_sender(others_work):
    """Well-formed on the wire, and nonsense inside."""
    with RawPeer(address()) as peer:
        peer.hello()
        peer.say(SubmitTasks([TaskSpec(b"x" * 16, b"f", b"", (), (), b"no options")]))
        heard = peer.hear()
        assert type(heard[-1]) is ProcessDropped


FOREIGN = [NodeLost("x", "y"), TasksFinished([]), FreeCopies([]), SpillRefused(b"t" * 16, "no"), StopSession()]


@pytest.mark.parametrize("message", FOREIGN, ids=lambda message: type(message).__name__)
def test_what_is_not_a_drivers_to_say_is_refused_and_told(message, others_work):
    """Messages of other roles, of workers and of commands (docs/security.md, B11)."""
    before = bad_frames()
    with RawPeer(address()) as peer:
        assert type(peer.hello()) is Welcome
        peer.say(message)
        (refused,) = peer.hear()
        assert type(refused) is MessageRefused and "PermissionDenied: driver-" in refused.reason
        assert type(message).__name__ in refused.reason
        peer.say(GetStatus(5))
        assert peer.hear()[0].request == 5
    assert bad_frames() == before + 1


ASKS = [
    WaitObjects(1, [b"o" * 20], 1, True, True),
    HoldObjects([b"o" * 20]),
    PullObject(b"o" * 20, 1, 0, 1),
    FetchObject(b"o" * 20, 1, []),
    ReadInline(b"o" * 20, "command-1"),
]


@pytest.mark.parametrize("message", ASKS, ids=lambda message: type(message).__name__)
def test_a_process_without_a_job_asks_for_no_object(message, others_work):
    """A command looks and orders; no object of a job is told it (docs/security.md, B23)."""
    objects = zray.put("mine"), bad_frames()
    with RawPeer(address()) as peer:
        assert type(peer.hello(kind="command", job_id=b"")) is Welcome
        peer.say(message)
        (refused,) = peer.hear()
        assert type(refused) is MessageRefused and "PermissionDenied: command-" in refused.reason
    assert bad_frames() == objects[1] + 1 and zray.get(objects[0]) == "mine"


NOUGHT = [
    SubmitTasks([TaskSpec(bytes(16), bytes(16))]),
    WaitObjects(1, [bytes(20)], 1, True, True),
    HoldObjects([bytes(20)]),
    ReleaseObjects([bytes(20)]),
    UnpinObjects([(bytes(20), 1)]),
]


@pytest.mark.parametrize("message", NOUGHT, ids=lambda message: type(message).__name__)
def test_ids_that_are_all_zero_are_names_like_others(message, others_work):
    """Such an id has no other meaning, and is nobody's (docs/security.md, B18)."""
    with RawPeer(address()) as peer:
        assert type(peer.hello()) is Welcome
        peer.say(message, GetStatus(5))
        while not any(type(heard) in (StatusReply, ProcessDropped) for heard in peer.hear()):
            pass


def test_who_says_it_again_and_again_is_dropped(others_work):
    """Ten offences in a minute are tolerated (docs/security.md, S11)."""
    with RawPeer(address()) as peer:
        assert type(peer.hello()) is Welcome
        peer.say(*[NodeLost("x", "y")] * 10)
        assert {type(message) for message in peer.hear()} == {MessageRefused}
        peer.say(NodeLost("x", "y"))
        assert type(peer.hear()[-1]) is ProcessDropped


def test_who_asks_and_does_not_read_is_cut(others_work):
    """The unread answers pile up to a cap (docs/security.md, B21)."""
    with RawPeer(address()) as peer:
        assert type(peer.hello()) is Welcome
        log = Path(context.runtime.paths.log_path("node"))

        def is_cut():
            peer.say(*[GetStatus(1)] * 5_000)
            return "it sends requests and does not read the answers" in log.read_text()

        until(is_cut)


def test_an_owners_namesake_does_not_end_the_session(others_work):
    """A second driver of the same process leaves: the session is not its own."""
    from zray.wire.session import Goodbye, GoodbyeReply

    with RawPeer(address()) as peer:
        peer.hello()
        peer.say(Goodbye())
        assert type(peer.hear()[0]) is GoodbyeReply


def test_a_frame_of_another_epoch_and_frames_out_of_order(others_work):
    with RawPeer(address()) as peer:
        peer.hello()
        peer.send(encode([1, 5, 0, [GetStatus(5)]]))  # a gap: not handled
        peer.say(GetStatus(2))
        (reply,) = peer.hear()
        assert type(reply) is StatusReply and reply.request == 2
        peer.send(encode([2, 3, 0, [GetStatus(3)]]))
        assert type(peer.hear()[-1]) is ProcessDropped


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_messages_of_all_types(seed, others_work):
    """A driver that lies about everything: at worst it is dropped."""
    pick = random.Random(seed)
    kinds = [kind for kind in MESSAGE_TYPES.values() if kind is not StopSession]
    for _ in range(10):
        with RawPeer(address()) as peer:
            assert type(peer.hello()) is Welcome
            for kind in pick.sample(kinds, 20):
                peer.say(random_message(kind, pick))
        assert zray.get(zray.put(1)) == 1
        assert zray.get(zray.remote(lambda: 1).remote(), timeout=20) == 1
