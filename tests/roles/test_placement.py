"""The global scheduler: placement against a dumb version, and its few messages."""

from hypothesis import given, settings
from hypothesis import strategies as st

from zray.roles.effects import Send
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.global_scheduler.placement import NodeLoad, best_node
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.scheduling import (
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

CPU = {"CPU": RESOURCE_UNIT}

loads = st.builds(
    NodeLoad,
    node=st.sampled_from(["n1", "n2", "n3", "n4"]),
    total=st.fixed_dictionaries({"CPU": st.integers(0, 4).map(lambda count: count * RESOURCE_UNIT)}),
    free=st.fixed_dictionaries({"CPU": st.integers(0, 4).map(lambda count: count * RESOURCE_UNIT)}),
    queue_count=st.integers(0, 50),
    task_s_mean=st.sampled_from([0.0, 0.001, 0.1, 5.0]),
    bandwidth_bytes_per_s=st.sampled_from([1e6, 1e9]),
    placed_count=st.integers(0, 3),
)
objects = st.tuples(st.binary(min_size=20, max_size=20), st.integers(0, 10**9), st.lists(st.sampled_from(["n1", "n2"])))


def wait_in_words(load, known):
    """Ray paper 4.2.2: queue x mean task time / slots + bytes to fetch / bandwidth."""
    missing = 0
    for _, size, holders in known:
        if load.node not in holders:
            missing += size
    seconds = missing / load.bandwidth_bytes_per_s
    ahead = load.queue_count + load.placed_count
    if ahead == 0 and load.free["CPU"] >= RESOURCE_UNIT:
        return seconds
    mean = load.task_s_mean if load.task_s_mean else 0.001
    return (ahead + 0.5) * mean / max(1, load.total["CPU"] // RESOURCE_UNIT) + seconds


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.lists(loads, max_size=4, unique_by=lambda load: load.node), st.lists(objects, max_size=3))
def test_the_best_node_is_the_one_of_the_least_wait(candidates, known):
    chosen = best_node(candidates, CPU, known)
    able = [load for load in candidates if load.total["CPU"] >= RESOURCE_UNIT]
    if not able:
        assert chosen is None
        return
    ranked = sorted(able, key=lambda load: (wait_in_words(load, known), load.node))
    assert chosen is not None
    assert chosen.node == ranked[0].node


def make_scheduler():
    scheduler = GlobalScheduler("global", ["gcs-0"])
    for node in ("n1/local", "n2/local"):
        scheduler.handle("monitor", NodeJoined(node, CPU), 0.0)
    return scheduler


def spill(scheduler, deps=(), options=b"", origin="n1/local"):
    spec = TaskSpec(b"t" * 16, b"f" * 16, deps=deps, options=options)
    return scheduler.handle(origin, SpillTask(spec, origin, b"job-0001"), 1.0)


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


def test_what_was_placed_since_the_report_counts():
    scheduler = make_scheduler()
    targets = [spill(scheduler, origin="n3/local")[0].destination for _ in range(4)]
    assert targets == ["n1/local", "n2/local", "n1/local", "n2/local"]
    scheduler.handle("n1/local", LoadReport("n1/local", CPU, CPU, 0, 0.0, 1e9), 2.0)
    assert spill(scheduler, origin="n3/local")[0].destination == "n1/local"


def test_what_no_node_can_run_is_refused_in_words():
    options = encode_options(TaskOptions(resources={"GPU": RESOURCE_UNIT}))
    (effect,) = spill(make_scheduler(), options=options)
    assert effect.destination == "n1/local"
    assert type(effect.message) is SpillRefused
    assert "GPU" in effect.message.reason


def test_what_actors_hold_everywhere_is_asked_for_again():
    scheduler = make_scheduler()
    for node in ("n1/local", "n2/local"):
        scheduler.handle(node, LoadReport(node, CPU, {"CPU": 0}, 0, 0.0, 1e9, CPU), 0.5)
    (effect,) = spill(scheduler)
    assert effect == Send("n1/local", TaskDeferred(b"t" * 16, 1))
    scheduler.handle("n2/local", LoadReport("n2/local", CPU, CPU, 0, 0.0, 1e9), 0.6)
    assert spill(scheduler)[0].destination == "n2/local"


def test_a_lost_node_gets_nothing():
    scheduler = make_scheduler()
    scheduler.handle("monitor", NodeLost("n2/local", "silent"), 0.5)
    late = LoadReport("n2/local", CPU, CPU, 0, 0.0, 1e9)
    assert scheduler.handle("n2/local", late, 0.6) == []
    (effect,) = spill(scheduler)  # who spilled it has it back
    assert (effect.destination, type(effect.message)) == ("n1/local", PlaceTask)
    assert spill(scheduler, origin="n2/local") == []
