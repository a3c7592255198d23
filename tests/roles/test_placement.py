"""The global scheduler: placement against a dumb version, and its few messages."""

from hypothesis import given, settings
from hypothesis import strategies as st

from zray.roles.effects import Send
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.global_scheduler import scheduler as global_scheduler
from zray.roles.global_scheduler.placement import NodeLoad, best_home, best_node, eligible, next_in_turn, random_node
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.hosts import GetNodes
from zray.wire.scheduling import (
    NO_LOCALITY,
    LoadReport,
    LocateObjects,
    LocateObjectsReply,
    PlaceTask,
    SpillRefused,
    SpillTask,
    TaskDeferred,
    TaskPlaced,
)
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, TaskSpec, encode_options
from zray.wire.where import LabelRule, Where

CPU = {"CPU": RESOURCE_UNIT}

amounts = st.fixed_dictionaries({"CPU": st.integers(0, 4).map(lambda count: count * RESOURCE_UNIT)})
loads = st.builds(
    NodeLoad,
    node=st.sampled_from(["n1", "n2", "n3", "n4"]),
    total=amounts,
    free=amounts,
    queue_count=st.integers(0, 50),
    task_s_mean=st.sampled_from([0.0, 0.001, 0.1, 5.0]),
    bandwidth_bytes_per_s=st.sampled_from([1e6, 1e9]),
    held=amounts,
    waiting_count=st.integers(0, 3),
)
objects = st.tuples(st.binary(min_size=20, max_size=20), st.integers(0, 10**9), st.lists(st.sampled_from(["n1", "n2"])))


def wait_in_words(load, known, equals):
    """Ray paper 4.2.2: queue x mean task time / slots + bytes to fetch / bandwidth."""
    missing = 0
    for _, size, holders in known:
        if load.node not in holders:
            missing += size
    seconds = missing / load.bandwidth_bytes_per_s
    if load.queue_count == 0 and load.waiting_count == 0 and load.free["CPU"] >= RESOURCE_UNIT:
        return seconds
    mean = load.task_s_mean if load.task_s_mean else 0.01
    slots = max(1, (load.total["CPU"] - load.held["CPU"]) // RESOURCE_UNIT)
    return (load.queue_count + equals * load.waiting_count + 0.5) * mean / slots + seconds


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.lists(loads, max_size=4, unique_by=lambda load: load.node),
    st.lists(objects, max_size=3),
    st.sampled_from([1, 3]),
)
def test_the_best_node_is_the_one_of_the_least_wait(candidates, known, equals):
    chosen = best_node(candidates, CPU, known, 0.01, equals)
    able = [load for load in candidates if load.total["CPU"] - load.held["CPU"] >= RESOURCE_UNIT]
    if not able:
        assert chosen is None
        return
    ranked = sorted(able, key=lambda load: (wait_in_words(load, known, equals), -load.free["CPU"], load.node))
    assert chosen is not None
    assert chosen.node == ranked[0].node


TWO = {"CPU": 2 * RESOURCE_UNIT}


def report_of(node, free=TWO, queue_count=0, placed_count=0, mean=0.0):
    return LoadReport(node, TWO, free, queue_count, mean, 1e9, {}, placed_count)


def test_what_was_placed_first_takes_what_is_free_and_then_waits():
    load = NodeLoad("n1", TWO, dict(TWO), 0, 1.0, 1e9)
    for _ in range(2):
        assert load.estimated_wait_s(CPU, 0, 1.0, 1) == 0.0
        load.assign(CPU)
    assert load.estimated_wait_s(CPU, 0, 1.0, 1) == 0.25  # half a second is left of each of the two
    load.assign(CPU)
    assert load.estimated_wait_s(CPU, 0, 1.0, 1) == 0.75


def test_a_node_that_lacks_a_resource_has_enough_where_none_of_it_is_asked():
    load = NodeLoad("n1", {}, {}, 0, 0.0, 1e9)
    load.assign({"CPU": 0})
    assert load.starts_at_once({"CPU": 0})


def test_what_is_under_way_to_a_node_is_not_in_its_report():
    """It was made before the last one of three had arrived."""
    load = NodeLoad("n1", TWO, dict(TWO), 0, 1.0, 1e9)
    for _ in range(3):
        load.assign(CPU)
    load.renew(report_of("n1", free={"CPU": 0}, placed_count=2))
    assert (load.waiting_count, len(load.unreported)) == (1, 1)
    load.renew(report_of("n1", free={"CPU": 0}, queue_count=1, placed_count=3))
    assert (load.waiting_count, len(load.unreported)) == (0, 0)


def test_a_node_that_knows_nothing_of_its_tasks_is_taken_for_one_of_many():
    """Or all that one of many could do would go to the newcomer."""
    old = NodeLoad("n1", CPU, {"CPU": 0}, 2, 1.0, 1e9)
    new = NodeLoad("n2", CPU, {"CPU": 0}, 3, 0.0, 1e9)
    assert best_node([old, new], CPU, [], 1.0) is old


def test_fallbacks_are_for_nodes_that_could_never_run_it_and_for_those_that_could_not_now():
    """Ray's order: the first rules that a node meets which has it free; else the first that one meets which has it."""
    first, second, third = ((LabelRule("zone", (zone,)),) for zone in "abc")
    where = Where(hard=first, fallbacks=(second, third))

    def chosen(*nodes):
        loads = [NodeLoad(zone, CPU if has else {}, CPU if free else {}, 0, 0.0, 1e9) for zone, has, free in nodes]
        for load in loads:
            load.labels = {"zone": load.node}
        return [load.node for load in eligible(loads, where, CPU)]

    has_not, has, is_free = (False, False), (True, False), (True, True)
    assert chosen(("a", *is_free), ("b", *is_free)) == ["a"]
    assert chosen(("a", *has_not), ("b", *has), ("c", *has)) == ["b"]
    assert chosen(("a", *has), ("b", *has), ("c", *is_free)) == ["c"]
    assert chosen(("a", *has), ("b", *has)) == ["a"]
    assert chosen(("b", *has_not), ("x", *is_free)) == ["b"]  # to be refused for what it asks
    assert chosen(("x", *is_free)) == []


def test_what_asks_for_nothing_stays_off_nodes_without_cpus_unless_there_is_no_other():
    """As of a head that only leads: an actor there would end with it."""
    head, busy = NodeLoad("n1", {"CPU": 0}, {"CPU": 0}, 0, 0.0, 1e9), NodeLoad("n2", CPU, {}, 3, 1.0, 1e9)
    for where in (None, Where(is_spread=True), Where(node="n1", is_soft=True)):
        named = where is not None and bool(where.node)
        assert eligible([head, busy], where, {}) == ([head] if named else [busy])
        assert eligible([head], where, {}) == [head]
    assert best_home(eligible([head, busy], None, {}), {}) is busy
    assert eligible([head, busy], None, {"room": 1}) == [head, busy]


def test_random_nodes_are_drawn_from_the_tasks_id():
    nodes = [NodeLoad(f"n{number}", CPU, CPU, 0, 0.0, 1e9) for number in range(4)]
    nodes.append(NodeLoad("outside", CPU, CPU, 0, 0.0, 1e9, kind="driver"))
    drawn = [random_node(nodes, CPU, b"%d" % number).node for number in range(400)]
    assert drawn == [random_node(reversed(nodes), CPU, b"%d" % number).node for number in range(400)]
    assert all(80 <= drawn.count(f"n{number}") <= 120 for number in range(4))
    assert random_node(nodes, {"GPU": 1}, b"") is None


def make_scheduler():
    scheduler = GlobalScheduler("global", ["gcs-0"])
    for node in ("n1/local", "n2/local"):
        scheduler.handle("monitor", NodeJoined(node, CPU), 0.0)
    return scheduler


def listed(scheduler, **asked):
    (answer,) = scheduler.handle("n1/host", GetNodes(7, **asked), 0.0)
    return {fact.node: fact.death for fact in answer.message.nodes}


def test_the_last_nodes_that_died_are_shown_to_whoever_asks_for_them(monkeypatch):
    monkeypatch.setattr(global_scheduler, "DEAD_MAX", 2)
    scheduler = make_scheduler()
    for number in range(3, 7):
        scheduler.handle("monitor", NodeJoined(f"n{number}/local", CPU, "driver" if number == 6 else "node"), 0.0)
    for number in (1, 3, 4, 6):
        scheduler.handle("monitor", NodeLost(f"n{number}/local", f"reason {number}"), 0.0)
    assert listed(scheduler) == {"n2/local": "", "n5/local": ""}
    dead = {"n3/local": "reason 3", "n4/local": "reason 4"}
    assert listed(scheduler, with_dead=True) == {"n2/local": "", "n5/local": "", **dead}
    scheduler.handle("monitor", NodeLost("n3/local", "said again"), 0.0)
    assert listed(scheduler, with_dead=True)["n3/local"] == "reason 3"
    (answer,) = scheduler.handle("n1/host", GetNodes(7, True), 3.5)
    assert {fact.node: fact.lost_seconds for fact in answer.message.nodes if fact.death} == dict.fromkeys(dead, 3.5)


def spill(scheduler, deps=(), options=b"", origin="n1/local", located=()):
    spec = TaskSpec(b"t" * 16, b"f" * 16, deps=deps, options=options)
    return scheduler.handle(origin, SpillTask(spec, origin, b"job-0001", located=list(located)), 1.0)


def test_a_task_without_arguments_is_placed_at_once():
    effect, news = spill(make_scheduler())
    assert type(effect) is Send
    assert type(effect.message) is PlaceTask
    assert (news.destination, news.message) == ("n1/local", TaskPlaced(b"t" * 16, effect.destination, 1))


def test_the_node_that_spills_is_taken_to_be_busy():
    """Whatever its last report said."""
    effect, _ = spill(make_scheduler(), origin="n1/local")
    assert effect.destination == "n2/local"


def test_a_task_goes_to_where_its_arguments_are():
    """Ray paper, figure 7a, 3 and 4."""
    scheduler = make_scheduler()
    argument = b"a" * 20
    (effect,) = spill(scheduler, deps=(argument,), origin="n3/local")
    assert effect.message == LocateObjects(1, [argument])
    reply = LocateObjectsReply(1, [(argument, 10**9, ["n2/local"])])
    effect, _ = scheduler.handle("gcs-0", reply, 1.0)
    assert effect.destination == "n2/local"
    assert scheduler.handle("gcs-0", reply, 1.0) == []  # a repeat


def test_of_an_argument_that_its_shard_has_not_heard_of_yet_who_spills_may_know():
    """It was made just now."""
    argument, other = b"a" * 20, b"b" * 20
    for node in ("n1/local", "n2/local"):
        scheduler = make_scheduler()
        # What it says of the other one is older than what the shard says.
        elsewhere = "n1/local" if node == "n2/local" else "n2/local"
        located = [(argument, 10**8, [node]), (other, 10**9, [elsewhere])]
        spill(scheduler, deps=(argument, other), origin="n3/local", located=located)
        effect, _ = scheduler.handle("gcs-0", LocateObjectsReply(1, [(other, 10**9, ["n1/local", "n2/local"])]), 1.0)
        assert effect.destination == node


def test_who_is_to_place_without_regard_to_arguments_hears_nothing_of_them():
    chosen = set()
    for node in ("n1/local", "n2/local"):
        scheduler = GlobalScheduler("global", ["gcs-0"], policy=NO_LOCALITY)
        for member in ("n1/local", "n2/local"):
            scheduler.handle("monitor", NodeJoined(member, CPU), 0.0)
        effect, _ = spill(scheduler, deps=(b"a" * 20,), origin="n3/local", located=[(b"a" * 20, 10**9, [node])])
        chosen.add(effect.destination)
    assert len(chosen) == 1


def test_what_was_placed_since_the_report_counts():
    scheduler = make_scheduler()
    targets = [spill(scheduler, origin="n3/local")[0].destination for _ in range(4)]
    assert sorted(targets[:2]) == ["n1/local", "n2/local"]
    assert targets[2:] == targets[:2]
    scheduler.handle("n1/local", LoadReport("n1/local", CPU, CPU, 0, 0.0, 1e9, {}, 2), 2.0)
    assert spill(scheduler, origin="n3/local")[0].destination == "n1/local"


def test_who_passes_a_task_up_has_no_room_for_it_and_is_shown_with_what_it_has():
    scheduler = make_scheduler()
    total = {"CPU": RESOURCE_UNIT, "memory": 5}
    scheduler.handle("n1/local", LoadReport("n1/local", total, {"CPU": 0, "memory": 5}, 0, 0.0, 1e9), 0.5)
    assert spill(scheduler)[0].destination == "n2/local"
    assert scheduler.loads["n1/local"].free == {}

    def shown(now):
        (answer,) = scheduler.handle("n1/host", GetNodes(1), now)
        return {node.node: node.free for node in answer.message.nodes}["n1/local"]

    assert shown(0.6) == {"CPU": 0, "memory": 5}
    scheduler.handle("n1/local", LoadReport("n1/local", total, total, 0, 0.0, 1e9), 0.7)
    assert shown(0.8) == total


def test_what_no_node_can_run_is_refused_in_words():
    options = encode_options(TaskOptions(resources={"GPU": RESOURCE_UNIT}))
    (effect,) = spill(make_scheduler(), options=options)
    assert effect.destination == "n1/local"
    assert type(effect.message) is SpillRefused
    assert "GPU" in effect.message.reason


def test_who_knows_no_node_yet_refuses_nothing():
    scheduler = GlobalScheduler("global", ["gcs-0"])
    assert spill(scheduler) == [Send("n1/local", TaskDeferred(b"t" * 16, 1))]
    scheduler.handle("monitor", NodeJoined("n1/local", {"CPU": 0}, "driver"), 0.0)
    assert spill(scheduler) == [Send("n1/local", TaskDeferred(b"t" * 16, 1))]
    scheduler.handle("monitor", NodeJoined("n2/local", {"CPU": 0}), 0.0)
    (effect,) = spill(scheduler)
    assert type(effect.message) is SpillRefused


def test_what_actors_hold_everywhere_is_asked_for_again():
    scheduler = make_scheduler()
    for node in ("n1/local", "n2/local"):
        scheduler.handle(node, LoadReport(node, CPU, {"CPU": 0}, 0, 0.0, 1e9, CPU), 0.5)
    (effect,) = spill(scheduler)
    assert effect == Send("n1/local", TaskDeferred(b"t" * 16, 1))
    scheduler.handle("n2/local", LoadReport("n2/local", CPU, CPU, 0, 0.0, 1e9), 0.6)
    assert spill(scheduler)[0].destination == "n2/local"


def test_a_node_that_nobody_has_introduced_gets_nothing():
    """A report may come ahead of the monitor's word, and after the verdict on a node that was never heard of."""
    scheduler = GlobalScheduler("global", ["gcs-0"])
    report = LoadReport("n1/local", CPU, CPU, 0, 0.0, 1e9)
    assert scheduler.handle("n1/local", report, 0.1) == []
    assert scheduler.loads == {}
    scheduler.handle("monitor", NodeJoined("n1/local", CPU), 0.2)
    scheduler.handle("n1/local", LoadReport("n1/local", CPU, {"CPU": 0}, 0, 0.0, 1e9), 0.3)
    assert scheduler.loads["n1/local"].free == {"CPU": 0}


def test_a_lost_node_gets_nothing():
    scheduler = make_scheduler()
    scheduler.handle("monitor", NodeLost("n2/local", "silent"), 0.5)
    late = LoadReport("n2/local", CPU, CPU, 0, 0.0, 1e9)
    assert scheduler.handle("n2/local", late, 0.6) == []
    (effect,) = spill(scheduler)  # who spilled it has it back
    assert (effect.destination, type(effect.message)) == ("n1/local", PlaceTask)
    assert spill(scheduler, origin="n2/local") == []


def load_of(name, free, total=2, **more):
    """Of a node with so many CPUs."""
    amounts = [{"CPU": count * RESOURCE_UNIT} if total else {} for count in (total, free)]
    return NodeLoad(name, *amounts, 0, 0.0, 1e9, **more)


def homes(loads, request, count):
    """Where so many actors go, one after the other."""
    found = []
    for number in range(count):
        load = next_in_turn(loads, request, must_start=True)
        load.spread_at = number + 1
        found.append(load.node)
    return found


def test_actors_are_spread_over_nodes_with_a_free_cpu_and_over_all_where_there_is_none():
    loads = [load_of("n1", 0.5), load_of("n2", 1), load_of("n3", 2), load_of("n4", 0, total=0)]
    assert homes(loads, {}, 4) == ["n2", "n3", "n2", "n3"]
    loads = [load_of("n1", 0), load_of("n2", 0.5)]
    assert homes(loads, {}, 4) == ["n1", "n2", "n1", "n2"]
    loads = [load_of("n1", 2), load_of("n2", 2)]
    loads[0].queue_count = 1
    assert homes(loads, {}, 2) == ["n2", "n2"]


def test_actor_goes_to_the_node_that_alone_has_what_it_asks_for():
    loads = [load_of("n1", 2), load_of("n2", 0), load_of("n3", 0, total=0)]
    for load in loads[1:]:
        load.total["disk"] = load.free["disk"] = RESOURCE_UNIT
    assert homes(loads, {"disk": RESOURCE_UNIT}, 2) == ["n2", "n3"]
    assert homes(loads[2:], {}, 1) == ["n3"]


def test_work_without_gpus_prefers_nodes_without():
    one, other = load_of("n1", 2), load_of("n2", 1)
    one.total["GPU"] = one.free["GPU"] = RESOURCE_UNIT
    for choose in (
        lambda request: best_home([one, other], request),
        lambda request: best_node([one, other], request, []),
    ):
        assert choose(CPU) is other
        assert choose({**CPU, "GPU": RESOURCE_UNIT}) is one
        assert choose({"CPU": 2 * RESOURCE_UNIT}) is one, "the other one has no room"
