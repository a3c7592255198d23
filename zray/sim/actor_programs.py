"""Programs with actors: order, kept refs, ends of all kinds, names."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .language import Call, Create, Drop, ExitActor, Find, Get, Keep, Kill, MayNotStart, Put, Sleep, Submit, remote
from .task_programs import increment, nap, outcome, outcomes
from .values import Big, Failed, RemoteError, UserError

Script = Generator[Any, Any, Any]


@remote
class Counter:
    """An actor that logs the order of its calls where only the simulator sees it."""

    world: Any
    process: Any

    def __init__(self, start: Any) -> None:
        self.start = start.size if type(start) is Big else start
        self.held: list[Any] = []

    def _log(self, caller: str, number: int) -> None:
        if self.process.is_once_more:
            return  # in no order
        key = (self.process.actor_id, self.process.address + self.process.life)
        self.world.actor_logs.setdefault(key, []).append((caller, number))

    def add(self, caller: str, number: int) -> int:
        self._log(caller, number)
        return self.start + number

    def pause(self, caller: str, number: int) -> Script:
        self._log(caller, number)
        yield Sleep(0.0005)
        return number

    def hold(self, caller: str, number: int, box: list[Any]) -> Script:
        """Keep the ref, and look at its value."""
        self._log(caller, number)
        value = yield Get(box[0])
        yield Keep(box[0])
        self.held.append(box[0])
        return value

    def take(self, caller: str, number: int, value: Any) -> Any:
        self._log(caller, number)
        return value

    def fail(self, caller: str, number: int) -> None:
        self._log(caller, number)
        raise UserError("the actor says no")

    def leave(self, caller: str, number: int) -> Script:
        self._log(caller, number)
        yield ExitActor()
        return number


@remote
class Broken:
    """Cannot be made."""

    def __init__(self) -> None:
        raise UserError("no constructor")

    def add(self, number: int) -> int:
        return number


@remote
def call_often(counter: Any, caller: str, count: int) -> Script:
    """Call an actor, as a caller with its own order."""
    refs = []
    for number in range(1, count + 1):
        refs.append((yield Call(counter[0], "add", (caller, number))))
    return (yield from outcomes(refs))


def run_counter(callers: int, count: int, restarts: int, start: int) -> Script:
    big = yield Put(Big(1, start))
    counter = yield Create(Counter, (big,), max_restarts=restarts)
    yield Drop([big])
    refs = []
    for number in range(callers):
        refs.append((yield Submit(call_often, ([counter], f"caller-{number}", count), max_retries=0)))
    own = []
    for number in range(1, count + 1):
        if number % 50 == 1 and refs:
            # The argument comes from a caller of the same actor, whose calls must not wait for this one.
            own.append((yield Call(counter, "take", ("driver", number, refs[number // 50 % callers]))))
        else:
            own.append((yield Call(counter, "pause" if number % 5 == 0 else "add", ("driver", number))))
    found = (yield from outcomes(own)), (yield from outcomes(refs))
    yield Drop([counter])
    return list(found)


def run_actor_refs(count: int) -> Script:
    """Refs through an actor, kept beyond the call; results as arguments of later calls."""
    counter = yield Create(Counter, (0,))
    refs = []
    number = 0
    before = None
    for value in range(count):
        ref = yield Put(value)
        number += 1
        refs.append((yield Call(counter, "hold", ("driver", number, [ref]))))
        yield Drop([ref])
        number += 1
        before = yield Call(counter, "take", ("driver", number, refs[-1] if before is None else before))
        refs.append(before)
        number += 1
        slow = yield Submit(nap, (0.001, value))
        refs.append((yield Call(counter, "take", ("driver", number, slow))))
    return (yield from outcomes(refs))


def run_actor_ends(count: int) -> Script:
    """Use actors that fail, leave, are killed, or cannot be created."""
    found = []
    broken = yield Create(Broken, ())
    found.append((yield from outcome((yield Call(broken, "add", (1,))))))
    failing = yield Create(Counter, (0,))
    found.append((yield from outcome((yield Call(failing, "fail", ("driver", 1))))))
    found.append((yield from outcome((yield Call(failing, "add", ("driver", 2))))))
    for _ in range(count):
        short = yield Create(Counter, (5,))
        first = yield Call(short, "add", ("driver", 1))
        yield Drop([short])  # the actor leaves after its present calls
        found.append((yield from outcome(first)))
    killed = yield Create(Counter, (0,))
    yield from outcome((yield Call(killed, "add", ("driver", 1))))
    yield Kill(killed)
    found.append((yield from outcome((yield Call(killed, "add", ("driver", 2))))))
    leaving = yield Create(Counter, (0,))
    yield from outcome((yield Call(leaving, "leave", ("driver", 1))))
    return found


@remote
def own_actor(number: int) -> Script:
    """Create an actor in a task, its only user."""
    counter = yield Create(Counter, (number,), max_restarts=-1)
    refs = []
    for call in range(1, 4):
        refs.append((yield Call(counter, "add", (f"task-{number}", call), max_retries=-1)))
    return sum((yield Get(refs)))


def run_own_actors(count: int) -> Script:
    refs = []
    for number in range(count):
        refs.append((yield Submit(own_actor, (number,))))
    return (yield from outcomes(refs))


@remote
def use_by_name(name: str) -> Script:
    counter = yield Find(name)
    if counter is None:
        raise RemoteError(Failed("ActorDiedError", "nobody has that name", True))
    return (yield from outcome((yield Call(counter, "add", ("by name", 1)))))


def run_named(name: str) -> Script:
    counter = yield Create(Counter, (10,), name=name)
    made = yield from outcome((yield Call(counter, "add", ("driver", 1))))
    found = yield from outcome((yield Submit(use_by_name, (name,), max_retries=0)))
    nobody = yield Find("nobody has this name")
    return [made, found, nobody is None]


@remote
def call_through(box: list[Any], caller: str, count: int) -> Script:
    """Take a handle out of an object, and call the actor."""
    counter = (yield Get(box[0]))[0]
    refs = []
    for number in range(1, count + 1):
        method = "pause" if number % 7 == 0 else "add"
        refs.append((yield Call(counter, method, (caller, number))))
    return (yield from outcomes(refs))


def run_spread(actors: int, callers: int, count: int, size: int, resource: str = "room") -> Script:
    """Create actors on nodes with space, called from all nodes with tasks, through handles inside objects.

    With resource="CPU" they take the CPUs of tasks already placed on those nodes.
    """
    counters, boxes, refs = [], [], []
    for number in range(actors):
        start = yield Put(Big(number, size))
        counters.append((yield Create(Counter, (start,), resources={resource: 10_000}, name=f"{resource}-{number}")))
        yield Drop([start])
        boxes.append((yield Put([counters[-1], number])))
    for number, box in enumerate(boxes):
        for caller in range(callers):
            work = yield Submit(call_through, ([box], f"caller-{number}-{caller}", count), max_retries=0)
            refs.append(work)
    own = []
    for number in range(1, count + 1):
        for counter in counters:
            large = yield Put(Big(number, size))
            own.append((yield Call(counter, "take", ("driver", 2 * number - 1, large))))
            yield Drop([large])
            own.append((yield Call(counter, "hold", ("driver", 2 * number, [own[-1]]))))
    found = (yield from outcomes(refs)), (yield from outcomes(own))
    again = yield Submit(use_by_name, (f"{resource}-0",), max_retries=0)
    named = yield from outcome(again)
    yield Kill(counters[0])
    dead = yield from outcome((yield Call(counters[0], "add", ("driver", 2 * count + 1))))
    yield Drop(counters)
    yield Drop(boxes)
    return [*found, named, dead]


@remote
def call_lasting(box: list[Any], caller: str, count: int) -> Script:
    """Make calls that may be retried."""
    counter = (yield Get(box[0]))[0]
    refs = []
    for number in range(1, count + 1):
        refs.append((yield Call(counter, "add", (caller, number), max_retries=-1)))
    return (yield from outcomes(refs))


def run_survivors(actors: int, callers: int, count: int, size: int, seconds: float) -> Script:
    """Create actors that restart as often as their processes or nodes die, with calls that may be retried.

    The driver's own calls do not notice.  Every second actor is detached: found by its name, and killed.
    """
    counters, boxes, refs, own, starts = [], [], [], [], []
    for number in range(actors):
        starts.append((yield Put(Big(number, size))))
    for number, start in enumerate(starts):
        counters.append(
            (
                yield Create(
                    *(Counter, (start,)),
                    max_restarts=-1,
                    resources={"room": 10_000},
                    name=f"survivor-{number}",
                    detached=number % 2 == 1,
                )
            )
        )
        yield Drop([start])
        boxes.append((yield Put([counters[-1]])))
        for caller in range(callers):
            work = yield Submit(call_lasting, ([boxes[-1]], f"caller-{number}-{caller}", count), max_retries=0)
            refs.append(work)
    for number in range(1, count + 1):
        for counter in counters:
            own.append((yield Call(counter, "take", ("driver", 2 * number - 1, 7), max_retries=-1)))
        yield Sleep(seconds)
        try:
            large = yield Put(Big(number, size))
        except RemoteError as error:
            own += [error.failed] * actors  # the store is full
            continue
        for counter in counters:
            own.append((yield Call(counter, "take", ("driver", 2 * number, large), max_retries=-1)))
        yield Drop([large])
    found = []
    for item in own:
        found.append(item if type(item) is Failed else (yield from outcome(item)))
    may_not_start = []
    for counter in counters:
        may_not_start.append((yield MayNotStart(counter)))
    for index, item in enumerate(found):
        if type(item) is Failed:
            is_answer = item.kind == "ObjectLostError"  # a large result, which stays on its node
            # An actor that could not be started is dead; callers may only be told of its lost node, which knew why.
            is_made_again = is_answer or may_not_start[index % actors] or "is lost" not in item.text
            assert is_made_again, f"an actor that is made again was not: {item.text}"
            assert item.kind != "ActorUnavailableError", f"a call that may be repeated was not: {item.text}"
    callers_found = yield from outcomes(refs)
    named = []
    yield Drop(counters)
    for number in range(actors):
        counter = yield Find(f"survivor-{number}")
        if number % 2 == 1 and counter is None:
            named.append(Failed("ActorDiedError", "nobody has that name", True))
        elif number % 2 == 1:
            named.append((yield from outcome((yield Call(counter, "add", ("by name", 1), max_retries=-1)))))
            yield Kill(counter)
        if counter is not None:
            yield Drop([counter])
    yield Drop(boxes)
    return [found, named, callers_found]


@remote
def ask_for_late(number: int) -> Script:
    """Submit a task from a node that lacks the requested resource as well."""
    ref = yield Submit(increment, (number,), resources={"late": 5_000})
    return (yield from outcome(ref))


def run_patient(tasks: int, actors: int) -> Script:
    """Request resources that no node has yet, until a node with them joins."""
    refs, counters = [], []
    for number in range(actors):
        counters.append((yield Create(Counter, (number,), resources={"late": 2_500})))
        refs.append((yield Call(counters[-1], "add", ("driver", 1))))
    for number in range(tasks):
        refs.append((yield Submit(increment, (number,), resources={"late": 5_000})))
        refs.append((yield Submit(increment, (refs[-1],))))
        refs.append((yield Submit(ask_for_late, (number,))))
    forgotten = yield Submit(increment, (0,), resources={"late": 1})
    yield Drop([forgotten])
    results = yield from outcomes(refs)
    yield Drop(counters)
    return results
