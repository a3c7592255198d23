"""Revoked keys: refused on old connections and on new ones, and cut off (docs/security.md, S4 and B08)."""

import os
import socket as socket_module

import zmq

from tests.host.wires import Host, Stranger, are_up, beat, greet, pump
from zray.host.links.listener import Wire
from zray.wire.codec import decode_mail
from zray.wire.hosts import HostExpelled, HostHello, HostWelcome
from zray.wire.link import open_unnumbered, unnumbered
from zray.wire.message import PROTOCOL_VERSION


def test_a_forgotten_host_is_refused_on_its_old_connection_and_on_new_ones(pair):
    """The key is revoked (B08)."""
    head, node = pair
    head.links.forget(node.name)
    node.say("local", head.role("local"), beat(1))
    pump(pair, lambda: head.links.dropped_frames)
    assert not head.heard
    with Stranger(head, node.keys) as stranger:
        stranger.socket.send(unnumbered(HostHello(PROTOCOL_VERSION, "", node.name)))
        pump(pair, lambda: head.has_logged("revoked key of node"))
        assert not stranger.socket.poll(50)


def test_the_connection_of_a_forgotten_host_is_cut(pair):
    """The connection ends within 5 s, whatever the host does; the host is told why first (S4)."""
    head, node = pair
    with Host() as other, Stranger(head, other.keys) as stranger:
        monitor = stranger.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        head.meet(other)
        assert greet(head, stranger, [node], other.name) == HostWelcome(head.name)
        head.links.forget(other.name, "its key was revoked")
        pump(pair, lambda: monitor.poll(0), 5.0)
        told = open_unnumbered(decode_mail(stranger.socket.recv()))
        assert told == HostExpelled("its key was revoked")
        stranger.socket.disable_monitor()
        monitor.close()
    node.say("local", head.role("local"), beat(1))
    pump(pair, lambda: head.heard)
    assert are_up(*pair)


def test_who_is_let_in_no_more_is_told_by_whom(pair):
    head, node = pair
    told = []
    node.links.on_expelled = lambda host, reason: told.append((host, reason))
    head.links.forget(node.name, "its key was revoked")
    pump(pair, lambda: told)
    assert told == [(head.name, "its key was revoked")]
    pump(pair, lambda: head.has_logged("revoked key of node"))  # it tries again


def test_who_was_away_when_its_key_was_revoked_sees_that_it_is_refused(pair):
    """Nobody could tell it."""
    head, node = pair
    head.say("local", node.role("local"), beat(1))
    pump(pair, lambda: node.heard)
    head.links.forget(node.name)
    pump(pair, lambda: node.has_logged(f"host {head.name} refuses the key of this host"))


def test_a_cut_of_a_connection_that_has_ended_hits_no_other():
    """The number of its descriptor is somebody else's by then."""

    class Frame:
        def get(self, option):
            return number

    with socket_module.create_server(("127.0.0.1", 0)) as server:
        first = socket_module.create_connection(server.getsockname())
        taken, _ = server.accept()
        number = taken.fileno()
        wire = Wire(Frame())
        other = socket_module.create_connection(server.getsockname())
        last, _ = server.accept()
        os.dup2(last.fileno(), number)
        wire.cut()
        last.send(b"x")
        assert other.recv(1) == b"x"
        taken.close()
        wire.cut()  # nobody's
        for item in (first, other, last):
            item.close()
