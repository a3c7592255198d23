"""Figures of RLlib: learning, rollouts and evolution.  Ratios are of runs in turns, since the machine may be shared.

python -m benchmarks.rllib                              all figures
python -m benchmarks.rllib to_475 es_overhead           some of them
python -m benchmarks.rllib to_475 --only es --only ppo  of some algorithms
python -m benchmarks.rllib to_475 --draw docs/rllib     with the curves
python -m benchmarks.rllib growth --minutes 60          memory of a long training
python -m benchmarks.rllib workers --ray ENV/bin/python beside Ray's RLlib, in an environment that has it
python -m benchmarks.rllib to_level                     tuned rows whose level is another one, with the same options
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import zray
from zray.rllib.tuned import TUNED

from . import rllib_learning
from .rllib_curves import SEEDS, draw_curves, learning_row
from .rllib_learning import Learned
from .rllib_ray import RaySampler
from .rows import Row

if TYPE_CHECKING:
    from .rllib_loads import Workers

TURNS = 15
LEARNED_STEPS = 10_000
ENVIRONMENTS = 16  # of a group, where rollouts are measured
# Seconds of training that the slowest seed may take; the others have a limit in steps only.
SECONDS = {"cartpole-ppo": 60, "cartpole-a3c": 120, "cartpole-es-linear": 30, "cartpole-es-mlp": 300}
LONG_MINUTES = 10  # of a training whose growth is held against its limit
COMPARED = ("cartpole-ppo", "cartpole-dqn")


class Choice(NamedTuple):
    """The choices of the command line.

    only: parts of names of tuned rows.  drawings: folder of the curves.  ray: an interpreter that has ray[rllib].
    minutes: of the training whose memory is measured.
    """

    only: tuple[str, ...]
    drawings: Path | None
    ray: str | None = None
    minutes: float = 1.0


def to_475(choice: Choice) -> list[Row]:
    """Steps and seconds to the level of each tuned row of CartPole, beside Stable-Baselines3."""
    if not rllib_learning.has_baselines():
        print("stable-baselines3 is not installed: its rows are left out", file=sys.stderr)
    return learning(choice, {name: row for name, row in TUNED.items() if level_of(row) == 475})


def to_level(choice: Choice) -> list[Row]:
    """Steps and seconds to the level of each other tuned row, but for bodies of MuJoCo."""
    from .rllib_mujoco import TUNED_NAMES

    return learning(
        choice, {name: row for name, row in TUNED.items() if level_of(row) != 475 and name not in TUNED_NAMES}
    )


def level_of(tuned: dict[str, Any]) -> float:
    """The return that a tuned row reaches."""
    level: float = tuned["stop"]["episode_reward_mean"]
    return level


def learning(choice: Choice, table: dict[str, dict[str, Any]]) -> list[Row]:
    """Steps and seconds to the level of each tuned row of a table, with its curves."""
    rows = []
    for name in (name for name in table if any(part in name for part in choice.only or ("",))):
        tuned = TUNED[name]
        level, last = level_of(tuned), tuned["stop"]["timesteps_total"]
        is_compared = name in COMPARED and rllib_learning.has_baselines()
        ours, others = [], []
        for seed in SEEDS:
            ours.append(rllib_learning.learn(tuned, seed))
            if is_compared:
                others.append(rllib_learning.baseline(name, seed, level, last))
        rows.append(learning_row(f"{name} to {level}", ours, last, SECONDS.get(name)))
        if others:
            rows.append(learning_row(f"{name}, Stable-Baselines3", others, last, None)._replace(is_reached=None))
            rows.append(rate_row(name, ours, others))
        if choice.drawings is not None:
            title = f"{name}: greedy return of 20 episodes"
            draw_curves(name, title, {"zray": ours, "SB3": others}, choice.drawings)
    return rows


def rate_row(name: str, ours: list[Learned], others: list[Learned]) -> Row:
    """Steps of training per second, beside the other library's in the same turns."""
    rates = [[run.points[-1][0] / run.seconds for run in runs] for runs in (ours, others)]
    ratio = statistics.median(left / right for left, right in zip(*rates, strict=True))
    text = f"{statistics.median(rates[0]):,.0f} steps/s, {ratio:.2f} x Stable-Baselines3"
    return Row(f"{name}, rate of training", text, "1 x Stable-Baselines3", ratio >= 1)


def in_turns(left: Callable[[], float], right: Callable[[], float]) -> tuple[float, float, float]:
    """Medians of both, and the median of their ratios, in turns."""
    left(), right()
    pairs = [(left(), right()) for _ in range(TURNS)]
    ratio = statistics.median(first / second for first, second in pairs)
    return statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs), ratio


def sampler(choice: Choice) -> list[Row]:
    """Rollouts of one group in this process, beside a bare loop."""
    from .rllib_loads import Sampler

    learned = rllib_learning.policy_after(TUNED["cartpole-ppo"], LEARNED_STEPS)
    rows = []
    for env, weights, text, needed in (
        ("Pendulum-v1", None, "episodes of 200 steps", 0.9),
        ("CartPole-v1", learned, f"PPO's policy after {LEARNED_STEPS:,} steps", 0.9),
        # Each episode has a seed, by which it can be played again: short ones cost more.
        ("CartPole-v1", None, "episodes of 20 steps", None),
    ):
        pair = Sampler(env, ENVIRONMENTS, weights)
        ours, _, ratio = in_turns(pair.ours, pair.bare)
        rows.append(
            Row(
                f"{ENVIRONMENTS} environments {env}, {text}",
                f"{ours:,.0f} steps/s, {ratio:.2f} of a bare loop",
                f"{needed} of a bare loop" if needed else "",
                ratio >= needed if needed else None,
            )
        )
    return rows


# After the first actors, the fork server imports torch for later ones, on one of two cores.
PRELOADING_SECONDS = 5.0


def workers(choice: Choice) -> list[Row]:
    """Rollouts of two actors, beside one, beside AsyncVectorEnv, and beside Ray's RLlib."""
    from .rllib_loads import AsyncVector, Workers

    one, two = (Workers("CartPole-v1", ENVIRONMENTS, count) for count in (1, 2))
    ends = time.monotonic() + PRELOADING_SECONDS
    while time.monotonic() < ends:
        two.steps_per_second()
    rate, _, ratio = in_turns(two.steps_per_second, one.steps_per_second)
    one.close()
    vector = AsyncVector("CartPole-v1", 2 * ENVIRONMENTS)
    _, other, beside = in_turns(two.steps_per_second, vector.steps_per_second)
    vector.close()
    count = 2 * ENVIRONMENTS
    rows = [
        Row(f"2 workers, {count} CartPoles", f"{rate:,.0f} steps/s, {ratio:.2f} x 1 worker", "1.7 x", ratio >= 1.7),
        Row(
            f"2 workers against AsyncVectorEnv, {count} CartPoles",
            f"{beside:.2f} x ({other:,.0f} steps/s)",
            "1 x",
            beside >= 1,
        ),
    ]
    if choice.ray is not None:
        rows.append(beside_ray(choice.ray, two))
    two.close()
    return rows


def beside_ray(python: str, two: Workers) -> Row:
    """Rollouts of two actors, beside two of PPO's env runners in Ray's RLlib with the same policy and environments."""
    from .rllib_loads import HIDDENS, STEPS

    other = RaySampler(python, "CartPole-v1", 2, ENVIRONMENTS, STEPS, HIDDENS)
    rate, theirs, ratio = in_turns(two.steps_per_second, other.steps_per_second)
    other.close()
    figure = f"2 workers against Ray RLlib {other.version}, 2 env runners of {ENVIRONMENTS} CartPoles"
    return Row(figure, f"{ratio:.1f} x ({rate:,.0f} and {theirs:,.0f} steps/s)", "5 x", ratio >= 5)


def es_overhead(choice: Choice) -> list[Row]:
    """Iterations of ES beside their episodes alone."""
    from .rllib_loads import EvolutionBeside

    load = EvolutionBeside()
    load.iteration(), load.episodes_alone()
    pairs = [(load.iteration(), load.episodes_alone()) for _ in range(5)]
    share = statistics.median(1 - alone / whole for whole, alone in pairs)
    seconds = statistics.median(whole for whole, _ in pairs)
    load.algo.stop()
    figure = f"ES beyond the episodes, 200 of Pendulum, {load.parameters:,} parameters"
    return [Row(figure, f"{100 * share:.1f} % of {seconds:.2f} s", "10 %", share <= 0.1)]


def dead_environment(choice: Choice) -> list[Row]:
    """An environment that ends its process: the worker starts again, and its part of the iteration is sampled anew."""
    from .rllib_deaths import seconds_of_iterations

    pairs = [seconds_of_iterations() for _ in range(3)]
    cost = statistics.median(longest - shortest for longest, shortest in pairs)
    usual = statistics.median(shortest for _, shortest in pairs)
    figure = "an environment that ends its process, beyond a usual iteration"
    return [Row(figure, f"{cost:.1f} s beyond {usual:.2f} s", "3 s", cost <= 3)]


def weights(choice: Choice) -> list[Row]:
    """10 MB of weights to 16 actors."""
    from .rllib_loads import Weights

    load = Weights()
    found = [load.deliver() for _ in range(TURNS)]
    load.close()
    milliseconds = 1000 * statistics.median(each.seconds for each in found)
    least = 1000 * min(each.seconds for each in found)
    is_shared = all(each.are_shared for each in found)
    text = f"{milliseconds:.1f} ms (best {least:.1f}), {'one copy' if is_shared else 'COPIES'}"
    return [Row("10 MB of weights to 16 actors", text, "20 ms, one copy", is_shared and milliseconds <= 20)]


def mujoco(choice: Choice) -> list[Row]:
    """Bodies of MuJoCo; long curves where `--only` names them."""
    from . import rllib_mujoco

    return rllib_mujoco.mujoco(choice)


def growth(choice: Choice) -> list[Row]:
    """Resident memory of PPO with two workers, of all processes."""
    from zray.rllib.algorithms.ppo import PPOConfig

    from . import rllib_memory

    algo = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2).debugging(seed=1).build_algo()
    algo.train()
    found = rllib_memory.growth(algo, 60 * choice.minutes)
    algo.stop()
    text = f"{found.megabytes_per_hour:.1f} MB an hour, {found.megabytes_per_1000:.2f} MB in 1,000 of "
    text += f"{found.iterations:,} iterations, at {found.megabytes:,.0f} MB"
    # In a few minutes, a single page of each process that fills late is a slope.
    is_reached = found.megabytes_per_hour <= 10 if choice.minutes >= LONG_MINUTES else None
    return [Row(f"PPO with 2 workers for {choice.minutes:g} minutes: growth of memory", text, "10 MB", is_reached)]


FIGURES: dict[str, Callable[[Choice], list[Row]]] = {
    figure.__name__: figure
    for figure in (to_475, to_level, sampler, workers, es_overhead, dead_environment, weights, growth, mujoco)
}


@click.command(help=__doc__)
@click.argument("figures", nargs=-1, type=click.Choice(list(FIGURES)))
@click.option("--only", multiple=True, metavar="PART", help="Tuned rows whose name has this part.")
@click.option("--draw", "drawings", type=click.Path(path_type=Path), help="Folder for the curves of learning.")
@click.option("--ray", metavar="PYTHON", help="An interpreter that has ray[rllib]: workers are compared with it.")
@click.option("--minutes", default=1.0, show_default=True, help="Of the training whose memory is measured.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the rows there too.")
def main(
    figures: tuple[str, ...],
    only: tuple[str, ...],
    drawings: Path | None,
    ray: str | None,
    minutes: float,
    file: Path | None,
) -> None:
    import torch

    torch.set_num_threads(1)
    rows: list[Any] = []
    print("| figure | measured | needed | reached | load |\n|---|---|---|---|---:|", flush=True)
    with zray.init(num_cpus=4, log_to_driver=False):
        for name in figures or FIGURES:
            for row in FIGURES[name](Choice(only, drawings, ray, minutes)):
                load = os.getloadavg()[0]
                rows.append({**row._asdict(), "load": load})
                reached = {True: "yes", False: "NO", None: ""}[row.is_reached]
                print(f"| {row.figure} | {row.measured} | {row.needed} | {reached} | {load:.1f} |", flush=True)
    if file is not None:
        file.write_text(json.dumps(rows, indent=1))
    sys.exit(any(row["is_reached"] is False for row in rows))


if __name__ == "__main__":
    main()
