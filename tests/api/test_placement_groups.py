"""Placement groups on one node: reserved, used, removed."""

import pytest

import zray
from tests.gates import Tally, nothing_is_held, until
from zray.exceptions import ActorPlacementGroupRemoved, TaskPlacementGroupRemoved, TaskUnschedulableError
from zray.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from zray.util.placement_group import PlacementGroup, validate_placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

SECONDS = 30


@pytest.fixture(autouse=True)
def all_is_free_again(session):
    """Before and after each test: groups of one have no part in the next."""
    yield
    for group_id in placement_group_table():
        remove_placement_group(PlacementGroup(bytes.fromhex(group_id)))
    until(nothing_is_held, SECONDS)


def in_group(group, index=-1):
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, index)}


@zray.remote
def add(a, b):
    return a + b


@zray.remote
def surroundings():
    """The group, and what the task holds."""
    group = get_current_placement_group()
    held = zray.get_runtime_context().get_assigned_resources()
    return group, group and group.bundle_specs, held


@zray.remote
def pass_through(gate, tally=None):
    if tally is not None:
        tally.visit()
    gate.wait()
    return "passed"


@zray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

    def surroundings(self):
        return get_current_placement_group(), zray.get_runtime_context().get_assigned_resources()


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_tasks_run_in_a_group(strategy):
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy)
    assert group.bundle_specs == [{"CPU": 1.0}, {"CPU": 1.0}]
    assert group.bundle_count == 2
    assert zray.get(group.ready(), timeout=SECONDS) == group
    assert group.wait(SECONDS)
    until(lambda: "CPU" not in zray.available_resources(), SECONDS)
    refs = [add.options(**in_group(group, number % 3 - 1)).remote(number, 1) for number in range(30)]
    assert zray.get(refs, timeout=SECONDS) == list(range(1, 31))
    found = zray.get(surroundings.options(**in_group(group)).remote(), timeout=SECONDS)
    assert found == (group, [{"CPU": 1.0}, {"CPU": 1.0}], {"CPU": 1.0})
    assert get_current_placement_group() is None


def test_no_more_runs_at_once_than_a_bundle_has(gate):
    group = placement_group([{"CPU": 0.5}])
    half = {"num_cpus": 0.5, **in_group(group, 0)}
    first = pass_through.options(**half).remote(gate)
    second = add.options(**half).remote(1, 1)
    assert zray.get(add.remote(1, 2), timeout=SECONDS) == 3  # beside the group there is room
    assert zray.wait([second], timeout=0)[0] == []
    gate.open()
    assert zray.get([first, second], timeout=SECONDS) == ["passed", 2]


def test_actors_live_in_bundles():
    group = placement_group([{"CPU": 1}, {"CPU": 0.5}])
    one = Counter.options(num_cpus=1, **in_group(group)).remote()
    other = Counter.options(num_cpus=0.5, **in_group(group, 1)).remote()
    assert zray.get([one.add.remote(), other.add.remote(), one.add.remote()], timeout=SECONDS) == [1, 1, 2]
    assert zray.get(other.surroundings.remote(), timeout=SECONDS) == (group, {"CPU": 0.5})


def test_a_group_waits_until_there_is_room_for_all_of_it():
    first = placement_group([{"CPU": 1.5}])
    assert first.wait(SECONDS)
    second = placement_group([{"CPU": 0.5}, {"CPU": 0.5}])
    ref = add.options(num_cpus=0.5, **in_group(second)).remote(1, 1)
    assert not second.wait(0)
    assert placement_group_table(second)["state"] == "PENDING"
    assert set(placement_group_table(second)["bundles_to_node_id"].values()) == {""}
    until(lambda: zray.available_resources().get("CPU") == 0.5, SECONDS)  # no part of it is held meanwhile
    remove_placement_group(first)
    assert second.wait(SECONDS)
    assert zray.get(ref, timeout=SECONDS) == 2


def test_a_removed_group_ends_what_runs_and_waits_in_it(gate, tmp_path):
    tally = Tally(tmp_path / "tally")
    group = placement_group([{"CPU": 1}])
    actor = Counter.options(num_cpus=0, **in_group(group)).remote()
    assert zray.get(actor.add.remote(), timeout=SECONDS) == 1
    running = pass_through.options(**in_group(group)).remote(gate, tally)
    until(tally.count, SECONDS)
    queued = add.options(**in_group(group)).remote(1, 1)
    after_it = add.remote(queued, 1)
    remove_placement_group(group)
    late = add.options(**in_group(group)).remote(1, 1)
    for ref in (running, queued, after_it, late):
        with pytest.raises(TaskPlacementGroupRemoved, match="was removed"):
            zray.get(ref, timeout=SECONDS)
    with pytest.raises(ActorPlacementGroupRemoved, match="remove_placement_group"):
        zray.get(actor.add.remote(), timeout=SECONDS)
    with pytest.raises(TaskPlacementGroupRemoved):
        group.wait(SECONDS)
    remove_placement_group(group)  # once more
    assert placement_group_table(group)["state"] == "REMOVED"
    assert zray.get(add.remote(1, 1), timeout=SECONDS) == 2


def test_what_no_node_can_ever_hold_is_an_error_that_says_so():
    group = placement_group([{"CPU": 2}, {"CPU": 1}])
    with pytest.raises(TaskUnschedulableError, match=r"\{2 CPU\}, \{1 CPU\}; the only node .* has 2 CPU.*num_cpus=3"):
        group.wait(SECONDS)
    row = placement_group_table(group)
    assert (row["state"], row["stats"]["scheduling_state"]) == ("UNSCHEDULABLE", "INFEASIBLE")
    with pytest.raises(TaskUnschedulableError, match="each on a node of its own, and has 1 node.*Use another strategy"):
        placement_group([{"CPU": 1}, {"CPU": 1}], "STRICT_SPREAD").wait(SECONDS)


def test_names():
    group = placement_group([{"CPU": 1}], name="the group")
    assert get_placement_group("the group") == group
    assert get_placement_group("the group").bundle_specs == [{"CPU": 1.0}]
    with pytest.raises(ValueError, match="exists already"):
        placement_group([{"CPU": 1}], name="the group")
    remove_placement_group(group)
    with pytest.raises(ValueError, match="no placement group named 'the group'"):
        get_placement_group("the group")
    assert placement_group([{"CPU": 1}], name="the group") != group


def test_the_table():
    group = placement_group([{"CPU": 0.5}, {"CPU": 1}], name="of two")
    assert group.wait(SECONDS)
    row = placement_group_table(group)
    assert placement_group_table() == {group.id.hex(): row}
    node = zray.nodes()[0]["NodeID"]
    assert row == {
        "placement_group_id": group.id.hex(),
        "name": "of two",
        "bundles": {0: {"CPU": 0.5}, 1: {"CPU": 1.0}},
        "bundles_to_node_id": {0: node, 1: node},
        "strategy": "PACK",
        "state": "CREATED",
        "stats": {"scheduling_state": "FINISHED"},
    }


@zray.remote
def with_a_group_of_its_own():
    """It waits for what runs in a group that is made of the CPU that it lends out meanwhile."""
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    values = zray.get([add.options(**in_group(group)).remote(number, 1) for number in range(4)], timeout=SECONDS)
    remove_placement_group(group)
    return values


def test_tasks_make_groups():
    assert zray.get(with_a_group_of_its_own.remote(), timeout=SECONDS) == [1, 2, 3, 4]


@zray.remote(num_cpus=0.5)
def in_which_group():
    return get_current_placement_group()


@zray.remote
def children_of(ways):
    """Where children run, by what their options say; once more for one whose options were encoded before."""
    context = zray.get_runtime_context()
    found = [zray.get(in_which_group.options(**way).remote(), timeout=SECONDS) for way in ways]
    actor = Counter.remote()
    of_actor, _ = zray.get(actor.surroundings.remote(), timeout=SECONDS)
    return context.should_capture_child_tasks_in_placement_group, found, of_actor


@zray.remote
class Parent:
    def children_of(self, ways):
        return zray.get(children_of.remote(ways), timeout=SECONDS)

    async def child(self):
        return await in_which_group.remote()


WAYS = (
    {},
    {"scheduling_strategy": "DEFAULT"},
    {"scheduling_strategy": PlacementGroupSchedulingStrategy(None)},
    {"placement_group": None},
    {"placement_group": PlacementGroup.empty()},
    {"placement_group_bundle_index": 1},
)


def test_children_are_captured():
    group = placement_group([{"CPU": 0.5}, {"CPU": 1}])
    captured = [group, None, None, None, None, group]
    strategy = PlacementGroupSchedulingStrategy(group, 1, placement_group_capture_child_tasks=True)
    caught = children_of.options(scheduling_strategy=strategy)
    assert zray.get(caught.remote(WAYS), timeout=SECONDS) == (True, captured, group)
    free = children_of.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, 1))
    # In the same workers: what they have encoded of a captured child says nothing of one that is not.
    assert zray.get(free.remote(WAYS[:5]), timeout=SECONDS) == (False, [None] * 5, None)
    assert zray.get(caught.remote(WAYS), timeout=SECONDS) == (True, captured, group)
    parent = Parent.options(scheduling_strategy=strategy).remote()
    assert zray.get(parent.child.remote(), timeout=SECONDS) == group
    assert zray.get(parent.children_of.remote(WAYS), timeout=SECONDS) == (True, captured, group)


@zray.remote(num_cpus=0)
def wants_more_than_there_is():
    return zray.get(add.options(num_cpus=2).remote(1, 1), timeout=SECONDS)


def test_a_captured_child_that_no_bundle_has_room_for():
    strategy = PlacementGroupSchedulingStrategy(placement_group([{"CPU": 1}]), -1, True)
    with pytest.raises(TaskUnschedulableError, match="asks for 2 CPU"):
        zray.get(wants_more_than_there_is.options(scheduling_strategy=strategy).remote(), timeout=SECONDS)


def test_the_older_spelling():
    group = placement_group([{"CPU": 1}, {"CPU": 0.5}])
    there = {"placement_group": group, "placement_group_bundle_index": 0}
    assert zray.get(surroundings.options(**there).remote(), timeout=SECONDS)[0] == group
    counter = Counter.options(num_cpus=0.5, placement_group=group, placement_group_bundle_index=1).remote()
    assert zray.get(counter.surroundings.remote(), timeout=SECONDS)[0] == group
    catching = children_of.options(**there, placement_group_capture_child_tasks=True)
    assert zray.get(catching.remote([{}]), timeout=SECONDS) == (True, [group], group)
    assert zray.get(in_which_group.options(placement_group="default").remote(), timeout=SECONDS) is None
    with pytest.raises(ValueError, match="no bundle of the placement group"):
        surroundings.options(placement_group=group, placement_group_bundle_index=1).remote()
    with pytest.raises(ValueError, match="2 bundles"):
        surroundings.options(placement_group=group, placement_group_bundle_index=2).remote()
    with pytest.raises(ValueError, match="needs placement_group, which is not given"):
        surroundings.options(placement_group_bundle_index=0).remote()
    with pytest.raises(ValueError, match="not by both"):
        surroundings.options(**there, **in_group(group)).remote()
    with pytest.raises(TypeError, match="PlacementGroup"):
        surroundings.options(placement_group="group")


@zray.remote
class Maker:
    def make(self):
        return placement_group([{"CPU": 1}])


def test_a_group_ends_with_the_actor_that_made_it():
    maker = Maker.remote()
    group = zray.get(maker.make.remote(), timeout=SECONDS)
    assert group.wait(SECONDS)
    zray.kill(maker)
    until(lambda: placement_group_table(group)["state"] == "REMOVED", SECONDS)


@pytest.mark.parametrize(
    "bundles, strategy, lifetime, said",
    [
        ([], "PACK", None, "from 1 to 1000 bundles"),
        ([{}], "PACK", None, "empty"),
        ([{"CPU": 0}], "PACK", None, "empty"),
        ([{"CPU": 1}, {"CPU": -1}], "PACK", None, "from 0"),
        ([{"CPU": float("nan")}], "PACK", None, "from 0"),
        ([{"": 1}], "PACK", None, "name"),
        ([{"CPU\0": 1}], "PACK", None, "name"),
        ({"CPU": 1}, "PACK", None, "list"),
        (["CPU"], "PACK", None, "dict"),
        ([{"CPU": 1}], "LOOSE", None, "PACK, SPREAD, STRICT_PACK, STRICT_SPREAD"),
        ([{"CPU": 1}], "PACK", "long", "detached"),
    ],
)
def test_bad_groups_are_refused_where_they_are_made(bundles, strategy, lifetime, said):
    with pytest.raises(ValueError, match=said):
        placement_group(bundles, strategy, lifetime=lifetime)
    with pytest.raises(ValueError, match=said):
        validate_placement_group(bundles, strategy, lifetime)


def test_bad_uses_are_refused_where_they_are_made():
    group = placement_group([{"CPU": 1}])
    with pytest.raises(ValueError, match="the placement group has 1 bundle: indexes count"):
        PlacementGroupSchedulingStrategy(group, 1)
    with pytest.raises(TypeError, match="PlacementGroup"):
        PlacementGroupSchedulingStrategy("group")
    with pytest.raises(ValueError, match="no bundle of the placement group"):
        add.options(num_cpus=2, **in_group(group)).remote(1, 1)
    with pytest.raises(ValueError, match="no bundle of the placement group"):
        Counter.options(resources={"disk": 1}, **in_group(group)).remote()
    with pytest.raises(TypeError, match="number"):
        placement_group([{"CPU": "1"}])
    assert zray.get(add.options(**in_group(None)).remote(1, 1), timeout=SECONDS) == 2
