"""Programs with hosted actors: many in one process, with ends of all kinds, and deaths of their process."""

from __future__ import annotations

from typing import Any

from .actor_programs import Counter, Script
from .language import Call, Cancel, Create, Drop, ExitActor, Find, Get, Keep, Kill, Put, Sleep, Submit, remote
from .task_programs import increment, outcome, outcomes
from .values import Big, Failed, RemoteError, UserError


@remote
class Member:
    """An actor that calls others of its process, and holds their handles."""

    world: Any
    process: Any

    def __init__(self, value: Any) -> None:
        self.value = value.size if type(value) is Big else value
        self.others: list[Any] = []

    def meet(self, box: list[Any]) -> Script:
        yield Keep(box[0])
        self.others.append(box[0])
        return len(self.others)

    def walk(self, steps: int) -> Script:
        """Sum up the values from here on."""
        if not steps or not self.others:
            return self.value
        return self.value + (yield Get((yield Call(self.others[0], "walk", (steps - 1,), max_retries=-1))))

    def work(self, size: int) -> Script:
        """Submit a task, and put a value."""
        ref = yield Submit(increment, (self.value,))
        kept = yield Put(Big(self.value % 256, size))
        value = yield Get(kept)
        return [(yield Get(ref)), value]

    def rest(self, seconds: float) -> Script:
        yield Sleep(seconds)
        return self.value

    def fail(self) -> None:
        raise UserError("the member says no")

    def leave(self) -> Script:
        yield ExitActor()
        return 0


@remote
def ask_member(box: list[Any], steps: int) -> Script:
    """Call a hosted actor from a task."""
    return (yield from outcome((yield Call(box[0], "walk", (steps,), max_retries=-1))))


@remote
def own_member(number: int) -> Script:
    """Make a hosted actor in a task, its only user."""
    member = yield Create(Member, (number,), max_restarts=-1, hosted=True)
    return (yield Get((yield Call(member, "work", (100,), max_retries=-1))))


def run_hosted(count: int, calls: int, size: int, seconds: float) -> Script:
    """Hosted actors in a line, each with the handle of the one before; and others that end in all ways."""
    big = yield Put(Big(7, size))
    line, refs = [], []
    for number in range(count):
        line.append((yield Create(Member, (number,), max_restarts=-1, hosted=True)))
        if number:
            refs.append((yield Call(line[-1], "meet", ([line[-2]],), max_retries=-1)))
    sharers = []
    for _ in range(2):  # they take the same large argument
        sharers.append((yield Create(Member, (big,), max_restarts=-1, hosted=True)))
    yield Drop([big])
    for member in (*line, *sharers):
        for _ in range(calls):
            refs.append((yield Call(member, "work", (size,), max_retries=-1)))
    for number in range(count):
        refs.append((yield Submit(ask_member, ([line[number]], 0), max_retries=-1)))
        refs.append((yield Submit(own_member, (number,), max_retries=-1)))
    found: list[Any] = [(yield from outcomes(refs))]
    found.append((yield from _ends(seconds)))
    yield Drop([*line, *sharers])
    return found


def _ends(seconds: float) -> Script:
    found = []
    failing = yield Create(Member, (1,), hosted=True)
    found.append((yield from outcome((yield Call(failing, "fail")))))
    found.append((yield from outcome((yield Call(failing, "rest", (0.0,))))))
    leaving = yield Create(Member, (2,), hosted=True)
    yield from outcome((yield Call(leaving, "leave")))
    busy = yield Create(Member, (3,), hosted=True)
    rest = yield Call(busy, "rest", (seconds,))
    yield Sleep(seconds / 2)
    yield Kill(busy)
    yield from outcome(rest)
    found.append((yield from outcome((yield Call(busy, "rest", (0.0,))))))
    again = yield Create(Member, (4,), max_restarts=-1, hosted=True)
    several = []
    for _ in range(3):
        several.append((yield Call(again, "rest", (seconds / 4,), max_retries=-1)))
    yield Sleep(seconds / 2)
    yield Kill(again, no_restart=False)
    found += yield from outcomes(several)
    asked = yield Create(Member, (6,), hosted=True)
    refs = []
    for _ in range(4):
        refs.append((yield Call(asked, "rest", (seconds / 4,))))
    yield Cancel(refs[2])
    yield Sleep(seconds / 8)
    yield Cancel(refs[1])
    yield from outcomes(refs)
    found.append((yield from outcome((yield Call(asked, "rest", (0.0,))))))
    short = yield Create(Member, (5,), hosted=True)
    last = yield Call(short, "rest", (seconds,))
    yield Drop([short])
    found.append((yield from outcome(last)))
    return found


def run_hosted_names(count: int, calls: int, seconds: float) -> Script:
    """Hosted actors in order and by name, detached ones among them; no call runs twice in one life of an actor."""
    counters, refs = [], []
    for number in range(count):
        detached = number % 2 == 1
        counters.append(
            (yield Create(Counter, (number,), max_restarts=-1, name=f"hosted-{number}", detached=detached, hosted=True))
        )
    for number in range(1, calls + 1):
        for counter in counters:
            method = "pause" if number % 3 == 0 else "add"
            refs.append((yield Call(counter, method, ("driver", number), max_retries=-1)))
    yield Sleep(seconds)
    found = yield from outcomes(refs)
    for item in found:
        if type(item) is Failed:
            assert item.kind != "ActorUnavailableError", f"a call that may be repeated was not: {item.text}"
    yield Drop(counters)
    for number in range(count):
        counter = yield Find(f"hosted-{number}")
        if number % 2 == 1 and counter is None:
            found.append(Failed("ActorDiedError", "nobody has that name", True))
        elif number % 2 == 1:
            try:
                found.append((yield Get((yield Call(counter, "add", ("by name", 1), max_retries=-1)))))
            except RemoteError as error:
                found.append(error.failed)
            yield Kill(counter)
        if counter is not None:
            yield Drop([counter])
    return found
