"""E18 (HotOS 2017): short simulations and a batched policy step: serial, on zray, and bulk-synchronous.

The bulk-synchronous engine is Dask's distributed, where it is installed: what it costs per stage is measured on it.
The variable ZRAY_DASK_PYTHON names the Python of another environment that has it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import zray

from ..timing import Effort
from . import hotos_simulated
from .emulated import emulated
from .hotos_peer import POLICY_SECONDS, policy, serial, simulate
from .results import EMULATED, MEASURED, SIMULATED, Figure, Plot, Series

CORES, EMULATED_CORES = 2, 8
SECONDS = 0.007  # of a simulation
LENGTHS, QUICK_LENGTHS = (0.001, SECONDS, 0.02, 0.07), (SECONDS, 0.07)
PAPER = "63 times as fast as Spark, which is slower than one thread"
REMEMBERED = "as remembered of the paper, not verified"
DASK_MISSING = "distributed is not installed: pip install distributed"
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hotos_peer.py")
GET_SECONDS = 120.0
STAGES_MIN = 4
SERIAL, ZRAY = "serial", "zray"
Run = Callable[[int, float, bool, int], float]  # simulations of a stage, seconds of each, sleeps, stages -> seconds


@dataclass
class Rates:
    """Simulations per second, one value of each round, by way."""

    by_way: dict[str, list[float]] = field(default_factory=dict)
    stage: list[float] = field(default_factory=list)  # seconds of an empty stage of the engine


def measure(figure: Figure, effort: Effort) -> None:
    """All parts."""
    lengths = QUICK_LENGTHS if effort.quick else LENGTHS
    rounds, stages = (4, 15) if effort.quick else (7, 40)
    found = {length: Rates() for length in lengths}
    with zray_session(CORES) as own, dask(CORES, 1) as peer:
        for _ in range(rounds):
            for length, rates in found.items():
                one_round(rates, own, peer, CORES, length, False, max(STAGES_MIN, int(stages * SECONDS / length)))
    judge(figure, found)
    with zray_session(EMULATED_CORES) as own, dask(2, EMULATED_CORES // 2) as peer:
        sleeping = Rates()
        for _ in range(rounds):
            one_round(sleeping, own, peer, EMULATED_CORES, SECONDS, True, stages)
    judge_shape(figure, f"{EMULATED_CORES} x 7 ms", sleeping, EMULATED)
    local, remote = latencies(figure, 100 if effort.quick else 1_000)
    judge_simulated(figure, sleeping, local, remote)
    figure.notes.append(
        f"A stage has as many simulations as workers, and a policy step of {POLICY_SECONDS * 1e3:g} ms. Measured: "
        f"they compute on {CORES} cores. Emulated: {EMULATED_CORES} workers of one machine, whose simulations sleep. "
        "On zray all stages are submitted at once, and depend on each other by their arguments. Dask's distributed "
        f"gathers each stage. Medians of {rounds} rounds of {stages} stages (fewer of longer simulations), all ways in "
        "turns. Simulated: one node "
        f"of {hotos_simulated.CORES} CPUs, with the latencies that were measured here."
    )


def one_round(rates: Rates, own: Run, peer: Peer | None, count: int, length: float, sleeps: bool, stages: int) -> None:
    """Measure each way once."""
    runs: dict[str, Run] = {SERIAL: serial, ZRAY: own}
    if peer is not None:
        runs[peer.name] = peer
        rates.stage.append(peer(0, 0.0, False, stages) / stages)
    for name, run in runs.items():
        rates.by_way.setdefault(name, []).append(count * stages / run(count, length, sleeps, stages))


@contextlib.contextmanager
def zray_session(cpus: int) -> Iterator[Run]:
    """The workload on so many workers."""
    remote_simulate: Any = zray.remote(simulate)
    remote_policy: Any = zray.remote(lambda sleeps, *states: policy(list(states), sleeps))

    def run(count: int, seconds: float, sleeps: bool, stages: int) -> float:
        started = time.perf_counter()
        actions: Any = [1.0 + number for number in range(count)]
        for _ in range(stages):
            states = [remote_simulate.remote(seconds, sleeps, action) for action in actions]
            actions = remote_policy.options(num_returns=count).remote(sleeps, *states)
        zray.get(actions, timeout=GET_SECONDS)
        return time.perf_counter() - started

    with zray.init(num_cpus=cpus):
        run(cpus, 0.01, True, 3)  # all workers have started
        yield run


# --- the engine in stages ---


class Peer:
    """Dask's distributed in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.name = f"Dask's distributed {self._line()}, in stages"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __call__(self, count: int, seconds: float, sleeps: bool, stages: int) -> float:
        """Return the seconds of so many stages."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"[{count}, {seconds}, {str(sleeps).lower()}, {stages}]\n")
        self.process.stdin.flush()
        return float(self._line())


@contextlib.contextmanager
def dask(processes: int, threads: int) -> Iterator[Peer | None]:
    """Start it; nothing where it is not installed."""
    python = os.environ.get("ZRAY_DASK_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import distributed"], capture_output=True, check=False).returncode:
        yield None
        return
    pipe = subprocess.PIPE
    command = [python, PEER, str(processes), str(threads)]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    try:
        yield Peer(process)
    finally:
        try:
            process.communicate(timeout=GET_SECONDS)  # no further order: it ends, and its workers before it
        finally:
            process.kill()
            process.wait()


# --- rows ---


def judge(figure: Figure, found: dict[float, Rates]) -> None:
    """Rows of the measured shapes, and the plot of all lengths."""
    for length, rates in found.items():
        judge_shape(figure, f"{CORES} x {length * 1e3:g} ms", rates, MEASURED, has_limits=length == SECONDS)
    ways = next(iter(found.values())).by_way
    lines = [
        Series(way, MEASURED, [(length * 1e3, ratio(rates, way, SERIAL)) for length, rates in found.items()])
        for way in ways
    ]
    figure.plots.append(Plot("Simulations per second, to serial", "ms of a simulation", "times", lines, log_x=True))


def ratio(rates: Rates, way: str, other: str) -> float:
    """Return the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(rates.by_way[way], rates.by_way[other], strict=True))


def judge_shape(figure: Figure, shape: str, rates: Rates, kind: str, *, has_limits: bool = True) -> None:
    """Rows of one shape: zray is faster than serial, and stages are slower."""
    for way, values in rates.by_way.items():
        label = f"{shape}: {way}"
        figure.add(label, statistics.median(values), "simulations/s", kind, paper=PAPER, runs=values)
        figure.keep(label, values, "simulations/s", kind)
    least = 1.0 if has_limits else None
    figure.add(f"{shape}: zray, to serial", ratio(rates, ZRAY, SERIAL), "x", kind, at_least=least)
    peers = [way for way in rates.by_way if way not in (SERIAL, ZRAY)]
    if not peers:
        figure.leave_out(f"{shape}: in stages, to serial", DASK_MISSING, paper=PAPER)
    for peer in peers:
        most = 1.0 if has_limits and kind == MEASURED else None
        figure.add(f"{shape}: in stages, to serial", ratio(rates, peer, SERIAL), "x", kind, at_most=most)
        figure.add(f"{shape}: zray, to in stages", ratio(rates, ZRAY, peer), "x", kind, paper="63 x, to Spark")
        stage = [1e3 * value for value in rates.stage]
        label = f"{shape}: an empty stage of {peer.partition(',')[0]}"
        figure.add(label, statistics.median(stage), "ms", kind, runs=stage)


def latencies(figure: Figure, count: int) -> tuple[float, float]:
    """Rows of single tasks.  Returns the median seconds of a task here, and of one on another node."""

    @zray.remote
    def nothing() -> None:
        pass

    submits, gets = list[float](), list[float]()
    locals_, remotes = list[float](), list[float]()
    with emulated(1, cpus=1, head_cpus=1):
        there, here = nothing.options(resources={"node-0": 1}), nothing
        zray.get([there.remote(), here.remote()])
        for _ in range(count):
            started = time.perf_counter()
            ref = here.remote()
            submits.append(time.perf_counter() - started)
            zray.wait([ref], timeout=GET_SECONDS)
            started = time.perf_counter()
            zray.get(ref)
            gets.append(time.perf_counter() - started)
            for task, times in ((here, locals_), (there, remotes)):
                started = time.perf_counter()
                zray.get(task.remote())
                times.append(time.perf_counter() - started)
    rows = {
        "submit a task": (submits, MEASURED, "35 us"),
        "get of a ready result": (gets, MEASURED, "110 us"),
        "an empty task on this node, to its result": (locals_, MEASURED, "290 us"),
        "an empty task on another node, to its result": (remotes, EMULATED, "1 ms"),
    }
    for label, (times, kind, paper) in rows.items():
        in_us = [1e6 * value for value in times]
        figure.add(label, statistics.median(in_us), "us", kind, paper=f"{paper} ({REMEMBERED})", runs=in_us)
        figure.keep(label, in_us, "us", kind)
    return statistics.median(locals_), statistics.median(remotes)


def judge_simulated(figure: Figure, sleeping: Rates, local: float, remote: float) -> None:
    """64 workers in the simulator, held against the emulated ones first."""
    gate, found, apart = hotos_simulated.rates(SECONDS, EMULATED_CORES, local, remote)
    real = statistics.median(sleeping.by_way[ZRAY])
    error = abs(gate / real - 1)
    words = f"{gate:,.0f} simulations/s predicted, {real:,.0f} emulated: {error:.0%} off"
    label = f"the simulator predicts {EMULATED_CORES} x 7 ms within {hotos_simulated.GATE:.0%}"
    figure.add_fact(label, error <= hotos_simulated.GATE, words, SIMULATED)
    what = f"{hotos_simulated.CORES} x 7 ms"
    if error > hotos_simulated.GATE:
        figure.leave_out(what, f"the simulator is {error:.0%} off the emulated rate: no simulated point is shown")
        return
    one = 1 / (SECONDS + POLICY_SECONDS / hotos_simulated.CORES)
    figure.add(f"{what}: {ZRAY}", found, "simulations/s", SIMULATED, paper=PAPER)
    label = f"{what}: {ZRAY}, {hotos_simulated.NODES} nodes, all submitted on one of them, where short stages stay"
    figure.add(label, apart, "simulations/s", SIMULATED)
    figure.add(f"{what}: zray, to serial", found / one, "x", SIMULATED, at_least=1.0)
    if not sleeping.stage:
        figure.leave_out(f"{what}: in stages, to serial", DASK_MISSING, paper=PAPER)
        return
    stage = SECONDS + POLICY_SECONDS + statistics.median(sleeping.stage)
    in_stages = hotos_simulated.CORES / stage
    label = f"{what}: in stages, each with what an empty one of {EMULATED_CORES} tasks costs on Dask: zray, to it"
    figure.add(label, found / in_stages, "x", SIMULATED, at_least=1.0, paper="63 x, to Spark")
