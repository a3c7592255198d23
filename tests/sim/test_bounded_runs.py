"""max_retries bounds how often a task runs in all, also where its result is lost again and again."""

import pytest

from zray.sim import faults
from zray.sim.language import Get, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.values import Big, RemoteError

pytestmark = pytest.mark.sim

SIZE = 40_000
LOSSES = 4
FAR = {"far": 10_000}  # what the node of the program does not have
began = []  # runs


@remote
def make_counted():
    began.append(None)
    yield Sleep(0.01)
    return Big(3, SIZE)


@remote
def fill_of_counted(value):
    return value.fill


def program(world, limit, kills_worker):
    """The outcome of a value, and of a task that takes it, after so many losses."""
    ref = yield Submit(make_counted, max_retries=limit, resources=FAR)
    if kills_worker:
        while not began:
            yield Sleep(0.001)
        world.call_later(0.0, kill_worker, world)
    for _ in range(LOSSES):
        try:
            yield Get((yield Submit(fill_of_counted, (ref,), resources=FAR)))
        except RemoteError:
            break
        world.call_later(0.0, kill_holders, world)
        yield Sleep(1.0)
    found = []
    for wanted in ((yield Submit(fill_of_counted, (ref,), resources=FAR)), ref):
        try:
            yield Get(wanted)
            found.append("")
        except RemoteError as error:
            found.append(str(error))
    return found


def kill_holders(world):
    for node in list(world.nodes.values()):
        values = (entry.value for entry in node.scheduler.objects.entries.values())
        if node.name != "n1" and any(type(value).__name__ == "StoredValue" for value in values):
            world.faults.kill_node(node, "is killed")


def kill_worker(world):
    for node in list(world.nodes.values()):
        for process in list(node.processes.values()):
            if node.name != "n1" and process.kind == "worker" and process.stack:
                world.faults.kill(process)


@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(
    ("limit", "kills_worker"), [(0, False), (1, False), (2, False), (2, True), (3, True), (-1, True)]
)
def test_a_task_runs_once_more_than_max_retries_in_all(limit, kills_worker, shards, seed, monkeypatch):
    """The death of a worker counts as a loss does."""
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    began.clear()
    world = Simulator(Options(seed=seed, nodes=2, cpus=1, delay="local", shards=shards))
    for number in range(2 * LOSSES + 1):
        world.add_node(f"far{number}", {"far": 1})
    world.run(0.5)
    driver = world.start_driver(world.nodes["n1"], 1, program, (world, limit, kills_worker))
    assert world.run(40.0, unless=lambda: driver.is_done)
    found = driver.result
    if limit < 0:
        assert found == ["", ""] and len(began) == 1 + LOSSES + kills_worker
        return
    assert len(began) == 1 + limit
    for text in found:
        assert f"has run {limit + 1} times, as max_retries={limit} allows" in text or not limit
        assert "was lost with its node" in text
