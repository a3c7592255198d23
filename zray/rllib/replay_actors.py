"""Replay buffers in actors: the shards of Ape-X (Horgan et al., "Distributed Prioritized Experience Replay", 2018).

Transitions go to the shards in turn, and batches come from the shards in turn.  The next batches are asked for before
they are needed, so that a shard draws while the learner computes.  Priorities go back to the shard of their batch.
The order of all calls is the program's, so that training is the same again with the same number of shards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import zray

from .replay import Replay

__all__ = ["ReplayActors", "Shard"]


class Shard:
    """A replay buffer in an actor.

    A shard whose process has died begins again without transitions.

    Args:
        make: makes the buffer, of the shard's number.
        number: of the shard.
    """

    def __init__(self, make: Callable[[int], Replay], number: int) -> None:
        self.buffer = make(number)

    @zray.method
    def add(self, rows: dict[str, np.ndarray]) -> None:
        """Add transitions."""
        self.buffer.add(rows)

    @zray.method
    def draw(self, count: int, beta: float) -> dict[str, np.ndarray]:
        """A batch; empty: the shard has no transition."""
        return self.buffer.draw(count, beta) if self.buffer.size else {}

    @zray.method
    def update(self, places: np.ndarray, errors: np.ndarray) -> None:
        """Take the errors of a batch, but for places that a new process has not filled again."""
        known = places < self.buffer.size
        if known.any():
            self.buffer.update(places[known], errors[known])

    @zray.method
    def reseed(self, seed: int) -> None:
        """Draw by other random numbers."""
        self.buffer.reseed(seed)

    @zray.method
    def state(self) -> dict[str, Any]:
        """The state of the buffer."""
        return self.buffer.state()

    @zray.method
    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.buffer.set_state(state)


class ReplayActors:
    """Shards of a replay buffer, with the methods of one.

    Args:
        make: makes a buffer, of the number of its shard.
        count: shards.
        capacity: transitions of all shards.
    """

    def __init__(self, make: Callable[[int], Replay], count: int, capacity: int) -> None:
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        shard_class = zray.remote(Shard).options(**options)
        self.shards = [shard_class.remote(make, number) for number in range(count)]
        self.capacity, self.size = capacity, 0
        self.added = self.asked = 0  # calls
        self.owner = 0  # the shard of the last batch
        self.pending: deque[tuple[int, Any]] = deque()  # shard and ref of the batches that are under way
        self.told: dict[int, Any] = {}  # shard -> the ref of its last call without a result

    def add(self, rows: dict[str, np.ndarray]) -> None:
        """Add transitions to the next shard."""
        shard = self.added % len(self.shards)
        self.added += 1
        self._tell(shard, self.shards[shard].add.remote(rows))
        self.size = min(self.size + len(next(iter(rows.values()))), self.capacity)

    def _tell(self, shard: int, ref: Any) -> None:
        """Note a call without a result.  The one before is waited for, so that few calls are under way."""
        before = self.told.get(shard)
        if before is not None:
            zray.get(before)
        self.told[shard] = ref

    def draw(self, count: int, beta: float = 0.4) -> dict[str, np.ndarray]:
        """A batch of the next shard, with "weights" and "places"; empty: no shard has a transition."""
        for _ in self.shards:
            while len(self.pending) < len(self.shards):
                shard = self.asked % min(max(1, self.added), len(self.shards))
                self.asked += 1
                self.pending.append((shard, self.shards[shard].draw.remote(count, beta)))
            self.owner, ref = self.pending.popleft()
            rows = zray.get(ref)
            if rows:
                return {name: np.array(value) for name, value in rows.items()}  # torch takes no read-only memory
        return {}

    def update(self, places: np.ndarray, errors: np.ndarray) -> None:
        """Give the errors of the last batch to its shard."""
        self._tell(self.owner, self.shards[self.owner].update.remote(places, errors))

    def reseed(self, seed: int) -> None:
        """Draw by other random numbers, also the batches that are under way."""
        self.pending.clear()
        zray.get([shard.reseed.remote(seed + 1_000_003 * number) for number, shard in enumerate(self.shards)])

    def state(self) -> dict[str, Any]:
        """The state of all shards, with the batches that are under way."""
        own = {name: getattr(self, name) for name in ("size", "added", "asked")}
        pending = [(shard, zray.get(ref)) for shard, ref in self.pending]
        return {**own, "pending": pending, "shards": zray.get([shard.state.remote() for shard in self.shards])}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of as many shards."""
        if len(state["shards"]) != len(self.shards):
            raise ValueError(
                f"The checkpoint has {len(state['shards'])} replay shards, and num_replay_buffer_shards is "
                f"{len(self.shards)}: give the same number."
            )
        self.size, self.added, self.asked = state["size"], state["added"], state["asked"]
        self.pending = deque((shard, zray.put(rows)) for shard, rows in state["pending"])
        zray.get([shard.set_state.remote(each) for shard, each in zip(self.shards, state["shards"], strict=True)])

    def close(self) -> None:
        """End the actors."""
        for shard in self.shards:
            zray.kill(shard)
        self.shards = []
