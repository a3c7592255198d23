"""Replay buffers under Ray's names, for programs that fill and sample one themselves; DQN and SAC have their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .keywords import check_keywords
from .policy.sample_batch import SampleBatch
from .replay import PrioritizedReplay, Replay

__all__ = ["PrioritizedReplayBuffer", "ReplayBuffer"]

_UNITS = "Add and sample steps: a batch of an episode is as many steps."


class ReplayBuffer(Replay):
    """A ring of steps, sampled evenly.

    Args:
        capacity: steps.
        storage_unit: "timesteps" is the only one.
        seed: of the samples.
        former: none; others of Ray's are refused.

    Raises:
        NotImplementedError: another unit is asked for.

    Example:
        buffer = ReplayBuffer(capacity=1_000)
        buffer.add(SampleBatch(obs=[[0.0], [1.0]], rewards=[1.0, 2.0]))
        batch = buffer.sample(32)
    """

    own_options: tuple[str, ...] = ()  # beside those above

    def __init__(self, capacity: int = 10_000, storage_unit: Any = "timesteps", seed: int = 0, **former: Any) -> None:
        own = {name: former.pop(name) for name in self.own_options if name in former}
        unit = str(getattr(storage_unit, "value", storage_unit)).lower()
        asked = {"storage_unit": None if unit == "timesteps" else unit, **former}
        check_keywords(type(self).__name__, asked, storage_unit=_UNITS)
        super().__init__(capacity, seed, **own)

    def __len__(self) -> int:
        return self.size

    def sample(self, num_items: int, beta: float = 0.4, **former: Any) -> SampleBatch:
        """Draw steps, with repetition: the columns that were added, "weights" and "batch_indexes".

        Args:
            num_items: steps.
            beta: the exponent of the weights, of priorities alone.
            former: none; others of Ray's are refused.

        Raises:
            ValueError: no step has been added.
        """
        check_keywords(f"{type(self).__name__}.sample", former)
        if not self.size:
            raise ValueError("The replay buffer is empty: call add(batch) first.")
        rows = self.draw(num_items, beta)
        return SampleBatch({**rows, "batch_indexes": rows.pop("places")})

    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Take priorities for steps by their "batch_indexes"; without effect where steps are sampled evenly."""
        self.update(np.asarray(idxes), np.asarray(priorities, np.float64))

    def stats(self, debug: bool = False) -> dict[str, Any]:
        """The numbers of steps that are here, and that fit."""
        del debug
        return {"num_entries": self.size, "capacity": self.capacity}


class PrioritizedReplayBuffer(ReplayBuffer, PrioritizedReplay):
    """A ring of steps, sampled in proportion to their priorities to the power of `alpha`.

    Args:
        capacity, storage_unit, seed: as of `ReplayBuffer`.
        former: alpha, the exponent.
    """

    own_options = ("alpha",)
