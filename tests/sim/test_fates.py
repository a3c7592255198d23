"""An actor dies with all that it alone has asked for; what others hold stays."""

import pytest

from zray.sim import faults
from zray.sim.language import Call, Create, Get, Keep, Kill, Sleep, Submit, Wait, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.values import RemoteError
from zray.wire.where import Where

pytestmark = pytest.mark.sim

CPU = {"CPU": 10_000}
LONG = 1e5  # seconds


@remote
def rest(seconds):
    yield Sleep(seconds)
    return 5


@remote
def rest_inside(seconds):
    return (yield Get((yield Submit(rest, (seconds,)))))


@remote
class RestsLong:
    def rest(self, seconds):
        yield Sleep(seconds)
        return 6


@remote
class AsksThenDies:
    """An actor whose process submits tasks and makes an actor."""

    def ask(self, place, other):
        where = Where(node=place) if place else None
        away = Where(node=other) if other else None
        for options in ({"where": where}, {"where": away}):
            yield Keep((yield Submit(rest, (LONG,), resources=CPU, **options)))
            yield Submit(rest_inside, (LONG,), resources=CPU, **options)  # nobody keeps the ref
        shared = yield Submit(rest, (2.0,), resources=CPU, where=away)
        child = yield Create(RestsLong, resources=CPU, where=away)
        yield Keep(child)
        call = yield Call(child, "rest", (LONG,))
        yield Call(child, "rest", (LONG,))
        return [shared, call]


def program(place, other, is_killed):
    asks = yield Create(AsksThenDies, where=Where(node=place) if place else None)
    shared, call = yield Get((yield Call(asks, "ask", (place, other))))
    yield Sleep(0.5)
    if is_killed:
        yield Kill(asks)
    try:
        error = yield Get(call)
    except RemoteError as failure:
        error = str(failure)
    value = yield Get(shared)
    # All the CPUs are free for others.
    again = []
    for _ in range(8):
        again.append((yield Submit(rest, (0.01,), resources=CPU)))
    ready, _ = yield Wait(again, 8, timeout=20.0)
    return error, value, len(ready)


def is_idle(world):
    """Whether nothing of the program is left."""
    return not any(node.scheduler.tasks or node.scheduler.calls.actors for node in world.nodes.values())


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("nodes", [1, 3])
def test_work_of_a_killed_actor_ends_at_once(nodes, seed, monkeypatch):
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    world = Simulator(Options(seed=seed, nodes=nodes, cpus=8, delay="local"))
    world.run(0.3)
    place, other = ("", "") if nodes == 1 else ("n2", "n3")
    driver = world.start_driver(world.nodes["n1"], 1, program, (place, other, True))
    assert world.run(25.0, unless=lambda: driver.is_done)
    error, value, count = driver.result
    assert "the process that had its last handle died" in error and value == 5 and count == 8
    assert is_idle(world) and world.now < 5.0
    for node in world.nodes.values():
        assert node.scheduler.resources.free == node.scheduler.resources.total


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("nodes", [1, 3])
def test_resources_of_a_killed_actors_work_are_free_within_a_second(nodes, seed, monkeypatch):
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    world = Simulator(Options(seed=seed, nodes=nodes, cpus=8, delay="local"))
    world.run(0.3)
    place, other = ("", "") if nodes == 1 else ("n2", "n3")

    def killer():
        asks = yield Create(AsksThenDies, where=Where(node=place) if place else None)
        yield Get((yield Call(asks, "ask", (place, other))))
        yield Sleep(0.5)
        yield Kill(asks)
        others = []
        for _ in range(7):  # one CPU is that of the task whose ref this program holds
            others.append((yield Submit(rest, (0.01,), resources=CPU, where=Where(node=other) if other else None)))
        ready, _ = yield Wait(others, 7, timeout=1.0)
        return len(ready)

    driver = world.start_driver(world.nodes["n1"], 1, killer, ())
    assert world.run(10.0, unless=lambda: driver.is_done)
    assert driver.result == 7


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("shards", [1, 2])
def test_work_of_the_actors_of_a_lost_node_ends(shards, seed, monkeypatch):
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    world = Simulator(Options(seed=seed, nodes=3, cpus=8, delay="local", shards=shards))
    world.run(0.3)
    driver = world.start_driver(world.nodes["n1"], 1, program, ("n2", "n3", False))
    world.run(0.7)
    world.faults.kill_node(world.nodes["n2"], "is killed")
    assert world.run(25.0, unless=lambda: driver.is_done)
    error, value, count = driver.result
    assert "was lost with its node" in error and value == 5 and count == 8
    assert world.now < 5.0
    scheduler = world.nodes["n3"].scheduler
    assert not scheduler.tasks and not scheduler.calls.actors and scheduler.resources.free == scheduler.resources.total
