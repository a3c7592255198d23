"""Where tasks and actors of real programs go."""

import pytest

import zray
from tests.gates import until
from zray.api.cluster_info import ask_for_nodes
from zray.cluster_utils import Cluster
from zray.exceptions import ActorUnschedulableError, TaskUnschedulableError
from zray.options.remote_options import where_of_actor
from zray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)
from zray.wire.where import LabelRule, Where


@zray.remote
def where():
    return zray.get_runtime_context().get_node_id()


@pytest.mark.parametrize("schedulers", [1, 2])
@pytest.mark.parametrize("policy", ["bottom_up", "central", "random", "no_locality"])
def test_the_policy_says_which_tasks_leave_their_node(policy, schedulers, nothing_left):
    """One task at a time: unless all go up, they stay where they are submitted."""
    head = {"num_cpus": 1, "policy": policy, "global_schedulers": schedulers}
    with Cluster(initialize_head=True, head_node_args=head) as cluster:
        large = cluster.add_node(num_cpus=4)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address) as driver:
            places = {zray.get(where.remote(), timeout=20) for _ in range(12)}
            if policy == "central":
                assert large.node_id in places
            else:
                assert places == {driver["node_id"]}


def test_a_policy_that_is_none_is_refused(nothing_left):
    with pytest.raises(ValueError, match="bottom_up, central, random, no_locality"):
        Cluster(initialize_head=True, head_node_args={"policy": "chaos"})


SPREAD = Where(is_spread=True)
SSD = (LabelRule("disk", ("ssd",)),)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, SPREAD),
        ({"scheduling_strategy": "DEFAULT", "num_gpus": 1}, SPREAD),
        ({"num_cpus": None, "label_selector": {"disk": "ssd"}}, Where(is_spread=True, hard=SSD)),
        ({"num_cpus": 0}, None),
        ({"num_cpus": 1, "scheduling_strategy": "DEFAULT"}, None),
        ({"scheduling_strategy": NodeAffinitySchedulingStrategy("one", soft=True)}, Where("one", is_soft=True)),
    ],
)
def test_actors_are_spread_unless_they_name_their_cpus_or_their_node(options, place):
    assert where_of_actor(options, {}) == place


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head with one CPU; two nodes with two, of which the first has a fast disk."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "labels": {"zone": "a"}}) as cluster:
        cluster.add_node(num_cpus=2, labels={"zone": "a", "disk": "ssd"})
        cluster.add_node(num_cpus=2, labels={"zone": "b"})
        cluster.wait_for_nodes()
        yield cluster


@pytest.fixture
def driver(cluster):
    with zray.init(address=cluster.address) as found:
        yield found


@pytest.fixture
def ids(cluster):
    return [node.node_id for node in cluster.list_all_nodes()]


@zray.remote
class Resident:
    def where(self):
        return zray.get_runtime_context().get_node_id()


def places(count=4, **options):
    """Of so many tasks, and of an actor."""
    found = zray.get([where.options(**options).remote() for _ in range(count)], timeout=20)
    resident = Resident.options(**{"num_cpus": 0, **options}).remote()
    return {*found, zray.get(resident.where.remote(), timeout=20)}


def test_tasks_and_actors_run_on_the_node_they_name(driver, ids):
    for node in ids:
        assert places(scheduling_strategy=NodeAffinitySchedulingStrategy(node)) == {node}


def test_more_tasks_than_a_node_can_run_at_once_wait_for_it(driver, ids):
    assert places(40, scheduling_strategy=NodeAffinitySchedulingStrategy(ids[0])) == {ids[0]}
    assert places(40, scheduling_strategy=NodeAffinitySchedulingStrategy(ids[2], soft=True)) == {ids[2]}


def test_a_node_that_is_not_there_is_an_error_or_replaced(driver, ids):
    strategy = NodeAffinitySchedulingStrategy("0123456789abcdef", soft=True)
    assert places(scheduling_strategy=strategy) <= set(ids)
    strategy = NodeAffinitySchedulingStrategy("0123456789abcdef", soft=False)
    with pytest.raises(TaskUnschedulableError, match="node 0123456789abcdef, which is not in the cluster"):
        zray.get(where.options(scheduling_strategy=strategy).remote(), timeout=20)
    with pytest.raises(ActorUnschedulableError, match=r"node 0123456789abcdef, which is not in the cluster\.$"):
        zray.get(Resident.options(scheduling_strategy=strategy).remote().where.remote(), timeout=20)


def test_what_its_node_could_never_hold_is_an_error(driver, ids):
    strategy = NodeAffinitySchedulingStrategy(ids[1])
    with pytest.raises(TaskUnschedulableError, match="it asks for 3 CPU; the largest node"):
        zray.get(where.options(num_cpus=3, scheduling_strategy=strategy).remote(), timeout=20)


def or_else(*selectors):
    return [{"label_selector": selector} for selector in selectors]


def zone(name, **labels):
    """Of what asks for nothing: so that is free."""
    return {"num_cpus": 0, "label_selector": {"zone": name, **labels}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scheduling_strategy": NodeLabelSchedulingStrategy(hard={"disk": Exists()})}, [1]),
        ({"scheduling_strategy": NodeLabelSchedulingStrategy(hard={"zone": In("b", "c")})}, [2]),
        ({"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": NotIn("b"), "disk": DoesNotExist()})}, [0]),
        ({"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": In("a")}, {"disk": In("ssd")})}, [1]),
        ({"label_selector": {"zone": "b"}}, [2]),
        ({"label_selector": {"zone": "in(a, c)", "disk": "ssd"}}, [1]),
        ({"label_selector": {"zone": "!a"}}, [2]),
        ({"label_selector": {"zone": "!in(b)", "disk": "!ssd"}}, [0]),
        ({**zone("x"), "fallback_strategy": [{"label_selector": {"zone": "b"}}]}, [2]),
        ({**zone("x"), "fallback_strategy": or_else({"zone": "y"}, {"disk": "ssd"}, {})}, [1]),
        ({**zone("b"), "fallback_strategy": or_else({"disk": "ssd"})}, [2]),
        ({**zone("a", disk="!ssd"), "fallback_strategy": or_else({"zone": "b"}), "num_cpus": 2}, [2]),  # that has one
        (
            {
                "scheduling_strategy": NodeLabelSchedulingStrategy({"zone": In("a")}),
                "label_selector": {"disk": "hdd"},
                "fallback_strategy": or_else({"zone": "b"}, {"disk": "!ssd"}),
                "num_cpus": 0,
            },
            [0],
        ),
    ],
)
def test_labels_say_where(driver, ids, options, expected):
    assert places(**options) == {ids[number] for number in expected}


def test_labels_that_nobody_has_are_waited_for(cluster, driver):
    """As resources that nobody has: in a cluster a node may come that has them."""
    ref = where.options(label_selector={"zone": "d"}).remote()
    resident = Resident.options(label_selector={"zone": "d"}).remote()
    answer = resident.where.remote()
    assert zray.wait([ref, answer], timeout=0.5) == ([], [ref, answer])
    node = cluster.add_node(num_cpus=1, labels={"zone": "d"})
    assert zray.get([ref, answer], timeout=20) == [node.node_id] * 2
    cluster.remove_node(node)
    cluster.wait_for_nodes()


def test_spread_goes_from_node_to_node(driver, ids):
    refs = [where.options(num_cpus=0, scheduling_strategy="SPREAD").remote() for _ in range(30)]
    found = zray.get(refs, timeout=20)
    assert [found.count(node) for node in ids] == [10, 10, 10]
    # A node with tasks that wait, by its last report, is given actors after the others.
    until(lambda: not any(node.queue_count for node in ask_for_nodes()))
    residents = [Resident.options(num_cpus=0, scheduling_strategy="SPREAD").remote() for _ in range(6)]
    found = zray.get([resident.where.remote() for resident in residents], timeout=20)
    assert [found.count(node) for node in ids] == [2, 2, 2]


def test_labels_are_listed(driver, ids):
    by_id = {node["NodeID"]: node["Labels"] for node in zray.nodes()}
    assert by_id[ids[1]] == {"zone": "a", "disk": "ssd", "ray.io/node-id": ids[1]}
    asked = zray.remote(lambda: zray.get_runtime_context().get_node_labels())
    strategy = NodeAffinitySchedulingStrategy(ids[2])
    assert zray.get(asked.options(scheduling_strategy=strategy).remote(), timeout=20) == by_id[ids[2]]


def test_on_one_node_alone(start):
    start(num_cpus=1, labels={"disk": "ssd"})
    here = zray.get_runtime_context().get_node_id()
    for strategy in ("DEFAULT", "SPREAD", NodeAffinitySchedulingStrategy(here)):
        assert places(scheduling_strategy=strategy) == {here}
    assert places(label_selector={"disk": "ssd"}) == {here}
    with pytest.raises(TaskUnschedulableError, match=r"a node with disk in \(hdd\), and there is none"):
        zray.get(where.options(label_selector={"disk": "hdd"}).remote(), timeout=20)
    selectors = {"label_selector": {"disk": "hdd"}, "fallback_strategy": or_else({"disk": "tape"})}
    assert places(**{**selectors, "fallback_strategy": or_else({"disk": "tape"}, {"disk": "ssd"})}) == {here}
    with pytest.raises(
        TaskUnschedulableError, match=r"disk in \(hdd\), or else with disk in \(tape\), and there is none"
    ):
        zray.get(where.options(**selectors).remote(), timeout=20)
    with pytest.raises(ActorUnschedulableError, match=r"a node with no disk, and there is none"):
        strategy = NodeLabelSchedulingStrategy(hard={"disk": DoesNotExist()})
        zray.get(Resident.options(scheduling_strategy=strategy).remote().where.remote(), timeout=20)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scheduling_strategy": "EVERYWHERE"}, "DEFAULT"),
        ({"label_selector": ["a"]}, "a dict"),
        ({"label_selector": {"a": "in()"}}, "like"),
        ({"label_selector": {"a": ""}}, "empty"),
        ({"label_selector": {"a": 1}}, "must be a str"),
        ({"fallback_strategy": {"label_selector": {"a": "b"}}}, "list of dicts"),
        ({"fallback_strategy": [{"num_cpus": 1}]}, "nothing else"),
        ({"fallback_strategy": or_else({"a": "in()"})}, "like"),
    ],
)
def test_a_strategy_that_is_none_is_refused_at_the_door(options, error):
    with pytest.raises((TypeError, ValueError), match=error):
        where.options(**options)
    with pytest.raises((TypeError, ValueError), match=error):
        Resident.options(**options)


@pytest.mark.parametrize(
    "labels", [["a"], {"a": 1}, {"": "a"}, {"ray.io/node-id": "x"}, {"a\x1b": "b"}, {"a": "\u202eb"}, {"a": "b\n"}]
)
def test_labels_that_are_none_are_refused(labels, nothing_left):
    with pytest.raises((TypeError, ValueError), match="label"):
        zray.init(labels=labels)
