"""E10 (OSDI Fig 12a): allreduce: a ring of actor calls as the paper has it, zray's group, and other libraries.

Measured: two ranks on this machine, which share its memory.  Emulated: ranks in network namespaces, whose links the
kernel shapes.  Simulated: sixteen nodes at 25 Gbit/s, as in the paper; what it predicts is held to emulated ones first.
"""

from __future__ import annotations

import statistics

from .. import transfer
from ..timing import Effort
from . import ring_calls, ring_emulated, ring_measured, ring_simulated
from .results import SIMULATED, Figure, Plot, Series
from .ring_emulated import Found
from .ring_measured import ONE_STREAM, PAPER, RING
from .ring_simulated import GATE, PAPERS_LINE, PAPERS_RANKS, Costs, bound, milliseconds

PIECES = {RING: ring_calls.MANY_PIECES, ONE_STREAM: ring_calls.ONE_PIECE}
SIZES, QUICK_SIZES = (10_000_000, 100_000_000, 1_000_000_000), (1_000_000_000,)
NEAR_BOUND = 2.0
TRANSFER_MB = 200
GATED_RANKS = (2, 4)
PAPERS_TIMES = "Ray 200 ms at 100 MB, 1,200 ms at 1 GB; bounds 60 and 600 ms"


def measure(figure: Figure, effort: Effort) -> None:
    """All parts."""
    ring_measured.measure(figure, effort)
    found = ring_emulated.measure(figure, effort)
    costs = ring_simulated.costs_here()
    passed = gate(figure, found, costs)
    if passed:
        with transfer.bare_stream() as stream:
            pairs = transfer.measure(TRANSFER_MB, 2 if effort.quick else 5, stream)[1:]
        encrypted = 1e6 * statistics.median(own for _, own in pairs)
        lines = {"": PAPERS_LINE, ", of which a node here encrypts less": min(PAPERS_LINE, encrypted)}
        simulated(figure, passed, lines, costs, QUICK_SIZES if effort.quick else SIZES)
    figure.notes.append(
        f"Simulated: the costs are those of this machine: {costs.hop * 1e6:.0f} us for a message within a node, "
        f"{costs.latency * 1e6:.0f} us between nodes, {costs.byte * 1e9:.2f} ns for a byte that is added up and stored."
    )


def gate(figure: Figure, found: list[Found], costs: Costs) -> list[str]:
    """Hold the simulator to the emulated rings.  Returns the ways that it predicts."""
    held = [each for each in found if each.shape.ranks in GATED_RANKS]
    if not held:
        figure.leave_out("simulated", "there are no emulated ranks that the simulator could be held to", paper=PAPER)
        return []
    passed = []
    for way, pieces in PIECES.items():
        words, errors = [], []
        for each in held:
            size, ranks = each.largest, each.shape.ranks
            count = ring_calls.pieces_of(size, ranks, pieces)
            predicted, real = milliseconds(ranks, size, each.line, costs, pieces=count), each.median(way, size)
            errors.append(abs(predicted / real - 1))
            words.append(f"{ranks} ranks, {size / 1e6:g} MB: {predicted:.0f} predicted, {real:.0f} ms emulated")
        is_good = max(errors) <= GATE
        said = "; ".join(words)
        label = f"the simulator predicts the emulated ones within {GATE:.0%}: {way}"
        figure.add_fact(label, is_good, f"{said}: {max(errors):.0%} off at most", SIMULATED)
        if is_good:
            passed.append(way)
        else:
            why = f"the simulator is {max(errors):.0%} off emulated ranks: no simulated point is shown"
            figure.leave_out(f"{PAPERS_RANKS} ranks, 25 Gbit/s: {way}", why, paper=PAPER)
    return passed


def simulated(figure: Figure, ways: list[str], lines: dict[str, float], costs: Costs, sizes: tuple[int, ...]) -> None:
    """Rows and the plot of the paper's shape."""
    series = []
    for words, line in lines.items():
        rate = f"25 Gbit/s{words}" if not words else f"25 Gbit/s{words}, {line / 1e6:,.0f} MB/s"
        times = {
            way: [(float(size), milliseconds(PAPERS_RANKS, size, line, costs, pieces=PIECES[way])) for size in sizes]
            for way in ways
        }
        for way, points in times.items():
            series.append(Series(f"{way}{words}", SIMULATED, points))
            for size, found in points:
                label = f"{size / 1e6:,.0f} MB, {PAPERS_RANKS} ranks, {rate}: {way}"
                figure.add(label, found, "ms", SIMULATED, paper=PAPERS_TIMES)
            largest, found = points[-1]
            least = bound(PAPERS_RANKS, int(largest), PAPERS_LINE)
            label = f"{largest / 1e6:,.0f} MB, {PAPERS_RANKS} ranks, {rate}: {way}, to the bound of {least:.0f} ms"
            limit = NEAR_BOUND if way == RING else None
            figure.add(label, found / least, "x", SIMULATED, at_most=limit, paper="3.3 x, 2.0 x")
        if len(ways) == len(PIECES):
            ratio = times[RING][-1][1] / times[ONE_STREAM][-1][1]
            label = f"{sizes[-1] / 1e6:,.0f} MB, {PAPERS_RANKS} ranks, {rate}: {RING}, to one stream"
            figure.add(label, ratio, "x", SIMULATED, at_most=1.0)
    series.append(Series("bound", SIMULATED, [(float(size), bound(PAPERS_RANKS, size, PAPERS_LINE)) for size in sizes]))
    title = f"Allreduce of {PAPERS_RANKS} ranks at 25 Gbit/s"
    figure.plots.append(Plot(title, "bytes", "ms", series, log_x=True, log_y=True))
