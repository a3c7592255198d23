"""What travels in messages is bounded in bytes: with too much of it values go to the arena, until it is less."""

import pytest

from zray.roles.local_scheduler.objects import small_values
from zray.roles.local_scheduler.objects import table as objects
from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Drop, Get, Put, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.task_spec import RESOURCE_UNIT

pytestmark = pytest.mark.sim

TOTAL = 8_000
SIZE = 150
COUNT = 200
ELSEWHERE = {"CPU": RESOURCE_UNIT, "room": 1}  # which the first node has not got


@remote
def make():
    return "x" * SIZE


def put_many(count):
    refs = []
    for _ in range(count):
        refs.append((yield Put("x" * SIZE)))
        yield Sleep(1e-4)
    values = yield Get(refs)
    yield Drop(refs)
    return sum(map(len, values))


def submit_many(count):
    refs = []
    for _ in range(count):
        refs.append((yield Submit(make, ())))
        yield Sleep(1e-4)
    values = yield Get(refs)
    yield Drop(refs)
    return sum(map(len, values))


@pytest.mark.parametrize("program", [put_many, submit_many])
def test_beyond_a_total_values_are_written_into_the_arena(program, monkeypatch):
    monkeypatch.setattr(objects, "SMALL_BYTES_MAX", 20)
    monkeypatch.setattr(small_values, "INLINE_BYTES_TOTAL", TOTAL)
    world = Simulator(Options(seed=3, nodes=1, cpus=2))
    driver = world.start_driver(world.nodes["n1"], 1, program, (COUNT,))
    node = world.nodes["n1"]
    most = [0, 0]
    while not driver.is_done:
        world.run(world.now + 1e-4, unless=lambda: driver.is_done)
        most = max(most[0], node.scheduler.objects.inline_bytes), max(most[1], len(node.manager.objects))
    assert driver.result == COUNT * SIZE
    # What was under way when it was told: a buffer or two.
    assert TOTAL < most[0] < 2 * TOTAL and most[1]
    world.run(world.now + 5.0)
    assert not node.scheduler.objects.inline_bytes and not node.scheduler.small_values.are_many
    assert {process.inline_bytes_max for process in node.processes.values()} == {world.options.inline_bytes_max}
    assert not node.manager.objects


def submit_many_elsewhere(count):
    refs = []
    for _ in range(count):
        refs.append((yield Submit(make, (), resources=ELSEWHERE)))
        yield Sleep(1e-4)
    yield Sleep(0.5)  # until all are done
    size = 0
    for ref in refs:
        size += len((yield Get(ref)))
        yield Drop([ref])
        yield Sleep(1e-3)  # what was read goes when the shard has heard that nobody holds it
    return size


@pytest.mark.parametrize("policy", ["bottom_up", "central"])
def test_beyond_a_total_values_of_other_nodes_stay_there_until_they_are_wanted(policy, monkeypatch):
    """Whether tasks go there without a word to the shards, or not."""
    monkeypatch.setattr(objects, "SMALL_BYTES_MAX", 20)
    monkeypatch.setattr(small_values, "INLINE_BYTES_TOTAL", TOTAL)
    world = Simulator(Options(seed=3, nodes=3, cpus=2, policy=policy))
    world.run(MEETING_SECONDS)
    node = world.nodes["n1"]
    driver = world.start_driver(node, 1, submit_many_elsewhere, (COUNT,))
    most, limits = 0, 0
    while not driver.is_done:
        world.run(world.now + 1e-3, unless=lambda: driver.is_done)
        most = max(most, node.scheduler.objects.inline_bytes)
        limits = max(limits, *(len(other.scheduler.small_values.limits) for other in world.nodes.values()))
    assert driver.result == COUNT * SIZE
    # What was under way when the others were told: what they run at once, and what waits in their links.
    assert TOTAL < most < 2 * TOTAL < COUNT * SIZE and limits
    world.run(world.now + 5.0)
    assert not any(other.scheduler.objects.inline_bytes for other in world.nodes.values())
    assert not any(other.scheduler.small_values.limits for other in world.nodes.values())
    assert not any(other.manager.objects for other in world.nodes.values())
