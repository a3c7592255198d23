"""Hosts that are no nodes: whoever was there first, nodes connect to them (a node behind NAT is reached by nobody)."""

import itertools

import pytest

from zray.roles.effects import Send
from zray.roles.services import ServiceAdded, ServiceEnded, ServiceListens, Services
from zray.wire.chain import ChainMemberLost
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.hosting import REPLICAS_MAX
from zray.wire.hosts import RELAYED, HostAdded, HostRemoved

HEAD, NODE = "head", "node"
ONE, TWO = "one", "two"


def told(role, message):
    """(whom, what) of all that follows."""
    return [(e.destination, e.message) for e in role.handle("host", message, 0.0) if type(e) is Send]


@pytest.fixture
def services():
    return Services("head/services", "head/chains", HEAD)


def joined(host):
    return NodeJoined(f"{host}/local", {}, "node", f"{host}:1", b"k")


def happenings():
    added = [ServiceAdded(host, "scheduler", b"k", [f"{host}/global"]) for host in (ONE, TWO)]
    listens = [ServiceListens(host, f"{host}:7") for host in (ONE, TWO)]
    everything = [*added, *listens, joined(HEAD), joined(NODE)]
    for order in itertools.permutations(everything):
        if all(order.index(a) < order.index(b) for a, b in zip(added, listens, strict=True)):
            yield order


def test_in_whatever_order_they_come_each_pair_meets_once_and_nodes_connect_to_services(services):
    for order in happenings():
        role, meetings = Services("head/services", "head/chains", HEAD), {}
        for happening in order:
            for target, message in told(role, happening):
                if type(message) is HostAdded:
                    pair = (target.partition("/")[0], message.host)
                    assert pair not in meetings, order
                    meetings[pair] = message
        for service in (ONE, TWO):
            assert meetings[NODE, service].is_earlier and meetings[NODE, service].endpoint == f"{service}:7"
            assert not meetings[service, NODE].is_earlier
            assert meetings[HEAD, service].roles == [f"{service}/global"] and (service, HEAD) not in meetings
        # Of two services one connects to the other.
        assert meetings[ONE, TWO].is_earlier is not meetings[TWO, ONE].is_earlier


@pytest.mark.parametrize("own", [True, False])
def test_replicas_on_nodes_call_all_others(own):
    """They have no port: who cannot call them must not try, and two of them meet through the relay."""
    places = {ONE: "" if own else "a", TWO: "b"}
    added = [ServiceAdded(host, "replica", b"k", [f"{host}/gcs-0"], place) for host, place in places.items()]
    listens = [ServiceListens(host, RELAYED if place else f"{host}:7") for host, place in places.items()]
    for order in itertools.permutations([*added, *listens, joined(HEAD), joined(NODE)]):
        if any(order.index(a) > order.index(b) for a, b in zip(added, listens, strict=True)):
            continue
        role, meetings, relay = Services("head/services", "head/chains", HEAD, "head/relay"), {}, []
        for happening in order:
            for target, message in told(role, happening):
                if target == "head/relay":
                    relay.append(message.host)
                else:
                    pair = (target.partition("/")[0], message.host)
                    assert pair not in meetings, order
                    meetings[pair] = message
        assert not meetings[NODE, TWO].is_earlier and meetings[TWO, NODE].is_earlier
        assert meetings[TWO, NODE].endpoint == f"{NODE}:1" and (TWO, HEAD) not in meetings
        if own:
            assert meetings[TWO, ONE].is_earlier and meetings[TWO, ONE].endpoint == f"{ONE}:7" and relay == [TWO]
            assert not meetings[ONE, TWO].is_earlier
        else:
            (called,) = [message for pair, message in meetings.items() if NODE not in pair and message.is_earlier]
            assert called.endpoint == RELAYED and sorted(relay) == [ONE, TWO]
        assert ("head/relay", ServiceEnded(TWO, "killed")) in told(role, ServiceEnded(TWO, "killed"))


def test_one_that_ends_is_forgotten_by_all_and_its_chain_is_closed(services):
    told(services, ServiceAdded(ONE, "replica", b"k", [f"{ONE}/gcs-0"]))
    told(services, ServiceAdded(TWO, "replica", b"k", [f"{TWO}/gcs-0"]))
    told(services, joined(NODE))
    ended = told(services, ServiceEnded(ONE, "killed"))
    assert ended == [
        ("head/chains", ChainMemberLost(f"{ONE}/gcs-0", "killed")),
        (f"{NODE}/host", HostRemoved(ONE, "killed")),
        (f"{TWO}/host", HostRemoved(ONE, "killed")),
    ]
    assert told(services, ServiceEnded(ONE, "killed")) == [] and told(services, ServiceListens(ONE, "x:1")) == []
    assert told(services, NodeLost(f"{NODE}/local", "dead")) == [(f"{TWO}/host", HostRemoved(NODE, "dead"))]


def test_services_say_how_many_replicas_a_node_runs(services):
    for host in (ONE, TWO):
        told(services, ServiceAdded(host, "replica", b"k", [f"{host}/gcs-0"], "node/local"))
    told(services, ServiceAdded("own", "replica", b"k", ["own/gcs-0"]))
    assert ("Services.replicas of a node", 2, REPLICAS_MAX) in list(services.bounds())
    told(services, ServiceEnded(ONE, "it was killed"))
    assert ("Services.replicas of a node", 1, REPLICAS_MAX) in list(services.bounds())


def test_a_newcomer_is_told_to_forget_schedulers_that_have_ended_since_it_asked_to_join(services):
    """Or it would hand tasks to one that nobody else knows, and wait for ever."""
    told(services, joined(NODE))
    told(services, ServiceAdded(ONE, "scheduler", b"k", [f"{ONE}/global"]))
    assert told(services, ServiceEnded(ONE, "killed")) == [
        ("head/chains", NodeLost(f"{ONE}/global", "killed")),
        (f"{NODE}/host", HostRemoved(ONE, "killed")),
    ]
    assert told(services, joined("newcomer")) == [("newcomer/host", HostRemoved(ONE, "killed"))]
