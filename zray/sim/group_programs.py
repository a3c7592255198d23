"""Programs with placement groups: tasks, children and actors in bundles, removals while they run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..wire.where import Where
from .actor_programs import Counter
from .language import Call, Create, Drop, FindGroup, Get, MakeGroup, RemoveGroup, Sleep, Submit, remote
from .sequential import TOO_MUCH
from .task_programs import increment, nap, outcome, outcomes

Script = Generator[Any, Any, Any]

# So little that there is room for the groups of several drivers, and for tasks beside them, on one CPU.
SHARE = {"CPU": 1_000}
BESIDE = {"CPU": 2_500}


@remote
def parent_in_group(group: str, number: int) -> Script:
    """Its child takes the CPU that it lends out while it waits; another child runs beside the group."""
    where = Where(group=bytes.fromhex(group))
    child = yield Submit(increment, (number,), resources=SHARE, where=where)
    other = yield Submit(increment, (number,), resources=BESIDE)
    return sum((yield Get([child, other])))


@remote
def with_own_group(number: int) -> Script:
    """A task that makes a group, and may be killed at any time."""
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
    """One group after the other; the last one ends with the job."""
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
        refs.append((yield Submit(increment, (1,), resources={}, where=Where(group=group))))  # it takes nothing
        mine.append((yield Submit(increment, (1,), resources=BESIDE, where=Where(group=group))))  # no bundle has that
        found += yield from outcomes(refs)
        if not last:
            yield RemoveGroup(group)  # some of these run, some do not
            late = yield Submit(increment, (1,), resources=SHARE, where=Where(group=group))
            mine.append(late)
        for ref in mine:
            yield from outcome(ref)  # whatever it is
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
    del gone  # it came before the removal, or after
    return [found, same == group]


def run_groups_without_places(strategy: str) -> Script:
    """Removed while they are looked for, prepared, or cannot be."""
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
