"""The relay passes on what members say to each other, as far as it was granted, and nothing else."""

import random

import pytest

from zray.roles.effects import Send
from zray.roles.relay import TUNNEL_BYTES_MAX, TUNNELS_MAX, Relay
from zray.roles.replica_effects import ServiceAdded, ServiceEnded
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.relay import OpenTunnel, TunnelBytes, TunnelClosed, TunnelCredit


class Middle:
    """A relay of the hosts a, b and c."""

    def __init__(self, hosts="abc"):
        self.relay = Relay("head/relay")
        for host in hosts:
            self.relay.handle("head/monitor", NodeJoined(f"{host}/local", {}), 0.0)

    def say(self, host, message):
        """What follows: [(to whom, message)]."""
        return self._sent(self.relay.handle(f"{host}/tunnels", message, 0.0))

    def lose(self, host):
        return self._sent(self.relay.handle("head/monitor", NodeLost(f"{host}/local", "it was killed"), 0.0))

    def hear(self, news):
        """Of the services."""
        return self._sent(self.relay.handle("head/services", news, 0.0))

    def _sent(self, effects):
        self.relay.check_everything()
        assert all(type(effect) is Send for effect in effects)
        return [(effect.destination.removesuffix("/tunnels"), effect.message) for effect in effects]


@pytest.fixture
def middle():
    """With a tunnel from a to b."""
    middle = Middle()
    assert middle.say("a", OpenTunnel("b", 2)) == [("b", OpenTunnel("a", 2))]
    return middle


def test_a_replica_on_a_node_has_tunnels_for_as_long_as_it_is_there(middle):
    """It is no member, and has no port that others could call."""
    ((to, refused),) = middle.say("r", OpenTunnel("a", 2))
    assert to == "r" and type(refused) is TunnelClosed
    middle.hear(ServiceAdded("r", "replica", b"k", ["r/gcs-0"], "b"))
    assert middle.say("r", OpenTunnel("a", 4)) == [("a", OpenTunnel("r", 4))]
    ((to, closed),) = middle.hear(ServiceEnded("r", "it was killed"))
    assert to == "a" and type(closed) is TunnelClosed and closed.peer == "r"


def test_bytes_and_credit_are_passed_on(middle):
    assert middle.say("a", TunnelBytes("b", 2, b"x")) == [("b", TunnelBytes("a", 2, b"x"))]
    assert middle.say("b", TunnelBytes("a", 2, b"y")) == [("a", TunnelBytes("b", 2, b"y"))]
    assert middle.say("b", TunnelCredit("a", 2, 1)) == [("a", TunnelCredit("b", 2, 1))]


def test_what_was_not_granted_ends_it(middle):
    full = bytes(TUNNEL_BYTES_MAX)
    assert len(middle.say("a", TunnelBytes("b", 2, full))) == 1
    assert len(middle.say("b", TunnelCredit("a", 2, 10))) == 1
    assert len(middle.say("a", TunnelBytes("b", 2, bytes(10)))) == 1
    closed = middle.say("a", TunnelBytes("b", 2, b"x"))
    assert [(to, type(message)) for to, message in closed] == [("a", TunnelClosed), ("b", TunnelClosed)]
    ((to, message),) = middle.say("b", TunnelBytes("a", 2, b"x"))
    assert to == "b" and type(message) is TunnelClosed


def test_granting_more_than_came_ends_it(middle):
    closed = middle.say("b", TunnelCredit("a", 2, 1))
    assert [(to, type(message)) for to, message in closed] == [("b", TunnelClosed), ("a", TunnelClosed)]


def test_a_new_one_takes_the_place_of_the_old_one(middle):
    assert middle.say("a", OpenTunnel("b", 4)) == [("b", OpenTunnel("a", 4))]
    ((to, message),) = middle.say("b", TunnelBytes("a", 2, b"late"))
    assert to == "b" and type(message) is TunnelClosed and message.number == 2
    assert middle.say("b", TunnelClosed("a", 2, "late")) == []
    assert middle.say("b", TunnelBytes("a", 4, b"x")) == [("a", TunnelBytes("b", 4, b"x"))]


def test_an_end_is_told_once(middle):
    assert middle.say("b", TunnelClosed("a", 2, "over")) == [("a", TunnelClosed("b", 2, "over"))]
    assert middle.say("a", TunnelClosed("b", 2, "over")) == []


@pytest.mark.parametrize("peer", ["a", "x", "", "b/local"])
def test_only_members_are_joined(peer):
    ((to, message),) = Middle().say("a", OpenTunnel(peer, 2))
    assert to == "a" and type(message) is TunnelClosed
    ((to, message),) = Middle("b").say("a", OpenTunnel("b", 2))
    assert to == "a" and type(message) is TunnelClosed


def test_a_host_that_is_lost_has_no_tunnels(middle):
    middle.say("c", OpenTunnel("a", 2))
    told = middle.lose("a")
    assert sorted((to, type(message), message.peer) for to, message in told) == [
        ("b", TunnelClosed, "a"),
        ("c", TunnelClosed, "a"),
    ]
    assert not middle.relay.tunnels
    ((to, message),) = middle.say("b", OpenTunnel("a", 6))
    assert to == "b" and type(message) is TunnelClosed


def test_a_host_has_only_so_many():
    others = [f"h{number}" for number in range(TUNNELS_MAX + 1)]
    middle = Middle(["a", *others])
    for other in others[:-1]:
        assert type(middle.say("a", OpenTunnel(other, 2))[0][1]) is OpenTunnel
    ((to, message),) = middle.say("a", OpenTunnel(others[-1], 2))
    assert to == "a" and type(message) is TunnelClosed
    assert type(middle.say("a", OpenTunnel(others[0], 4))[0][1]) is OpenTunnel  # in the place of an old one
    middle.say("a", TunnelClosed(others[1], 2, ""))
    assert type(middle.say("a", OpenTunnel(others[-1], 2))[0][1]) is OpenTunnel


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_said_the_books_agree(seed):
    pick = random.Random(seed)
    middle = Middle()
    for _ in range(300):
        host, peer = pick.choice("abcx"), pick.choice("abcx")
        number = pick.randrange(3)
        message = pick.choice(
            [
                OpenTunnel(peer, number),
                TunnelBytes(peer, number, bytes(pick.choice((0, 1, 1000, TUNNEL_BYTES_MAX)))),
                TunnelCredit(peer, number, pick.choice((0, 1, 1000))),
                TunnelClosed(peer, number, ""),
            ]
        )
        middle.say(host, message)
        if pick.random() < 0.01:
            middle.lose(pick.choice("abc"))
