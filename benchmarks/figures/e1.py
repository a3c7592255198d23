"""E1 (OSDI Fig 8b): empty tasks per second: one node, CPU time per task on 1 to 8 emulated nodes, simulated to 100."""

from __future__ import annotations

import statistics
import time

import zray

from ..timing import Effort
from .emulated import cpu_seconds, emulated, processes_of
from .model import GATE, Model, calibrated
from .results import EMULATED, MEASURED, SIMULATED, Figure, Plot, Series, linear_fit

NODES = (1, 2, 4, 8)
PAPER = "1.8 M tasks/s on 100 nodes of 64 vCPUs: 18,000 per node"
SPREAD_MAX = 0.15  # of the CPU time per task, between 1 and 8 nodes
WAVE = 10_000
IN_FLIGHT = 200  # of each node, where several share these cores
WARM_UP = 5_000  # tasks on each node, by when all its workers have started
SIZES = (1, 5, 10, 20, 50, 100)
CENTRAL_SIZES = (2, 5, 10, 20)
PAPERS_RATE = 1.8e6
SATURATED = 1.1  # a doubling that brings less than this


def measure(figure: Figure, effort: Effort) -> None:
    """All three parts."""
    rate = one_node(effort)
    figure.add("tasks/s on one node of two CPUs", rate, "1/s", MEASURED, paper=PAPER, at_least=100_000)
    several_nodes(figure, effort)
    many_nodes(figure, effort)


def one_node(effort: Effort) -> float:
    """No-op tasks per second that one driver submits and fetches, in waves: the median wave."""

    @zray.remote
    def nothing() -> None:
        pass

    rates = []
    with zray.init(num_cpus=2):
        zray.get([nothing.remote() for _ in range(WAVE)])
        end = time.perf_counter() + (3.0 if effort.quick else 60.0)
        while time.perf_counter() < end:
            started = time.perf_counter()
            zray.get([nothing.remote() for _ in range(WAVE)])
            rates.append(WAVE / (time.perf_counter() - started))
    return statistics.median(rates)


def several_nodes(figure: Figure, effort: Effort) -> None:
    """CPU time of all processes per task, in rounds; each node has a submitter of its own."""
    tasks, rounds = (80_000, 1) if effort.quick else (240_000, 5)
    runs: dict[int, list[tuple[float, float]]] = {count: [] for count in NODES}
    for _ in range(rounds):
        for count in NODES:
            runs[count].append(run_on(count, tasks))
    costs = [(float(count), statistics.median(cost for cost, _ in runs[count]) * 1e6) for count in NODES]
    rates = [(float(count), statistics.median(rate for _, rate in runs[count])) for count in NODES]
    figure.add(
        "CPU time per task from 1 to 8 nodes: farthest from that on 1 node",
        max(abs(cost / costs[0][1] - 1) for _, cost in costs) * 100,
        "%",
        EMULATED,
        at_most=SPREAD_MAX * 100,
    )
    values = ", ".join(f"{count:g}: {cost:.1f}" for count, cost in costs)
    figure.notes.append(f"CPU time per task in us, of all processes, by number of emulated nodes: {values}.")
    line = [Series("zray", EMULATED, costs)]
    figure.notes.append(
        f"Each node's submitter has {IN_FLIGHT} tasks in flight; all nodes share the cores of this machine."
    )
    figure.plots.append(Plot("CPU time per no-op task", "emulated nodes", "us of CPU", line))
    line = [Series("zray", EMULATED, rates)]
    figure.plots.append(Plot("No-op tasks per second on these cores", "emulated nodes", "tasks/s", line))


def run_on(count: int, tasks: int) -> tuple[float, float]:
    """(seconds of CPU per task, tasks per second), with so many tasks in all, by so many nodes."""

    def submit(number: int) -> int:
        @zray.remote
        def nothing() -> None:
            pass

        zray.get([nothing.remote() for _ in range(4)])  # the node learns how long it takes
        for _ in range(0, number, IN_FLIGHT):
            zray.get([nothing.remote() for _ in range(IN_FLIGHT)])
        return number

    with emulated(count) as cluster:
        on_each = [zray.remote(submit).options(resources={f"node-{i}": 1}, num_cpus=1) for i in range(count)]
        zray.get([task.remote(WARM_UP) for task in on_each])
        roots = processes_of(cluster)
        before, started = cpu_seconds(roots), time.perf_counter()
        done = sum(zray.get([task.remote(tasks // count) for task in on_each]))
        seconds = time.perf_counter() - started
        return (cpu_seconds(roots) - before) / done, done / seconds


def many_nodes(figure: Figure, effort: Effort) -> None:
    """Up to 100 nodes of two cores, in the simulator; nothing of it where it does not predict one node."""
    model = calibrated(effort)
    gate = f"{model.predicted:,.0f} tasks/s predicted for one node, {model.measured:,.0f} measured"
    label = f"the simulator predicts one node within {GATE:.0%}"
    figure.add_fact(label, model.passes, f"{gate}: {model.error:.0%} off", SIMULATED)
    if not model.passes:
        why = f"the simulator is {model.error:.0%} off the measured throughput of one node: no simulated point is shown"
        for what in ("simulated to 100 nodes", "central scheduler, simulated"):
            figure.leave_out(what, why, paper=PAPER)
        figure.notes.append(why[0].upper() + why[1:] + ".")
        return
    draw_simulated(figure, model, 1 if effort.quick else 4)


def draw_simulated(figure: Figure, model: Model, waves: int) -> None:
    rates = [(float(count), model.rate(count, waves)) for count in SIZES]
    central = [(float(count), model.rate(count, waves, "central", 200)) for count in CENTRAL_SIZES]
    _, _, r2 = linear_fit(rates)
    figure.add("simulated to 100 nodes of 2 cores: R2 of a line", r2, "", SIMULATED, paper="near-linear", at_least=0.99)
    at_20 = dict(rates)[20.0]
    label = "simulated tasks/s of 20 nodes of 2 cores"
    figure.add(label, at_20, "1/s", SIMULATED, paper="1.8 M/s with 100 nodes", at_least=PAPERS_RATE)
    figure.add("simulated tasks/s of 100 nodes of 2 cores", rates[-1][1], "1/s", SIMULATED, paper=PAPER)
    gain = central[-1][1] / central[-2][1]
    words = f"{central[-1][1]:,.0f} tasks/s on 20 nodes, {gain:.2f} times those on 10"
    figure.add_fact("all through one central scheduler, simulated: it saturates", gain < SATURATED, words, SIMULATED)
    lines = [Series("bottom-up", SIMULATED, rates), Series("central", SIMULATED, central)]
    figure.plots.append(Plot("No-op tasks per second", "nodes of 2 cores", "tasks/s", lines))
