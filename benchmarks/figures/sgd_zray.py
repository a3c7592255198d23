"""Synchronous SGD on zray, for E12: actors with a group, and sharded parameter servers of actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import zray
from zray.util import collective

from .sgd_models import MODELS, MOMENTUM, RATE, Buckets, Replica

SHARDS = 2
GET_SECONDS = 300.0


class Trainer:
    """Replica of each way: one adds up its gradients with those of a group, while backward runs or after it; the other
    one has its weights from parameter servers.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        self.replicas = {name: Replica(name, rank, ranks) for name in MODELS}
        self.buckets = {name: Buckets(replica) for name, replica in self.replicas.items()}
        self.served = {name: Replica(name, rank, ranks) for name in MODELS}
        collective.init_collective_group(ranks, rank)
        self.handles: list[Any] = []

    def run(self, model: str, steps: int, overlaps: bool) -> None:
        """Make so many steps."""
        replica, buckets = self.replicas[model], self.buckets[model]
        buckets.on_full = self.begin if overlaps else None
        for _ in range(steps):
            buckets.clear()
            replica.backward()
            if not overlaps:
                for flat in buckets.flats:
                    collective.allreduce(flat)
            while self.handles:
                self.handles.pop().wait()
            replica.optimizer.step()

    def begin(self, flat: Any) -> None:
        """Begin to add up a bucket."""
        self.handles.append(collective.allreduce(flat, async_op=True))

    def digest(self, model: str) -> str:
        """Return what tells apart different weights."""
        return self.replicas[model].digest()

    # --- with parameter servers ---

    def weights(self, model: str) -> list[np.ndarray]:
        """Return all weights, in SHARDS parts."""
        parts = [parameter.detach().numpy().ravel() for parameter in self.served[model].parameters]
        return np.array_split(np.concatenate(parts), SHARDS)

    def gradients(self, model: str, *weights: np.ndarray) -> Any:
        """Return the gradients at those weights, in SHARDS parts."""
        replica, start = self.served[model], 0
        flat = np.concatenate(weights)
        for parameter in replica.parameters:
            array = parameter.detach().numpy()
            array[...] = flat[start : start + array.size].reshape(array.shape)
            start += array.size
        replica.optimizer.zero_grad()
        replica.backward()
        gradients: list[Any] = [parameter.grad for parameter in replica.parameters]
        parts = [gradient.numpy().ravel() for gradient in gradients]
        return tuple(np.array_split(np.concatenate(parts), SHARDS))


class Server:
    """Parameter server: a part of the weights, and the momentum of each."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights.copy()
        self.momentum = np.zeros_like(self.weights)

    def apply(self, *gradients: np.ndarray) -> np.ndarray:
        """Step with the sum of all gradients, and return the weights."""
        self.momentum *= MOMENTUM
        for gradient in gradients:
            self.momentum += gradient
        self.weights -= RATE * self.momentum
        return self.weights


class ParameterServers:
    """Servers for each model, and the replicas that they serve."""

    def __init__(self, workers: Sequence[Any]) -> None:
        server: Any = zray.remote(num_cpus=0)(Server)
        self.workers = workers
        self.servers: dict[str, list[Any]] = {}
        self.weights: dict[str, list[Any]] = {}
        for model in MODELS:
            parts = zray.get(self.workers[0].weights.remote(model), timeout=GET_SECONDS)
            self.servers[model] = [server.remote(part) for part in parts]
            self.weights[model] = [zray.put(part) for part in parts]

    def run(self, model: str, steps: int) -> None:
        """Submit all steps: the weights of one are the arguments of the next."""
        weights = self.weights[model]
        for _ in range(steps):
            gradients = [
                worker.gradients.options(num_returns=SHARDS).remote(model, *weights) for worker in self.workers
            ]
            parts = zip(*gradients, strict=True)
            weights = [server.apply.remote(*part) for server, part in zip(self.servers[model], parts, strict=True)]
        zray.wait(weights, num_returns=len(weights), timeout=GET_SECONDS)
        self.weights[model] = weights


class Group:
    """Trainers of a group."""

    def __init__(self, ranks: int) -> None:
        trainer: Any = zray.remote(num_cpus=0)(Trainer)
        self.trainers: Sequence[Any] = [trainer.remote(rank, ranks) for rank in range(ranks)]

    def run(self, model: str, steps: int, overlaps: bool) -> None:
        """Make so many steps."""
        zray.get([each.run.remote(model, steps, overlaps) for each in self.trainers], timeout=GET_SECONDS)

    def digests(self, model: str) -> list[str]:
        """Return what tells apart different weights, for each rank."""
        return zray.get([each.digest.remote(model) for each in self.trainers], timeout=GET_SECONDS)
