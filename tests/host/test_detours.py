"""Hosts that cannot reach each other: tunnels through a relay, which reads nothing of what they say."""

import contextlib
import random
import socket
from collections import deque
from types import SimpleNamespace

import pytest

from tests.host.wires import Host, Wire, are_up, join, pump
from zray.host.links import route_selection
from zray.host.links.dialer import ATTEMPT_SECONDS
from zray.host.links.host_link import Neighbour
from zray.host.links.relay_tunnel import Tunnels
from zray.host.links.route_selection import NOWHERE, STRAIGHT_SECONDS, Detours, StraightAgain, takes_detour
from zray.host.security.keyring import Key
from zray.roles.relay import Relay
from zray.wire.gcs import NodeJoined
from zray.wire.hosts import RELAYED
from zray.wire.message import Bulk
from zray.wire.objects import ObjectChunk
from zray.wire.relay import TunnelBytes


def test_the_straight_way_first_then_both_in_turn():
    assert not takes_detour(was_detour=False, down_seconds=0.0)
    assert takes_detour(was_detour=False, down_seconds=STRAIGHT_SECONDS)
    assert not takes_detour(was_detour=True, down_seconds=STRAIGHT_SECONDS)
    assert not takes_detour(was_detour=True, down_seconds=0.0)  # it was up: the network may have changed


def test_who_has_no_port_is_reached_through_the_relay_alone():
    opened = []

    def open_tunnel(host):
        opened.append(host)
        if len(opened) == 3:
            raise OSError("no room")
        return "ipc:///t1"

    replica = Neighbour("r", Key(b"k", "replica", "r", roles=["r/gcs-0"], node="a"), RELAYED, 0.0)
    links, lines = SimpleNamespace(host="me", by_host={"r": replica}, log=lambda line: lines.append(line)), []
    it = Detours(links, SimpleNamespace(open=open_tunnel))
    for now in (0.0, 0.1):
        assert it.way(replica, now) == ("ipc:///t1", ATTEMPT_SECONDS)
    it.came_about(replica)  # there is no straight way to be tried
    assert not it.candidates
    assert it.way(replica, 0.2) == (NOWHERE, STRAIGHT_SECONDS) and lines == ["no tunnel to host r: no room"]


class Middle:
    """A head's relay, and its links to two hosts that know no other way."""

    def __init__(self, hosts, folder):
        self.relay = Relay("head/relay")
        self.under_way = deque()
        self.seen = []
        self.tunnels = {}
        self.folder = folder
        for host in hosts:
            self.add(host)

    def add(self, host):
        """One more."""
        self.relay.handle("head/monitor", NodeJoined(f"{host.name}/local", {}), 0.0)
        place = self.folder / host.name
        place.mkdir()
        tunnels = Tunnels(host.name, host.endpoint, str(place), host.lines.append)
        self.tunnels[tunnels.address] = tunnels
        host.detours = Detours(host.links, tunnels)
        host.helpers = {tunnels.address: tunnels, host.detours.address: host.detours}
        tunnels.attach(host.loop, self._ear(tunnels.address))

    def _ear(self, address):
        return lambda message: self.under_way.append((address, message))

    def turn(self):
        while self.under_way:
            sender, message = self.under_way.popleft()
            if type(message) is TunnelBytes:
                self.seen.append(bytes(message.data))
            for effect in self.relay.handle(sender, message, 0.0):
                self.tunnels[effect.destination].handle("head/relay", effect.message, 0.0)
            self.relay.check_everything()

    def close(self):
        for tunnels in self.tunnels.values():
            tunnels.close()


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """(earlier host, later host, what is between them, a port where nobody listens: the later one was told that)."""
    monkeypatch.setattr(route_selection, "STRAIGHT_SECONDS", 0.05)
    with Host() as earlier, Host() as later, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        middle = Middle((earlier, later), tmp_path)
        join(later, earlier, f"127.0.0.1:{nobody.getsockname()[1]}")
        yield earlier, later, middle, nobody
        later.detours.close()
        middle.close()
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]


def chunk(number, data=b""):
    return ObjectChunk(b"o" * 20, 1, number, 0, Bulk(data))


def numbers(host):
    return [message.size for message in host.messages()]


def test_mail_goes_both_ways_and_the_relay_cannot_read_it(apart):
    earlier, later, middle, _ = apart
    pump((earlier, later, middle), lambda: are_up(earlier, later))
    assert later.links.by_host[earlier.name].is_detour and later.has_logged("is reached through the head")
    words = b"something that nobody else may know"
    for number in range(1, 4):  # more than may be under way
        later.say("objects", earlier.role("objects"), chunk(number, words * 50_000))
        earlier.say("objects", later.role("objects"), chunk(number, words * 50_000))
    whole = [(number, words * 50_000) for number in (1, 2, 3)]
    pump((earlier, later, middle), lambda: earlier.objects() == later.objects() == whole)
    seen = b"".join(middle.seen)
    assert len(seen) > 6 * 50_000 * len(words) and words[:10] not in seen


def test_the_ends_prove_their_keys(apart):
    """A relay that connects somebody else is of no use to that one."""
    earlier, later, middle, _ = apart
    with Host() as stranger:
        middle.tunnels[f"{earlier.name}/tunnels"].own_endpoint = stranger.endpoint
        neighbour = later.links.by_host[earlier.name]
        hosts = (earlier, later, stranger, middle)
        pump(hosts, lambda: middle.seen and not middle.relay.tunnels and neighbour.failures > 3)
        assert not neighbour.is_up and not stranger.heard


def test_who_cannot_even_be_called_is_reached_through_the_head_at_once(apart, monkeypatch):
    """A firewall drops the call, or a router sends it nowhere: the patience is for others."""
    earlier, later, middle, _ = apart
    monkeypatch.setattr(route_selection, "STRAIGHT_SECONDS", 3600.0)
    with socket.socket() as listening, Host() as another:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        with fill_backlog(listening):
            middle.add(another)
            join(another, earlier, f"127.0.0.1:{listening.getsockname()[1]}")
            neighbour = another.links.by_host[earlier.name]
            pump((earlier, later, another, middle), lambda: neighbour.is_up)
            assert neighbour.is_detour and another.detours.candidates
            another.detours.close()
            middle.tunnels[f"{another.name}/tunnels"].close()


def test_who_takes_the_call_is_waited_for(apart, monkeypatch):
    """Its process may be busy."""
    earlier, later, middle, _ = apart
    monkeypatch.setattr(route_selection, "STRAIGHT_SECONDS", 3600.0)
    with socket.create_server(("127.0.0.1", 0)) as listening, Host() as another:
        middle.add(another)
        timers = another.helpers[another.detours.address] = Noted(another.detours)
        join(another, earlier, f"127.0.0.1:{listening.getsockname()[1]}")
        pump((earlier, another, middle), lambda: timers.heard)
        neighbour = another.links.by_host[earlier.name]
        assert neighbour.dealer.has_connected and not neighbour.is_detour and neighbour.attempt == 1


class Noted:
    """What detours hear."""

    def __init__(self, detours):
        self.detours, self.heard = detours, []

    def handle(self, sender, message, now):
        self.heard.append(message)
        return self.detours.handle(sender, message, now)


@contextlib.contextmanager
def fill_backlog(listening):
    """The kernel lets calls pass unheard from now on."""
    callers = []
    try:
        for _ in range(8):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(listening.getsockname())
            callers.append(caller)
        yield
    finally:
        for caller in callers:
            caller.close()


@pytest.mark.parametrize("seed", range(3))
def test_tunnels_that_end_lose_repeat_and_reorder_nothing(apart, seed):
    earlier, later, middle, _ = apart
    pick = random.Random(seed)
    pump((earlier, later, middle), lambda: are_up(earlier, later))
    said = 0
    for _ in range(4):
        for _ in range(pick.randrange(1, 30)):
            said += 1
            later.say("objects", earlier.role("objects"), chunk(said, bytes(pick.choice((0, 10, 100_000)))))
            earlier.say("objects", later.role("objects"), chunk(said))
            for host in pick.sample((earlier, later, middle), pick.randrange(4)):
                host.turn()
        end, other = pick.choice([(earlier, later), (later, earlier)])
        middle.tunnels[f"{end.name}/tunnels"]._drop(other.name)
        pump((earlier, later, middle), lambda: len(earlier.heard) == len(later.heard) == said)  # noqa: B023
    assert numbers(earlier) == numbers(later) == list(range(1, said + 1))


def test_the_straight_way_is_taken_when_there_is_one(apart):
    earlier, later, middle, nobody = apart
    pump((earlier, later, middle), lambda: are_up(earlier, later))
    neighbour = later.links.by_host[earlier.name]
    again = StraightAgain(earlier.name, neighbour.attempt)
    candidates = later.detours.candidates
    later.detours.handle("", again, 0.0)
    pump((earlier, later, middle), lambda: not candidates)
    assert neighbour.is_detour and neighbour.is_up
    nobody.listen()
    with Wire(earlier.port, nobody):
        for number in range(1, 11):
            later.say("objects", earlier.role("objects"), chunk(number, bytes(200_000)))
            earlier.say("objects", later.role("objects"), chunk(number))
        later.detours.handle("", again, 0.0)
        pump((earlier, later, middle), lambda: not neighbour.is_detour and are_up(earlier, later))
        pump((earlier, later, middle), lambda: len(earlier.heard) == len(later.heard) == 10)
        assert numbers(earlier) == numbers(later) == list(range(1, 11))
        pump((earlier, later, middle), lambda: not middle.relay.tunnels)


def test_the_head_needs_no_detour(tmp_path):
    with Host("head") as head, Host() as node:
        middle = Middle((head, node), tmp_path)
        node.meet(head, head.endpoint)
        neighbour = node.links.by_host[head.name]
        assert node.detours.way(neighbour, neighbour.down_since + 100)[0] == head.endpoint
        middle.close()
