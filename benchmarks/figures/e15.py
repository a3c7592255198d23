"""E15 (Ray paper, Fig 14a): evolution strategies, learning for real, and their scaling with and without a tree."""

from __future__ import annotations

import importlib.util
import statistics
import time
from typing import Any

import numpy as np

import zray

from ..rllib_learning import Learned, learn
from ..timing import Effort
from . import e15_scaling
from .results import MEASURED, SIMULATED, Figure, Plot, Series

PAPER = "3.7 min at 8192 cores, 1.6 x for each doubling; the reference stops at 1024"
TASK = "cartpole-es-linear"  # of the tuned options
LEARNING_SECONDS = 30.0  # that two workers may take
# How many workers play episodes, and who adds up the noise.
WAYS: dict[str, dict[str, Any]] = {
    "1 worker, aggregation tree": {"num_env_runners": 1, "aggregation": "tree"},
    "2 workers, aggregation tree": {"num_env_runners": 2, "aggregation": "tree"},
    "2 workers, flat driver": {"num_env_runners": 2, "aggregation": "flat"},
}
UPDATE_PAIRS = 200  # of episodes, whose noise is added up


def measure(figure: Figure, effort: Effort) -> None:
    """Learning curves, then the simulated scaling."""
    if all(importlib.util.find_spec(name) for name in ("torch", "gymnasium")):
        _learning(figure, effort)
        _updates(figure, effort)
    else:
        figure.leave_out("ES learns CartPole-v1", "torch and gymnasium are not installed: pip install 'zray[rllib]'")
    _scaling(figure, effort)


def _learning(figure: Figure, effort: Effort) -> None:
    from zray.rllib.tuned import TUNED

    seeds = range(1 if effort.quick else 3)
    runs: dict[str, list[Learned]] = {way: [] for way in WAYS}
    with zray.init(num_cpus=2, log_to_driver=False):
        for seed in seeds:
            for way, options in WAYS.items():
                row = TUNED[TASK]
                runs[way].append(learn({**row, "config": {**row["config"], **options}}, seed))
    figure.seeds += seeds
    judge_learning(figure, runs)
    level = TUNED[TASK]["stop"]["episode_reward_mean"]
    figure.notes.append(
        f"Measured: a linear policy, until 20 greedy episodes have a mean return of {level}, which is looked at every "
        "10,000 steps. The seconds are those of training, without the evaluation and the start of the workers."
    )


def judge_learning(figure: Figure, runs: dict[str, list[Learned]]) -> None:
    """Rows of runs, which have the same seeds for each way."""
    for way, found in runs.items():
        seconds, steps = max(run.seconds for run in found), max(run.points[-1][0] for run in found)
        words = f"{sum(run.is_reached for run in found)} of {len(found)} seeds, at most {steps:,} steps"
        figure.add_fact(f"CartPole-v1 to 475, {way}", all(run.is_reached for run in found), words, MEASURED)
        limit = LEARNING_SECONDS if way.startswith("2") else None
        figure.add(f"the same: seconds of the slowest seed, {way}", seconds, "s", MEASURED, at_most=limit, paper=PAPER)
        figure.keep(f"CartPole-v1 to 475, {way}", [run.seconds for run in found], "s", MEASURED)
    curves = {way: [run.points for run in found] for way, found in runs.items()}
    first, *others = curves.values()
    differ = sum(points != same for other in others for points, same in zip(other, first, strict=True))
    words = f"{differ} of {sum(map(len, others))} curves differ from that of 1 worker"
    figure.add_fact("the curves are the same for 1 and 2 workers, tree and flat", not differ, words, MEASURED)
    points = [[(float(steps), value) for steps, value in curve] for curve in first]
    lines = [Series(f"seed {seed}", MEASURED, line) for seed, line in enumerate(points)]
    figure.plots.append(Plot("ES on CartPole-v1: greedy return", "steps", "return", lines))


def _updates(figure: Figure, effort: Effort) -> None:
    """The sum of the noise of an iteration, for as many parameters as in the simulation."""
    from zray.rllib.algorithms.es import ESConfig

    weights: np.ndarray = np.ones(UPDATE_PAIRS, np.float32)
    times: dict[str, list[float]] = {"tree": [], "flat": []}
    with zray.init(num_cpus=2, log_to_driver=False):
        algos = {}
        for way in times:
            config = ESConfig().environment("Pendulum-v1").env_runners(num_env_runners=2)
            # 3 observations and 1 action leave all but 1,605 parameters between the hidden layers.
            config.training(model={"fcnet_hiddens": [405, 405]}, aggregation=way, noise_size=25_000_000)
            algos[way] = config.build_algo()
        sums = {way: algo.rollouts.weighted_noise(0, weights) for way, algo in algos.items()}
        for iteration in range(5 if effort.quick else 15):
            for way, algo in algos.items():
                begun = time.perf_counter()
                algo.rollouts.weighted_noise(iteration, weights)
                times[way].append(time.perf_counter() - begun)
        size = algos["tree"].policy.size
        for algo in algos.values():
            algo.stop()
    ratio = statistics.median(flat / tree for flat, tree in zip(times["flat"], times["tree"], strict=True))
    label = f"noise of {UPDATE_PAIRS} pairs and {size:,} parameters added up: flat driver, to a tree of 2 workers"
    figure.add(label, ratio, "x", MEASURED)
    for way, values in times.items():
        figure.keep(f"noise added up, {way}", values, "s", MEASURED)
    is_equal = bool((sums["tree"] == sums["flat"]).all())
    figure.add_fact("both sums have the same bits", is_equal, "equal" if is_equal else "DIFFERENT", MEASURED)


def _scaling(figure: Figure, effort: Effort) -> None:
    costs = e15_scaling.measured_costs(2_000 if effort.quick else 20_000)
    times = {
        name: [(cores, seconds(cores, costs)) for cores in e15_scaling.CORES]
        for name, seconds in e15_scaling.WAYS.items()
    }
    for name, points in times.items():
        gains = [before / after for (_, before), (_, after) in zip(points, points[1:], strict=False)]
        is_tree = name == "aggregation tree"
        mean = statistics.geometric_mean(gains)
        label = f"{name}: gain of each doubling from {points[0][0]} to {points[-1][0]} cores, mean"
        figure.add(label, mean, "x", SIMULATED, paper=PAPER, at_least=1.4 if is_tree else None)
        if not is_tree:
            limit = 1.1 if name == "flat driver" else None
            figure.add(f"{name}: gain of the last doubling", gains[-1], "x", SIMULATED, at_most=limit, paper=PAPER)
            best = min(points, key=lambda point: point[1])
            figure.add(f"{name}: cores of the fastest iteration", best[0], "", SIMULATED)
        figure.add(f"{name}: seconds of an iteration at {points[-1][0]} cores", points[-1][1], "s", SIMULATED)
    lines = [Series(name, SIMULATED, [(float(x), y) for x, y in points]) for name, points in times.items()]
    title = "Seconds of one iteration of evolution strategies"
    figure.plots.append(Plot(title, "cores", "s", lines, log_x=True, log_y=True))
    result, wait, noise, vector = (
        f"{seconds * 1e6:.0f} us" for seconds in (costs.result, costs.wait, costs.noise, costs.vector)
    )
    figure.notes.append(
        f"Simulated: {e15_scaling.ROLLOUTS:,} rollouts of {e15_scaling.LENGTHS[0]} to {e15_scaling.LENGTHS[1]} steps, "
        f"{e15_scaling.STEP_SECONDS * 1e6:.0f} us a step, {e15_scaling.PARAMETERS:,} parameters. CPU time of the "
        f"driver, measured here: {result} to submit one of many rollouts and fetch its result; {wait} to wait for one, "
        f"fetch its result and submit the next, and {costs.waiting * 1e6:.2f} us more for each rollout under way; "
        f"{noise} to find and add a noise vector; {vector} to fetch and add a partial sum. The flat driver waits for "
        "one rollout at a time, as an aggregator does. A flat driver that submits all at once waits for none, and no "
        "core waits for it."
    )
