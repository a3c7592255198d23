"""Programs of tasks and actors with placement constraints or preferences."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..wire.where import LabelRule, Where
from .language import Call, Create, Drop, Get, IsHere, Sleep, Submit, remote
from .object_programs import make_big
from .task_programs import nap, outcomes, total
from .values import Big

Script = Generator[Any, Any, Any]

EVERY: tuple[str, ...] = ()
# As many as the largest simulated cluster may have.
ODD = tuple(f"n{number}" for number in range(1, 400, 2))
# Constraints, and the permitted nodes.
WISHES = [
    (Where(node="n1"), ("n1",)),
    (Where(node="n2", is_soft=True), EVERY),
    (Where(is_spread=True), EVERY),
    (Where(hard=(LabelRule("parity", ("odd",)),)), ODD),
    (Where(soft=(LabelRule("parity", ("even",)),)), EVERY),
    (Where(hard=(LabelRule("nothing", is_negated=True),), is_spread=True), EVERY),
]


@remote
def is_here(names: tuple[str, ...]) -> Script:
    return (yield IsHere(names))


def run_choosy(count: int) -> Script:
    """Place tasks: by node, by label, one node after the other."""
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
    """An actor that tells whether it is on a permitted node."""

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


@remote
def descend(one: Big, two: Big) -> Big:
    return Big((3 * one.fill + two.fill + 1) % 256, one.size)


def run_ancestry(depth: int, width: int, size: int, seconds: float) -> Script:
    """Run lines of tasks on the second node that take each other's results, keep only the last refs, and fetch them
    when the node may be gone.

    Each line is fetched in turn, and re-executes tasks of the other lines: their runs are unlimited.
    """
    where = Where(node="n2", is_soft=True)
    line = []
    for number in range(width):
        line.append((yield Submit(make_big, (number + 1, size), max_retries=-1, where=where)))
    for _ in range(depth):
        after = []
        for number in range(width):
            # Each has two parents, whose shards may differ.
            parents = (line[number], line[number - 1])
            after.append((yield Submit(descend, parents, max_retries=-1, where=where)))
        yield Drop(line)
        line = after
        yield Sleep(0.1)  # tasks are done, and their arguments freed; no result has been fetched
    yield Sleep(seconds)
    return (yield from outcomes(line))


@remote
class Giver:
    """An actor with large results, determined by the arguments."""

    world: Any
    process: Any

    def give(self, number: int, size: int) -> Big:
        return Big(number % 256, size)

    def after(self, one: Big, two: Big) -> Big:
        return descend(one, two)


@remote
def sum_of_fills(one: Big, two: Big) -> int:
    return one.fill + two.fill


def run_late_answers(actors: int, count: int, size: int, seconds: float) -> Script:
    """Call actors on the second node with calls that may be retried and take each other's results; fetch the last
    results when the node may be gone, and drop the first.  Every second actor has no preference for a node.
    """
    givers, early, late = [], [], []
    for number in range(actors):
        where = Where(node="n2", is_soft=True) if number % 2 == 0 else None
        givers.append((yield Create(Giver, (), where=where, max_restarts=-1)))
    for giver in givers:
        yield Get((yield Call(giver, "give", (0, 10), max_retries=-1)))  # the actor has been placed
    for number in range(count):
        giver, other = givers[number % actors], givers[(number + 1) % actors]
        one = yield Call(giver, "give", (number, size), max_retries=-1)
        two = yield Call(giver, "after", (one, one), max_retries=-1)
        three = yield Call(other, "after", (two, one), max_retries=-1)
        early += [one, two] if number % 2 else [one]
        late += [three] if number % 2 else [two, three]
    yield Sleep(0.5)  # the calls have ended
    yield Drop(early)
    yield Sleep(seconds)
    tasks = []
    for number, ref in enumerate(late):
        tasks.append((yield Submit(sum_of_fills, (ref, late[number - 1]), max_retries=-1)))
    found = (yield from outcomes(tasks)), (yield from outcomes(late))
    yield Drop(givers)
    return list(found)
