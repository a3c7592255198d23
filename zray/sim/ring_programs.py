"""Programs of actors with handles of each other, on one node and on several."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..wire.where import Where
from .language import Call, Create, Drop, Find, Get, Keep, Kill, Put, Sleep, Submit, remote
from .task_programs import outcome, outcomes
from .values import Failed, RemoteError

Script = Generator[Any, Any, Any]

# How often an actor passes a ring on.
PASSES = 30
# What a ring is held by: actors or tasks that pass it on, nothing, the driver, another actor, a value, a task, a name.
HOLDERS = ("actors", "", "driver", "actor", "value", "task", "tasks", "name")


@remote
class RingMember:
    """An actor with the handle of another one."""

    def __init__(self, *others: Any) -> None:
        self.next = others[0] if others else None

    def take(self, box: list[Any]) -> Script:
        for link in box:
            yield Keep(link)
        self.next = box[0]
        return 0

    def give_to(self, box: list[Any]) -> Script:
        """Give the handle away."""
        link, self.next = self.next, None
        if link is not None:
            taken = yield Call(box[0], "take", ([link],))
            yield Drop([link])
            yield Get(taken)
        return 0

    def walk(self, steps: int) -> Script:
        """Count the actors from here on, so many at most."""
        if not steps or self.next is None:
            return 1
        return 1 + (yield Get((yield Call(self.next, "walk", (steps - 1,)))))


def walk(link: Any, length: int) -> Script:
    """Walk around a ring that is held: the number of its actors."""
    walked = yield from outcome((yield Call(link, "walk", (length - 1,))))
    if type(walked) is Failed:
        assert "no program can reach" not in walked.text, "an actor that the program holds has ended"
    return walked


def run_rings(rings: int, length: int, seconds: float) -> Script:
    """Rings of actors without a handle elsewhere, which end, and as many with one, which do not."""
    kept, refs = [], []
    for number in range(2 * rings):
        ring = []
        for _ in range(length):
            ring.append((yield Create(RingMember, ())))
        for place, link in enumerate(ring):
            refs.append((yield Call(link, "take", ([ring[place - 1]],))))
        if number % 2:
            kept.append(ring.pop(0))
        yield Drop(ring)
    found = yield from outcomes(refs)
    yield Sleep(seconds)
    for link in kept:
        found.append((yield from walk(link, length)))
    yield Drop(kept)
    return found


@remote
def walk_late(box: list[Any], length: int, seconds: float, hops: int, nodes: int) -> Script:
    """Hold a ring for a while; then walk around it, or leave it to a task on the next node."""
    yield Sleep(seconds)
    if not hops:
        return (yield from walk(box[0], length))
    where = Where(node=f"n{1 + hops % nodes}", is_soft=True)
    later = yield Submit(walk_late, (box, length, seconds, hops - 1, nodes), where=where)
    return [later]


def begin_to_pass(link: Any, nodes: int) -> Script:
    """Leave a ring to the first of several actors, one on each node."""
    passers = []
    for number in range(1, nodes + 1):
        passers.append((yield Create(RingMember, (), where=Where(node=f"n{number}", is_soft=True))))
    return passers, (yield from outcome((yield Call(passers[0], "take", ([link],)))))


def pass_around(rings: list[tuple[list[Any], Any]], length: int, seconds: float) -> Script:
    """Have actors pass rings on to the next ones; then walk around the rings, unless one has failed."""
    found = [taken for _, taken in rings]
    for number in range(PASSES):
        refs = []
        for passers, _ in rings:
            giver, taker = passers[number % len(passers)], passers[(number + 1) % len(passers)]
            refs.append((yield Call(giver, "give_to", ([taker],))))
        given = yield from outcomes(refs)
        found = [one if type(one) is Failed else other for one, other in zip(found, given, strict=True)]
        yield Drop(refs)
        yield Sleep(seconds / PASSES)
    for index, (passers, _) in enumerate(rings):
        if type(found[index]) is not Failed:
            found[index] = yield from walk(passers[PASSES % len(passers)], length + 1)
        yield Drop(passers)
    return found


def last_outcome(ref: Any) -> Script:
    """Return the outcome of the last task of those that leave the rest to others."""
    found = yield from outcome(ref)
    while isinstance(found, list):
        inner = found
        found = yield from outcome(inner[0])
        yield Drop(inner)
    return found


def make_far_ring(length: int, nodes: int, number: int, name: str, *, is_hosted: bool = False) -> Script:
    """Create a ring whose actors live on several nodes; some get their neighbour from the constructor."""
    ring: list[Any] = []
    for place in range(length):
        args = (ring[-1],) if place and (place + number) % 3 == 0 else ()
        where = Where(node=f"n{1 + (place + number) % nodes}", is_soft=True)
        ring.append((yield Create(RingMember, args, where=where, name="" if place else name, hosted=is_hosted)))
    return ring


def run_far_rings(rings: int, length: int, nodes: int, seconds: float, tag: int) -> Script:
    """Rings over several nodes: some are held by nothing and end, the others stay while something holds them."""
    refs, kept, passed = [], [], list[Any]()
    for number in range(rings):
        holder = HOLDERS[number % len(HOLDERS)]
        ring = yield from make_far_ring(length, nodes, number, f"ring-{tag}-{number}" if holder == "name" else "")
        others = ring if number % 4 == 0 else []  # each of its actors holds all, or the one before
        for place, link in enumerate(ring):
            refs.append((yield Call(link, "take", ([ring[place - 1], *others],))))
        where = Where(node=f"n{1 + (number + 1) % nodes}", is_soft=True)
        if holder == "actor":
            kept.append((holder, (yield Create(RingMember, (ring[0],), where=where))))
        elif holder == "value":
            kept.append((holder, (yield Put([ring[0]]))))
        elif holder == "actors":
            passed.append((yield from begin_to_pass(ring[0], nodes)))
        elif holder.startswith("task"):
            hops = 0 if holder == "task" else nodes
            task = yield Submit(walk_late, ([ring[0]], length, seconds / (1 + hops), hops, nodes), where=where)
            kept.append((holder, task))
        elif holder:
            kept.append((holder, ring.pop(0)))
        yield Drop(ring)
    found = yield from outcomes(refs)
    found += yield from pass_around(passed, length, seconds)
    for number, (holder, held) in enumerate(kept):
        found.append((yield from walk_held(holder, held, length, number)))
    return found


def walk_held(holder: str, held: Any, length: int, number: int) -> Script:
    """Walk around a ring by way of its holder, and let go of it."""
    if holder == "value":
        try:
            box = yield Get(held)
        except RemoteError as error:
            return error.failed
        walked = yield from walk(box[0], length)
        yield Drop([held, *box])
    elif holder.startswith("task"):
        walked = yield from last_outcome(held)
        yield Drop([held])
    else:
        walked = yield from walk(held, length + (holder == "actor"))
        if holder == "name":
            yield Kill(held)
        yield Drop([held])
    return walked


@remote
def seek(name: str, length: int, seconds: float, times: int) -> Script:
    """Find a ring by its name, again and again, and walk around it: how often it was not whole."""
    wrong = 0
    for _ in range(times):
        yield Sleep(seconds / times)
        link = yield Find(name)
        if link is None:
            continue  # it has ended, and is not found again
        walked = yield from walk(link, length)
        wrong += type(walked) is not Failed and walked != length
        yield Drop([link])
    return wrong


def run_named_rings(
    rings: int, length: int, nodes: int, seconds: float, times: int, is_hosted: bool, tag: int
) -> Script:
    """Rings over several nodes that are only found by the name of one of their actors, by tasks on all nodes."""
    found, seekers = [], []
    for number in range(rings):
        name = f"ring-{tag}-{number}"
        ring = yield from make_far_ring(length, nodes, number, name, is_hosted=is_hosted)
        refs = []
        for place, link in enumerate(ring):
            refs.append((yield Call(link, "take", ([ring[place - 1]],))))
        found += yield from outcomes(refs)
        for place in range(1, nodes + 1):
            where = Where(node=f"n{place}", is_soft=True)
            often = times + (number + place) % 3
            seekers.append((yield Submit(seek, (name, length, seconds, often), where=where)))
        yield Drop(ring)
    return found + (yield from outcomes(seekers))
