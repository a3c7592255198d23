"""Perturbed episodes: played here or in actors; their noise is added up in one order for any number of them.

The pairs of an iteration come in blocks of a fixed size.  Offset and seed of a pair follow from the experiment's seed,
the iteration and the pair's number.  A block has the same result in whichever process it is played, and played again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import zray

from .calls import Calls, end_in_order, fetched
from .environments import (
    EnvContext,
    InvalidEnvironmentError,
    NoNumberError,
    check_environment,
    make_environment,
    name_of,
)
from .global_random import seed_process
from .lives import RESTARTS_MAX, close_all, close_at_end, closed
from .old_environments import settled
from .spaces import OutsideSpace
from .vector_policy import VectorPolicy

logger = logging.getLogger("zray.rllib")

__all__ = ["BLOCK", "Evolution", "Evolver", "Played", "Vector", "draw", "make_noise", "sum_in_order"]

# Pairs of a block: episodes of CartPole take 10 ms for so many, and a call of an actor takes 0.1 ms.
BLOCK = 4
# Blocks of an actor that are under way at a time: the next one is there when the first one ends.
CALLS_IN_FLIGHT = 2
# Subtrees of noise that an actor adds up, at least: with so many, no actor has much more to do than another.
SUBTREES_OF_ACTOR = 4


class Vector(NamedTuple):
    """Means of episodes: parameters and the filter of observations, put once for all actors."""

    theta: np.ndarray
    filter: Any


class Played(NamedTuple):
    """The episodes of a block.

    returns, lengths: of shape [pairs, 2], for +noise and -noise.  counted: what the filter has seen.
    unperturbed: (return, length) of the episodes that were played without noise.
    """

    returns: np.ndarray
    lengths: np.ndarray
    counted: Any
    unperturbed: list[tuple[float, int]]


def make_noise(seed: int, size: int) -> np.ndarray:
    """The table: `size` normal numbers of 32 bits."""
    return np.random.default_rng([seed, 5_000_011]).standard_normal(size, np.float32)


def draw(seed: int, iteration: int, pair: int, last_offset: int) -> tuple[int, int, np.random.Generator]:
    """Offset in the table, seed of the environment, and the random numbers of a pair."""
    rng = np.random.default_rng([seed, iteration, pair])
    return int(rng.integers(last_offset + 1)), int(rng.integers(2**31)), rng


def sum_in_order(
    count: int, fan_in: int, leaf: Callable[[int], np.ndarray], first: int = 0, width: int | None = None
) -> np.ndarray:
    """The sum of leaves, in the order of a tree: `fan_in` consecutive parts become one, level by level."""
    if width is None:
        width = 1
        while width < count:
            width *= fan_in
    if width == 1:
        return leaf(first)
    below = width // fan_in
    starts = range(first, min(first + width, count), below)
    total = sum_in_order(count, fan_in, leaf, starts[0], below)
    for start in starts[1:]:
        total += sum_in_order(count, fan_in, leaf, start, below)
    return total


class Evolver:
    """A policy with an environment and the table of noise: the class of the actors.

    Args:
        noise: the table, read in place.
        policy: options of the policy, for its constructor.
        env, env_config: how the environment is made.
        seed: the experiment's.
        options: `noise_stdev`, `horizon`, `eval_prob`.
    """

    def __init__(
        self,
        noise: np.ndarray,
        policy: dict[str, Any],
        env: Any,
        env_config: dict[str, Any],
        seed: int,
        options: dict[str, Any],
        worker_index: int = 0,
        num_workers: int = 0,
    ) -> None:
        if worker_index:
            seed_process(seed, worker_index)
        else:
            close_at_end(self)
        self.noise, self.seed, self.options = noise, seed, options
        self.policy = VectorPolicy(**policy)
        self.name, self.worker_index = name_of(env), worker_index
        places = (worker_index, worker_index, False, num_workers)
        self.make: Any = lambda restarts=0: make_environment(
            env, EnvContext(env_config, *places, bool(restarts), restarts)
        )
        self.restarts = 0
        self.env: Any = None  # made when it is first played: a process that only adds up needs none
        self.last_offset = len(noise) - self.policy.size

    def play(self, vector: Vector, iteration: int, pairs: range) -> Played:
        """Play two episodes for each pair, with +noise and with -noise.

        Raises:
            InvalidEnvironmentError: the environment raised, or gave what is no number.
        """
        if self.env is None:
            self.env = self.make()
            check_environment(self.env, self.name)
            self.env = settled(self.env)
        policy, stdev = self.policy, np.float32(self.options["noise_stdev"])
        policy.filter = vector.filter
        counted = vector.filter.fresh()
        returns = np.zeros((len(pairs), 2))
        lengths: np.ndarray = np.zeros((len(pairs), 2), np.int64)
        unperturbed = []
        for place, pair in enumerate(pairs):
            offset, seed, rng = draw(self.seed, iteration, pair, self.last_offset)
            change = stdev * self.noise[offset : offset + policy.size]
            for sign, theta in enumerate((vector.theta + change, vector.theta - change)):
                policy.use(theta)
                returns[place, sign], lengths[place, sign] = self._episode(seed, rng, counted)
            if rng.random() < self.options["eval_prob"]:
                policy.use(vector.theta)
                unperturbed.append(self._episode(seed, None, counted))
        return Played(returns, lengths, counted, unperturbed)

    def _episode(self, seed: int, rng: np.random.Generator | None, counted: Any) -> tuple[float, int]:
        where = f"environment {self.name} of process {self.worker_index}, the episode with seed {seed}"
        total, observations, count = self._played(seed, rng, where)
        counted.observe(observations)
        return total, count

    def _numbers(self, played: Any, where: str) -> tuple[float, np.ndarray, int]:
        """The return, the observations and the steps of an episode.

        Raises:
            NoNumberError: an observation or a reward is no finite number.
        """
        total, rows, rewards, last = played
        observations = np.asarray(rows)
        seen = observations if last is None else np.asarray([*rows, last])
        if not np.isfinite(seen).all():
            step = int(np.argmin(np.isfinite(seen).all(axis=1)))
            kind = gymnasium.spaces.flatten_space(self.env.observation_space).dtype
            cast = "" if np.can_cast(kind, np.float32) else ", or a number that is too large for float32"
            raise NoNumberError(f"The observation holds NaN or infinity{cast}, in step {step} of {where}.")
        if not np.isfinite(total):
            step = int(np.argmin(np.isfinite(rewards)))
            raise NoNumberError(f"The reward is {rewards[step]}, in step {step + 1} of {where}.")
        return total, observations, len(rewards)

    def _played(self, seed: int, rng: np.random.Generator | None, where: str) -> Any:
        """Return the numbers of an episode, as `play` does; after a failure, in a new environment."""
        for attempt in range(RESTARTS_MAX + 1):
            try:
                with np.errstate(all="ignore"):  # what is no number is looked for afterwards, and named
                    played = self.policy.play(self.env, seed, rng, self.options["horizon"] or np.inf)
                return self._numbers(played, where)
            except Exception as error:
                said = f"{error} of" if isinstance(error, OutsideSpace) else f"{type(error).__name__}: {error}, in"
                is_named = isinstance(error, NoNumberError)
                problem = InvalidEnvironmentError(str(error) if is_named else f"{said} {where}.")
                if attempt == RESTARTS_MAX or not self.options.get("restarts"):
                    raise problem from error
                logger.warning("The environment is made anew, and the episode begins again: %s", problem)
                close_all([self.env], self.name)
                self.restarts += 1
                self.env = settled(self.make(self.restarts))
        raise AssertionError("The last attempt returns or raises.")

    def weighted_noise(self, iteration: int, begin: int, weights: np.ndarray) -> np.ndarray:
        """The sum of weight times noise over the pairs from `begin` on."""
        size = self.policy.size
        total: np.ndarray = np.zeros(size, np.float32)
        for pair, weight in enumerate(weights, begin):
            if weight:
                offset, _, _ = draw(self.seed, iteration, pair, self.last_offset)
                total += np.float32(weight) * self.noise[offset : offset + size]
        return total

    def subtree(
        self, iteration: int, begin: int, weights: np.ndarray, fan_in: int, width: int | None = None
    ) -> np.ndarray:
        """The same sum, block by block in the order of a tree, which has `width` leaves at most."""
        return sum_in_order(
            -(-len(weights) // BLOCK),
            fan_in,
            lambda leaf: self.weighted_noise(
                iteration, begin + leaf * BLOCK, weights[leaf * BLOCK : (leaf + 1) * BLOCK]
            ),
            width=width,
        )

    def add(self, *parts: np.ndarray) -> np.ndarray:
        """The sum of parts, from left to right."""
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        return total

    def close(self) -> None:
        """Close the environment."""
        closed(self)
        env, self.env = self.env, None
        if env is not None:
            close_all([env], self.name)

    __ray_shutdown__ = close


class Evolution:
    """All perturbed episodes of an experiment.

    Args:
        num_workers: actors; 0: the episodes are played in this process.
        noise_size: numbers of the table.
        aggregation: "tree": the actors add up the noise; "flat": this process does.
        fan_in: parts that become one at a node of the tree.
        resources: of each actor.
        timeout_s: seconds after which an actor whose episodes have not ended is replaced; None: it is waited for.
        arguments: of `Evolver`, behind the table.
    """

    def __init__(
        self,
        num_workers: int,
        noise_size: int,
        aggregation: str,
        fan_in: int,
        resources: dict[str, Any],
        timeout_s: float | None,
        *arguments: Any,
    ) -> None:
        if aggregation not in ("tree", "flat"):
            raise ValueError(f'aggregation is "tree" or "flat", not {aggregation!r}.')
        self.timeout_s = timeout_s
        self.first = 0  # the number of the first iteration: another one has other random numbers
        self.is_tree, self.fan_in = aggregation == "tree" and num_workers > 0, fan_in
        noise: Any = make_noise(arguments[3], noise_size)
        self.actors: list[Any] = []
        self.started: set[int] = set()  # workers that have answered
        if num_workers:
            table = zray.put(noise)
            noise = zray.get(table)  # in place: this process holds no copy of its own
            # Calls depend on their arguments alone: a killed actor plays its blocks again, with the same results.
            options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": -1, **resources}
            actor_class = zray.remote(Evolver).options(**options)
            self.actors = [
                actor_class.remote(table, *arguments, number + 1, num_workers) for number in range(num_workers)
            ]
        made: Any = Evolver
        self.local: Evolver = made(noise, *arguments, 0, num_workers)

    def play(self, vector: Vector, iteration: int, pairs: range) -> list[Played]:
        """The blocks of these pairs, in their order."""
        iteration += self.first
        blocks = [pairs[begin : begin + BLOCK] for begin in range(0, len(pairs), BLOCK)]
        if not self.actors:
            return [self.local.play(vector, iteration, block) for block in blocks]
        shared = zray.put(vector)  # once, for all actors
        found: dict[int, Played] = {}
        calls = Calls(self.actors, self.timeout_s, self.started)
        block_of: dict[Any, int] = {}
        free = list(range(len(self.actors))) * CALLS_IN_FLIGHT
        waiting = list(reversed(range(len(blocks))))
        while waiting or calls:
            while waiting and free:
                worker, number = free.pop(0), waiting.pop()
                ref = self.actors[worker].play.remote(shared, iteration, blocks[number])
                block_of[ref] = number
                calls.add(ref, worker)
            for ref, worker in calls.wait():
                found[block_of.pop(ref)] = fetched(ref)
                free.append(worker)
        return [found[number] for number in range(len(blocks))]

    def weighted_noise(self, iteration: int, weights: np.ndarray) -> np.ndarray:
        """The sum of weight times noise over all pairs, with the same bits for a tree and without, for any actors."""
        iteration += self.first
        if not self.is_tree:
            return self.local.subtree(iteration, 0, weights, self.fan_in)
        count = len(self.actors)
        # A call sums up a whole subtree, and one vector of it travels.
        width = 1
        while width * self.fan_in * BLOCK * SUBTREES_OF_ACTOR * count <= len(weights):
            width *= self.fan_in
        starts = range(0, len(weights), width * BLOCK)
        parts = [
            self.actors[number % count].subtree.remote(
                iteration, start, weights[start : start + width * BLOCK], self.fan_in, width
            )
            for number, start in enumerate(starts)
        ]
        while len(parts) > 1:
            groups = [parts[begin : begin + self.fan_in] for begin in range(0, len(parts), self.fan_in)]
            parts = [
                self.actors[number % count].add.remote(*group) if len(group) > 1 else group[0]
                for number, group in enumerate(groups)
            ]
        total: np.ndarray = zray.get(parts[0])
        return total

    def state(self) -> list[bytes]:
        """The number of the first iteration: each episode follows from the parameters, the seed and its number."""
        return [str(self.first).encode()]

    def set_state(self, states: list[bytes]) -> None:
        """Go on from a state; those of former checkpoints are empty."""
        self.first = int(states[0]) if states else 0

    def reseed(self, seed: int) -> None:
        """Draw by other random numbers."""
        self.first = seed

    def close(self) -> None:
        """End the actors, and close all environments."""
        self.local.close()
        actors, self.actors = self.actors, []
        end_in_order(actors)
