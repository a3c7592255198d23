"""Values that a program leaves behind: by the place where they were made, with who refers to them.

With ZRAY_DEBUG=1, a line on each such place is printed when the program leaves its session: the largest places first.
A session that the program has started ends with it, so all of its values count; in a joined session, those alone
to which the program, or a process with its tasks or actors, refers.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...exceptions import ZrayError
from ...exceptions.printable import printable
from ...wire.amounts import in_bytes
from ...wire.listing import ListWork, ObjectFact, WorkListed

if TYPE_CHECKING:
    from .driver import Driver

# The program waits no longer for the lists.
ANSWER_SECONDS = 2.0
PLACES_SHOWN = 20
HOLDERS_SHOWN = 3
# What refers to a value to which no process does.
NO_PROCESS = "tasks or other values"
SMALL = "small values, and values that are not made yet"


def tell(driver: Driver) -> None:
    """Print the lines."""
    gc.collect()  # what only cycles refer to is not left behind
    try:
        work: WorkListed = driver.ask(ListWork, ANSWER_SECONDS)
        listed: WorkListed = driver.ask(lambda request: ListWork(request, are_objects=True), ANSWER_SECONDS)
    except ZrayError:
        return  # the session is lost: so are its values
    for line in lines_of(listed.objects, work, driver.job_id, os.getpid(), is_all=driver.is_owner):
        print(line, file=sys.stderr)
    sys.stderr.flush()


def lines_of(objects: list[ObjectFact], work: WorkListed, job_id: bytes, pid: int, *, is_all: bool) -> list[str]:
    """Return the lines on values; none: nothing is left behind.

    Args:
        objects: of the session, a fact a copy.
        work: its actors and processes.
        job_id, pid: of the program.
        is_all: whether other programs' values count too.
    """
    own = {pid, *(fact.pid for fact in work.workers if fact.job_id == job_id)}
    names = {fact.pid: f"actor {fact.class_name} (pid {fact.pid})" for fact in work.actors} | {pid: "the program"}
    places: dict[str, list[ObjectFact]] = {}
    for fact in {fact.object_id: fact for fact in reversed(objects)}.values():
        if is_all or own & {*fact.holders, *fact.readers}:
            places.setdefault(fact.made or SMALL, []).append(fact)
    total = [fact.size for facts in places.values() for fact in facts]
    if not total:
        return []
    lines = [f"zray: at the end of the program, {_count(total)} still referred to:"]
    ranked = sorted(places.items(), key=lambda item: -sum(fact.size for fact in item[1]))
    for made, facts in ranked[:PLACES_SHOWN]:
        count, size = len(facts), in_bytes(sum(fact.size for fact in facts))
        values = f"{count:,} value{'s' * (count > 1)}, {size}"
        counts = Counter(pid for fact in facts for pid in {*fact.holders, *fact.readers})
        lines.append(f"  {values}: {printable(made)}; by {holders_in_words(counts, names)}")
    if len(ranked) > PLACES_SHOWN:
        lines.append(f"  and those of {len(ranked) - PLACES_SHOWN:,} other places")
    return lines


def _count(sizes: list[int]) -> str:
    size = in_bytes(sum(sizes))
    return f"{len(sizes):,} values ({size}) are" if len(sizes) > 1 else f"1 value ({size}) is"


def holders_in_words(counts: Mapping[int, int], names: Mapping[int, str]) -> str:
    """Say which processes refer to values, those with most of them first.

    Args:
        counts: of the values that a process refers to, by its pid.
        names: of processes, by their pids.
    """
    ranked = sorted(counts, key=lambda pid: (-counts[pid], pid))
    found = [names.get(pid, f"pid {pid}") for pid in ranked[:HOLDERS_SHOWN]]
    if len(ranked) > HOLDERS_SHOWN:
        found.append(f"{len(ranked) - HOLDERS_SHOWN:,} more processes")
    return ", ".join(found) or NO_PROCESS
