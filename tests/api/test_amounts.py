"""Amounts that users give: whole floats and numbers of numpy, thousands of resources, and what is refused."""

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.options.remote_options import ACTOR_OPTIONS, METHOD_OPTIONS, TASK_OPTIONS, check_options
from zray.util.placement_group import placement_group, validate_placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WHOLE = (
    "num_returns",
    "max_retries",
    "max_calls",
    "max_restarts",
    "max_task_retries",
    "max_concurrency",
    "checkpoint_interval",
    "placement_group_bundle_index",
)
VALID = {*TASK_OPTIONS, *ACTOR_OPTIONS, *METHOD_OPTIONS}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", [float, np.int64, np.uint8, np.float32], ids=lambda kind: kind.__name__)
def test_whole_number_of_any_type_is_an_int(name, kind):
    found = check_options({name: kind(3)}, tuple(VALID), "a test")[name]
    assert found == 3 and type(found) is int


@pytest.mark.parametrize("name", WHOLE)
def test_part_of_a_whole_number_is_refused(name):
    with pytest.raises(TypeError, match=f"{name} must be a whole number, not 1.5"):
        check_options({name: 1.5}, tuple(VALID), "a test")
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(TypeError, match=f"{name} must be a whole number, not {wrong}"):
            check_options({name: wrong}, tuple(VALID), "a test")
    for kind in ("1", True, 1j):
        with pytest.raises(TypeError, match=f"{name} must be a number"):
            check_options({name: kind}, tuple(VALID), "a test")


@pytest.mark.parametrize(
    "options",
    [{"max_calls": -1}, {"num_returns": -1}, {"max_retries": -2}, {"num_cpus": 0.00001}, {"resources": {"tape": 5e-5}}],
    ids=str,
)
def test_value_out_of_range_is_a_value_error(options):
    with pytest.raises(ValueError, match="must be|less than"):
        check_options(options, tuple(VALID), "a test")


@pytest.mark.parametrize("name", ["retry_exceptions", "lifetime", "scheduling_strategy", "name", "runtime_env"])
def test_value_of_a_wrong_type_is_a_type_error(name):
    with pytest.raises(TypeError, match="must be"):
        check_options({name: 0.5}, tuple(VALID), "a test")


def test_options_that_need_no_change_are_the_same():
    options = {"num_cpus": 1, "max_retries": 2, "resources": None}
    assert check_options(options, tuple(VALID), "a test") is options


def test_session_takes_floats_and_numbers_of_numpy(start):
    store, memory = np.float64(2e8), np.int64(10**9)
    start(
        num_cpus=2.0, object_store_memory=store, _memory=memory, resources={"disk": np.float32(2), "tape": np.int8(100)}
    )
    total = zray.cluster_resources()
    assert (total["CPU"], total["memory"], total["disk"], total["tape"]) == (2.0, 1e9, 2.0, 100.0)

    @zray.remote(num_returns=2.0, max_retries=1.0, num_cpus=np.float32(0.5), resources={"tape": np.int8(100)})
    def two():
        return 1, 2

    @zray.remote(max_restarts=1.0, max_concurrency=2.0, max_task_retries=-1.0)
    class Adder:
        @zray.method(num_returns=2.0)
        def add(self, value):
            return value, value + 1

    assert zray.get(two.remote()) == [1, 2]
    assert zray.get(Adder.remote().add.remote(1)) == [1, 2]
    group = placement_group([{"CPU": np.float32(1), "memory": np.int64(1000), "tape": np.int8(100)}])
    inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=np.int64(0))
    assert zray.get(two.options(scheduling_strategy=inside, num_cpus=1.0).remote(), timeout=30) == [1, 2]


def test_part_of_a_byte_of_the_store_is_refused():
    for wrong, error in ((2e8 + 0.5, ValueError), (1.0, ValueError), ("2e8", TypeError), (float("nan"), ValueError)):
        with pytest.raises(error, match="object_store_memory"):
            zray.init(object_store_memory=wrong)
        with pytest.raises(error, match="object_store_memory"):
            Cluster().add_node(object_store_memory=wrong)


def test_nodes_of_a_cluster_take_whole_floats(nothing_left):
    head = {"num_cpus": 1.0, "object_store_memory": 1e8, "gcs_shards": 1.0, "gcs_lineage_memory": 1e8}
    with Cluster(initialize_head=True, head_node_args=head) as cluster:
        cluster.add_node(num_cpus=np.float64(1), object_store_memory=1e8)
        with zray.init(address=cluster.address):
            until(lambda: zray.cluster_resources().get("CPU") == 2.0)


def test_node_of_ten_thousand_resources(nothing_left):
    """Each is found by the tasks that ask for it, on whichever node they were submitted."""
    names = {f"resource-{number}": 1 for number in range(10_000)}
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        node = cluster.add_node(num_cpus=1, resources=names)
        with zray.init(address=cluster.address):
            until(lambda: len(zray.cluster_resources()) > 10_000)
            where = zray.remote(lambda: zray.get_runtime_context().get_node_id())
            refs = [where.options(resources={f"resource-{number}": 1}).remote() for number in (0, 5_000, 9_999)]
            assert zray.get(refs, timeout=30) == [node.node_id] * 3
            until(lambda: zray.available_resources().get("resource-5000") == 1.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({f"r{number}": 1 for number in range(10_001)}, "names 10,001 resources; at most 10,000"),
        ({"node:10.0.0.1": 1}, "by itself"),
        ({"object_store_memory": 1}, "size of a node's object store"),
    ],
    ids=["too many", "of nodes", "store"],
)
def test_resources_that_no_node_declares(wrong, words):
    with pytest.raises(ValueError, match=words):
        zray.init(resources=wrong)


def test_resources_that_no_task_asks_for():
    with pytest.raises(ValueError, match="at most 1,000"):
        zray.remote(resources={f"r{number}": 1 for number in range(1_001)})(lambda: 1)
    with pytest.raises(ValueError, match="size of a node's object store"):
        zray.remote(resources={"object_store_memory": 1})(lambda: 1)
    with pytest.raises(ValueError, match="size of a node's object store"):
        validate_placement_group([{"object_store_memory": 1}])
