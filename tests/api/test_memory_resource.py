"""Memory as a resource of tasks, actors and bundles, as Ray's `memory`; and a store that is nearly full."""

import numpy as np
import pytest

import zray
from tests.api.test_odd_programs import store_used
from tests.gates import Gate, until
from zray.cluster_utils import Cluster
from zray.util.placement_group import placement_group, remove_placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from zray.util.state import list_tasks


@zray.remote(memory=600)
def what_is_free():
    return zray.available_resources()


@zray.remote(num_cpus=0, memory=500)
class Keeper:
    def what_is_free(self):
        return zray.available_resources()


def test_what_asks_for_memory_has_it_while_it_runs(start):
    start(num_cpus=4, _memory=1_000)
    total = zray.cluster_resources()
    assert (total["CPU"], total["memory"]) == (4.0, 1_000.0)
    assert [free["memory"] for free in zray.get([what_is_free.remote() for _ in range(8)], timeout=30)] == [400.0] * 8
    keeper = Keeper.remote()
    assert zray.get(keeper.what_is_free.remote(), timeout=30)["memory"] == 500.0
    assert zray.get(what_is_free.options(memory=0.5e3).remote(), timeout=30).get("memory") is None
    with pytest.raises(zray.exceptions.TaskUnschedulableError, match="2,000 bytes of memory.*_memory=2000"):
        zray.get(what_is_free.options(memory=2_000).remote(), timeout=30)


def test_a_bundle_has_memory(start):
    start(num_cpus=2, _memory=1_000)
    group = placement_group([{"CPU": 1, "memory": 700}])
    assert group.wait(30) and group.bundle_specs == [{"CPU": 1.0, "memory": 700.0}]
    inside = PlacementGroupSchedulingStrategy(group)
    assert zray.get(what_is_free.options(scheduling_strategy=inside).remote(), timeout=30)["memory"] == 300.0
    with pytest.raises(ValueError, match="fits into no bundle of the placement group"):
        what_is_free.options(memory=800, scheduling_strategy=inside).remote()
    remove_placement_group(group)


def test_it_goes_to_the_node_that_has_so_much(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "memory": 100}) as cluster:
        large = cluster.add_node(num_cpus=1, memory=10**12)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            where = zray.remote(lambda: zray.get_runtime_context().get_node_id()).options(memory=10**9)
            assert zray.get([where.remote() for _ in range(3)], timeout=30) == [large.node_id] * 3


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"memory": -1}, ValueError),
        ({"memory": float("nan")}, ValueError),
        ({"memory": 1e15}, ValueError),
        ({"memory": "1 GB"}, TypeError),
        ({"memory": True}, TypeError),
        ({"resources": {"memory": 1}}, ValueError),
    ],
    ids=str,
)
def test_wrong_amounts_are_refused(wrong, error):
    with pytest.raises(error, match="memory"):
        zray.remote(**wrong)(lambda: 1)
    if "memory" in wrong:
        with pytest.raises(error, match="memory"):
            placement_group([wrong])


def test_a_session_refuses_wrong_memory():
    for wrong, error in ((-1, ValueError), ("all", TypeError)):
        with pytest.raises(error, match="memory"):
            zray.init(_memory=wrong)
    with pytest.raises(ValueError, match="_memory is an option of new sessions"):
        zray.init(address="auto", _memory=1)


def test_consumers_go_ahead_of_makers_whose_results_would_fill_the_store(start):
    start(num_cpus=2, object_store_memory=80_000_000)

    @zray.remote
    def make(value):
        return np.full(2_500_000, value)

    @zray.remote
    def total(values):
        return float(values.sum())

    refs = [total.remote(make.remote(float(value))) for value in range(12)]  # 240 MB in all
    assert zray.get(refs, timeout=60) == [2_500_000.0 * value for value in range(12)]


def test_arguments_of_reclaimed_tasks_leave_the_store_while_their_first_worker_is_busy(start, tmp_path):
    start(num_cpus=2)
    opened, *gates = (Gate(tmp_path / name) for name in ("opened", "first", "second"))
    opened.open()

    @zray.remote
    def run(values, gate):
        gate.wait()
        return len(values)

    values = [zray.put(np.zeros(1_000_000)) for _ in range(2)]
    zray.get([run.remote([], opened) for _ in range(9)])  # brief so far: several are sent along
    holds = [run.remote([], gate) for gate in gates]
    sizes = [run.remote(value, opened) for value in values]  # sent along, behind the calls of `hold`
    until(lambda: len(list_tasks(filters=[("state", "=", "RUNNING")])) == 2)
    gates[0].open()
    assert zray.get(sizes) == [1_000_000, 1_000_000]
    del values
    until(lambda: store_used() == 0)
    gates[1].open()
    zray.get(holds)
