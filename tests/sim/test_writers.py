"""Who waits for room in a full store lends its CPU to what may make some, and to nothing else."""

import pytest

from zray.roles.local_scheduler.tasks.lending import FrameState
from zray.sim.language import Drop, Get, Put, Sleep, Submit, Wait, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim

CAPACITY, SIZE = 64_000, 24_000
CPUS = 2


@remote
def make_text():
    return "x" * SIZE


@remote
def measure(text):
    return len(text)


@remote
def put_and_measure():
    ref = yield Put("x" * SIZE)
    value = yield Get(ref)
    return len(value)


@remote
def nothing():
    return 0


def run(program, *args, seed=1, **options):
    world = Simulator(Options(seed=seed, nodes=1, cpus=CPUS, capacity=CAPACITY, **options))
    driver = world.start_driver(world.nodes["n1"], 1, program, args)
    assert world.run(world.now + 60.0, unless=lambda: driver.is_done), "it hangs"
    return world, driver


def fill_and_take(maker):
    """Two values fill the store, and as many writers as there are CPUs wait; then tasks come that take the two."""
    values = [(yield Put("x" * SIZE)), (yield Put("y" * SIZE))]
    makers = []
    for _ in range(CPUS):
        makers.append((yield Submit(maker, ())))
    yield Sleep(0.1)
    lengths = []
    for value in values:
        lengths.append((yield Submit(measure, (value,))))
    yield Drop(values)
    ready, _ = yield Wait(makers, CPUS)
    assert len(ready) == CPUS
    return (yield Get(lengths)), [len(value) if isinstance(value, str) else value for value in (yield Get(makers))]


@pytest.mark.parametrize("maker", [make_text, put_and_measure])
@pytest.mark.parametrize("seed", range(3))
def test_what_takes_values_out_of_a_full_store_has_a_writers_cpu(maker, seed):
    world, driver = run(fill_and_take, maker, seed=seed)
    assert driver.result == ([SIZE] * 2, [SIZE] * CPUS)
    assert world.now < 1.0, "they waited for an error"


def fill_and_flood(count):
    """Of many that would only want room themselves none begins beside those that wait for it."""
    value = yield Put("x" * 2 * SIZE)
    makers = []
    for _ in range(count):
        makers.append((yield Submit(make_text, ())))
    yield Sleep(0.5)
    yield Drop([value])
    lengths = []
    for maker in makers:
        lengths.append(len((yield Get(maker))))
        yield Drop([maker])
    return lengths


def test_what_would_want_room_itself_does_not_begin():
    count = 20
    world = Simulator(Options(seed=1, nodes=1, cpus=CPUS, capacity=CAPACITY))
    node = world.nodes["n1"]
    driver = world.start_driver(node, 1, fill_and_flood, (count,))
    world.run(0.4)
    levels = [frame.state for worker in node.scheduler.pool.workers.values() for frame in worker.frames]
    assert levels.count(FrameState.AWAITS_ROOM) == CPUS == len(node.manager.asked)
    assert world.run(world.now + 60.0, unless=lambda: driver.is_done)
    assert driver.result == [SIZE] * count


def fill_one_by_one(count):
    """Two fit at a time; the last two wait for 7 s, and for 4 of them since the first two have got room."""
    value = yield Put("x" * 2 * SIZE)
    refs = []
    for _ in range(count):
        refs.append((yield Submit(make_text, ())))
    yield Sleep(3.0)
    yield Drop([value])
    lengths = []
    while refs:
        (ref,), refs = yield Wait(refs, 1)
        lengths.append(len((yield Get(ref))))
        yield Sleep(2.0)
        yield Drop([ref])
    return lengths


def test_who_waits_in_a_line_that_moves_is_not_refused():
    world = Simulator(Options(seed=1, nodes=1, cpus=4, capacity=SIZE * 2 + 5_000))
    driver = world.start_driver(world.nodes["n1"], 1, fill_one_by_one, (4,))
    assert world.run(world.now + 60.0, unless=lambda: driver.is_done)
    assert driver.result == [SIZE] * 4
