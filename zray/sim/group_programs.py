"""Programs with placement groups: tasks, children and actors in bundles, removals during their run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..wire.where import Where
from .actor_programs import Counter
from .language import Call, Create, Drop, FindGroup, Get, MakeGroup, RemoveGroup, Sleep, Submit, remote
from .sequential import TOO_MUCH
from .task_programs import increment, nap, outcome, outcomes

Script = Generator[Any, Any, Any]

# Small enough for the groups of several drivers, and for tasks beside them, on one CPU.
SHARE = {"CPU": 1_000}
BESIDE = {"CPU": 2_500}


@remote
def parent_in_group(group: str, number: int) -> Script:
    """Run a child on the CPU lent out during the wait, and another child outside the group."""
    where = Where(group=bytes.fromhex(group))
    child = yield Submit(increment, (number,), resources=SHARE, where=where)
    other = yield Submit(increment, (number,), resources=BESIDE)
    return sum((yield Get([child, other])))


@remote
def with_own_group(number: int) -> Script:
    """Create a group in a task that may be killed at any time."""
    group = yield MakeGroup([SHARE])
    where = Where(group=group, bundle=0)
    value = yield from outcome((yield Submit(increment, (number,), resources=SHARE, where=where)))
    yield RemoveGroup(group)
    return value


@remote
class Maker:
    """An actor whose groups end with it."""

    world: Any
    process: Any

    def make(self, number: int) -> Script:
        group = yield MakeGroup([SHARE, SHARE], "SPREAD")
        where = Where(group=group)
        return (yield from outcome((yield Submit(increment, (number,), resources=SHARE, where=where))))


def run_groups(count: int, strategy: str) -> Script:
    """Use groups in sequence; the last ends with the job."""
    found = []
    for last in (False, True):
        group = yield MakeGroup([SHARE, SHARE], strategy)
        refs, mine = [], []
        for number in range(count):
            where = Where(group=group, bundle=number % 3 - 1)
            refs.append((yield Submit(nap, (0.001, number), resources=SHARE, where=where)))
            refs.append((yield Submit(parent_in_group, (group.hex(), refs[-1]), resources=SHARE, where=where)))
            refs.append((yield Submit(with_own_group, (number,), resources=BESIDE)))
            mine.append((yield Submit(nap, (0.05, number), resources=SHARE, where=where)))
        refs.append((yield Submit(increment, (1,), resources={}, where=Where(group=group))))  # needs no resources
        mine.append((yield Submit(increment, (1,), resources=BESIDE, where=Where(group=group))))  # no bundle has enough
        found += yield from outcomes(refs)
        if not last:
            yield RemoveGroup(group)  # some of these tasks run, some do not
            late = yield Submit(increment, (1,), resources=SHARE, where=Where(group=group))
            mine.append(late)
        for ref in mine:
            yield from outcome(ref)  # any outcome
    return found


def run_groups_of_actors(count: int, strategy: str) -> Script:
    group = yield MakeGroup([SHARE, SHARE], strategy, "the group")
    same = yield FindGroup("the group")
    counters, refs = [], []
    for number in range(2):
        where = Where(group=group, bundle=number if count % 2 else -1)
        counters.append((yield Create(Counter, (number,), resources=SHARE, where=where, max_restarts=-1)))
        for call in range(1, count + 1):
            refs.append((yield Call(counters[-1], "add", ("driver", call), max_retries=-1)))
    maker = yield Create(Maker, ())
    refs.append((yield Call(maker, "make", (5,))))
    found = yield from outcomes(refs)
    yield Drop([maker, counters[0]])
    yield RemoveGroup(group)
    gone = yield from outcome((yield Call(counters[1], "add", ("driver", count + 1))))
    yield Drop([counters[1]])
    del gone  # the call came before the removal, or after
    return [found, same == group]


def run_groups_without_places(strategy: str) -> Script:
    """Remove groups while they are being placed, are prepared, or cannot be placed."""
    refs = []
    for number in range(6):
        group = yield MakeGroup([SHARE, SHARE, SHARE], strategy)
        refs.append((yield Submit(increment, (number,), resources=SHARE, where=Where(group=group))))
        yield Sleep(0.0002 * number)
        yield RemoveGroup(group)
    for ref in refs:
        yield from outcome(ref)
    never = yield MakeGroup([{"CPU": TOO_MUCH + 1}], strategy)
    ref = yield Submit(increment, (1,), resources=SHARE, where=Where(group=never))
    value = yield from outcome(ref)
    yield RemoveGroup(never)
    return value
