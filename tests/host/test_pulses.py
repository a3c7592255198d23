"""The connection beside a link: heartbeats arrive while the link is slow, and nothing else may be said there."""

import os
import socket

import pytest

from tests.host.wires import Host, Stranger, Wire, are_up, beat, greet, join, pump
from zray.host.links import heartbeat_channel
from zray.host.links.tcp_connections import opened
from zray.wire.codec import Letter, Mail, decode_mail, encode
from zray.wire.gcs import Heartbeat, HeartbeatReply, NodeLost
from zray.wire.hosts import HostAside, HostRefused, HostWelcome
from zray.wire.link import open_unnumbered, unnumbered


@pytest.fixture
def beside(pair, monkeypatch):
    """A head, and a node whose link to it has its connection beside; every link is slow at once."""
    head, node = pair
    pump(pair, lambda: head.links.by_host[node.name].pulse and node.links.by_host[head.name].pulse)
    monkeypatch.setattr(heartbeat_channel, "SLOW_SECONDS", 0.0)
    return pair


def stall(host, monkeypatch):
    """Nothing that it says on its link arrives, from now on; what is beside it does."""
    monkeypatch.setattr(host.links, "_put", lambda neighbour, frame: None)


def test_heartbeats_and_answers_pass_a_link_that_is_slow(beside, monkeypatch):
    head, node = beside
    stall(head, monkeypatch)
    stall(node, monkeypatch)
    for number in range(1, 4):
        node.say("local", head.role("monitor"), Heartbeat(node.role("local"), number))
        head.say("monitor", node.role("local"), HeartbeatReply(number))
    # The first of each is the one by which the link is found slow.
    pump(beside, lambda: len(head.heard) == 2 and len(node.heard) == 2)
    assert head.messages() == [Heartbeat(node.role("local"), number) for number in (2, 3)]
    assert node.messages() == [HeartbeatReply(number) for number in (2, 3)]


def test_nothing_else_leaves_the_order_of_the_link(beside, monkeypatch):
    head, node = beside
    stall(head, monkeypatch)
    for number in range(3):
        head.say("monitor", node.role("local"), HeartbeatReply(number), NodeLost("x", ""))
    pump(beside, lambda: node.heard)
    assert {type(message) for message in node.messages()} == {HeartbeatReply}


def test_a_link_that_acknowledges_needs_nothing_beside_it(pair, monkeypatch):
    head, node = pair
    pump(pair, lambda: head.links.by_host[node.name].pulse and node.links.by_host[head.name].pulse)
    monkeypatch.setattr(heartbeat_channel, "encode_mail", lambda mail: pytest.fail("said beside the link"))
    for number in range(1, 20):
        node.say("local", head.role("monitor"), Heartbeat(node.role("local"), number))
        head.say("monitor", node.role("local"), HeartbeatReply(number))
        pump(pair, lambda number=number: len(head.heard) == number and len(node.heard) == number)


def test_it_comes_again_when_it_breaks_and_goes_with_the_link(beside):
    head, node = beside
    there = head.links.by_host[node.name]
    first = there.pulse
    first.wire.cut()
    pump(beside, lambda: there.pulse is not first and there.pulse is not None)
    there.wire.cut()
    pump(beside, lambda: not there.is_up)
    assert there.pulse is None and not head.links.pulses.by_identity
    pump(beside, lambda: are_up(head, node) and there.pulse is not None)
    assert len(head.links.pulses.by_identity) == len(node.links.pulses.by_dealer) == 1


def test_a_host_that_is_forgotten_is_not_heard_beside_its_link_either(beside):
    head, node = beside
    dealer = node.links.by_host[head.name].pulse.dealer
    head.links.forget(node.name)
    frame = encode(Mail(0, 0, 0, [Letter(node.role("local"), head.role("monitor"), [Heartbeat(node.role("local"))])]))
    dealer.send(frame)
    pump(beside, lambda: node.links.by_host[head.name].pulse is None)
    assert not head.heard and not head.links.pulses.by_identity


def aside(stranger, letter):
    stranger.socket.send(encode(Mail(0, 0, 0, [letter])))


def test_what_may_be_said_beside_a_link():
    with Host("head") as head, Host() as node, Host() as other:
        head.meet(node)
        head.meet(other)
        with Stranger(head, node.keys) as link, Stranger(head, node.keys) as beside:
            beside.socket.send(unnumbered(HostAside()))
            pump((head,), lambda: beside.socket.poll(0))
            refused = open_unnumbered(decode_mail(beside.socket.recv()))
            assert type(refused) is HostRefused  # there is no link
            assert greet(head, link, [], node.name) == HostWelcome(head.name)
            beside.socket.send(unnumbered(HostAside()))
            pump((head,), lambda: head.links.pulses.by_identity)
            offences = head.links.offences
            own = Heartbeat(node.role("local"), 7)
            for letter in (
                Letter(node.role("local"), head.role("local"), [beat(1)]),  # no heartbeat
                Letter(other.role("local"), head.role("monitor"), [own]),  # of another's role
                Letter(node.role("local"), head.role("monitor"), [Heartbeat(other.role("local"))]),  # of another
                Letter(node.role("local"), "nobody", [own]),
                Letter(node.role("local"), head.role("monitor"), [HeartbeatReply(1)]),
            ):
                before = offences.count
                aside(beside, letter)
                pump((head,), lambda before=before: offences.count != before)
                assert not head.heard
            aside(beside, Letter(node.role("local"), head.role("monitor"), [own]))
            pump((head,), lambda: head.heard)
            assert head.messages() == [own]


def test_numbered_mail_is_none_beside_a_link(beside):
    head, node = beside
    dealer = node.links.by_host[head.name].pulse.dealer
    letter = Letter(node.role("local"), head.role("monitor"), [Heartbeat(node.role("local"))])
    dealer.send(encode(Mail(1, 1, 0, [letter])))
    pump(beside, lambda: head.links.offences.count)
    assert not head.heard


def test_a_wire_that_is_cut_takes_nothing_with_it():
    """The link is made again; so is what is beside it, and nothing is left of the former one."""
    with Host("head") as head, Host() as node, Wire(head.port) as wire:
        join(node, head, wire.endpoint)
        there = None
        for _ in range(3):
            pump((head, node), lambda: are_up(head, node) and head.links.by_host[node.name].pulse)
            before, there = there, head.links.by_host[node.name].pulse
            assert there is not before
            wire.cut()
            pump((head, node), lambda there=there: head.links.by_host[node.name].pulse is not there)
        assert len(head.links.pulses.by_identity) <= 1 and len(node.links.pulses.by_dealer) <= 1


def test_what_is_lost_is_said_again_at_equal_distances(pair):
    """By TCP: with doubled ones the third attempt is after a lease."""
    head, node = pair
    pump(pair, lambda: head.links.by_host[node.name].pulse and node.links.by_host[head.name].pulse)
    ends = 0
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with opened(descriptor) as end:
            is_tcp = end.family == socket.AF_INET and end.type == socket.SOCK_STREAM
            if is_tcp and head.links.listener.port in ports(end):
                ends += 1
                assert end.getsockopt(socket.IPPROTO_TCP, 16) == 1
    assert ends == 4  # of the link, and of what is beside it


def ports(end):
    try:
        return end.getsockname()[1], end.getpeername()[1]
    except OSError:
        return ()
