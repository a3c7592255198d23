"""Rollouts of zray.rllib beside plain loops: steps per second, evolution without its episodes, weights to actors."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch

import zray
from zray.rllib.algorithms.es import ESConfig
from zray.rllib.environments import EnvContext, make_environment
from zray.rllib.evolution import draw
from zray.rllib.filters import NoFilter
from zray.rllib.groups import Group
from zray.rllib.policies import Policy
from zray.rllib.rollouts import Rollouts
from zray.rllib.vector_policy import VectorPolicy

HIDDENS = [64, 64]
MODEL = {"fcnet_hiddens": HIDDENS, "fcnet_activation": "tanh"}
STEPS = 128  # of a rollout


def policy_options(env: str) -> dict[str, Any]:
    """Spaces and model of a policy."""
    made = make_environment(env, EnvContext())
    options = {"observation_space": made.observation_space, "action_space": made.action_space, "model": MODEL}
    made.close()
    return options


class Sampler:
    """One group of environments, and the same number in a plain loop, with one policy."""

    def __init__(self, env: str, size: int, weights: dict[str, np.ndarray] | None = None) -> None:
        torch.set_num_threads(1)
        self.env, self.size = env, size
        self.policy = Policy(**policy_options(env))
        if weights is not None:
            self.policy.set_weights(weights)
        self.group = Group(0, size, env, {}, 0)
        self.envs = [gymnasium.make(env) for _ in range(size)]
        self.rng = np.random.default_rng(0)
        first = [each.reset(seed=place)[0] for place, each in enumerate(self.envs)]
        self.observations = np.stack(first).astype(np.float32)

    def ours(self) -> float:
        """Steps per second of a rollout."""
        begin = time.perf_counter()
        self.group.rollout(self.policy, STEPS)
        return STEPS * self.size / (time.perf_counter() - begin)

    def bare(self) -> float:
        """Steps per second of a loop that stores what PPO learns from, and nothing else."""
        policy, size, observations = self.policy, self.size, self.observations
        distribution = policy.distribution
        begin = time.perf_counter()
        seen: np.ndarray = np.zeros((STEPS, *observations.shape), np.float32)
        actions: np.ndarray = np.zeros((STEPS, size, *distribution.shape), distribution.dtype)
        floats: np.ndarray = np.zeros((4, STEPS, size), np.float32)
        logs, values, rewards, ended = floats
        for step in range(STEPS):
            with torch.inference_mode():
                parameters, value = policy.model(torch.from_numpy(observations))
            seen[step] = observations
            actions[step], logs[step] = distribution.draw(parameters.numpy(), policy.log_std(), self.rng)
            values[step] = value.numpy()
            for place, env in enumerate(self.envs):
                found, reward, terminated, truncated, _ = env.step(distribution.to_environment(actions[step, place]))
                rewards[step, place] = reward
                if terminated or truncated:
                    ended[step, place] = 1.0
                    found, _ = env.reset()
                observations[place] = found
        return STEPS * size / (time.perf_counter() - begin)


class Workers:
    """Rollouts of two groups by so many actors."""

    def __init__(self, env: str, size: int, workers: int) -> None:
        options = policy_options(env)
        self.weights = Policy(**options).get_weights()
        groups = {"size": size, "env": env, "env_config": {}, "seed": 0}
        self.rollouts = Rollouts(options, groups, 2, workers)
        self.size = size
        self.steps_per_second()

    def steps_per_second(self) -> float:
        """Steps per second of one collection."""
        begin = time.perf_counter()
        self.rollouts.collect(self.weights, NoFilter(), STEPS)
        return 2 * self.size * STEPS / (time.perf_counter() - begin)

    def close(self) -> None:
        """End the actors."""
        self.rollouts.close()


class AsyncVector:
    """gymnasium's AsyncVectorEnv, with a process for each environment and the same policy."""

    def __init__(self, env: str, size: int) -> None:
        torch.set_num_threads(1)
        self.policy, self.size = Policy(**policy_options(env)), size
        make = [lambda: gymnasium.make(env) for _ in range(size)]
        self.envs = gymnasium.vector.AsyncVectorEnv(make, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
        self.rng = np.random.default_rng(0)
        self.observations, _ = self.envs.reset(seed=0)

    def steps_per_second(self) -> float:
        """Steps per second of one rollout."""
        begin = time.perf_counter()
        for _ in range(STEPS):
            parameters, _ = self.policy.forward(np.asarray(self.observations, np.float32))
            actions, _ = self.policy.draw(parameters, self.rng)
            self.observations, *_ = self.envs.step(actions)
        return STEPS * self.size / (time.perf_counter() - begin)

    def close(self) -> None:
        """End the processes."""
        self.envs.close()


class EvolutionBeside:
    """Iterations of ES, and their episodes alone: 200 of Pendulum, with 100,000 parameters."""

    def __init__(self, episodes: int = 200, hidden: tuple[int, int] = (310, 310)) -> None:
        config = ESConfig().environment("Pendulum-v1").training(episodes_per_batch=episodes, noise_size=2_000_000)
        config.training(model={"fcnet_hiddens": list(hidden)}, action_noise_std=0.0, eval_prob=0.0)
        self.algo = config.build_algo()
        self.parameters, self.pairs = self.algo.policy.size, episodes // 2
        self.policy: VectorPolicy = self.algo.rollouts.local.policy
        self.env = gymnasium.make("Pendulum-v1")

    def iteration(self) -> float:
        """Seconds of an iteration."""
        begin = time.perf_counter()
        self.algo.train()
        return time.perf_counter() - begin

    def episodes_alone(self) -> float:
        """Seconds of its episodes, with one perturbation for all, made before."""
        offset, _, _ = draw(0, 0, 0, len(self.algo.rollouts.local.noise) - self.parameters)
        noise = self.algo.rollouts.local.noise[offset : offset + self.parameters]
        self.policy.use(self.algo.policy.theta + np.float32(0.02) * noise)
        self.policy.filter = self.algo.policy.filter
        begin = time.perf_counter()
        for pair in range(self.pairs):
            for _ in range(2):
                self.policy.play(self.env, pair, None)
        return time.perf_counter() - begin


class Delivered(NamedTuple):
    """Weights at actors.  seconds: from the put to the last answer.  are_shared: no actor has a copy."""

    seconds: float
    are_shared: bool


class Weights:
    """10 MB of weights, and actors that take them."""

    def __init__(self, actors: int = 16, megabytes: int = 10) -> None:
        self.weights: dict[str, np.ndarray] = {
            f"layer{number}": np.ones((250, 1000), np.float32) for number in range(megabytes)
        }

        class Holder:  # here, so that its process imports none of this module's libraries
            def take(self, weights: dict[str, np.ndarray]) -> bool:
                """Whether all arrays are views."""
                return not any(value.flags.owndata for value in weights.values())

        holder: Any = zray.remote(num_cpus=0)(Holder)
        self.actors = [holder.remote() for _ in range(actors)]
        self.deliver()

    def deliver(self) -> Delivered:
        """Put them once, and call each actor."""
        begin = time.perf_counter()
        ref = zray.put(self.weights)
        found = zray.get([actor.take.remote(ref) for actor in self.actors])
        return Delivered(time.perf_counter() - begin, all(found))

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            zray.kill(actor)
