"""GPUs by number: a program whose tasks, actors and bundles request GPUs, and the checks of their assignment."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from ..roles.local_scheduler.gpus import GPU
from ..wire.groups import plain_name
from ..wire.task_spec import RESOURCE_UNIT
from ..wire.where import Where
from .language import Call, Create, Drop, MakeGroup, RemoveGroup, Sleep, Submit, remote
from .task_programs import increment, nap, outcome, outcomes

if TYPE_CHECKING:
    from .node import Node
    from .process import Activation

Script = Generator[Any, Any, Any]

# Parts of GPUs; no node with GPUs has fewer than two.
PARTS = (5_000, 10_000, 3_000, 20_000, 0, 7_000)


@remote
def with_gpu_child(number: int) -> Script:
    """Wait for a child, which this worker runs if the pool is at its cap, with other GPUs."""
    child = yield Submit(nap, (0.001, number), resources={"CPU": 1_000, GPU: PARTS[number % 3]})
    return (yield from outcome(child))


@remote
class Looker:
    """An actor with GPUs for its whole life."""

    world: Any
    process: Any

    def look(self, number: int) -> Script:
        yield Sleep(0.001)
        return number


def run_gpus(count: int, strategy: str) -> Script:
    """Run a program that ends even with two GPUs: no holder of GPUs waits for others that want some."""
    lookers, refs = [], []
    for number in range(count % 4):
        lookers.append((yield Create(Looker, (), resources={GPU: PARTS[number]}, max_restarts=-1)))
    for number in range(count):
        refs.append((yield Submit(nap, (0.001, number), resources={"CPU": 1_000, GPU: PARTS[number % len(PARTS)]})))
        refs.append((yield Submit(with_gpu_child, (number,), resources={"CPU": 1_000})))
    calls = []
    for number, looker in enumerate(lookers):
        calls.append((yield Call(looker, "look", (number,), max_retries=-1)))
    yield Drop(lookers)  # the actors leave after these calls
    found = yield from outcomes([*calls, *refs])
    group = yield MakeGroup([{GPU: 5_000}, {GPU: 7_000, "CPU": 1_000}], strategy)
    mine = []
    for number in range(count):
        where = Where(group=group, bundle=number % 2)
        mine.append((yield Submit(nap, (0.001, number), resources={GPU: (3_000, 7_000)[number % 2]}, where=where)))
    found += yield from outcomes(mine)
    where = Where(group=group, bundle=0)
    last = yield Submit(nap, (1.0, 1), resources={GPU: 5_000}, where=where)
    yield RemoveGroup(group)
    yield from outcome(last)  # any outcome
    found.append((yield from outcome((yield Submit(increment, (1,), resources={GPU: 20_000})))))
    return found


def check_named(request: Mapping[str, int], gpus: list[str] | None) -> None:
    """Check that a starting task has as many GPUs as requested."""
    amount = sum(amount for name, amount in request.items() if plain_name(name) == GPU)
    count = -(-amount // RESOURCE_UNIT)
    assert len(gpus or ()) == count, f"{gpus} for what asked for {amount / RESOURCE_UNIT:g} GPUs"


def check_shared(node: Node) -> None:
    """Check that no GPU of a node is overcommitted, by the assignments to its processes."""
    used: dict[str, int] = {}
    for process in node.processes.values():
        if process.is_alive:
            for level in process.stack:
                _use(used, level)
            if process.actor_gpus is not None:
                _use(used, process.actor_gpus)
    for name, amount in used.items():
        assert amount <= RESOURCE_UNIT, f"GPU {name} of {node.name} has {amount / RESOURCE_UNIT:g} to do"


def _use(used: dict[str, int], level: Activation) -> None:
    left = level.gpu_amount
    for name in level.gpus or ():
        used[name] = used.get(name, 0) + min(left, RESOURCE_UNIT)
        left -= RESOURCE_UNIT
