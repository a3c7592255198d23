"""Synchronous SGD whose computing sleeps, for E12 on emulated nodes: what is left is how gradients travel.

A replica has the buckets of the MLP of E12.  Its forward pass sleeps, and so does backward, bucket by bucket.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import zray
from zray.util import collective

# Of float32, in the order of backward: the last two layers, then the first one.
BUCKETS = (1024 * 10 + 10 + 1024 * 1024 + 1024, 3072 * 1024 + 1024)
FORWARD_SECONDS = 0.1
BACKWARD_SECONDS = 0.4  # of all buckets
OVERLAP, NO_OVERLAP, SERVERS = "overlap", "no overlap", "servers"
GET_SECONDS = 120.0


class Trainer:
    """Replica of a group, or of parameter servers; and a parameter server of one part of the weights."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.ranks = ranks
        self.gradients: list[Any] = [np.full(count, rank + 1, np.float32) for count in BUCKETS]
        self.part: Any = np.zeros(-(-sum(BUCKETS) // ranks), np.float32)
        collective.init_collective_group(ranks, rank)

    def run(self, steps: int, overlaps: bool) -> None:
        """Make so many steps in the group."""
        for _ in range(steps):
            time.sleep(FORWARD_SECONDS)
            handles = []
            for gradient in self.gradients:
                time.sleep(BACKWARD_SECONDS / len(BUCKETS))
                if overlaps:
                    handles.append(collective.allreduce(gradient, async_op=True))
            for handle in handles:
                assert handle is not None
                handle.wait()
            if not overlaps:
                for gradient in self.gradients:
                    collective.allreduce(gradient)

    def gradient(self, *weights: Any) -> Any:
        """Return the gradients at those weights, a part for each server."""
        time.sleep(FORWARD_SECONDS + BACKWARD_SECONDS)
        return tuple(np.array_split(np.concatenate(self.gradients), self.ranks))

    def apply(self, *gradients: Any) -> Any:
        """Add up a part of all gradients, and return the weights."""
        total = self.part[: len(gradients[0])]
        for gradient in gradients:
            total += gradient
        return total


def trainers_of(count: int) -> list[Any]:
    """Return an actor on each node: replica and server, since a server has nothing to do before gradients come."""
    trainer: Any = zray.remote(num_cpus=0)(Trainer)
    return [trainer.options(resources={f"node-{rank}": 1}).remote(rank, count) for rank in range(count)]


def seconds_of(trainers: Sequence[Any], way: str, steps: int) -> float:
    """Return the seconds of a step of all replicas."""
    count = len(trainers)
    started = time.perf_counter()
    if way == SERVERS:
        weights: list[Any] = []
        for _ in range(steps):
            gradients = [each.gradient.options(num_returns=count).remote(*weights) for each in trainers]
            parts = zip(*gradients, strict=True)
            weights = [each.apply.remote(*part) for each, part in zip(trainers, parts, strict=True)]
        zray.wait(weights, num_returns=count, timeout=GET_SECONDS, fetch_local=False)
    else:
        zray.get([each.run.remote(steps, way == OVERLAP) for each in trainers], timeout=GET_SECONDS)
    return (time.perf_counter() - started) / steps
