"""Links between hosts: order and exactly-once over connections that break, and nobody else let in.

The rows B01 to B13 and S11 are those of docs/security.md.
"""

import random

import pytest
import zmq

from tests.host.wires import Host, Stranger, Wire, are_up, beat, greet, join, pump
from zray.host.security.keyring import KeyPair
from zray.host.zmq_calls import has_arrived
from zray.wire.codec import Letter, Mail, decode_mail, encode
from zray.wire.gcs import FetchFunction, NodeLost
from zray.wire.hosts import HostHello, HostRefused, HostWelcome, MessageRefused
from zray.wire.link import open_unnumbered, unnumbered
from zray.wire.message import PROTOCOL_VERSION, Bulk
from zray.wire.objects import ObjectChunk, PullRefused
from zray.wire.session import StopSession


def test_mail_goes_both_ways_between_roles(pair):
    head, node = pair
    node.say("local", head.role("local"), beat(1), beat(2))
    head.say("monitor", node.role("local"), NodeLost("x", "gone"))
    pump(pair, lambda: len(head.heard) == 2 and node.heard)
    assert head.heard == [(node.role("local"), head.role("local"), beat(number)) for number in (1, 2)]
    assert node.heard == [(head.role("monitor"), node.role("local"), NodeLost("x", "gone"))]


def test_what_is_said_before_they_have_met_waits():
    with Host("head") as head, Host() as node:
        node.say("local", head.role("local"), beat(1))
        join(node, head)
        head.say("monitor", node.role("local"), NodeLost("x", ""))
        pump((head, node), lambda: head.heard and node.heard)


def test_mail_for_hosts_that_there_are_not_has_an_end():
    """Somebody may have made them up."""
    with Host("head") as head:
        for number in range(1_000):
            head.say("gcs-0", f"{number:016x}/local", NodeLost("x", ""))
            head.say("gcs-0", "f" * 16 + "/local", NodeLost("x", ""))
        kept = head.links.unmet.letters
        assert len(kept) <= 64 and sum(map(len, kept.values())) <= 2_000
        assert head.has_logged("the host is unknown")


def test_a_host_that_is_denied_at_first_tries_again():
    """It may have been told of the other one before that one was told of it."""
    with Host("head") as head, Host() as node:
        node.meet(head, head.endpoint)
        pump((head, node), lambda: head.has_logged("unknown key"))
        head.meet(node)
        pump((head, node), lambda: are_up(head, node))


def test_a_host_that_is_denied_tries_again_sooner_than_one_that_finds_nobody(monkeypatch):
    """Somebody may wait for what the other one has to say: the clients of a chain for its new tail."""
    with Host("head") as head, Host() as node, Host() as lost:
        delays, really_set = [], node.loop.set_timer
        monkeypatch.setattr(node.loop, "set_timer", lambda *args: delays.append(args[0]) or really_set(*args))
        node.meet(head, head.endpoint)
        pump((head, node), lambda: node.links.by_host[head.name].failures)
        assert delays[-1] == 0.005
        head.meet(node)
        pump((head, node), lambda: are_up(head, node))
        node.meet(lost, "127.0.0.1:1")
        pump((node,), lambda: node.links.by_host[lost.name].failures)
        assert delays[-1] == 0.05


def test_a_host_that_is_forgotten_for_what_another_has_said_is_heard_no_more():
    """Both have sent something; the first one's is that the second is lost."""
    with Host() as node, Host("head") as head, Host() as other:
        for earlier in (head, other):
            join(node, earlier)
        pump((node, head, other), lambda: are_up(node, head, other))
        head.say("monitor", node.role("local"), NodeLost(other.name, ""))
        other.say("objects", node.role("objects"), PullRefused(b"o" * 20, 1))
        dealers = [node.links.by_host[host.name].dealer for host in (head, other)]
        pump((head, other), lambda: all(has_arrived(dealer.socket) for dealer in dealers))
        node.links.restless = dict.fromkeys(dealers)  # in the order in which they are heard
        heard = []
        for _, letter in node.links.take_in():
            heard += letter.messages
            node.links.forget(other.name)
        assert heard == [NodeLost(other.name, "")]


def test_large_mail_comes_in_order_and_whole(pair):
    head, node = pair
    objects = [(n, bytes([n]) * (3 << 20)) for n in range(8)]
    chunks = [ObjectChunk(bytes([n]) * 20, n, n, 0, Bulk(data)) for n, data in objects]
    node.say("objects", head.role("objects"), *chunks)
    pump(pair, lambda: head.objects() == objects)
    link = node.links.by_host[head.name].link
    pump(pair, lambda: link.in_flight_bytes < 1 << 20)


@pytest.mark.parametrize("seed", range(3))
def test_cuts_lose_repeat_and_reorder_nothing(seed):
    """The connection is reset again and again in the middle of a stream, in both directions."""
    pick = random.Random(seed)
    with Host("head") as head, Host() as node, Wire(head.port) as wire:
        join(node, head, wire.endpoint)
        pump((head, node), lambda: are_up(head, node))
        said = 0
        for _ in range(8):
            for _ in range(pick.randrange(1, 30)):
                said += 1
                padding = bytes(pick.choice((0, 10, 100_000)))
                node.say("objects", head.role("objects"), ObjectChunk(b"o" * 20, 1, said, 0, Bulk(padding)))
                head.say("monitor", node.role("local"), NodeLost(str(said), ""))
                for host in pick.sample((head, node), pick.randrange(3)):
                    host.turn()
            wire.cut()
        pump((head, node), lambda: len(head.heard) >= said and len(node.heard) >= said)
        assert [message.size for message in head.messages()] == list(range(1, said + 1))
        assert [message.node for message in node.messages()] == [str(n) for n in range(1, said + 1)]
        assert wire.carried > 1


def test_a_connection_that_has_ended_is_noticed_though_libzmq_tells_its_socket_late(monkeypatch):
    """Its monitor hears first: a ROUTER that is written to in between takes it as if somebody were there."""
    with Host("head") as head, Host() as node, Wire(head.port) as wire:
        join(node, head, wire.endpoint)
        pump((head, node), lambda: are_up(head, node))
        listener = head.links.listener
        really_send, asked = listener.send, []

        def send(identity, frame):
            asked.append(frame)
            return True if len(asked) <= 3 else really_send(identity, frame)

        monkeypatch.setattr(listener, "send", send)
        wire.cut()
        pump((head,), lambda: not are_up(head))
        assert len(asked) >= 4


def test_the_others_are_not_asked_when_one_connection_ends(monkeypatch):
    """A head has hundreds of them, and newcomers come and go."""
    with Host("head") as head, Host() as node, Host() as other, Wire(head.port) as wire:
        join(node, head, wire.endpoint)
        join(other, head)
        pump((head, node, other), lambda: are_up(head, node, other))
        listener, asked = head.links.listener, []
        really_send = listener.send
        monkeypatch.setattr(listener, "send", lambda *args: asked.append(args[0]) or really_send(*args))
        leaving = head.links.by_host[node.name]
        identity = leaving.identity
        wire.cut()
        pump((head,), lambda: not leaving.is_up)
        assert set(asked) == {identity} and head.links.by_host[other.name].is_up


# --- B03, B04, B05, B06, B07, B09: nobody else gets past the handshake ---


def raw_bytes():
    yield "random", random.Random(1).randbytes(1 << 20)
    yield "http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10
    yield "tls", bytes.fromhex("16030100c8010000c40303") + bytes(200)
    # An identity of five bytes, with a length in front (1); signature, version, type of socket, the same identity (2).
    identity = b"\x00\x05drive"
    old = {"zmtp 1": b"\x06\x00drive" + identity, "zmtp 2": b"\xff" + bytes(8) + b"\x7f\x01\x05" + identity}
    mechanisms = (b"NULL", b"PLAIN", b"CURVE")
    new = {it: b"\xff" + bytes(8) + b"\x7f\x03\x01" + it.ljust(20, b"\0") + bytes(32) for it in mechanisms}
    for version, greeting in (*old.items(), *new.items()):
        for length in range(len(greeting) + 1):
            yield f"{version!r} cut at {length}", greeting[:length]
    for mechanism, greeting in new.items():
        yield f"{mechanism.decode()} and rubbish", greeting + random.Random(2).randbytes(1000)
        oversize = b"\x04\x29\x05HELLO" + bytes(300)  # B10: longer than a HELLO may be
        yield f"{mechanism.decode()} and a long HELLO", greeting + oversize


def test_raw_bytes_disturb_nobody(pair):
    import socket

    head, node = pair
    for number, (_, data) in enumerate(raw_bytes()):
        with socket.create_connection(("127.0.0.1", head.port), timeout=5) as wire:
            try:
                wire.sendall(data)
            except OSError:
                pass  # it has hung up before the end
            node.say("local", head.role("local"), beat(number))
            pump(pair, lambda number=number: len(head.heard) == number + 1)
    assert are_up(*pair) and len(head.links.by_identity) == 1


@pytest.mark.usefixtures("brief_handshakes")
def test_a_connection_that_says_nothing_is_closed(pair):
    """B01."""
    import socket

    head, node = pair
    with socket.create_connection(("127.0.0.1", head.port), timeout=5) as wire:
        wire.setblocking(False)

        def is_closed():
            try:
                return wire.recv(4096) == b""  # it sends its greeting, and in the end nothing
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        pump(pair, is_closed, 8.0)


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN"])
def test_other_mechanisms_are_refused_in_the_handshake(pair, mechanism):
    head, node = pair
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    if mechanism == "PLAIN":
        socket.plain_username, socket.plain_password = b"head", b"secret"
    monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED)
    try:
        socket.connect(f"tcp://{head.endpoint}")
        socket.send(unnumbered(HostHello(PROTOCOL_VERSION, "", node.name)))
        pump(pair, lambda: monitor.poll(0))
        from zmq.utils.monitor import parse_monitor_message

        assert parse_monitor_message(monitor.recv_multipart())["event"] != zmq.EVENT_HANDSHAKE_SUCCEEDED
        assert not socket.poll(0)
    finally:
        socket.disable_monitor()
        monitor.close()
        context.destroy(linger=0)


def test_a_wrong_server_key_is_named():
    """B06: the peer is not the head that the node was told of."""
    with Host("head") as head, Host("head") as other, Host() as node:
        head.meet(node)
        node.meet(other, head.endpoint)
        pump((head, node), lambda: node.has_logged("wrong cluster key"))
        assert not are_up(node)


def test_an_unknown_key_never_gets_past_the_gate(pair):
    """B07."""
    head, node = pair
    with Stranger(head) as stranger:
        stranger.socket.send(unnumbered(HostHello(PROTOCOL_VERSION, "", node.name)))
        pump(pair, lambda: head.has_logged("refused a connection from 127.0.0.1: unknown key"))
        assert not stranger.socket.poll(50)
    assert not head.links.dropped_frames and head.links.gate.refusals == 1


def test_without_the_gate_everybody_is_refused():
    """B09."""
    with Host("head") as head, Host() as node:
        head.loop.unwatch(head.links.gate.descriptor)
        head.links.gate.close()
        join(node, head)
        pump((head, node), lambda: node.lines)
        assert not are_up(node) and not head.links.by_identity


# --- B12: another's name ---


def test_a_member_cannot_pass_for_another(pair):
    head, node = pair
    thief = Host()
    with thief, Stranger(head, thief.keys) as stranger:
        head.meet(thief)
        refused = greet(head, stranger, [node], node.name)
        assert type(refused) is HostRefused and "not that of host" in refused.reason
        assert greet(head, stranger, [node], thief.name) == HostWelcome(head.name)
        letter = Letter(node.role("local"), head.role("local"), [beat(666)])
        stranger.socket.send(encode(Mail(1, 1, 0, [letter])))
        pump((head, node), lambda: head.links.offences.count)
        node.say("local", head.role("local"), beat(1))
        pump((head, node), lambda: head.heard)
        assert head.messages() == [beat(1)]


def test_a_stolen_identity_takes_over_no_mail():
    """A connection that claims the routing id of another one is not even seen by the ROUTER."""
    with Host("head") as head, Host() as first, Host() as second:
        head.meet(first)
        head.meet(second)
        with Stranger(head, first.keys, routing_id=b"same") as one:
            assert greet(head, one, [], first.name) == HostWelcome(head.name)
            with Stranger(head, second.keys, routing_id=b"same") as two:
                two.socket.send(unnumbered(HostHello(PROTOCOL_VERSION, "", second.name)))
                for number in range(20):
                    head.say("monitor", first.role("local"), NodeLost(str(number), ""))
                    pump((head,), lambda: one.socket.poll(10))
                    one.socket.recv()
                assert not two.socket.poll(50)
                assert not head.links.by_host[second.name].is_up


def test_another_protocol_is_refused_in_words(pair):
    head, node = pair
    with Host() as other, Stranger(head, other.keys) as stranger:
        head.meet(other)
        stranger.socket.send(unnumbered(HostHello(PROTOCOL_VERSION + 6, "9", other.name)))
        pump(pair, lambda: stranger.socket.poll(0))
        refused = open_unnumbered(decode_mail(stranger.socket.recv()))
        assert type(refused) is HostRefused and str(PROTOCOL_VERSION + 6) in refused.reason


# --- B11, B13: what is said ---

FORBIDDEN = [
    ("monitor", "local", NodeLost("x", "")),  # a node is no monitor
    ("global", "gcs-0", beat(1)),
    ("local", "monitor", NodeLost("x", "")),  # only the monitor says that
    ("local", "host", StopSession()),
    ("objects", "objects", FetchFunction("x", b"f" * 16)),
    ("local", "nobody", beat(1)),
]


@pytest.mark.parametrize("source, target, message", FORBIDDEN, ids=lambda item: str(item)[:20])
def test_what_is_not_ones_to_say_is_refused_counted_and_told(pair, source, target, message):
    head, node = pair
    node.say(source, head.role(target), message)
    pump(pair, lambda: head.links.offences.count == 1 and node.has_logged("PermissionDenied"))
    assert not head.heard
    node.say("local", head.role("local"), beat(2))
    pump(pair, lambda: head.messages() == [beat(2)])


def test_the_rest_of_a_letter_is_heard(pair):
    head, node = pair
    node.say("local", head.role("local"), beat(1), NodeLost("x", ""), beat(2))
    pump(pair, lambda: head.messages() == [beat(1), beat(2)])


def test_who_does_it_again_and_again_is_dropped(pair):
    """S11: ten offences in a minute are tolerated."""
    head, node = pair
    for _ in range(11):
        node.say("monitor", head.role("local"), NodeLost("x", ""))
    pump(pair, lambda: node.name in head.links.gone)
    assert head.has_logged("too many messages")


@pytest.mark.parametrize("parts", [2, 17, 1_000, 100_000])
def test_messages_of_many_parts_and_of_none(pair, parts):
    head, node = pair
    with Host() as other, Stranger(head, other.keys) as stranger:
        head.meet(other)
        assert greet(head, stranger, [node], other.name) == HostWelcome(head.name)
        stranger.socket.send_multipart([b""] * parts)
        stranger.socket.send(b"")
        pump(pair, lambda: head.links.offences.count == 2)
        node.say("local", head.role("local"), beat(1))
        pump(pair, lambda: head.messages() == [beat(1)])


def test_a_frame_beyond_the_limit_ends_its_connection(pair, monkeypatch):
    monkeypatch.setattr("zray.host.links.dialer.FRAME_BYTES_MAX", 1 << 20)
    with Host("head") as head, Host() as other, Stranger(head, other.keys) as stranger:
        stranger_monitor = stranger.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        head.meet(other)
        assert greet(head, stranger, [], other.name) == HostWelcome(head.name)
        stranger.socket.send(bytes((1 << 20) + 1))
        pump((head,), lambda: stranger_monitor.poll(0))
        assert not head.heard and not head.links.offences.count
        stranger.socket.disable_monitor()
        stranger_monitor.close()
    head, node = pair
    node.say("objects", head.role("objects"), PullRefused(b"o" * 20, 1))
    pump(pair, lambda: head.heard)


def test_the_answer_to_a_refusal_is_silence(pair):
    """Or two hosts would tell each other for ever."""
    head, node = pair
    head.links._put(head.links.by_host[node.name], unnumbered(MessageRefused("x")))
    node.links._put(node.links.by_host[head.name], unnumbered(MessageRefused("y")))
    pump(pair, lambda: node.has_logged("refused a message of this host"))
    node.say("local", head.role("local"), beat(1))
    pump(pair, lambda: head.heard)
    assert not head.links.offences.count and not node.links.offences.count


# --- a head that is started again ---


def test_the_head_is_followed_to_the_host_that_it_is_now():
    """The same key at the same port under another name; what was under way to the former one goes with it."""
    with Host() as node:
        with Host("head") as former:
            join(node, former)
            pump((former, node), lambda: are_up(former, node))
            keys, endpoint = former.keys, former.endpoint
            node.say("local", former.role("local"), beat(1))
        heads = []
        node.links.on_new_head = lambda former, welcome: heads.append((former, welcome.host))
        with Host("head", keys=keys, port=int(endpoint.rpartition(":")[2])) as head:
            head.meet(node)
            head.say("monitor", node.role("local"), NodeLost("x", ""))
            pump((head, node), lambda: heads and node.heard)
            assert heads == [(former.name, head.name)] and node.messages() == [NodeLost("x", "")]
            node.say("local", former.role("local"), beat(2))
            node.say("local", head.role("local"), beat(3))
            pump((head, node), lambda: head.heard)
            assert head.messages() == [beat(3)]
            head.links.forget(node.name)
            assert former.name in node.links.gone and node.links.ring.find(keys.public) is not None


def test_no_other_host_is_followed_to_another_name(pair):
    """A node cannot hand its place on: only the head's key is the cluster's."""
    head, node = pair
    with Host() as other:
        other.links.welcome = lambda: HostWelcome("f" * 16)
        node.meet(other, other.endpoint)
        other.meet(node)
        pump((node, other), lambda: other.links.by_host[node.name].is_up)
        pump((node, head, other), lambda: not node.links.restless)
        assert "f" * 16 not in node.links.by_host and not node.links.by_host[other.name].is_up


def test_keys_are_drawn_anew():
    assert KeyPair.draw().public != KeyPair.draw().public
