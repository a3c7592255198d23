"""E1 (OSDI Fig 8b): empty tasks per second: one node, CPU time per task on 1 to 8 emulated nodes, simulated to 100."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator

import zray

from ..processes import Program
from ..timing import Effort
from .emulated import cluster_seconds, emulated
from .model import GATE, Model, calibrated
from .results import EMULATED, MEASURED, SIMULATED, Figure, Plot, Series, linear_fit

NODES = (1, 2, 4, 8)
PAPER = "1.8 M tasks/s on 100 nodes of 64 vCPUs: 18,000 per node"
SPREAD_MAX = 0.15  # of the CPU time per task, between 1 and 8 nodes
WAVE = 10_000
IN_FLIGHT = 200  # of each node, where several share these cores
WARM_UP = 5_000  # tasks on each node, by when all its workers have started
BESIDE = """
import select
zray = importlib.import_module(MODULE)
zray.init(num_cpus=2)
@zray.remote
def nothing():
    pass
def some(count):
    for _ in range(0, count, OPTIONS["in_flight"]):
        zray.get([nothing.remote() for _ in range(OPTIONS["in_flight"])])
some(OPTIONS["warm_up"])
report("ready")
while not select.select([sys.stdin], [], [], 0)[0]:
    some(1_000)
zray.shutdown()
"""
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
    """CPU time of all processes per task, in rounds; each node has a submitter of its own.

    With one node on these cores a third of their time is idle, with eight they are full and their caches are shared by
    eight times as many processes: that alone takes a fifth more CPU per task, in whatever program.  So beside fewer
    nodes the rest of the eight run the same in sessions of their own, and what is left is what the cluster costs.
    """
    tasks, rounds = (15_000, 1) if effort.quick else (60_000, 5)
    runs: dict[int, list[tuple[float, float]]] = {count: [] for count in NODES}
    bare: dict[int, list[float]] = {NODES[0]: [], NODES[-1]: []}
    for _ in range(rounds):
        for count in NODES:
            with beside(NODES[-1] - count):
                runs[count].append(run_on(count, tasks))
        for count, found in bare.items():
            found.append(run_on(count, tasks * NODES[-1] // 2 // count)[0])
    costs = [(float(count), statistics.median(cost for cost, _ in runs[count]) * 1e6) for count in NODES]
    rates = [(float(count), statistics.median(rate for _, rate in runs[count])) for count in NODES]
    figure.add(
        "CPU time per task from 1 to 8 nodes on full cores: farthest from that on 1 node",
        max(abs(cost / costs[0][1] - 1) for _, cost in costs) * 100,
        "%",
        EMULATED,
        at_most=SPREAD_MAX * 100,
    )
    one, eight = (statistics.median(found) * 1e6 for found in bare.values())
    figure.add(
        "CPU time per task, 8 nodes on full cores against 1 node on cores that are idle in part",
        (eight / one - 1) * 100,
        "%",
        EMULATED,
    )
    values = ", ".join(f"{count:g}: {cost:.1f}" for count, cost in costs)
    figure.notes.append(f"CPU time per task in us, of all processes, by number of emulated nodes: {values}.")
    line = [Series("zray", EMULATED, costs)]
    figure.notes.append(
        f"Each node's submitter has {IN_FLIGHT} tasks in flight; all nodes share the cores of this machine.  Beside a "
        "cluster of fewer than eight nodes the rest of the eight run the same in sessions of their own, which are not "
        f"counted: cores are full and caches are shared in each row.  With nothing beside, one node takes {one:.1f} us "
        f"per task, and eight take {eight:.1f} us."
    )
    figure.plots.append(Plot("CPU time per no-op task, full cores", "emulated nodes", "us of CPU", line))
    line = [Series("zray", EMULATED, rates)]
    title = "No-op tasks per second, each node with an eighth of these cores"
    figure.plots.append(Plot(title, "emulated nodes", "tasks/s", line))


@contextlib.contextmanager
def beside(count: int) -> Iterator[None]:
    """So many programs in sessions of their own, that do what the nodes of a cluster do."""
    with contextlib.ExitStack() as stack:
        programs = [
            stack.enter_context(Program("zray", BESIDE, in_flight=IN_FLIGHT, warm_up=WARM_UP)) for _ in range(count)
        ]
        for program in programs:
            program.next_report()
        yield
        for program in programs:
            program.go_on()


def run_on(count: int, tasks: int) -> tuple[float, float]:
    """(seconds of CPU per task, tasks per second), with so many tasks of each of so many nodes."""

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
        before, started = cluster_seconds(cluster), time.perf_counter()
        done = sum(zray.get([task.remote(tasks) for task in on_each]))
        seconds = time.perf_counter() - started
        return (cluster_seconds(cluster) - before) / done, done / seconds


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
