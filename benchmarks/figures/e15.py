"""E15 (Ray paper, Fig 14a): evolution strategies, learning for real, and their scaling with and without a tree."""

from __future__ import annotations

import statistics

import zray

from ..timing import Effort
from . import e15_scaling
from .results import SIMULATED, Figure, Plot, Series

PAPER = "3.7 min at 8192 cores, 1.6 x for each doubling; the reference stops at 1024"


def measure(figure: Figure, effort: Effort) -> None:
    """Learning curves, then the simulated scaling."""
    _scaling(figure, effort)


def _scaling(figure: Figure, effort: Effort) -> None:
    with zray.init(num_cpus=2):
        costs = e15_scaling.measured_costs(2_000 if effort.quick else 20_000)
    times = {
        name: [(cores, e15_scaling.iteration_seconds(cores, costs, tree=tree)) for cores in e15_scaling.CORES]
        for name, tree in (("aggregation tree", True), ("flat driver", False))
    }
    for name, points in times.items():
        gains = [before / after for (_, before), (_, after) in zip(points, points[1:], strict=False)]
        is_tree = name == "aggregation tree"
        mean = statistics.geometric_mean(gains)
        label = f"{name}: gain of each doubling from {points[0][0]} to {points[-1][0]} cores, mean"
        figure.add(label, mean, "x", SIMULATED, paper=PAPER, at_least=1.4 if is_tree else None)
        if not is_tree:
            figure.add(f"{name}: gain of the last doubling", gains[-1], "x", SIMULATED, at_most=1.1, paper=PAPER)
        figure.add(f"{name}: seconds of an iteration at {points[-1][0]} cores", points[-1][1], "s", SIMULATED)
    lines = [Series(name, SIMULATED, [(float(x), y) for x, y in points]) for name, points in times.items()]
    title = "Seconds of one iteration of evolution strategies"
    figure.plots.append(Plot(title, "cores", "s", lines, log_x=True, log_y=True))
    figure.notes.append(
        f"Simulated: {e15_scaling.ROLLOUTS:,} rollouts of {e15_scaling.LENGTHS[0]} to {e15_scaling.LENGTHS[1]} steps, "
        f"{e15_scaling.STEP_SECONDS * 1e6:.0f} us a step, {e15_scaling.PARAMETERS:,} parameters. Costs measured here: "
        f"{costs.result * 1e6:.0f} us to submit a rollout and fetch its result, {costs.noise * 1e6:.0f} us to add a "
        f"noise vector, {costs.vector * 1e6:.0f} us to fetch and add a partial sum."
    )
