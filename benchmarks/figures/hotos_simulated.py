"""The HotOS workload in the simulator, for E18: production's roles in virtual time, with latencies measured here."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import Any

from zray.sim import language as say
from zray.sim.machines import Machines, PredictedWorld
from zray.wire.task_spec import RESOURCE_UNIT

from .hotos_peer import POLICY_SECONDS

CORES, NODES = 64, 4
STAGES = 20
GATE = 0.20
SETTLE_SECONDS, END_SECONDS = 0.5, 1e3  # virtual
HOPS = 4  # of a task and its result: program, scheduler, worker, scheduler, program


@say.remote
def simulation(seconds: float, *before: Any) -> Generator[Any, Any, int]:
    """A simulation that takes virtual time."""
    yield say.Sleep(seconds)
    return 0


@say.remote
def policy_step(*states: Any) -> Generator[Any, Any, int]:
    """A policy step.  A function of its own, as on zray: the scheduler learns how long each function takes."""
    yield say.Sleep(POLICY_SECONDS)
    return 0


def driver(seconds: float, cores: int, times: list[float], world: PredictedWorld) -> Generator[Any, Any, None]:
    """Stages that are all submitted at once.  times: their begin and end."""
    refs = []
    for _ in range(cores):
        refs.append((yield say.Submit(simulation, (0.1,))))  # workers start
    yield say.Get(refs)
    times.append(world.now)
    before: list[Any] = []
    for _ in range(STAGES):
        states = []
        for _ in range(cores):
            states.append((yield say.Submit(simulation, (seconds, *before))))
        before = [(yield say.Submit(policy_step, tuple(states)))]
    yield say.Get(before)
    times.append(world.now)


def rate(seconds: float, cores: int, local: float, remote: float, nodes: int = 1) -> float:
    """Return the simulations per second.  local, remote: seconds of an empty task here, and on another node."""
    machines = Machines(
        resources=[{"CPU": cores // nodes * RESOURCE_UNIT} for _ in range(nodes)],
        hop=local / HOPS,
        latency=max(0.0, remote - local) / 2,
    )
    world = PredictedWorld(machines, None)
    world.run(SETTLE_SECONDS)
    times: list[float] = []
    program = world.start_driver(next(iter(world.nodes.values())), 1, driver, (seconds, cores, times, world))
    assert world.run(END_SECONDS, unless=functools.partial(getattr, program, "is_done")), "a run did not end"
    return cores * STAGES / (times[1] - times[0])


def rates(seconds: float, emulated_cores: int, local: float, remote: float) -> tuple[float, float, float]:
    """Return the rates of as many cores as were emulated, of CORES on one node, and of CORES on NODES."""
    ones = [rate(seconds, cores, local, remote) for cores in (emulated_cores, CORES)]
    return ones[0], ones[1], rate(seconds, CORES, local, remote, NODES)
