"""Nodes that die while they work: real processes, kill -9."""

import time

import numpy as np
import pytest

import zray
from tests.gates import is_running, until
from zray.cluster_utils import Cluster
from zray.exceptions import NodeDiedError, ObjectLostError, ObjectReconstructionFailedError
from zray.host.client import control

# From the kill on, on a machine that may have other things to do.  How soon the verdict comes by the monitor's clock
# is the matter of tests/roles/test_losses.py.
LISTED_NO_MORE_SECONDS = 10.0
LOSS_SAID_SECONDS = 10.0
# Floats, of 8 bytes each.
MANY = 1_000_000


@pytest.fixture
def cluster(nothing_left):
    """A head without CPUs, and two nodes with a disk each; a program on the head."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2, resources={"disk": 2})
        cluster.add_node(num_cpus=2, resources={"disk": 2})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            yield cluster


def listed():
    return {node["NodeID"] for node in zray.nodes() if node["Alive"]}


def kill(cluster, node):
    """kill -9; returns when."""
    at = time.monotonic()
    cluster.remove_node(node)
    assert not is_running(node.pid)
    return at


@zray.remote
def made_at(number, size=1):
    """Where it ran, and an array that is large where `size` is."""
    import threading

    threading.Event().wait(0.05)
    return zray.get_runtime_context().get_node_id(), np.full(size, float(number))


def node_of(cluster, node_id):
    return next(node for node in cluster.worker_nodes if node.node_id == node_id)


def test_every_result_comes_though_a_node_is_killed_in_the_middle(cluster):
    refs = [made_at.remote(number) for number in range(80)]
    zray.wait(refs, num_returns=10, timeout=20)
    doomed, other = cluster.worker_nodes
    at = kill(cluster, doomed)
    until(lambda: doomed.node_id not in listed(), LISTED_NO_MORE_SECONDS - (time.monotonic() - at))
    results = zray.get(refs, timeout=30)
    assert [float(array[0]) for _, array in results] == list(range(80))
    assert other.node_id in {place for place, _ in results}
    assert other.node_id in listed()
    (dead,) = [node for node in zray.nodes() if not node["Alive"]]
    assert (dead["NodeID"], dead["Resources"]) == (doomed.node_id, {})
    assert dead["DeathReasonMessage"] and dead["NodeManagerAddress"] == "127.0.0.1" and dead["NodeManagerHostname"]
    for node in (cluster.head_node, other):  # each node's log says who was given up, and why
        line = until(lambda node=node: given_up(node, doomed))
        assert dead["DeathReasonMessage"] in line


def given_up(node, doomed):
    """The line of it."""
    with open(node.session.log_path("node"), encoding="utf-8") as file:
        return next((line for line in file if f"node {doomed.node_id}" in line and "no member any more" in line), None)


def test_results_that_lived_only_there_are_made_again(cluster):
    """Large ones stay where they were made; what they were made of was there too, and is lost as well."""

    def here():
        return int(zray.get_runtime_context().get_node_id(), 16)

    def base(number):
        return np.full(100_000, number, np.uint64)

    def with_place(array):
        return here(), np.stack((array + 1, np.full_like(array, here())))

    bases = [zray.remote(base).remote(number) for number in range(6)]
    pairs = [zray.remote(with_place).options(num_returns=2).remote(array) for array in bases]
    places = zray.get([place for place, _ in pairs], timeout=30)
    doomed = node_of(cluster, f"{places[0]:016x}")
    kill(cluster, doomed)
    arrays = zray.get([array for _, array in pairs], timeout=30)
    for number, (values, made) in enumerate(arrays):
        assert set(values) == {number + 1}
        assert f"{int(made[0]):016x}" != doomed.node_id
    assert zray.get([place for place, _ in pairs], timeout=30) == places  # what was seen stays


def test_a_put_that_is_gone_is_said_to_be(cluster):
    def put_there():
        return zray.get_runtime_context().get_node_id(), zray.put(np.ones(100_000))

    place, ref = zray.get(zray.remote(put_there).remote(), timeout=20)
    at = kill(cluster, node_of(cluster, place))
    with pytest.raises(ObjectLostError, match="was put") as raised:
        zray.get(ref, timeout=20)
    assert time.monotonic() - at < LOSS_SAID_SECONDS
    assert not isinstance(raised.value, ObjectReconstructionFailedError)


def test_what_its_task_may_not_make_again_is_said_to_be_beyond_that(cluster):
    """It has run, its value went with the node; whoever takes it, and whoever takes what comes of that, is told."""
    place, large = made_at.options(num_returns=2, max_retries=0).remote(1, 100_000)
    kill(cluster, node_of(cluster, zray.get(place, timeout=20)))
    with pytest.raises(ObjectReconstructionFailedError, match="may run once only"):
        zray.get(large, timeout=20)
    with pytest.raises(ObjectReconstructionFailedError, match="may run once only"):
        zray.get(zray.remote(np.sum).remote(large), timeout=20)


def test_a_lost_result_is_made_again_as_often_as_max_retries_says(cluster):
    place, large = made_at.options(num_returns=2, max_retries=1).remote(1, 100_000)
    kill(cluster, node_of(cluster, zray.get(place, timeout=20)))
    assert zray.get(zray.remote(np.sum).remote(large), timeout=20) == 100_000
    kill(cluster, cluster.worker_nodes[0])
    with pytest.raises(ObjectReconstructionFailedError, match="has run 2 times, as max_retries=1 allows"):
        zray.get(large, timeout=20)


def test_a_task_that_may_run_once_only_runs_once_however_soon_its_node_dies_behind_it(cluster, tmp_path):
    """The shard may not have heard yet that it has run; or the node that had it run there may not, and says so."""
    runs = tmp_path / "runs"

    @zray.remote(max_retries=0)
    def once():
        with open(runs, "a") as file:
            file.write("x")
        return np.ones(100_000)

    for count in range(1, 5):
        there = {f"there-{count}": 1}
        doomed = cluster.add_node(num_cpus=1, resources=there)
        large = once.options(resources=there).remote()
        assert zray.wait([large], fetch_local=False, timeout=20)[0]
        kill(cluster, doomed)
        other = cluster.add_node(num_cpus=1, resources=there)
        with pytest.raises((ObjectReconstructionFailedError, NodeDiedError), match="(is|was) lost"):
            zray.get(large, timeout=20)
        cluster.remove_node(other)
        assert runs.read_text() == count * "x"


def test_a_value_that_may_be_made_once_only_stays_for_a_result_that_is_made_of_it(cluster, tmp_path):
    """Copies without a ref stay on their node, until the last ref on the result is gone."""
    runs = tmp_path / "runs"
    home, doomed = (cluster.add_node(num_cpus=1, resources={there: 1}) for there in ("made", "taken"))

    @zray.remote(max_retries=0, resources={"made": 1})
    def once():
        with open(runs, "a") as file:
            file.write("x")
        return np.ones(MANY)

    made = once.remote()
    result = zray.remote(np.negative).options(resources={"taken": 1}).remote(made)
    assert zray.wait([result], fetch_local=False, timeout=20)[0]
    del made
    assert has_values(home)
    kill(cluster, doomed)
    cluster.add_node(num_cpus=1, resources={"taken": 1})
    assert float(zray.get(result, timeout=30).sum()) == -MANY
    assert runs.read_text() == "x"
    assert has_values(home)
    del result
    until(lambda: not has_values(home))


def has_values(node):
    """Whether so many numbers lie there.  (The program's own code may.)"""
    with control.Control(node.session, node.pid) as link:
        return link.status().counts["store_used_bytes"] >= 8 * MANY


def test_a_task_that_may_run_once_only_fails_with_its_node(cluster):
    stay = zray.remote(lambda: __import__("threading").Event().wait()).options(max_retries=0)
    seen = [stay.remote() for _ in range(4)]
    until(lambda: zray.available_resources().get("CPU", 0) == 0)
    kill(cluster, cluster.worker_nodes[0])
    failed, _ = zray.wait(seen, num_returns=2, timeout=10)
    for ref in failed:
        with pytest.raises(NodeDiedError, match="lost"):
            zray.get(ref, timeout=10)
