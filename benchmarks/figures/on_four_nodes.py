"""E11 and E12 on four emulated machines with links of 1 Gbit/s: delays of dispatch, and SGD whose computing sleeps."""

from __future__ import annotations

import statistics

from ..timing import Effort
from . import ring_calls, ring_simulated, sgd_sleeping
from .e11 import DELAYS_MS, PAPER, ByDelay, judge_ring
from .namespaces import network
from .net_node import nodes_on
from .results import EMULATED, SIMULATED, Figure, Plot, Series
from .ring_simulated import GATE, PAPERS_LINE, PAPERS_RANKS, Costs, milliseconds
from .slow_dispatch import slow_nodes

RANKS, MBIT = 4, 1_000.0
DELAY_SIZE = 1_000_000  # bytes: the links are not the limit
PAPERS_SIZE = 100_000_000
SLOWER_AT_5_MS = (1.5, 2.2)
VISIBLY = 1.05  # slower without overlap
GROUP, NO_OVERLAP, SERVERS = "zray, group", "zray, group, without overlap", "zray, parameter servers"
WAYS = {GROUP: sgd_sleeping.OVERLAP, NO_OVERLAP: sgd_sleeping.NO_OVERLAP, SERVERS: sgd_sleeping.SERVERS}
BATCH = 32


def delays(figure: Figure, effort: Effort) -> None:
    """Rows of the ring of four, by the delay."""
    ring: ByDelay = {delay: [] for delay in DELAYS_MS}
    try:
        with slow_nodes() as hook, network(RANKS, MBIT) as links, nodes_on(links, hook.path) as nodes:
            for number in range(2 if effort.quick else 7):
                for delay in DELAYS_MS if number % 2 else DELAYS_MS[::-1]:
                    hook.seconds = delay / 1e3
                    found = nodes.by_size("ring", [DELAY_SIZE], ring_calls.ONE_PIECE, 5)
                    ring[delay].append(found[DELAY_SIZE])
    except NotImplementedError as error:
        figure.leave_out(f"{RANKS} ranks in network namespaces", str(error))
        return
    judge_ring(figure, ring, ranks=RANKS, kind=EMULATED)
    medians = {delay: statistics.median(times) for delay, times in ring.items()}
    simulated_delays(figure, medians, links.bytes_per_second, ring_simulated.costs_here())
    figure.notes.append(
        f"Emulated: {RANKS} ranks in network namespaces, {MBIT:g} Mbit/s a link, {DELAY_SIZE / 1e6:g} MB. All share "
        "the cores of this machine."
    )


def simulated_delays(figure: Figure, emulated: dict[float, float], line: float, costs: Costs) -> None:
    """Rows of the paper's shape, where the simulator predicts what each delay adds on emulated nodes.

    What an allreduce takes without a delay is not compared: emulated nodes share the cores of this machine.
    """

    def times(ranks: int, size: int, line: float) -> dict[float, float]:
        return {delay: milliseconds(ranks, size, line, costs, delay=delay / 1e3) for delay in DELAYS_MS}

    start, own = emulated[0.0], times(RANKS, DELAY_SIZE, line)
    predicted = {delay: start + found - own[0.0] for delay, found in own.items()}
    error = max(abs(predicted[delay] / emulated[delay] - 1) for delay in DELAYS_MS)
    words = ", ".join(f"+{delay:g}: {predicted[delay]:.0f} and {emulated[delay]:.0f}" for delay in DELAYS_MS)
    label = f"the simulator predicts what a delay adds for {RANKS} emulated ranks within {GATE:.0%}"
    figure.add_fact(label, error <= GATE, f"predicted and emulated ms, {words}: {error:.0%} off at most", SIMULATED)
    what = f"{PAPERS_RANKS} ranks, 100 MB, 25 Gbit/s"
    if error > GATE:
        figure.leave_out(
            what, f"the simulator is {error:.0%} off emulated ranks: no simulated point is shown", paper=PAPER
        )
        return
    found = times(PAPERS_RANKS, PAPERS_SIZE, PAPERS_LINE)
    for delay, milli in found.items():
        figure.add(f"{what}, +{delay:g} ms: ring", milli, "ms", SIMULATED, paper=PAPER)
    least, most = SLOWER_AT_5_MS
    label = f"{what}: ring with +5 ms, to without"
    figure.add(label, found[5.0] / found[0.0], "x", SIMULATED, paper="nearly 2 x", at_least=least, at_most=most)
    line_of = [Series("ring", SIMULATED, list(found.items()))]
    figure.plots.append(Plot(f"Allreduce of {what}, by the delay of dispatch", "ms added", "ms", line_of))


def sgd(figure: Figure, effort: Effort) -> None:
    """Rows of four replicas whose computing sleeps."""
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    steps, rounds = (2, 2) if effort.quick else (8, 5)
    try:
        with slow_nodes() as hook, network(RANKS, MBIT) as links, nodes_on(links, hook.path) as nodes:
            nodes.ask("sgd", sgd_sleeping.OVERLAP, 1)
            for number in range(rounds):
                for name in WAYS if number % 2 else reversed(WAYS):
                    rates[name].append(RANKS * BATCH / float(nodes.ask("sgd", WAYS[name], steps)))
    except NotImplementedError as error:
        figure.leave_out(f"{RANKS} replicas in network namespaces", str(error))
        return
    judge_sgd(figure, rates)
    seconds = sgd_sleeping.FORWARD_SECONDS + sgd_sleeping.BACKWARD_SECONDS
    figure.notes.append(
        f"Emulated: {RANKS} replicas of the MLP's gradients in network namespaces, {MBIT:g} Mbit/s a link. Forward and "
        f"backward sleep, {seconds:g} s together; batches of {BATCH}."
    )


def judge_sgd(figure: Figure, rates: dict[str, list[float]]) -> None:
    """Without overlap it must be visibly slower."""
    compute = sgd_sleeping.FORWARD_SECONDS + sgd_sleeping.BACKWARD_SECONDS
    best = RANKS * BATCH / compute
    for name, values in rates.items():
        label = f"{RANKS} replicas: {name}"
        figure.add(label, statistics.median(values), "images/s", EMULATED, runs=values)
        figure.keep(label, values, "images/s", EMULATED)
        figure.add(f"{label}, to replicas that never wait", statistics.median(values) / best, "x", EMULATED)
    ratios = [a / b for a, b in zip(rates[GROUP], rates[NO_OVERLAP], strict=True)]
    label = f"{RANKS} replicas: {GROUP}, to without overlap"
    figure.add(label, statistics.median(ratios), "x", EMULATED, at_least=VISIBLY, runs=ratios)
