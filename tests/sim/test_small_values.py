"""What travels in messages is bounded in bytes: with too much of it values go to the arena, until it is less."""

import pytest

from zray.roles.local_scheduler import objects, small_values
from zray.sim.language import Drop, Get, Put, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim

TOTAL = 8_000
SIZE = 150
COUNT = 200


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
