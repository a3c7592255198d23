"""The random numbers that an algorithm takes from `random`, `numpy.random` and torch, shared with the program."""

from __future__ import annotations

import random
import sys
from types import TracebackType
from typing import Any

import numpy as np

__all__ = ["Streams", "seed_process", "swap"]


def seed_process(seed: int, worker_index: int) -> None:
    """Seed `random`, `numpy.random` and torch, where it is loaded, in a process that only plays."""
    _random, _numpy, of_torch = (int(each) for each in _seeds(seed, worker_index))
    random.seed(_random)
    np.random.seed(_numpy)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(of_torch)


def _seeds(seed: int, worker_index: int) -> Any:
    return np.random.SeedSequence([seed, worker_index, 7_000_003]).generate_state(3)


class Streams:
    """States of `random`, `numpy.random` and torch within a `with`; the program's own are restored at the end.

    Args:
        seed: of the states.
    """

    def __init__(self, seed: int) -> None:
        import torch

        first, second, third = (int(each) for each in _seeds(seed, 0))
        self.states: tuple[Any, ...] = (
            random.Random(first).getstate(),
            np.random.RandomState(second).get_state(legacy=False),
            torch.Generator().manual_seed(third).get_state(),
        )
        self._depth, self._outside = 0, self.states

    @staticmethod
    def of_process() -> tuple[Any, ...]:
        """The states as they are now."""
        numpy_state = np.random.get_state(legacy=False)  # else a list of 624 numbers is made
        of_torch = sys.modules["torch"].get_rng_state() if "torch" in sys.modules else None  # workers of ES have none
        return random.getstate(), numpy_state, of_torch

    def __enter__(self) -> Streams:
        self._depth += 1
        if self._depth == 1:  # an evaluation within an iteration changes nothing
            self._outside = swap(self.states)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.states = swap(self._outside)


def swap(states: tuple[Any, ...]) -> tuple[Any, ...]:
    """Set the states of the process, and return the former states."""
    before = Streams.of_process()
    random.setstate(states[0])
    np.random.set_state(states[1])
    if len(states) > 2 and states[2] is not None:  # absent in former checkpoints
        sys.modules["torch"].set_rng_state(states[2])
    return before
