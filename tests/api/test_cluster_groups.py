"""Placement groups on a cluster of three: real processes."""

import pytest

import zray
from tests.gates import Tally, nothing_is_held, until
from zray.cluster_utils import Cluster
from zray.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    TaskPlacementGroupRemoved,
    TaskUnschedulableError,
)
from zray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

pytestmark = pytest.mark.slow

SECONDS = 40


def a_cluster():
    """A head with one CPU, two nodes with two."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=2)
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    return cluster


@pytest.fixture(scope="module")
def cluster(nothing_left):
    with a_cluster() as cluster:
        yield cluster


@pytest.fixture
def driver(cluster):
    """All is free before each test."""
    with zray.init(address=cluster.address) as found:
        until(nothing_is_held, SECONDS)
        yield found


def in_group(group, index=-1):
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, index)}


def places_of(group):
    """The node of each bundle."""
    return list(placement_group_table(group)["bundles_to_node_id"].values())


@zray.remote
def where(number=0):
    return zray.get_runtime_context().get_node_id()


@zray.remote(num_cpus=1)
class Resident:
    def where(self):
        return zray.get_runtime_context().get_node_id()


@zray.remote
def wait_at(gate, tally):
    tally.visit()
    gate.wait(SECONDS)


def test_each_bundle_on_a_node_of_its_own(driver, cluster):
    group = placement_group([{"CPU": 1}] * 3, "STRICT_SPREAD")
    assert group.wait(SECONDS)
    places = places_of(group)
    assert sorted(places) == sorted(node.node_id for node in cluster.list_all_nodes())
    for index, place in enumerate(places):
        refs = [where.options(**in_group(group, index)).remote() for _ in range(4)]
        assert set(zray.get(refs, timeout=SECONDS)) == {place}
    residents = [Resident.options(**in_group(group, index)).remote() for index in range(3)]
    assert zray.get([resident.where.remote() for resident in residents], timeout=SECONDS) == places


def test_all_bundles_on_one_node(driver, cluster):
    group = placement_group([{"CPU": 1}, {"CPU": 1}], "STRICT_PACK")
    assert group.wait(SECONDS)
    (place,) = set(places_of(group))
    assert place in {node.node_id for node in cluster.worker_nodes}
    assert set(zray.get([where.options(**in_group(group)).remote() for _ in range(8)], timeout=SECONDS)) == {place}
    # The view of the other node is from now on 0 or 2 free CPUs: an earlier report may have said 1.
    other = placement_group([{"CPU": 2}])
    assert other.wait(SECONDS)
    remove_placement_group(other)
    packed = placement_group([{"CPU": 1}, {"CPU": 1}], "PACK")
    assert packed.wait(SECONDS)
    assert len(set(places_of(packed))) == 1


def test_spread_over_as_many_nodes_as_there_are(driver):
    # All CPUs of the cluster: four bundles would fit on two nodes while the report of the third is under way.
    group = placement_group([{"CPU": 1}] * 5, "SPREAD")
    assert group.wait(SECONDS)
    assert len(set(places_of(group))) == 3
    refs = [where.options(**in_group(group)).remote(number) for number in range(40)]
    assert set(zray.get(refs, timeout=SECONDS)) == set(places_of(group))


def test_one_group_waits_for_another_and_holds_nothing_meanwhile(driver):
    first = placement_group([{"CPU": 2}])
    assert first.wait(SECONDS)
    second = placement_group([{"CPU": 2}, {"CPU": 2}], "STRICT_SPREAD")
    ref = where.options(num_cpus=2, **in_group(second, 1)).remote()
    third = placement_group([{"CPU": 2}])  # the other of the two nodes is free for it
    assert third.wait(SECONDS)
    assert placement_group_table(second)["state"] == "PENDING"
    remove_placement_group(third)
    remove_placement_group(first)
    assert second.wait(SECONDS)
    assert zray.get(ref, timeout=SECONDS) == places_of(second)[1]


def test_a_removed_group_ends_what_runs_in_it_on_all_nodes(driver, gate, tmp_path):
    tally = Tally(tmp_path / "tally")
    group = placement_group([{"CPU": 1}] * 3, "STRICT_SPREAD")
    running = [wait_at.options(**in_group(group, index)).remote(gate, tally) for index in range(2)]
    resident = Resident.options(**in_group(group, 2)).remote()
    zray.get(resident.where.remote(), timeout=SECONDS)
    until(lambda: tally.count() == 2, SECONDS)
    queued = [where.options(**in_group(group, index)).remote() for index in range(3)]
    remove_placement_group(group)
    for ref in [*running, *queued]:
        with pytest.raises(TaskPlacementGroupRemoved, match="was removed"):
            zray.get(ref, timeout=SECONDS)
    with pytest.raises(ActorPlacementGroupRemoved, match="was removed"):
        zray.get(resident.where.remote(), timeout=SECONDS)
    until(nothing_is_held, SECONDS)


@zray.remote
def look_for(name):
    group = get_placement_group(name)
    return group, group.bundle_specs, zray.get(where.options(**in_group(group)).remote(), timeout=SECONDS)


def test_a_group_is_found_by_its_name_on_any_node(driver, cluster):
    group = placement_group([{"CPU": 1}], name="by name")
    assert group.wait(SECONDS)
    for node in cluster.worker_nodes:
        there = NodeAffinitySchedulingStrategy(node.node_id)
        found = zray.get(look_for.options(scheduling_strategy=there).remote("by name"), timeout=SECONDS)
        assert found == (group, [{"CPU": 1.0}], places_of(group)[0])


def test_groups_end_with_their_driver_but_for_detached_ones(cluster):
    with zray.init(address=cluster.address, namespace="of groups"):
        assert placement_group([{"CPU": 1}] * 2, "SPREAD").wait(SECONDS)
        placement_group([{"CPU": 100}])  # without a place
        stays = placement_group([{"CPU": 1}], name="stays", lifetime="detached")
        assert stays.wait(SECONDS)
    with zray.init(address=cluster.address, namespace="of groups"):
        until(lambda: list(placement_group_table()) == [stays.id.hex()], SECONDS)
        until(lambda: zray.available_resources()["CPU"] == 4, SECONDS)
        group = get_placement_group("stays")
        assert zray.get(where.options(**in_group(group)).remote(), timeout=SECONDS) == places_of(group)[0]
        remove_placement_group(group)
        until(nothing_is_held, SECONDS)


def test_what_no_nodes_can_ever_hold(cluster):
    with zray.init(address=cluster.address, infeasible="raise"):
        with pytest.raises(TaskUnschedulableError, match="of 3 nodes the largest .* has 2 CPU"):
            placement_group([{"CPU": 3}]).wait(SECONDS)
        with pytest.raises(TaskUnschedulableError, match="each on a node of its own, and has 3 nodes"):
            placement_group([{"CPU": 1}] * 4, "STRICT_SPREAD").wait(SECONDS)


def test_a_group_that_was_given_up_is_tried_again_with_a_node_that_joins(nothing_left):
    with (
        Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster,
        zray.init(address=cluster.address, infeasible="raise"),
    ):
        group = placement_group([{"CPU": 1}, {"disk": 1}])
        for _ in range(2):
            with pytest.raises(TaskUnschedulableError):
                zray.get(group.ready(), timeout=SECONDS)
        with pytest.raises(TaskUnschedulableError):
            group.wait(SECONDS)
        assert placement_group_table(group)["state"] == "UNSCHEDULABLE"
        node = cluster.add_node(num_cpus=1, resources={"disk": 1})
        until(lambda: placement_group_table(group)["state"] == "CREATED", SECONDS)
        assert zray.get(group.ready(), timeout=SECONDS) == group
        assert group.wait(SECONDS)
        assert places_of(group)[1] == node.node_id


@zray.remote(num_cpus=0, resources={"disk": 0.5}, max_restarts=2, max_task_retries=-1)
class Survivor:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count, zray.get_runtime_context().get_node_id()


@zray.remote(num_cpus=0, resources={"disk": 0.5})
def pass_gate(gate, tally):
    tally.visit()
    gate.wait(SECONDS)
    return zray.get_runtime_context().get_node_id()


def test_what_runs_in_a_bundle_goes_on_where_that_is_moved(nothing_left, gate, tmp_path):
    tally = Tally(tmp_path / "tally")
    with (
        Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster,
        zray.init(address=cluster.address),
    ):
        first = cluster.add_node(num_cpus=1, resources={"disk": 1})
        group = placement_group([{"disk": 1}])
        assert group.wait(SECONDS)
        survivor = Survivor.options(**in_group(group)).remote()
        mortal = Survivor.options(num_cpus=0, resources={}, max_restarts=0, **in_group(group, 0)).remote()
        assert zray.get([survivor.add.remote(), survivor.add.remote()], timeout=SECONDS)[1] == (2, first.node_id)
        zray.get(mortal.add.remote(), timeout=SECONDS)
        running = pass_gate.options(**in_group(group, 0)).remote(gate, tally)
        until(lambda: tally.count() == 1, SECONDS)
        cluster.remove_node(first)
        asked = survivor.add.remote()
        second = cluster.add_node(num_cpus=1, resources={"disk": 1})
        assert zray.get(asked, timeout=SECONDS) == (1, second.node_id)
        with pytest.raises(ActorDiedError):
            zray.get(mortal.add.remote(), timeout=SECONDS)
        until(lambda: tally.count() == 2, SECONDS)
        gate.open()
        assert zray.get(running, timeout=SECONDS) == places_of(group)[0] == second.node_id
        assert placement_group_table(group)["state"] == "CREATED"


def test_a_group_waits_for_a_node_and_survives_the_death_of_one(nothing_left):
    with a_cluster() as cluster, zray.init(address=cluster.address):
        group = placement_group([{"disk": 1}, {"disk": 1}], "STRICT_SPREAD")
        disk = {"num_cpus": 0, "resources": {"disk": 1}}
        refs = [where.options(**disk, **in_group(group, index)).remote() for index in range(2)]
        nodes = [cluster.add_node(num_cpus=1, resources={"disk": 1})]
        assert not group.wait(0)
        nodes.append(cluster.add_node(num_cpus=1, resources={"disk": 1}))
        assert group.wait(SECONDS)
        assert zray.get(refs, timeout=SECONDS) == places_of(group)
        assert set(places_of(group)) == {node.node_id for node in nodes}
        doomed = next(node for node in nodes if node.node_id == places_of(group)[1])
        (other,) = (node for node in nodes if node is not doomed)
        cluster.remove_node(doomed)
        until(lambda: placement_group_table(group)["state"] == "RESCHEDULING", SECONDS)
        assert places_of(group) == [other.node_id, ""]
        late = where.options(**disk, **in_group(group, 1)).remote()
        there = where.options(**disk, **in_group(group, 0)).remote()
        assert zray.get(there, timeout=SECONDS) == other.node_id
        new = cluster.add_node(num_cpus=1, resources={"disk": 1})
        assert zray.get(late, timeout=SECONDS) == new.node_id
        assert placement_group_table(group)["state"] == "CREATED"
