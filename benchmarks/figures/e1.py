"""E1 (OSDI Fig 8b): empty tasks per second: one node, CPU time per task on 1 to 8 emulated nodes, simulated to 100."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator

import zray
from zray.cluster_utils import Cluster

from ..processes import Program
from ..timing import Effort
from . import one_node as one_node_more
from .emulated import cluster_of, cluster_seconds, connected
from .model import GATE, Model, calibrated, farthest_apart, growth
from .results import EMULATED, MEASURED, RATE, SIMULATED, Figure, Plot, Series, linear_fit

NODES = (1, 2, 4, 8)
PAPER = "1.8 M tasks/s on 100 nodes of 64 vCPUs: 18,000 per node"
SPREAD_MAX = 0.15  # of the CPU time per task, between 1 and 8 nodes
WAVE = 10_000
IN_FLIGHT = 200  # of each node, where several share these cores
# The rate of each node, and the size of its waves.  Eight emulated nodes together take less than 1.5 of two cores, so
# no node waits for the work of another one, as on machines of their own.
PACE = 10_000.0  # tasks per second
PACED_WAVE = 1_000
PACED_TASKS = 20_000  # of each node: two seconds
WARM_UP = 3_000  # tasks on each node, by when all its workers have started
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
CENTRAL_SIZES = (2, 5, 10, 20, 40)
PAPERS_RATE = 1.8e6
SATURATED = 1.1  # a doubling that brings less than this


def measure(figure: Figure, effort: Effort) -> None:
    """All parts."""
    rates = one_node(effort)
    figure.keep(f"tasks/s on one node of two CPUs, each wave of {WAVE:,}", rates, "1/s", MEASURED)
    label, rate = "tasks/s on one node of two CPUs", statistics.median(rates)
    figure.add(label, rate, "1/s", MEASURED, paper=PAPER, at_least=100_000, scales=RATE)
    one_node_more.measure(figure, effort)
    many_nodes(figure, effort, several_nodes(figure, effort))


def one_node(effort: Effort) -> list[float]:
    """No-op tasks per second that one driver submits and fetches, by wave."""

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
    return rates


def several_nodes(figure: Figure, effort: Effort) -> list[tuple[float, float]]:
    """CPU time of all processes per task on 1, 2, 4 and 8 emulated nodes, each with a submitter of its own: so the
    paper's figure can be had on one machine.

    Each round has all of them; what counts is the median of many rounds' ratios, for the machine may be half as fast
    again ten seconds later.  What has the limit is done at a pace that leaves the cores idle now and then.  Flat out,
    thirty processes share two cores and their caches, as those of as many machines would not (`on_full_cores`).

    Returns (nodes, us of CPU time per task at that pace).
    """
    rounds, flat_rounds, flat_out = (2, 2, 80_000) if effort.quick else (16, 5, 160_000)
    at_pace: dict[int, list[tuple[float, float]]] = {count: [] for count in NODES}
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in NODES}
    with contextlib.ExitStack() as stack:
        clusters = {count: stack.enter_context(cluster_of(count)) for count in NODES}
        for number in range(rounds):
            for count in NODES if number % 2 else reversed(NODES):
                with connected(clusters[count]):
                    at_pace[count].append(run_on(clusters[count], count, PACED_TASKS, PACED_WAVE, PACE))
                    if number < flat_rounds:
                        found[count].append(run_on(clusters[count], count, flat_out // count))
    figure.add(
        f"CPU time per task from 1 to 8 nodes of {PACE:,.0f} tasks/s each: farthest from that on 1 node",
        farthest(at_pace) * 100,
        "%",
        EMULATED,
        paper="near-linear",
        at_most=SPREAD_MAX * 100,
    )
    label = "the same flat out, where all nodes share two cores and their caches"
    figure.add(label, farthest(found) * 100, "%", EMULATED)
    for count in NODES:
        for what, runs in ((f"{PACE:,.0f} tasks/s each", at_pace), ("flat out", found)):
            figure.keep(
                f"CPU time per task, {count} node(s), {what}", [run[0] * 1e6 for run in runs[count]], "us", EMULATED
            )
    slow, fast = medians(at_pace, 0, 1e6), medians(found, 0, 1e6)
    figure.notes.append(
        f"CPU time per task in us, of all processes, by number of emulated nodes: {in_words(slow)} where each node "
        f"submits {PACED_WAVE:,} tasks {PACE / PACED_WAVE:g} times a second, so that all together leave the cores idle "
        f"now and then (medians of {rounds} rounds, each with all); {in_words(fast)} flat out, each with {IN_FLIGHT} "
        f"tasks in flight, {flat_out:,} tasks a time (of {flat_rounds} rounds)."
    )
    lines = [Series(f"{PACE:,.0f} tasks/s each", EMULATED, slow), Series("flat out", EMULATED, fast)]
    figure.plots.append(Plot("CPU time per no-op task", "emulated nodes", "us of CPU", lines))
    line = [Series("zray", EMULATED, medians(found, 1, 1.0))]
    title = "No-op tasks per second, all nodes on the cores of this machine"
    figure.plots.append(Plot(title, "emulated nodes", "tasks/s", line))
    on_full_cores(figure, effort)
    return slow


def on_full_cores(figure: Figure, effort: Effort) -> None:
    """Flat out where no row has the cores for itself: beside fewer nodes the rest of the eight run in sessions of their
    own.  So what it costs that processes share cores is in all of them, and the rest is what a larger cluster costs.
    """
    tasks, rounds = (10_000, 1) if effort.quick else (20_000, 3)
    counts = (NODES[0], NODES[-1]) if effort.quick else NODES
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
    for number in range(rounds):
        for count in counts if number % 2 else reversed(counts):
            with beside(NODES[-1] - count), cluster_of(count) as cluster, connected(cluster):
                found[count].append(run_on(cluster, count, tasks))
    costs = medians(found, 0, 1e6)
    label = "flat out beside programs of their own, eight in all: farthest from that on 1 node"
    figure.add(label, farthest(found) * 100, "%", EMULATED)
    figure.notes.append(
        "Beside a cluster of fewer than eight nodes the rest of the eight run the same in "
        f"sessions of their own, which are not counted. CPU time per task in us: {in_words(costs)} (medians of "
        f"{rounds} rounds)."
    )


def medians(found: dict[int, list[tuple[float, float]]], index: int, unit: float) -> list[tuple[float, float]]:
    """(nodes, the median of that item of its runs)."""
    return [(float(count), statistics.median(run[index] for run in runs) * unit) for count, runs in found.items()]


def farthest(found: dict[int, list[tuple[float, float]]]) -> float:
    """How far the CPU time per task of any number of nodes is from that of one, as the median of the rounds' ratios."""
    one, *others = found.values()
    ratios = [[cost / first for (cost, _), (first, _) in zip(runs, one, strict=True)] for runs in others]
    return max(abs(statistics.median(ratio) - 1) for ratio in ratios)


def in_words(costs: list[tuple[float, float]]) -> str:
    return ", ".join(f"{count:g}: {cost:.1f}" for count, cost in costs)


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


def run_on(cluster: Cluster, count: int, tasks: int, wave: int = IN_FLIGHT, pace: float = 0.0) -> tuple[float, float]:
    """(seconds of CPU per task, tasks per second), with so many tasks of each of its nodes.  We are its driver.

    pace: tasks per second of each node, 0 for as many as it can; the nodes' waves begin one after the other.
    """

    def submit(number: int, period: float, phase: float) -> int:
        @zray.remote
        def nothing() -> None:
            pass

        zray.get([nothing.remote() for _ in range(4)])  # the node learns how long it takes
        begin = time.time() + (phase - time.time()) % period if period else 0.0
        for done in range(0, number, wave):
            time.sleep(max(0.0, begin + done // wave * period - time.time()))
            zray.get([nothing.remote() for _ in range(wave)])
        return number

    period = wave / pace if pace else 0.0
    on_each = [zray.remote(submit).options(resources={f"node-{i}": 1}, num_cpus=1) for i in range(count)]
    zray.get([task.remote(WARM_UP, 0.0, 0.0) for task in on_each])
    before, started = cluster_seconds(cluster), time.perf_counter()
    done = sum(zray.get([task.remote(tasks, period, period * i / count) for i, task in enumerate(on_each)]))
    seconds = time.perf_counter() - started
    return (cluster_seconds(cluster) - before) / done, done / seconds


def many_nodes(figure: Figure, effort: Effort, at_pace: list[tuple[float, float]]) -> None:
    """Up to 100 nodes of two cores, in the simulator; nothing of it where it does not predict one node, or not how the
    CPU time per task changes from there to 8 emulated ones (at_pace).
    """
    model = calibrated(effort)
    gate = f"{model.predicted:,.0f} tasks/s predicted for one node, {model.measured:,.0f} measured"
    label = f"the simulator predicts one node within {GATE:.0%}"
    figure.add_fact(label, model.passes, f"{gate}: {model.error:.0%} off", SIMULATED)
    simulated = [(nodes, model.cpu_per_task(int(nodes)) * 1e6) for nodes, _ in at_pace]
    curves = growth(at_pace), growth(simulated)
    error = farthest_apart(curves[1], curves[0])
    sizes = ", ".join(f"{nodes:g}: {a:.2f} and {b:.2f}" for (nodes, a), (_, b) in zip(*curves, strict=True))
    label = f"the simulator predicts how CPU time per task changes from 1 to {at_pace[-1][0]:g} nodes within {GATE:.0%}"
    figure.add_fact(
        label, error <= GATE, f"emulated and simulated, by nodes: {sizes}: {error:.0%} off at most", SIMULATED
    )
    if not model.passes or error > GATE:
        why = (
            f"the simulator is {model.error:.0%} off the measured throughput of one node, and {error:.0%} off how the "
            "CPU time per task changes with the nodes: no simulated point is shown"
        )
        for what in ("simulated to 100 nodes", "central scheduler, simulated"):
            figure.leave_out(what, why, paper=PAPER)
        figure.notes.append(why[0].upper() + why[1:] + ".")
        return
    lines = [Series("emulated, at a pace", EMULATED, curves[0]), Series("simulated", SIMULATED, curves[1])]
    figure.plots.append(Plot("CPU time per no-op task / that on one node", "nodes", "times", lines))
    costs = "; ".join(f"{name} {in_words(found)}" for name, found in (("emulated", at_pace), ("simulated", simulated)))
    figure.notes.append(
        f"The simulator's gate. CPU time per task in us, by nodes: {costs}. What is compared is how it changes with "
        "the nodes: that emulated nodes rest between their waves and are cold after that is not in the simulator, and "
        "tasks per second of nodes that share two cores are no measure of nodes that each have two."
    )
    draw_simulated(figure, model, 1 if effort.quick else 4)


def draw_simulated(figure: Figure, model: Model, waves: int) -> None:
    rates = [(float(count), model.rate(count, waves)) for count in SIZES]
    central = [(float(count), model.rate(count, waves, "central", 200)) for count in CENTRAL_SIZES]
    _, _, r2 = linear_fit(rates)
    figure.add("simulated to 100 nodes of 2 cores: R2 of a line", r2, "", SIMULATED, paper="near-linear", at_least=0.99)
    at_20 = dict(rates)[20.0]
    label = "simulated tasks/s of 20 nodes of 2 cores"
    figure.add(label, at_20, "1/s", SIMULATED, paper="1.8 M/s with 100 nodes", at_least=PAPERS_RATE, scales=RATE)
    figure.add("simulated tasks/s of 100 nodes of 2 cores", rates[-1][1], "1/s", SIMULATED, paper=PAPER)
    gain = central[-1][1] / central[-2][1]
    words = f"{central[-1][1]:,.0f} tasks/s on {CENTRAL_SIZES[-1]} nodes, {gain:.2f} times those on {CENTRAL_SIZES[-2]}"
    figure.add_fact("all through one central scheduler, simulated: it saturates", gain < SATURATED, words, SIMULATED)
    lines = [Series("bottom-up", SIMULATED, rates), Series("central", SIMULATED, central)]
    figure.plots.append(Plot("No-op tasks per second", "nodes of 2 cores", "tasks/s", lines))
