"""Members whose process is stopped: all others are told, and none waits for ever.  Calculations are waited for."""

import os
import signal
import time

import numpy
import pytest

import zray
from tests.gates import until
from tests.util.members import Member, all_do, join, outcome
from zray.cluster_utils import Cluster
from zray.util import collective

# From the stop to the errors of all others, in seconds: three looks, on another node also two tasks.
SECONDS_AFTER_A_STOP = 10.0


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head, and a node; a program on the head."""
    with Cluster(True, head_node_args={"num_cpus": 1, "resources": {"node 0": 9}}) as cluster:
        cluster.add_node(num_cpus=1, resources={"node 1": 9})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            yield cluster


def is_stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("nodes", [(0, 0, 0), (0, 1, 1), (0, 0, 1)])
@pytest.mark.parametrize("count", [4, 300_000])
def test_a_stopped_member_ends_the_group_and_is_named(cluster, nodes, count):
    actors = [Member.options(resources={f"node {node}": 1}).remote() for node in nodes]
    join(actors, "stopped")
    pid = zray.get(actors[2].pid.remote())

    def add(rank):
        return outcome(lambda: collective.allreduce(numpy.ones(count), "stopped"))

    def add_until_the_end(rank):  # it may have all that its first call needs
        while not (found := add(rank)):
            pass
        return found

    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: is_stopped(pid))
        since = time.monotonic()
        pending = [actor.do.remote(add, rank) for rank, actor in enumerate(actors[:2])]
        late = actors[2].do.remote(add_until_the_end, 2)
        for kind, text in zray.get(pending, timeout=2 * SECONDS_AFTER_A_STOP):
            assert kind == "CollectiveGroupError"
            assert f"rank 2 (actor Member {actors[2]._actor_id.hex()}, process {pid}) is stopped" in text
        assert time.monotonic() - since < SECONDS_AFTER_A_STOP
    finally:
        os.kill(pid, signal.SIGCONT)
    kind, text = zray.get(late, timeout=SECONDS_AFTER_A_STOP)
    assert kind == "CollectiveGroupError" and "is stopped" in text
    join(actors, "stopped")
    assert all_do(actors, add) == [None] * 3


@pytest.mark.parametrize("nodes", [(0, 0), (0, 1)])
def test_a_member_that_calculates_for_long_is_waited_for(cluster, nodes):
    actors = [Member.options(resources={f"node {node}": 1}).remote() for node in nodes]
    join(actors, "slow")

    def calculate(rank):
        end = time.monotonic() + 5.0 * rank
        while time.monotonic() < end:
            pass
        return outcome(lambda: collective.barrier("slow"))

    assert all_do(actors, calculate) == [None] * 2
