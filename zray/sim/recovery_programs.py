"""Programs of actors that recover: whatever dies, each call's effect is in the state once, and no caller notices."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .language import Call, Create, Drop, Get, Keep, Kill, Put, Sleep, Submit, remote
from .task_programs import outcomes
from .values import Big, Failed, Ref, UserError

Script = Generator[Any, Any, Any]
# Errors of a call though its actor recovers: its argument, or its large result, lies on a lost node; the store is full;
# no node is left for the actor.
ALLOWED = ("ObjectLostError", "ObjectStoreFullError", "ActorUnschedulableError")
# Reasons without recovery: no process starts in several attempts; both nodes with its state are lost.
FINAL_OF_PROCESSES = ("No worker process could be started", "A worker process died before it was ready")
FINAL = (*FINAL_OF_PROCESSES, "is lost")


@remote
class Ledger:
    """An actor that keeps all entries of its callers."""

    world: Any
    process: Any

    def __init__(self, start: Any) -> None:
        self.start = start.size if type(start) is Big else start
        self.entries: list[list[Any]] = []
        self.held: list[Ref] = []

    def save(self) -> Any:
        return [self.start, self.entries, self.held]

    def restore(self, state: Any) -> Script:
        self.start, self.entries, self.held = state
        for ref in self.held:
            yield Keep(ref)

    def _enter(self, caller: str, number: int) -> int:
        """Return the number of the caller's entries: equal to this entry's number, if none is missing or doubled."""
        self.entries.append([caller, number])
        return self.start + sum(1 for entry in self.entries if entry[0] == caller)

    def enter(self, caller: str, number: int) -> int:
        return self._enter(caller, number)

    def enter_large(self, caller: str, number: int, size: int) -> Any:
        return Big(self._enter(caller, number) % 250, size)

    def enter_slowly(self, caller: str, number: int) -> Script:
        yield Sleep(0.0005)
        return self._enter(caller, number)

    def enter_and_fail(self, caller: str, number: int) -> None:
        self._enter(caller, number)
        raise UserError("entered nevertheless")

    def enter_with(self, caller: str, number: int, value: Any) -> Any:
        self._enter(caller, number)
        return value

    def enter_and_keep(self, caller: str, number: int, box: list[Ref]) -> Script:
        yield Keep(box[0])
        self.held.append(box[0])
        return self._enter(caller, number)

    def look(self) -> list[Any]:
        """Return the entries per caller.  Readonly."""
        callers = sorted({entry[0] for entry in self.entries})
        return [[caller, [number for name, number in self.entries if name == caller]] for caller in callers]

    def look_large(self, caller: str, value: Any, size: int) -> Any:
        """Return a value beside the caller's number of entries.  Readonly."""
        return Big((value.fill + sum(1 for entry in self.entries if entry[0] == caller)) % 250, size)

    def look_at_held(self) -> Script:
        return (yield Get(list(self.held)))


@remote
def enter_often(box: list[Any], caller: str, count: int) -> Script:
    """Call a ledger, as a caller with its own order, and return the answers."""
    ledger = (yield Get(box[0]))[0]
    refs = []
    for number in range(1, count + 1):
        refs.append((yield Call(ledger, "enter", (caller, number), max_retries=-1)))
    return (yield from outcomes(refs))


def run_ledger(interval: int, callers: int, count: int, size: int, where: str) -> Script:
    """Use a ledger whose processes die, with entries of all kinds.  where: a resource that it takes; "": none."""
    start = yield Put(Big(1, size))
    resources = {where: 10_000} if where else None
    ledger = yield Create(Ledger, (start,), max_restarts=-1, checkpoint_interval=interval, resources=resources)
    yield Drop([start])
    box = yield Put([ledger])
    tasks = []
    for number in range(callers):
        tasks.append((yield Submit(enter_often, ([box], f"caller-{number}", count), max_retries=0)))
    own, number = [], 0
    for turn in range(count):
        for method in ("enter", "enter_slowly", "enter_and_fail", "enter_with", "enter_and_keep")[: 2 + turn % 4]:
            number += 1
            more: tuple[Any, ...] = ()
            if method in ("enter_with", "enter_and_keep"):
                ref = yield Put(Big(turn % 250, size) if turn % 2 else turn)
                more = (ref,) if method == "enter_with" else ([ref],)
            own.append((yield Call(ledger, method, ("driver", number, *more), max_retries=-1)))
            if more:
                yield Drop([ref])
        if turn % 4 == 3:
            own.append((yield Call(ledger, "look_at_held", (), max_retries=-1, readonly=True)))
            yield Sleep(0.01)
    answers = yield from outcomes(own)
    called = yield from outcomes(tasks)
    (state,) = yield from outcomes([(yield Call(ledger, "look", (), max_retries=-1, readonly=True))])
    yield Drop([ledger, box])
    for answer in answers:
        if type(answer) is Failed and answer.is_system:
            is_dead = answer.kind == "ActorDiedError" and any(reason in answer.text for reason in FINAL)
            assert answer.kind in ALLOWED or is_dead, f"a caller has noticed: {answer.kind}: {answer.text}"
    if type(state) is not Failed:
        for caller, numbers in state:
            assert numbers == list(range(1, len(numbers) + 1)), f"entries of {caller}: {numbers}"
        entered = {caller: len(numbers) for caller, numbers in state}
        assert entered["driver"] == number, f"{entered['driver']} entries, {number} were made"
        for index, answer in enumerate(called):
            if type(answer) is list:
                assert entered.get(f"caller-{index}", 0) == count, f"caller-{index} was answered, and is not in it"
    return [answers, called]


@remote
def fill_of(value: Any) -> list[Any]:
    """Return the content of a large answer."""
    return [value.fill, value.size]


def run_hoard(interval: int, count: int, size: int, where: str) -> Script:
    """Keep large answers unread for long; some are dropped, or taken by tasks anywhere."""
    ledger = yield Create(Ledger, (0,), max_restarts=-1, checkpoint_interval=interval, resources={where: 10_000})
    refs: list[Ref] = []
    numbers, tasks, taken, reads = [], [], [], []
    for number in range(1, count + 1):
        if number % 3 == 1:  # the entries by then, whenever the answer is made again
            beside = yield Put(Big(number, size if number % 2 else 10))
            args = ("driver", beside, size)
            reads.append((yield Call(ledger, "look_large", args, max_retries=-1, readonly=True)))
            yield Drop([beside])
        ref = yield Call(ledger, "enter_large", ("driver", number, size), max_retries=-1)
        if number % 7 == 5:
            yield Drop([ref])
            continue
        refs.append(ref)
        numbers.append(number)
        if number % 5 == 3:
            tasks.append((yield Submit(fill_of, (ref,), max_retries=-1)))
            taken.append(number)
        if number % 4 == 0:
            yield Sleep(0.01)
    (entered,) = yield from outcomes([(yield Call(ledger, "enter", ("driver", count + 1), max_retries=-1))])
    yield Sleep(0.1)
    answers = yield from outcomes(refs)
    looks = yield from outcomes(tasks)
    seen = yield from outcomes(reads)
    yield Drop([ledger])
    for answer in [entered, *answers, *seen]:
        if type(answer) is Failed:
            is_dead = answer.kind == "ActorDiedError" and any(reason in answer.text for reason in FINAL)
            assert answer.kind in ALLOWED or is_dead, f"a caller has noticed: {answer.kind}: {answer.text}"
    assert type(entered) is Failed or entered == count + 1, f"{entered} entries, {count + 1} were made"
    for number, answer in zip(numbers, answers, strict=True):
        assert type(answer) is Failed or answer == Big(number % 250, size), f"answer {number}: {answer}"
    for number, look in zip(taken, looks, strict=True):  # others may need a lost answer before its repetition
        assert type(look) is Failed or look == [number % 250, size], f"answer {number}: {look}"
    for number, read in enumerate(seen):
        assert type(read) is Failed or read == Big((6 * number + 1) % 250, size), f"after {3 * number}: {read}"
    return [entered, answers, looks, seen]


@remote
class Relay(Ledger):
    """A ledger that enters, and has other ledgers enter, itself among them."""

    def __init__(self, start: Any) -> None:
        super().__init__(start)
        self.told = [0, 0]
        self.heard: list[Any] = []

    def save(self) -> Any:
        return [self.start, self.entries, self.told, self.heard]

    def restore(self, state: Any) -> Script:
        self.start, self.entries, self.told, self.heard = state
        yield from ()

    def tell(self, number: int, box: list[Ref], which: int, waits: bool) -> Script:
        entered = self._enter("driver", number)
        ledger = (yield Get(box[0]))[which]
        self.told[which] += 1
        ref = yield Call(ledger, "enter", ("relay", self.told[which]), max_retries=-1)
        if waits:
            self.heard.append((yield Get(ref)))
        return entered

    def what_it_heard(self) -> list[Any]:
        return self.heard


def run_relay(interval: int, count: int, start: int, where: str) -> Script:
    """Have ledgers enter into each other: each of those calls has its effect once, whatever dies."""
    resources = {where: 10_000} if where else None
    relay = yield Create(Relay, (start,), max_restarts=-1, checkpoint_interval=interval, resources=resources)
    other = yield Create(Ledger, (start,), max_restarts=-1, checkpoint_interval=interval, resources=resources)
    box = yield Put([relay, other])
    own = []
    for number in range(1, count + 1):
        which, waits = number % 3 % 2, number % 4 == 1
        own.append((yield Call(relay, "tell", (number, [box], which, waits and which == 1), max_retries=-1)))
        if number % 5 == 0:
            yield Sleep(0.01)
    answers = yield from outcomes(own)
    wanted = [sum(1 for number in range(1, count + 1) if number % 3 % 2 == which) for which in (0, 1)]
    states: list[Any] = []
    for _ in range(200):
        looks = []
        for ledger in (relay, other):
            looks.append((yield Call(ledger, "look", (), max_retries=-1, readonly=True)))
        states = yield from outcomes(looks)
        if any(type(state) is Failed for state in states):
            break
        if [len(dict(state).get("relay", ())) for state in states] >= wanted:
            break
        yield Sleep(0.02)  # the relay does not wait for these calls
    (heard,) = yield from outcomes([(yield Call(relay, "what_it_heard", (), max_retries=-1, readonly=True))])
    yield Kill(relay)  # its call log has a handle on itself
    yield Drop([relay, other, box])
    for answer in [*answers, *states, heard]:
        if type(answer) is Failed:
            is_dead = answer.kind == "ActorDiedError" and any(reason in answer.text for reason in FINAL)
            assert answer.kind in ALLOWED or is_dead, f"a caller has noticed: {answer.kind}: {answer.text}"
    for which, state in enumerate(states):
        if type(state) is not Failed:
            for caller, numbers in state:
                assert numbers == list(range(1, len(numbers) + 1)), f"entries of {caller}: {numbers}"
            entered = {caller: len(numbers) for caller, numbers in state}
            if not any(type(other) is Failed for other in states):
                assert entered.get("relay", 0) == wanted[which], f"{entered}, {wanted[which]} were made"
    return [answers, states, heard]
