"""Synchronous SGD without zray, for E12: one process, torch's DDP with gloo, and shared memory by hand.

    python -m benchmarks.figures.sgd_peer alone
    python -m benchmarks.figures.sgd_peer ddp RANK RANKS URL
    python -m benchmarks.figures.sgd_peer hand RANKS

Reads orders, a line each: `MODEL STEPS` makes so many steps, and prints "done"; `digest MODEL` prints what tells apart
different weights, a word for each rank.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

PARAMETERS_MAX = 5_000_000
Act = Callable[[str, int], str]  # (model, steps) -> answer; 0 steps: the digest


def main() -> None:
    """Carry out orders."""
    kind, *given = sys.argv[1:]
    kinds: dict[str, Callable[..., Act]] = {"alone": alone, "ddp": ddp, "hand": hand}
    act = kinds[kind](*given)
    for line in sys.stdin:
        first, second = line.split()
        answer = act(second, 0) if first == "digest" else act(first, int(second))
        print(answer, flush=True)


def acting(steps: dict[str, Callable[[], None]], digests: dict[str, Callable[[], str]]) -> Act:
    """Return what carries out orders with such steps."""

    def act(model: str, count: int) -> str:
        for _ in range(count):
            steps[model]()
        return "done" if count else digests[model]()

    return act


def alone() -> Act:
    """Act of a single process."""
    from .sgd_models import MODELS, Replica

    replicas = {name: Replica(name, 0, 1) for name in MODELS}
    steps = {name: replica.step for name, replica in replicas.items()}
    return acting(steps, {name: replica.digest for name, replica in replicas.items()})


def ddp(rank: str, ranks: str, url: str) -> Act:
    """Act of a rank of torch's DistributedDataParallel, as it is by default."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from .sgd_models import MODELS, Replica

    dist.init_process_group("gloo", init_method=url, rank=int(rank), world_size=int(ranks))
    replicas = {name: Replica(name, int(rank), int(ranks)) for name in MODELS}
    for replica in replicas.values():
        # Statistics of batch norm stay each rank's own.
        replica.model = DistributedDataParallel(replica.model, broadcast_buffers=False)
    steps = {name: replica.step for name, replica in replicas.items()}
    return acting(steps, {name: replica.digest for name, replica in replicas.items()})


# --- by hand ---


def hand(ranks: str) -> Act:
    """All ranks, as processes that share memory."""
    from . import sgd_models  # noqa: F401  # imported once, for all ranks

    context = multiprocessing.get_context("fork")
    count = int(ranks)
    rows = [context.RawArray("f", PARAMETERS_MAX) for _ in range(count + 1)]
    barrier = context.Barrier(count)
    ends: list[Connection] = []
    for rank in range(count):
        ours, theirs = context.Pipe()
        context.Process(target=run_rank, args=(rank, count, rows, barrier, theirs), daemon=True).start()
        ends.append(ours)

    def act(model: str, steps: int) -> str:
        for end in ends:
            end.send((model, steps))
        return " ".join(dict.fromkeys(str(end.recv()) for end in ends))

    return act


def run_rank(rank: int, ranks: int, rows: list[Any], barrier: Any, orders: Connection) -> None:
    """Carry out orders as one of them."""
    import torch

    from .sgd_models import MODELS, Replica

    *own, total = [torch.frombuffer(row, dtype=torch.float32) for row in rows]
    replicas = {name: Replica(name, rank, ranks) for name in MODELS}
    steps = {name: SharedStep(replica, rank, own, total, barrier) for name, replica in replicas.items()}
    act = acting({name: step.run for name, step in steps.items()}, {n: r.digest for n, r in replicas.items()})
    while True:
        try:
            model, count = orders.recv()
        except EOFError:
            return
        orders.send(act(model, count))


class SharedStep:
    """Steps of one rank: each rank adds up its part of all gradients, between two barriers."""

    def __init__(self, replica: Any, rank: int, rows: Iterable[Any], total: Any, barrier: Any) -> None:
        from .sgd_models import views

        self.replica, self.barrier = replica, barrier
        parameters = replica.parameters
        size = sum(parameter.numel() for parameter in parameters)
        self.rows = [row[:size] for row in rows]
        self.own, self.total = self.rows[rank], total[:size]
        bounds = [size * number // replica.ranks for number in (rank, rank + 1)]
        self.part = slice(*bounds)
        self.gradients = list(views(parameters, self.own))
        self.sums = list(views(parameters, self.total))

    def run(self) -> None:
        """Make one step."""
        import torch

        parameters = self.replica.parameters
        self.own.zero_()
        for parameter, view in zip(parameters, self.gradients, strict=True):
            parameter.grad = view
        self.replica.backward()
        self.barrier.wait()
        first, second, *others = (row[self.part] for row in self.rows)
        part = torch.add(first, second, out=self.total[self.part])
        for other in others:
            part += other
        self.barrier.wait()
        for parameter, view in zip(parameters, self.sums, strict=True):
            parameter.grad = view
        self.replica.optimizer.step()


if __name__ == "__main__":
    main()
