"""Bodies of MuJoCo: seconds to balance a pendulum, a curve of HalfCheetah beside the published level, Humanoid's rate.

python -m benchmarks.rllib mujoco --draw docs/rllib            the pendulum
python -m benchmarks.rllib mujoco --only halfcheetah           long curves: 5 minutes for each of 3 seeds
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from zray.rllib.tuned import TUNED

from . import rllib_learning
from .figures.results import Series
from .rllib_curves import SEEDS, draw_curves, learning_row
from .rllib_learning import Learned
from .rows import Row

LEVEL_SECONDS = 300
PENDULUMS = ("inverted-pendulum-ppo", "inverted-pendulum-es")
TUNED_NAMES = (*PENDULUMS, "halfcheetah-ppo")
# Evaluations of the long curves: they take time too.
EVERY, EPISODES = 50_000, 5
# RL Baselines3 Zoo, benchmark.md: PPO, HalfCheetah, 1,000,000 steps, with these settings.
PUBLISHED = {"halfcheetah-ppo": ("RL Baselines3 Zoo", 5819.0)}
HUMANOID: dict[str, Any] = {
    "run": "PPO",
    "env": "Humanoid-v5",
    "stop": {"episode_reward_mean": float("inf"), "timesteps_total": 100_000},
    # Those of RL Baselines3 Zoo, which has 10,000,000 steps; too few here for more than a beginning.
    "config": {
        "num_groups": 1,
        "num_envs_per_env_runner": 4,
        "rollout_fragment_length": 128,
        "lr": 3.56987e-5,
        "gamma": 0.95,
        "lambda_": 0.9,
        "clip_param": 0.3,
        "num_epochs": 5,
        "minibatch_size": 256,
        "entropy_coeff": 0.00238306,
        "vf_loss_coeff": 0.431892,
        "grad_clip": 2.0,
        "observation_filter": "MeanStdFilter",
        "normalize_rewards": True,
        "model": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu", "log_std_init": -2},
    },
}


class Curve(NamedTuple):
    """A long run that is drawn.

    settings: of the curve, for its title.  seeds: one run each.
    """

    name: str
    row: dict[str, Any]
    every: int
    settings: str
    seeds: tuple[int, ...]


CURVES = (
    Curve("halfcheetah-ppo", TUNED["halfcheetah-ppo"], EVERY, "HalfCheetah-v5", SEEDS),
    Curve("humanoid-ppo", HUMANOID, 10_000, "Humanoid-v5, the beginning", SEEDS[:1]),
)


def mujoco(choice: Any) -> list[Row]:
    """The rows of all bodies that the command line names."""
    if importlib.util.find_spec("mujoco") is None:
        print("MuJoCo is not installed: its rows are left out.  pip install 'zray[mujoco]'", file=sys.stderr)
        return []
    parts, rows = choice.only or ("",), []
    for name in (name for name in PENDULUMS if any(part in name for part in parts)):
        tuned = TUNED[name]
        runs = [rllib_learning.learn(tuned, seed) for seed in SEEDS]
        figure = f"{name} to {tuned['stop']['episode_reward_mean']}"
        rows.append(learning_row(figure, runs, tuned["stop"]["timesteps_total"], LEVEL_SECONDS))
        if choice.drawings is not None:
            draw_curves(name, f"{name}: greedy return of 20 episodes", {"zray": runs}, choice.drawings)
    for curve in (curve for curve in CURVES if any(part in curve.name for part in choice.only)):
        runs = [rllib_learning.learn(curve.row, seed, curve.every, EPISODES, stops=False) for seed in curve.seeds]
        values = ", ".join(f"{run.points[-1][1]:,.0f}" for run in runs)
        steps, rate = runs[0].points[-1][0], statistics.median(run.points[-1][0] / run.seconds for run in runs)
        level = PUBLISHED.get(curve.name)
        needed = f"{level[1]:,.0f}, published" if level else ""
        text = f"return {values} at {steps:,} steps; {rate:,.0f} steps/s"
        rows.append(Row(f"{curve.name}, {len(runs)} seeds", text, needed))
        if choice.drawings is not None:
            draw_curve(curve, runs, choice.drawings)
    return rows


def draw_curve(curve: Curve, runs: list[Learned], folder: Path) -> None:
    """Write the returns over steps as SVG, beside the published level."""
    published = []
    if curve.name in PUBLISHED:
        source, level = PUBLISHED[curve.name]
        last = max(runs[0].points[-1][0], curve.row["stop"]["timesteps_total"])
        published.append(Series(source, f"published, {level:,.0f}", [(0.0, level), (float(last), level)]))
    title = f"PPO, {curve.settings}: greedy return of {EPISODES} episodes"
    draw_curves(curve.name, title, {"zray": runs}, folder, published)
