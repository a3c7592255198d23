"""CartPole by each algorithm, chosen by its name, with options from the table of tuned ones.

Arguments name rows of the table, which train to their level: python examples/rllib_cartpole.py cartpole-ppo
Without arguments each algorithm trains for a moment only, and evolution strategies with a linear policy to the end.

Prints:

    cartpole-...
    cartpole-es-linear: the greedy policy holds the pole for more than 475 steps: True
"""

import sys

import torch

import zray as ray
from zray.rllib.algorithms.registry import get_algorithm_class
from zray.rllib.tuned import TUNED

MOMENT = 500  # steps


def train(name, steps, level):
    row = TUNED[name]
    algo = get_algorithm_class(row["run"])(config=row["config"], env=row["env"])
    mean = 0.0
    while algo.steps_sampled < steps and mean < level:
        result = algo.train()
        mean = result.get("episode_reward_mean", 0.0)
    print(f"{name}: {algo.iteration} iterations, {algo.steps_sampled} steps, mean return {mean:.1f}")
    return algo


torch.set_num_threads(1)
with ray.init(num_cpus=2):
    names = sys.argv[1:]
    for name in names or [name for name in TUNED if name.startswith("cartpole")]:
        stop = TUNED[name]["stop"]
        train(name, stop["timesteps_total"] if names else MOMENT, stop["episode_reward_mean"]).stop()
    if not names:
        algo = train("cartpole-es-linear", 60_000, 400.0)
        mean = algo.evaluate(20)["episode_reward_mean"]
        print(f"cartpole-es-linear: the greedy policy holds the pole for more than 475 steps: {mean > 475}")
        algo.stop()
