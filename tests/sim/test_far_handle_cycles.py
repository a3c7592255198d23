"""Actors with handles of each other on several nodes: cycles end, actors that something holds stay."""

from collections import defaultdict

import pytest

from zray.ids import task_of
from zray.roles.local_scheduler.actors.cycles import led_to
from zray.roles.local_scheduler.actors.ends import ActorEnds
from zray.roles.local_scheduler.actors.traces import REASON
from zray.sim import main
from zray.sim.faults import MEETING_SECONDS
from zray.sim.options import Options
from zray.sim.ring_programs import run_named_rings

pytestmark = pytest.mark.sim
MIXTURES = {
    "no faults": {"nodes": 3},
    "two nodes": {"nodes": 2, "cpus": 4},
    "several shards": {"nodes": 3, "shards": 3, "replicas": 1},
    "chains": {"nodes": 3, "shards": 2, "replicas": 2, "member_kills": 2, "member_kill_probability": 0.01},
    "workers die": {"nodes": 3, "kills": 3, "kill_probability": 0.02},
    "nodes die": {"nodes": 4, "node_kills": 2, "node_kill_probability": 0.01},
    "nodes stand still": {"nodes": 4, "node_freezes": 1, "node_partitions": 1},
    "lines break": {"nodes": 3, "breaks": 8, "pair_cuts": 1, "node_flaps": 1},
    "lines are slow": {"nodes": 3, "capacity": 200_000, "clogs": 3, "repeat_probability": 0.02, "delay": "far"},
    "nodes leave": {"nodes": 4, "node_drains": 2},
    "the driver is a guest": {"nodes": 3, "has_guest": True, "guest_cuts": 1},
    "drivers die": {"nodes": 4, "drivers": 2, "driver_kills": 1, "driver_kill_probability": 0.003},
    "the head dies": {"nodes": 5, "head_kills": 1, "head_kill_probability": 0.003, "late_node_seconds": 0.0},
}


def reachable(world):
    """Actors that a program, a task, a stored value or a running call can reach now, as only the simulator can see."""
    holds, roots = defaultdict(set), set()
    for node in world.nodes.values():
        if world.checkers.does_nothing(node):
            continue
        scheduler = node.scheduler
        for process in node.processes.values():
            if process.is_alive:
                handles = set(map(task_of, process.client.held.keys() - set(process.client.released)))
                actors = list(process.served())
                for actor_id in actors:
                    holds[actor_id] |= handles
                if not actors:
                    roots |= handles
        for actor_id, actor in scheduler.calls.actors.items():
            spec = actor.creation.spec
            holds[actor_id].update(map(task_of, (*spec.deps, *spec.holds)))
            if actor.options.detached or actor.queue or actor.inflight:
                roots.add(actor_id)
        for task in scheduler.tasks.values():
            if task.spec.task_id not in scheduler.calls.actors:
                roots.update(map(task_of, (*task.spec.deps, *task.spec.holds)))
        for lent in scheduler.routes.lent.values():
            roots.update(task_of(object_id) for ids in lent.values() for object_id in ids)
        for entry in scheduler.objects.entries.values():
            if entry.holders is not None or entry.count:
                roots.update(map(task_of, entry.contained))
    return led_to(holds, roots)


@pytest.fixture
def ended(monkeypatch):
    """Actors that ended because nothing could reach them; in a run, none that something can reach."""
    worlds, ended, see_off = [], [], ActorEnds.see_off

    class World(main.Simulator):
        def __init__(self, options):
            super().__init__(options)
            worlds.append(self)

    def checked(ends, actor, reason=""):
        if reason == REASON:
            assert actor.actor_id not in reachable(worlds[-1]), f"{actor.actor_id.hex()} ends, and can be reached"
            ended.append(actor.actor_id)
        see_off(ends, actor, *[reason] * bool(reason))

    monkeypatch.setattr(main, "Simulator", World)
    monkeypatch.setattr(ActorEnds, "see_off", checked)
    return ended


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_cycles_over_nodes_end_and_no_actor_that_something_can_reach(options, ended):
    for seed in range(1, 6):
        outcome = main.sweep_program("far_rings", seed=seed, **{"cpus": 2, **options})
        assert not outcome.error, f"seed {seed}: {outcome.error}"
    assert ended


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_cycles_that_have_names_end_and_none_that_is_found(options, ended):
    for seed in range(1, 9):
        outcome = main.sweep_program("named_rings", seed=seed, **{"cpus": 2, **options})
        assert not outcome.error, f"seed {seed}: {outcome.error}"
    assert ended


def test_no_actor_ends_that_is_found_while_a_trace_is_on_its_way(ended):
    for seed in range(12, 27):
        for nodes in (2, 3):
            outcome = main.sweep_program("named_rings", seed=seed, nodes=nodes, cpus=2, delay="far")
            assert not outcome.error, f"seed {seed}, {nodes} nodes: {outcome.error}"
    assert ended


@pytest.mark.parametrize("is_hosted", [False, True])
@pytest.mark.parametrize("nodes", [1, 3])
def test_nothing_is_left_of_cycles_with_names(nodes, is_hosted, ended):
    world = main.Simulator(Options(seed=1, nodes=3, cpus=2))
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, run_named_rings, (3, 3, nodes, 3.0, 5, is_hosted, 7))
    assert world.run(60.0, unless=lambda: driver.is_done)
    assert driver.result == [0] * 9 + [0] * 3 * nodes
    world.run(world.now + 30.0)
    assert ended
    assert not any(node.scheduler.calls.actors for node in world.nodes.values())
