"""Actors on two nodes that only hold handles of each other end; actors that something can reach stay."""

import os

import pytest

import zray
from tests.gates import is_running, until, until_ended
from zray.cluster_utils import Cluster
from zray.util.state import list_actors


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head without CPUs, and two nodes; a program on the head."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2, resources={"left": 8})
        cluster.add_node(num_cpus=2, resources={"right": 8})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address, namespace="tests"):
            yield cluster


@zray.remote(num_cpus=0)
class Member:
    def __init__(self, *others):
        self.others = list(others)

    def take(self, *others):
        self.others += others
        return os.getpid()

    def wait_at(self, gate):
        gate.wait()
        return os.getpid()

    def ask(self):
        return zray.get(self.others[0].take.remote())


def make_at(place, *others, **options):
    return Member.options(resources={place: 1}, **options).remote(*others)


def make_ring(**options):
    """Two actors on two nodes with each other's handles, and their processes."""
    left = make_at("left", **options)
    right = make_at("right", left, **options)
    return left, right, zray.get([left.take.remote(right), right.take.remote()])


def end_another_ring():
    """Wait for the end of a ring that is younger than others: these have been looked at."""
    *ring, pids = make_ring()
    del ring
    until_ended(pids)


@pytest.mark.parametrize("max_restarts", [0, 1])
def test_a_ring_over_two_nodes_ends(cluster, max_restarts):
    left, right, pids = make_ring(max_restarts=max_restarts)
    del left, right
    until_ended(pids)


def test_a_ring_of_named_actors_ends_and_its_name_is_free(cluster):
    left = make_at("left", name="left member")
    right = make_at("right", left, name="right member")
    pids = zray.get([left.take.remote(right), right.take.remote()])
    assert zray.get(zray.get_actor("left member").ask.remote()) == pids[1]
    del left, right
    until_ended(pids)
    with pytest.raises(ValueError, match="left member"):
        zray.get_actor("left member")
    again = make_at("right", name="left member", get_if_exists=True)
    assert zray.get(again.take.remote()) not in pids


def test_a_ring_that_is_found_by_name_in_time_stays(cluster):
    left = make_at("left", name="found")
    right = make_at("right", left)
    pids = zray.get([left.take.remote(right), right.take.remote()])
    del left, right
    again = make_at("left", name="found", get_if_exists=True)
    end_another_ring()
    assert zray.get(again.ask.remote()) == pids[1]
    del again
    until_ended(pids)


@zray.remote(num_cpus=0)
def make_hosted(box, **options):
    """A hosted actor on the node of this task."""
    return Member.options(hosted=True, **options).remote(*box)


def make_hosted_at(place, *others, **options):
    return zray.get(make_hosted.options(resources={place: 1}).remote(list(others), **options))


def are_hosted_gone():
    return not [row for row in list_actors(limit=10_000) if row.class_name == "Member" and row.state == "ALIVE"]


def test_a_ring_of_hosted_actors_ends(cluster):
    left = make_hosted_at("left", name="hosted member")
    right = make_hosted_at("right", left)
    other = make_hosted_at("left", right)
    pids = zray.get([left.take.remote(other), right.take.remote(left), other.take.remote()])
    assert pids[0] == pids[2] != pids[1]
    end_another_ring()
    assert zray.get(left.ask.remote()) == pids[2]
    del left, right, other
    until(are_hosted_gone)


def test_a_ring_ends_when_the_last_of_other_holders_is_gone(cluster):
    left, right, pids = make_ring()
    outside = make_at("right", right)
    pids.append(zray.get(outside.take.remote()))
    del left, right
    end_another_ring()
    assert zray.get(outside.ask.remote()) == pids[1]
    assert all(map(is_running, pids))
    del outside
    until_ended(pids)


@zray.remote(num_cpus=1)
def hold(handles, gate):
    gate.wait()
    return zray.get(handles[0].take.remote())


@pytest.mark.parametrize("holder", ["driver", "task", "value", "detached"])
def test_a_ring_over_two_nodes_that_something_can_reach_stays(cluster, holder, gate):
    left = make_at("left", **({"name": "one", "lifetime": "detached"} if holder == "detached" else {}))
    right = make_at("right", left)
    pids = zray.get([left.take.remote(right), right.take.remote()])
    if holder == "task":
        kept = hold.options(resources={"right": 1}).remote([left], gate)
    else:
        kept = {"driver": left, "value": zray.put([left])}.get(holder)
    del left, right
    end_another_ring()
    assert all(map(is_running, pids))
    gate.open()
    if holder == "task":
        assert zray.get(kept) == pids[0]
    if holder == "detached":
        again = zray.get_actor("one")
        assert zray.get(again.ask.remote()) == pids[1]
        zray.kill(again)
    del kept
    until_ended(pids)


def test_a_ring_ends_after_the_calls_of_its_members(cluster, gate):
    left, right, pids = make_ring()
    last = left.wait_at.remote(gate)
    del left, right
    end_another_ring()
    assert all(map(is_running, pids))
    gate.open()
    assert zray.get(last) == pids[0]
    until_ended(pids)
