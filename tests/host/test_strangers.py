"""Connections of peers without a key: they cost little, and no other peer notices (docs/security.md, S10 and B02)."""

import socket
import struct

import pytest

from tests.host import curve
from tests.host.wires import Host, Wire, are_up, beat, join, pump
from zray.host.links.dialer import FRAME_BYTES_MAX
from zray.host.links.tcp_connections import HALF_OPEN_MAX, UNAUTHENTICATED_BYTES_MAX
from zray.host.security.keyring import KeyPair

STRANGERS = 1_000
# In which who has a key comes in all the same.
JOIN_SECONDS = 3.0


def known_by(host):
    return host.links.listener.unauthenticated


def is_open(stranger):
    """Whether the other side still holds it."""
    try:
        return stranger.recv(4096) != b""  # it sends its greeting, and in the end nothing
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_of_many_connections_on_which_nobody_speaks_only_so_many_are_kept(monkeypatch):
    """A peer with a key gets in beside a thousand of them (docs/security.md, B02)."""
    monkeypatch.setattr("zray.host.links.dialer.HANDSHAKE_MS", 120_000)  # so that time alone ends none
    strangers = []
    with Host("head") as head, Host() as node, Host() as newcomer:
        join(node, head)
        pump((head, node), lambda: are_up(head, node))
        try:
            for number in range(STRANGERS):
                stranger = socket.create_connection(("127.0.0.1", head.port), timeout=20)
                stranger.setblocking(False)
                strangers.append(stranger)
                if number % 50 == 0:
                    head.turn()
            join(newcomer, head)
            pump((head, node, newcomer), lambda: are_up(head, newcomer), JOIN_SECONDS)
            newcomer.say("local", head.role("local"), beat(1))
            pump((head, node, newcomer), lambda: head.heard)
            pump((head, node), lambda: sum(map(is_open, strangers)) <= HALF_OPEN_MAX)
            assert len(known_by(head).half_open) <= HALF_OPEN_MAX
            node.say("local", head.role("local"), beat(2))
            pump((head, node), lambda: len(head.heard) == 2)
        finally:
            for stranger in strangers:
                stranger.close()
        pump((head, node), lambda: not known_by(head).half_open and not known_by(head).being_cut)
        assert are_up(node)


@pytest.mark.usefixtures("brief_looks")
def test_a_stranger_who_announces_a_long_frame_is_hung_up_on_before_it_is_here(pair):
    """libzmq would hold 64 MiB for each of them before a key is shown (docs/security.md, S10)."""
    head, node = pair
    announced = FRAME_BYTES_MAX - 1
    with socket.create_connection(("127.0.0.1", head.port), timeout=20) as stranger:
        stranger.setblocking(False)
        stranger.sendall(curve.GREETING + bytes([curve.LONG_COMMAND]) + struct.pack(">Q", announced))
        sent = 0
        while sent < announced:
            try:
                sent += stranger.send(bytes(min(UNAUTHENTICATED_BYTES_MAX, announced - sent)))
            except BlockingIOError:
                pass
            except OSError:
                break
            head.turn()
        assert sent < announced // 2
        pump(pair, lambda: not known_by(head).half_open)
        pump(pair, lambda: not known_by(head).being_cut)
    node.say("local", head.role("local"), beat(1))
    pump(pair, lambda: head.heard)
    assert are_up(*pair)


@pytest.mark.usefixtures("brief_looks")
def test_what_members_say_as_soon_as_they_may_is_not_too_much():
    """Much has waited for the connection, and comes right behind its beginning."""
    with Host("head") as head, Host() as node:
        join(node, head)
        messages = [beat(number) for number in range(20_000)]
        node.say("local", head.role("local"), *messages)
        wire = node.links.by_host[head.name]
        pump((head, node), lambda: len(head.heard) == len(messages))
        assert head.messages() == messages
        assert wire.attempt == 1
        pump((head, node), lambda: not known_by(head).half_open)


def test_the_comings_and_goings_of_strangers_are_not_told_to_members(pair):
    head, node = pair
    link = node.links.by_host[head.name].link
    pump(pair, lambda: not known_by(head).half_open)
    before, looks = link.received, []
    head.links.answer = lambda *arguments: looks.append(arguments)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", head.port), timeout=20):
            pump(pair, lambda: known_by(head).half_open)
        pump(pair, lambda: not known_by(head).half_open)
    assert not looks and link.received == before


def test_a_session_that_was_recorded_cannot_be_played_again():
    """The keys were those of one connection (docs/security.md, B22)."""
    with Host("head") as head, Host() as node, Wire(head.port) as wire:
        wire.record = bytearray()
        join(node, head, wire.endpoint)
        node.say("local", head.role("local"), beat(1))
        pump((head, node), lambda: head.heard)
        for length in (len(wire.record), len(wire.record) // 2):
            with socket.create_connection(("127.0.0.1", head.port), timeout=20) as replay:
                replay.sendall(wire.record[:length])
                replay.shutdown(socket.SHUT_WR)
                replay.setblocking(False)
                pump((head, node), lambda replay=replay: not is_open(replay))
        node.say("local", head.role("local"), beat(2))
        pump((head, node), lambda: len(head.heard) == 2)
        assert head.messages() == [beat(1), beat(2)] and len(head.links.by_identity) == 1 and are_up(node)
        assert not head.links.offences.count and not head.links.dropped_frames


@pytest.mark.usefixtures("brief_handshakes")
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("size", [0, 300, 2_000, 60_000])
def test_metadata_that_is_too_long_reaches_nobody(pair, size, is_known):
    """libzmq before 4.3.2 wrote metadata over its own stack, before any check of a key (docs/security.md, B10)."""
    sodium = curve.library()
    if sodium is None:
        pytest.skip("pyzmq has no libsodium of its own here")
    head, node = pair
    keys = KeyPair.draw()
    if is_known:
        with Host() as other:
            head.meet(other)
            keys = other.keys
    client = curve.Client(sodium, head.port, head.keys.public, (keys.public, keys.secret))
    try:
        client.wire.sendall(curve.GREETING)
        pump(pair, lambda: client.take(64))
        client.say_hello()
        header = pump(pair, lambda: client.take(2))
        client.hear_welcome(pump(pair, lambda: client.take(header[1])))
        client.say_initiate(size)
        if is_known:  # a member's own: the libzmq that we require has room for it, and nobody reads it
            header = pump(pair, lambda: client.take(2))
            assert pump(pair, lambda: client.take(header[1])).startswith(b"\x05READY")
        else:
            pump(pair, client.has_hung_up)
        node.say("local", head.role("local"), beat(1))
        pump(pair, lambda: head.heard)
        assert head.messages() == [beat(1)]
    finally:
        client.close()
    node.say("local", head.role("local"), beat(1))
    pump(pair, lambda: head.heard)
    assert head.messages() == [beat(1)] and len(head.links.by_identity) == 1
