"""Collective groups whose members are on several nodes: values, and members and nodes that die."""

import os
import signal
import time

import numpy
import pytest

import zray
from tests.gates import until
from tests.util.members import Member, all_do, digest, join, numbers, outcome, outcomes
from zray.cluster_utils import Cluster
from zray.util import collective
from zray.util.collective import CollectiveGroupError
from zray.util.state import list_actors

# From a kill to the errors of all others, in seconds: the promise.
SECONDS_AFTER_A_KILL = 1.0


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head, and two nodes; a program on the head."""
    with Cluster(True, head_node_args={"num_cpus": 1, "resources": {"node 0": 9}}) as cluster:
        for number in (1, 2):
            cluster.add_node(num_cpus=1, resources={f"node {number}": 9})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            yield cluster


def members_on(nodes, name):
    """A group of members on the nodes of these numbers."""
    actors = [Member.options(resources={f"node {node}": 1}).remote() for node in nodes]
    join(actors, name)
    return actors


@pytest.fixture(scope="module")
def actors(cluster):
    """Four members on three nodes."""
    yield members_on([0, 1, 2, 1], "default")


@pytest.mark.parametrize("count", [0, 1_000, 23_000, 200_001])
def test_calls_have_the_results_of_a_group_on_one_node(actors, count):
    def run(rank):
        own = numbers(rank, count, "f4")
        found = {}
        summed = own.copy()
        collective.allreduce(summed)
        found["allreduce"] = summed
        reduced = own.copy()
        collective.reduce(reduced, dst_rank=1)
        found["reduce"] = reduced
        copied = own.copy()
        collective.broadcast(copied, src_rank=2)
        found["broadcast"] = copied
        gathered = [numpy.empty_like(own) for _ in range(4)]
        collective.allgather(gathered, own)
        found["allgather"] = numpy.stack(gathered)
        scattered = numpy.empty_like(own)
        collective.reducescatter(scattered, [own * other for other in range(4)])
        found["reducescatter"] = scattered
        passed = own.copy()
        if rank == 0:
            collective.send(own, 2)
        elif rank == 2:
            collective.recv(passed, 0)
        found["passed"] = passed
        collective.barrier()
        return {name: digest(array) for name, array in found.items()}

    own = [numbers(rank, count, "f4") for rank in range(4)]
    total = in_order(own)
    for rank, found in enumerate(all_do(actors, run)):
        assert found == {
            "allreduce": digest(total),
            "reduce": digest(total if rank == 1 else own[rank]),
            "broadcast": digest(own[2]),
            "allgather": digest(numpy.stack(own)),
            "reducescatter": digest(in_order([array * rank for array in own])),
            "passed": digest(own[0] if rank == 2 else own[rank]),
        }


def in_order(arrays):
    """The sum, in the order of the ranks."""
    found = arrays[0]
    for array in arrays[1:]:
        found = found + array
    return found


def test_large_tensors_take_several_rounds(actors, monkeypatch):
    def run(rank):
        group = collective.get_group_handle()
        before, group._transport.part_bytes = group._transport.part_bytes, 1 << 16
        array = numbers(rank, 300_001, "f8")
        collective.allreduce(array)
        gathered = [numpy.empty(100_000) for _ in range(4)]
        collective.allgather(gathered, numpy.full(100_000, float(rank)))
        scattered = numpy.empty(100_000)
        collective.reducescatter(scattered, [numpy.full(100_000, float(part)) for part in range(4)])
        group._transport.part_bytes = before
        return digest(array), [set(part) for part in gathered], set(scattered)

    total = digest(in_order([numbers(rank, 300_001, "f8") for rank in range(4)]))
    for rank, found in enumerate(all_do(actors, run)):
        assert found == (total, [{0.0}, {1.0}, {2.0}, {3.0}], {4.0 * rank})


def test_calls_that_differ_are_one_error_on_all_ranks_and_change_nothing(actors):
    def run(rank, count):
        array = numpy.ones(count if rank else count - 1)
        return outcome(lambda: collective.allreduce(array)), bool((array != 1).any())

    for count in (4, 100_000):
        first, *others = all_do(actors, run, count)
        assert first[0][0] == "CollectiveMismatchError" and not first[1] and others == [first] * 3
        assert f"rank 0: allreduce SUM of float64 ({count - 1},); ranks 1, 2, 3: " in first[0][1]
    assert outcomes(actors, lambda rank: collective.barrier()) == [None] * 4


def test_a_send_against_a_call_of_all_ends_the_group(cluster):
    actors = members_on([0, 1, 2], "mixed")

    def run(rank):
        if rank == 0:
            collective.send(numpy.ones(4), 1, "mixed")
        else:
            collective.allreduce(numpy.ones(4), "mixed")

    for kind, words in outcomes(actors, run):
        assert kind == "CollectiveGroupError"
        assert "rank 0: send to rank 1" in words and ": allreduce SUM" in words


def test_members_on_one_node_of_a_cluster_share_memory_and_have_no_board(cluster):
    actors = members_on([1, 1], "near")
    kinds = all_do(actors, lambda rank: type(collective.get_group_handle("near")._transport).__name__)
    assert kinds == ["Exchange"] * 2
    assert all_do(actors, lambda rank: outcome(lambda: collective.barrier("near"))) == [None] * 2


@pytest.mark.parametrize("count", [10, 1_000_000])
def test_a_killed_member_is_named_within_a_second_by_all_others(cluster, count):
    actors = members_on([1, 2, 0], "killed")
    *others, victim = actors

    def run(rank):
        array = numpy.ones(count)
        while True:
            try:
                collective.allreduce(array, "killed")
            except CollectiveGroupError as error:
                return str(error), time.time()

    pending = [actor.do.remote(run, rank) for rank, actor in enumerate(others)]
    pid = zray.get(victim.pid.remote())
    victim.do.remote(run, 2)
    os.kill(pid, signal.SIGKILL)
    killed_at = time.time()
    for text, noticed_at in zray.get(pending):
        assert f"rank 2 (actor Member {victim._actor_id.hex()}, process {pid}) has ended" in text
        assert noticed_at - killed_at < SECONDS_AFTER_A_KILL
    again = [*others, Member.options(resources={"node 1": 1}).remote()]
    join(again, "killed")
    assert outcomes(again, lambda rank: collective.barrier("killed")) == [None] * 3


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_member_that_leaves_is_named(cluster, leaver):
    actors = members_on([1, 2], "left")
    stays = 1 - leaver
    zray.get(actors[leaver].do.remote(lambda rank: collective.destroy_collective_group("left"), leaver))
    kind, text = zray.get(actors[stays].do.remote(lambda rank: outcome(lambda: collective.barrier("left")), stays))
    assert kind == "CollectiveGroupError" and f"rank {leaver}" in text and "has left it" in text


def test_a_pair_goes_on_when_a_third_member_leaves(cluster):
    actors = members_on([1, 2, 0], "third")

    def receive(rank):
        array = numpy.zeros(4)
        collective.recv(array, 1, "third")
        return array.tolist()

    waiting = actors[0].do.remote(receive, 0)
    zray.get(actors[2].do.remote(lambda rank: collective.destroy_collective_group("third"), 2))
    zray.get(actors[1].do.remote(lambda rank: collective.send(numpy.ones(4), 0, "third"), 1))
    assert zray.get(waiting) == [1.0] * 4


def test_a_member_whose_actor_ends_in_order_is_named(cluster):
    actors = members_on([1, 2], "ended")
    waiting = actors[0].do.remote(lambda rank: outcome(lambda: collective.barrier("ended")), 0)
    actors.pop()
    kind, text = zray.get(waiting)
    assert kind == "CollectiveGroupError" and "rank 1" in text


def test_a_group_whose_member_died_between_calls_is_made_again(cluster):
    actors = members_on([1, 2], "again")
    zray.kill(actors.pop())
    actors.append(Member.options(resources={"node 2": 1}).remote())

    def is_over(rank):
        return rank == 1 or not collective.is_group_initialized("again")

    until(lambda: all(all_do(actors, is_over)))
    collective.create_collective_group(actors, 2, [0, 1], group_name="again")
    assert outcomes(actors, lambda rank: collective.barrier("again")) == [None] * 2


def test_missing_ranks_are_named_after_the_timeout(cluster):
    actors = [Member.options(resources={f"node {node}": 1}).remote() for node in (1, 2)]

    def run(rank):
        return outcome(lambda: collective.init_collective_group(3, rank, group_name="few", gloo_timeout=500))

    for kind, text in all_do(actors, run):
        assert kind == "CollectiveGroupError" and "rank 2 of 3 did not call" in text
    join(actors, "few")


def test_members_on_a_lost_node_are_named(cluster):
    node = cluster.add_node(num_cpus=1, resources={"node 3": 9})
    cluster.wait_for_nodes()
    actors = members_on([1, 2, 3], "lost")
    waiting = [actor.do.remote(lambda rank: outcome(lambda: collective.barrier("lost")), 0) for actor in actors[:2]]
    cluster.remove_node(node, allow_graceful=False)
    for kind, text in zray.get(waiting):
        assert kind == "CollectiveGroupError" and "rank 2" in text


def test_no_board_is_left_when_the_members_are_gone(cluster):
    actors = members_on([1, 2], "gone")
    assert any(actor["class_name"] == "Board" for actor in list_actors(limit=1000) if actor.state == "ALIVE")
    del actors
    names = {"gone", "left", "killed", "few"}
    until(
        lambda: not [a for a in list_actors(limit=1000) if a.state == "ALIVE" and a["name"].split(" of ")[0] in names]
    )
