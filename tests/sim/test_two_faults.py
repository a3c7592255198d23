"""Actors that recover, in a line: each calls the next with large values, and checks what it is answered."""

from random import Random

import pytest

from zray.sim import faults
from zray.sim.language import Call, Create, Drop, Get, Keep, Put, Sleep, remote
from zray.sim.options import Options, turns_between_checks
from zray.sim.simulator import Simulator
from zray.sim.values import Big, RemoteError
from zray.wire.where import Where

pytestmark = pytest.mark.sim

STEPS = 14


@remote
class Link:
    def __init__(self, nexts, size):
        self.nexts, self.size, self.count = nexts, size, 0

    def begin(self):
        for handle in self.nexts:
            yield Keep(handle)

    def save(self):
        return [self.nexts, self.size, self.count]

    def restore(self, state):
        self.nexts, self.size, self.count = state
        yield from self.begin()

    def go(self, value):
        self.count += 1
        number = self.count
        if not self.nexts:
            yield Sleep(0.02)
            return Big(number, self.size)
        put = yield Put(Big(number, self.size))
        ref = yield Call(self.nexts[0], "go", (put,), max_retries=-1)
        yield Drop([put])
        answer = yield Get(ref)
        assert answer.fill == number, f"call {number} is answered as call {answer.fill}: one has counted twice"
        return Big(number, self.size)


def run_line(places, size, interval):
    """What each of its calls on the first of the line has come to."""
    line = []
    for place in places:
        where = Where(node=place, is_soft=True)
        options = {"max_restarts": -1, "checkpoint_interval": interval}
        line.append((yield Create(Link, (line[-1:], size), where=where, **options)))
    refs, found = [], []
    for number in range(STEPS):
        put = yield Put(Big(number, size))
        refs.append((yield Call(line[-1], "go", (put,), max_retries=-1)))
        yield Drop([put])
        if len(refs) > 3:
            found.append((yield Get(refs.pop(0))).fill)
    for ref in refs:
        found.append((yield Get(ref)).fill)
    return found


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("seed", range(1, 16))
def test_no_call_counts_twice(seed, count, monkeypatch):
    """Nor is it lost with one node.  Where a second one goes that alone had the same as the first, that is said."""
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    random = Random(f"two faults {seed}")
    bandwidth, shards = random.choice((2e6, 20e6, 0.0)), random.choice((1, 2))
    world = Simulator(
        Options(
            seed=seed,
            nodes=5,
            cpus=2,
            delay="local",
            shards=shards,
            bandwidth=bandwidth,
            capacity=1 << 25,
            check_every=turns_between_checks(seed),
        )
    )
    world.run(0.3)
    places = random.sample(["n2", "n3", "n4"], 3)

    def program():
        try:
            return (yield from run_line(places, random.choice((5_000, 40_000)), random.choice((3, 4))))
        except RemoteError as error:
            return error

    def kill(name):
        world.faults.kill_node(world.nodes[name], "is killed")

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    when, apart = random.uniform(0.05, 0.6), random.choice((random.uniform(0, 0.2), random.uniform(0, 2.0)))
    for number, name in enumerate(random.sample(places, count)):
        world.call_later(when + number * apart, kill, name)
    assert world.run(60.0, unless=lambda: driver.is_done)
    if count == 1 or type(driver.result) is list:
        assert driver.result == list(range(1, STEPS + 1))
    else:
        assert "lost" in str(driver.result)
