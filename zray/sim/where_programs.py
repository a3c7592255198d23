"""Programs of tasks and actors that say where they run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..wire.where import LabelRule, Where
from .language import Call, Create, Drop, IsHere, Submit, remote
from .task_programs import nap, outcomes, total

Script = Generator[Any, Any, Any]

EVERY: tuple[str, ...] = ()
# What is said, and the nodes that do.
WISHES = [
    (Where(node="n1"), ("n1",)),
    (Where(node="n2", is_soft=True), EVERY),
    (Where(is_spread=True), EVERY),
    (Where(hard=(LabelRule("parity", ("odd",)),)), ("n1", "n3", "n5")),
    (Where(soft=(LabelRule("parity", ("even",)),)), EVERY),
    (Where(hard=(LabelRule("nothing", is_negated=True),), is_spread=True), EVERY),
]


@remote
def is_here(names: tuple[str, ...]) -> Script:
    return (yield IsHere(names))


def run_choosy(count: int) -> Script:
    """Tasks: by node, by label, one node after the other."""
    refs = []
    for number in range(count):
        for where, names in WISHES:
            late = yield Submit(nap, (0.001 * (number % 2), 1))
            refs.append((yield Submit(is_here, (names,), where=where)))
            refs.append((yield Submit(total, (refs[-1], late), where=where)))
            yield Drop([late])
    return (yield from outcomes(refs))


@remote
class Resident:
    """Says whether it is where it should be."""

    world: Any
    process: Any

    def is_here(self, names: tuple[str, ...]) -> Script:
        return (yield IsHere(names))


def run_residents(count: int) -> Script:
    """Actors likewise."""
    refs, residents = [], []
    for _ in range(count):
        for where, names in WISHES:
            residents.append((yield Create(Resident, (), where=where, max_restarts=-1)))
            refs.append((yield Call(residents[-1], "is_here", (names,), max_retries=-1)))
    found = yield from outcomes(refs)
    yield Drop(residents)
    return found
