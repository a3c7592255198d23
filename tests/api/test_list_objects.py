"""Lists of values: how large, where made, who refers to them."""

import inspect
import os

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.util import state

pytestmark = pytest.mark.timeout(90)

MB = 1_000_000


@zray.remote
def make(size):
    return np.ones(size // 8)


@zray.remote
class Keeper:
    def keep(self, refs):
        self.refs = refs
        return zray.get_runtime_context().get_worker_id()


def rows_of(ref):
    return state.get_objects(ref.hex())


def test_large_values_have_the_place_that_made_them(start):
    start(num_cpus=1)
    line = inspect.currentframe().f_lineno + 1
    put = zray.put(np.ones(MB))
    made = make.remote(4 * MB)
    zray.wait([made])
    (row,), (other,) = rows_of(put), rows_of(made)
    assert row.call_site == f"put at {__file__}:{line}" and other.call_site == "task make"
    assert (row.state, other.state) == ("MEMORY", "MEMORY")
    assert 8 * MB <= row.object_size < 8.1 * MB and 4 * MB <= other.object_size < 4.1 * MB
    assert [each.object_id for each in state.list_objects(limit=2)] == [put.hex(), made.hex()]


def test_processes_that_refer_to_a_value_are_named(start):
    start(num_cpus=1)
    ref = zray.put(np.ones(MB))
    keeper = Keeper.remote()
    zray.get(keeper.keep.remote([ref]))
    pids = {row.pid for row in rows_of(ref)}
    workers = {worker.pid for worker in state.list_workers() if worker.actor_id}
    assert len(pids) == 2 and workers < pids
    value = zray.get(ref)
    until(lambda: "PINNED_IN_MEMORY" in {row.reference_type for row in rows_of(ref)})
    assert value[0] == 1
    zray.kill(keeper)
    until(lambda: len(rows_of(ref)) == 1)


def test_value_on_disk_says_so(start, tmp_path):
    start(num_cpus=1, object_store_memory=100 * MB, object_spilling_directory=str(tmp_path))
    refs = [zray.put(np.ones(10 * MB // 8)) for _ in range(30)]
    summary = state.summarize_objects()["cluster"]
    (place,) = summary["summary"].values()
    assert summary["total_objects"] == place["total_objects"] == len(refs)
    assert place["node_states"]["DISK"] > 15 and sum(place["node_states"].values()) == len(refs)
    assert 300 <= place["total_size_mb"] < 310


def test_small_values_and_unfinished_tasks_are_listed_too(start):
    start(num_cpus=1)
    small = zray.put([1, 2, 3])
    holder = Keeper.options(num_cpus=1).remote()
    zray.get(holder.keep.remote([]))
    waits = make.options(name="waits").remote(1)
    assert [(row.state, row.call_site) for row in rows_of(small)] == [("MESSAGE", "")]
    assert [(row.state, row.call_site) for row in rows_of(waits)] == [("PENDING", "task waits")]
    assert state.list_objects(filters=[("state", "=", "PENDING")], limit=5) == rows_of(waits)
    zray.kill(holder)
    assert zray.get(waits).size == 0


def test_each_copy_in_a_cluster_is_a_row(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        node = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            ref = make.remote(8 * MB)
            zray.wait([ref])
            assert zray.get(ref)[0] == 1
            found = {row.node_id: row for row in rows_of(ref)}
            assert len(found) == 2 and found[node.node_id].call_site == "task make"


def test_value_of_ended_refs_is_gone(start):
    start(num_cpus=1)
    ref = zray.put(np.ones(MB))
    object_id = ref.hex()
    del ref
    until(lambda: not state.get_objects(object_id))


def test_rows_tell_refs_from_places_that_a_process_knows(start, tmp_path):
    start(num_cpus=1)
    gate = tmp_path / "gate"

    @zray.remote
    def wait_with(array):
        until(gate.exists)
        return array.size

    ref, other = zray.put(np.ones(MB)), zray.put(np.ones(MB))
    keeper = Keeper.options(num_cpus=0).remote()
    zray.get(keeper.keep.remote([other]))
    task = wait_with.remote(ref)

    def kinds(ref):
        return {row.pid == os.getpid(): (row.reference_type, row.has_ref) for row in rows_of(ref)}

    # The process was told the places by `put`; nobody reads there.
    until(lambda: kinds(ref) == {True: ("PINNED_IN_MEMORY", True), False: ("PINNED_IN_MEMORY", False)})
    assert kinds(other) == {True: ("PINNED_IN_MEMORY", True), False: ("LOCAL_REFERENCE", True)}
    gate.touch()
    assert zray.get(task) == MB
