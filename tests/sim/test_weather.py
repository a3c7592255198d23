"""Clogged lines, repeated frames, slow nodes, clocks that differ and jump, full memory and disks: nobody fails."""

import pytest

from zray.roles import effects as e
from zray.roles.local_scheduler.membership import lease
from zray.roles.local_scheduler.membership.lease import Suspension
from zray.roles.local_scheduler.membership.members import Members
from zray.sim.heads import Disk
from zray.sim.main import _run, run_options, run_program, run_seed, sweep_seed
from zray.sim.options import Options, Wanted
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    "runs, asked",
    [
        (8, {"nodes": 1}),
        (10, {"nodes": 3}),
        (8, {"nodes": 4, "deaths": True, "drains": True}),
        (5, {"nodes": 5, "deaths": True, "heads": True, "replicas": 2}),
        (5, {"nodes": 4, "crashes": True, "shards": 2, "replicas": 2}),
        (2, {"nodes": 20, "deaths": True}),
    ],
    ids=str,
)
def test_any_of_it(runs, asked):
    for seed in range(1, 1 + runs):
        outcome = sweep_seed(seed, Wanted(weather=True, **asked))
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_a_slow_worker_of_a_slow_node_has_its_task_as_long_as_both_make_it():
    """Nobody waited for it, so that the run looked whether all had ended while it was running."""
    asked = {"deaths": True, "curious": True, "crashes": True, "cuts": True, "oneway": True, "tight": True}
    outcome = run_seed(935000814, Wanted(nodes=3, shards=2, replicas=1, weather=True, **asked))
    assert not outcome.error, outcome.error


def test_an_actor_whose_argument_a_full_store_had_no_room_for_is_dead_when_its_node_is_lost():
    """Its callers had heard why as long as that node was there, and then of its loss alone."""
    asked = {"shards": 2, "replicas": 3, "deaths": True, "groups": True, "disks": True, "tight": True}
    outcome = run_seed(950011348, Wanted(nodes=5, weather=True, **asked))
    assert not outcome.error, outcome.error


def world_of(**options):
    world = Simulator(Options(seed=1, nodes=3, **options))
    world.run(1.0)
    return world


def test_nothing_comes_through_a_clogged_line_and_all_of_it_later():
    world = world_of()
    world.weather._clog("n2")
    since = world.now + 0.05  # what was on its way has arrived
    world.run(world.now + 0.5)
    lines = [line for line in world.trace.lines if line[0] > since and line[1].startswith(("n1/", "n3/", "monitor"))]
    assert lines and not [line for line in lines if line[2].startswith("n2/")]
    heard = world.heads.monitor.nodes["n2/local"].silent_ticks
    assert heard > 3 >= world.heads.monitor.nodes["n3/local"].silent_ticks
    world.weather._unclog("n2")
    world.run(world.now + 0.5)
    assert world.heads.monitor.nodes["n2/local"].silent_ticks <= 3


def test_a_line_between_two_clogged_nodes_is_free_when_both_are():
    world = world_of()
    for name in ("n2", "n3"):
        world.weather._clog(name)
    world.weather._unclog("n2")
    assert not world.faults.lines.is_stopped("n1", "n2") and world.faults.lines.is_stopped("n2", "n3")
    held = [pair for pair, line in world.between_nodes.items() if any(end.is_held for end in line.ends.values())]
    assert held and all(any(role.startswith("n3/") for role in pair) for pair in held)
    world.weather._unclog("n3")
    assert not any(end.is_held for line in world.between_nodes.values() for end in line.ends.values())


def test_a_frame_that_comes_again_changes_nothing():
    outcome = run_program("tree", nodes=3, repeat_probability=1.0)
    assert not outcome.error


def test_no_clock_is_compared_with_that_of_another_machine(monkeypatch):
    """Nor is a node suspended by a jump of its own, which counts as one step; without that rule one would be."""
    options = Options(seed=1, nodes=3, programs=("tree",), clocks_differ=True, clock_jumps=3)
    world = Simulator(options)
    assert len({node.ahead for node in world.nodes.values()}) > 1
    suspended = []
    monkeypatch.setattr(Suspension, "begin", lambda self: suspended.append(self))
    assert not run_options(options).error and not suspended
    monkeypatch.setattr(lease, "STALL_SECONDS", float("inf"))
    run_options(options)
    assert suspended


def test_memory_that_a_stranger_takes_comes_back():
    world = world_of(fills=1)
    node = world.nodes["n1"]
    world.random.choice = lambda names: "n1"
    world.weather._fill()
    assert node.arena.pages_max < world.options.pages_max and not node.arena.reserve(0, 1 << 20)
    world.run(world.now + 2.0)
    assert node.arena.reserve(0, 1 << 20)


def test_a_full_disk_refuses_what_is_written_and_has_what_it_had():
    disk = Disk()
    disk.pages[1] = b"before"
    disk.is_full = True
    disk.orders += [e.AppendToLog([b"record"], 5), e.WritePage(b"page", 6), e.ReadPage(1)]
    assert [type(disk.work()) for _ in range(3)] == [e.LogRefused, e.PageRefused, e.PageRead]
    assert not disk.records and list(disk.pages) == [1]


@pytest.mark.parametrize(
    "options", [{"nodes": 4, "head_kills": 2, "head_kill_probability": 0.003}, {"nodes": 3, "replicas": 2}]
)
def test_shards_whose_disks_are_full_or_stall_for_a_while_go_on(options):
    for seed in range(1, 4):
        outcome = run_program("tree", seed=seed, disk_fills=5, stall_probability=0.2, lineage_bytes=1, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_each_node_is_told_of_a_disk_that_is_full_and_that_it_is_not_any_more(monkeypatch):
    told = {}  # node -> what it was told of, each time
    heard = Members.on_shard_stalled

    def on_shard_stalled(self, message):
        told.setdefault(self.node.address, []).append(bool(message.reasons))
        heard(self, message)

    monkeypatch.setattr(Members, "on_shard_stalled", on_shard_stalled)
    options = Options(seed=2, nodes=4, programs=("tree",), head_kills=1, head_kill_probability=0.0, disk_fills=20)
    world = Simulator(options)
    _run(world)
    assert len(told) == 4 and all(said[0] and not said[-1] for said in told.values()), told
    assert not any(node.scheduler.members.stalled for node in world.nodes.values())


def test_a_failed_fsync_ends_a_replica_and_never_the_last_that_has_everything():
    options = Options(seed=1, nodes=3, programs=("tree",), replicas=2, broken_disks=100, broken_disk_probability=0.3)
    world = Simulator(options)
    _run(world)
    assert 1 < world.shards.faults.broken < 100
    assert all(len(world.shards.members(name)) == 2 for name in world.shards.names)


def test_an_error_that_goes_up_through_many_tasks_stays_as_long_as_it_is():
    """Each level quoted the quotes of the one below: the text was twice as long at each."""
    outcome = run_seed(960000906, Wanted(nodes=5, shards=5, replicas=1, crashes=True, cuts=True, weather=True))
    assert not outcome.error, outcome.error
