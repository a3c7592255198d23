"""Constructors that wait for another actor while their node dies: they run again elsewhere, and no caller notices."""

import pytest

from zray.sim import faults
from zray.sim.language import Call, Create, Get, Keep, Sleep, Wait, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.values import RemoteError
from zray.wire.where import Where

pytestmark = pytest.mark.sim


@remote
class Slow:
    def answer(self, seconds):
        yield Sleep(seconds)
        return 7


@remote
class Asks:
    """Its constructor asks the other one."""

    def __init__(self, slow, timeout):
        self.slow, self.timeout = slow, timeout

    def begin(self):
        yield Keep(self.slow)
        ref = yield Call(self.slow, "answer", (1.0,), max_retries=-1)
        ready = not self.timeout
        while not ready:
            ready, _ = yield Wait([ref], 1, timeout=self.timeout)
        self.value = yield Get(ref)

    def tell(self):
        return self.value


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("timeout", [0, 0.05])
@pytest.mark.parametrize("home_of_slow", ["n1", "n2", "n3"])
def test_constructor_that_waits_for_an_actor_runs_again_where_its_node_dies(home_of_slow, timeout, seed, monkeypatch):
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    world = Simulator(Options(seed=seed, nodes=3, cpus=1, delay="even"))
    world.run(0.3)

    def program():
        slow = yield Create(Slow, max_restarts=-1, where=Where(node=home_of_slow, is_soft=True))
        there = Where(node="n3", is_soft=True)
        asks = yield Create(Asks, (slow, timeout), max_restarts=1, resources={"CPU": 10_000}, where=there)
        calls = []
        for _ in range(3):
            calls.append((yield Call(asks, "tell", max_retries=-1)))
        yield Sleep(2.0)  # the node dies
        calls.append((yield Call(asks, "tell", max_retries=-1)))
        try:
            return (yield Get(calls))
        except RemoteError as error:
            return error

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    world.run(0.5)
    processes = [process for process in world.nodes["n3"].processes.values() if process.actor_id and process.stack]
    assert any(process.stack[-1].is_over is not None for process in processes), "its constructor waits"
    world.faults.kill_node(world.nodes["n3"], "is killed")
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert driver.result == [7] * 4
