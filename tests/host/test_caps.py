"""Caps on memory that other peers make us use, each with a unit (docs/security.md, S10, B21, B28)."""

import traceback

import pytest
import zmq

from tests.host.wires import Host, Stranger, beat, greet, pump
from tests.roles.desk import DRIVER, Desk
from zray import exceptions
from zray.exceptions import ProtocolError
from zray.exceptions.printable import CHARACTERS_MAX, coloured, printable
from zray.host.client.control import _shown
from zray.host.cluster.membership import Membership, addresses_of
from zray.host.links import host_link, process_links
from zray.host.links.host_link import Neighbour
from zray.host.links.process_links import Peer, Peers
from zray.host.security.keyring import Key
from zray.roles.local_scheduler.objects import waits
from zray.wire import link
from zray.wire.codec import Letter, decode
from zray.wire.gcs import GiveUpNode, NodeLost
from zray.wire.hosts import HostWelcome, NodeFact
from zray.wire.scheduling import JobEnded
from zray.wire.session import Ack, StatusReply
from zray.wire.tasks import ObjectsReady, WaitObjects, WaitReply


def test_a_host_that_takes_nothing_is_dropped(monkeypatch):
    """The host answers on its connection, and reads nothing (B21)."""
    monkeypatch.setattr(link, "IN_FLIGHT_BYTES_MAX", 1_000)
    monkeypatch.setattr(host_link, "STUCK_SECONDS", 1)
    with Host("head") as head, Host() as idle, Host() as other, Stranger(head, idle.keys) as stranger:
        head.meet(idle)
        head.meet(other)
        assert greet(head, stranger, [], idle.name) == HostWelcome(head.name)

        def is_dropped():
            head.say("local", idle.role("local"), *[beat(number) for number in range(20)])
            return idle.name in head.links.gone

        pump((head,), is_dropped)
        assert head.has_logged("acknowledges no message") and other.name in head.links.by_host


def test_who_takes_something_now_and_then_is_not_stuck_nor_is_all_the_world_when_we_stood_still(monkeypatch):
    monkeypatch.setattr(link, "IN_FLIGHT_BYTES_MAX", 0)
    it = another("node")
    it.link.in_flight_bytes = 1
    for second in range(1_000):
        it.link.peer_acknowledged = second // 50
        assert not it.why_stuck(float(second))
    assert not it.why_stuck(10_000.0)
    assert [it.why_stuck(10_000.0 + second) for second in range(1, host_link.STUCK_SECONDS + 1)][-1]
    it.link.in_flight_bytes = 0
    assert not it.why_stuck(20_000.0)


def another(kind):
    """A host, as another one sees it."""
    it = Neighbour("a" * 16, Key(b"k" * 32, kind, "a" * 16), "", 0.0)
    it.came_up()
    return it


def seconds_until_given_up(it, held):
    """It takes nothing, and each second there are so many bytes more for it."""
    for second in range(1, host_link.STUCK_SECONDS + 2):
        it.backlog.append(Letter("n/local", "a/local", [JobEnded(bytes(held))]))
        if it.why_stuck(float(second)):
            return second
    return None


@pytest.mark.parametrize(
    ("kind", "held", "is_up", "seconds"),
    [
        ("driver", 20_000, False, 6),  # asleep: as much as we keep
        ("driver", 100_000, False, 5),  # a breath of a bad network is no silence
        ("driver", 1_000, False, None),  # little waits for it: it may sleep as long as the monitor lets it
        ("driver", 20_000, True, 6),  # it answers, and reads nothing
        ("node", 100_000, False, None),  # the verdict is soon, by the monitor's count
    ],
)
def test_what_waits_for_a_silent_program_is_bounded_in_bytes(monkeypatch, kind, held, is_up, seconds):
    monkeypatch.setattr(host_link, "HELD_BYTES_MAX", 110_000)
    monkeypatch.setattr(link, "IN_FLIGHT_BYTES_MAX", -1)
    it = another(kind)
    it.is_up = is_up
    assert seconds_until_given_up(it, held) == seconds
    if seconds:
        assert it.why_stuck(seconds + 0.5) == "" != it.why_stuck(seconds + 1.0)  # said again, should nobody have heard


def test_a_program_that_wakes_has_a_moment_to_take_what_waits_for_it(monkeypatch):
    monkeypatch.setattr(host_link, "HELD_BYTES_MAX", 50_000)
    monkeypatch.setattr(link, "IN_FLIGHT_BYTES_MAX", -1)
    it = another("driver")
    it.is_up = False
    assert seconds_until_given_up(it, 500) is None
    it.backlog.append(Letter("n/local", "a/local", [JobEnded(bytes(60_000))]))
    it.came_up()
    assert not it.why_stuck(61.9)
    for frame in it.link.pack_mail(it.take_backlog()):
        assert len(frame) > 60_000
    assert it.held_bytes() > 60_000
    it.link._acknowledge(it.link.sent)
    assert not it.why_stuck(100.0) and not it.held_bytes()


class Words:
    """In place of a reactor: what a host's local scheduler says to others, and is told."""

    def __init__(self):
        self.role_by_address, self.said = {}, []

    def watch(self, descriptor, action):
        pass

    def deliver(self, role, message):
        self.said.append((role, message))

    def _perform(self, role, effects):
        self.said += [(effect.destination, effect.message) for effect in effects]


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        ("node", "node", ("h/monitor", GiveUpNode("b/local", "why"))),
        ("node", "driver", ("h/monitor", GiveUpNode("b/local", "why"))),
        ("head", "driver", ("h/monitor", GiveUpNode("b/local", "why"))),
        (
            "driver",
            "node",
            ("a/local", NodeLost("a/local", "host b was declared dead by this node: why")),
        ),  # it goes itself
        ("node", "head", None),  # a lease tells
        ("node", "scheduler", None),  # the head sees to its own processes
    ],
)
def test_whom_a_host_gives_up_is_the_monitors_to_judge(ours, theirs, says):
    """Who forgot it alone would wait for ever for what it has in hand."""
    loop = Words()
    with Host() as host:
        member = Membership(ours, "a", host.links, addresses_of("a", "h", [], 1), "h")
        member._give_up(loop, Neighbour("b", Key(b"k" * 32, theirs, "b"), "", 0.0), "why")
    assert loop.said == ([says] if says else [])


@pytest.fixture
def node_side(tmp_path, monkeypatch):
    """The node's side of links that are full."""
    monkeypatch.setattr(link, "IN_FLIGHT_BYTES_MAX", -1)
    context = zmq.Context()
    side = Peers(context, f"ipc://{tmp_path}/s", lambda line: None)
    side.stuck = []
    side.on_stuck = side.stuck.append
    yield side
    side.close()
    context.destroy(linger=0)


def test_a_process_that_asks_and_does_not_read_is_cut(node_side):
    """Another process beside it is not cut (B21)."""
    asker, other = Peer("driver-1", b"1"), Peer("driver-2", b"2")
    node_side.add(asker)
    node_side.add(other)
    status, answers = StatusReply(1, b"", "", {}, {}, {}), 0
    while not node_side.stuck:
        node_side.send(asker.address, [status])
        node_side.send(other.address, [WaitReply(1, [])])
        answers += 1
        assert answers <= process_links.UNREAD_MAX
    assert node_side.stuck == [asker] and not asker.backlog and len(other.backlog) == answers


def test_a_driver_that_computes_for_long_is_not(node_side):
    """Its values pile up, as many as it has refs."""
    driver = Peer("driver-1", b"1")
    node_side.add(driver)
    for _ in range(3 * process_links.UNREAD_MAX):
        node_side.send(driver.address, [ObjectsReady([])])
    assert not node_side.stuck and len(driver.backlog) == 3 * process_links.UNREAD_MAX


def test_a_process_has_only_so_many_waits(monkeypatch):
    monkeypatch.setattr(waits, "WAITS_MAX", 10)
    desk = Desk()
    (never,) = desk.submit(desk.new_spec())
    for request in range(10):
        desk.tell(DRIVER, WaitObjects(request, [never], 1, fetch=False))
    with pytest.raises(ProtocolError, match="more than 10 waits"):
        desk.tell(DRIVER, WaitObjects(10, [never], 1, fetch=False))
    desk.scheduler.take_effects()
    desk.scheduler.check_everything()
    assert len(desk.scheduler.processes[DRIVER].wait_by_request) == 10


# --- B28: words ---

WORDS = {
    "plain, and ünïcödé": "plain, and ünïcödé",
    "\x1b[2J\x1b]0;owned\x07": "\\x1b[2J\\x1b]0;owned\\x07",
    "a\0b": "a\\x00b",
    "\u202egnp.exe": "\\u202egnp.exe",
    "<b>&amp;": "<b>&amp;",
    "one\n12:00:00 two\n": "one\n  | 12:00:00 two",
    "one\r two": "one\\r two",
    "\ud800": "\\ud800",
}


@pytest.mark.parametrize("words", WORDS, ids=ascii)
def test_words_of_others_do_nothing_to_a_terminal(words):
    assert printable(words) == WORDS[words]


PRINTED = {
    "\x1b[1;31mred\x1b[0m and \x1b[38:5:9mthis\x1b[m\tone": "\x1b[1;31mred\x1b[0m and \x1b[38:5:9mthis\x1b[m\tone",
    "ünïcödé, \u05e9, \u3000, \U0001f469\u200d\U0001f4bb": "ünïcödé, \u05e9, \u3000, \U0001f469\u200d\U0001f4bb",
    "\x1b[8mhidden": "\x1b[8mhidden\x1b[0m",
    "\x1b[0m\x1b[31": "\x1b[0m\\x1b[31",
    "\x1b]0;owned\x07": "\\x1b]0;owned\\x07",
    "\x1b[2J\x1b[1A\x1b[K": "\\x1b[2J\\x1b[1A\\x1b[K",
    "\x9b31m\x85": "\\x9b31m\\x85",
    "a\0b\b\x7f": "a\\x00b\\x08\\x7f",
    "of worker-1\r(worker-2) hello\r": "of worker-1\\r(worker-2) hello",  # what ends a line elsewhere
    "\u202egnp.exe\u2066\u200f\u061c\u2028": "\\u202egnp.exe\\u2066\\u200f\\u061c\\u2028",
}


@pytest.mark.parametrize("words", PRINTED, ids=ascii)
def test_what_is_printed_keeps_its_colours_and_does_nothing_else(words):
    lines = f"{words}\nnext\n"
    assert coloured(lines) == f"{PRINTED[words]}\nnext\n" == coloured(coloured(lines))


def test_many_colours_cost_no_more_than_what_they_are_on():
    line = "\x1b[32m" * 200_000
    assert coloured(line) == f"{line}\x1b[0m"  # in time


def test_long_words_are_cut():
    shown = printable("x" * (CHARACTERS_MAX + 5))
    assert len(shown) < CHARACTERS_MAX + 100 and "5 more characters" in shown


ACTING = "\x1b]0;owned\x07\u202e\0"


@pytest.mark.parametrize(
    "error",
    [
        exceptions.TaskError(f"f{ACTING}", f"one\n\ttwo{ACTING}\n"),
        exceptions.ActorDiedError(f"The actor A{ACTING} died.\n\ttwo", pid=1, log_tail=[f"its last words{ACTING}"]),
        exceptions.WorkerCrashedError(f"The worker of f{ACTING} died:\n\ttwo", exit_text=f"by {ACTING}"),
        exceptions.ObjectLostError(f"one\n\ttwo{ACTING}"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_errors_quote_does_nothing_to_a_terminal(error):
    """Their lines stay lines; what was raised is in `cause` as it was."""
    text = str(exceptions.decode_system_error(exceptions.system_error_of(error)))
    for shown in (str(error), "".join(traceback.format_exception(error)), text):
        assert "\\x1b]0;owned\\x07\\u202e\\x00" in shown and "\n\ttwo" in shown or shown is text
        assert all(character.isprintable() or character in "\n\t" for character in shown)


def test_what_a_node_calls_its_resources_is_shown_as_it_may_be():
    fact = NodeFact("n\x1b/local", "node", {"\x1b[2J": 1}, {"\x1b[2J": 1}, 0, {"a\0": "\x07"})
    assert _shown(fact) == NodeFact("n\\x1b/local", "node", {"\\x1b[2J": 1}, {"\\x1b[2J": 1}, 0, {"a\\x00": "\\x07"})


def test_processes_are_acknowledged_nothing_while_a_role_holds_them_back(tmp_path):
    context = zmq.Context()
    links = Peers(context, f"ipc://{tmp_path}/node", lambda line: None)
    sent = []
    links._send = lambda peer, messages: sent.append((peer.address, messages))
    try:
        links.add(Peer("worker-1", b"1"))
        links.hold("shard-0", True)
        links.hold("shard-1", True)
        links.add(Peer("worker-2", b"2"))
        there = [link.Link(), link.Link()]
        for peer, process in zip(links.by_address.values(), there, strict=True):
            links.unpack(peer, process.pack([WaitObjects(1, [], 1, True, False)]))
            assert decode(peer.link.pack([Ack()])).acknowledged == 0
        links.hold("shard-0", False)
        assert not sent
        links.hold("shard-1", False)
        assert sent == [("worker-1", [Ack()]), ("worker-2", [Ack()])]
        assert [decode(peer.link.pack([Ack()])).acknowledged for peer in links.by_address.values()] == [1, 1]
    finally:
        links.close()
        context.destroy()
