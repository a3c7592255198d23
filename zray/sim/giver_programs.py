"""A program whose actor recovers, and passes actors of its own to another actor before the creating call has ended."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from . import recovery_programs
from .language import Call, Create, Drop, Get, Keep, Sleep, remote
from .recovery_programs import ALLOWED, Ledger
from .task_programs import outcomes
from .values import Failed, Handle

Script = Generator[Any, Any, Any]


@remote
class LedgerTaker(Ledger):
    """A ledger that enters into the ledgers it is given."""

    def __init__(self) -> None:
        super().__init__(0)
        self.ledgers: list[Handle] = []
        self.told: list[int] = []
        self.heard: list[Any] = []

    def save(self) -> Any:
        return [self.start, self.entries, self.ledgers, self.told, self.heard]

    def restore(self, state: Any) -> Script:
        self.start, self.entries, self.ledgers, self.told, self.heard = state
        for ledger in self.ledgers:
            yield Keep(ledger)

    def take(self, box: list[Handle], waits: bool) -> Script:
        yield Keep(box[0])
        self.ledgers.append(box[0])
        self.told.append(0)
        yield from self._tell(len(self.told) - 1, waits)
        if len(self.told) > 1:
            yield from self._tell(len(self.told) - 2, False)
        return len(self.told)

    def _tell(self, which: int, waits: bool) -> Script:
        self.told[which] += 1
        ref = yield Call(self.ledgers[which], "enter", ("taker", self.told[which]), max_retries=-1)
        if waits:
            self.heard.append((yield Get(ref)))

    def what_it_told(self) -> list[Any]:
        return [self.told, self.heard]


@remote
class LedgerGiver(Ledger):
    """A ledger that creates ledgers, gives each to the taker at once, and enters into them too."""

    def __init__(self, interval: int, where: str, taker: Handle) -> None:
        super().__init__(0)
        self.interval, self.where, self.taker = interval, where, taker
        self.ledgers: list[Handle] = []
        self.told: list[int] = []

    def begin(self) -> Script:
        yield Keep(self.taker)

    def save(self) -> Any:
        return [self.start, self.entries, self.interval, self.where, self.taker, self.ledgers, self.told]

    def restore(self, state: Any) -> Script:
        self.start, self.entries, self.interval, self.where, self.taker, self.ledgers, self.told = state
        yield Keep(self.taker)
        for ledger in self.ledgers:
            yield Keep(ledger)

    def give(self, number: int) -> Script:
        self._enter("driver", number)
        resources = {self.where: 1_000} if self.where else None
        ledger = yield Create(Ledger, (0,), max_restarts=-1, checkpoint_interval=self.interval, resources=resources)
        yield Keep(ledger)
        self.ledgers.append(ledger)
        self.told.append(0)
        if number % 2:
            yield from self._tell(len(self.told) - 1)
        ref = yield Call(self.taker, "take", ([ledger], number % 3 == 0), max_retries=-1)
        if number % 4 < 2:
            yield Sleep(0.001 * (number % 7))
        if number % 5 == 0:
            yield Get(ref)
        yield from self._tell(len(self.told) - 1)
        return number

    def tell(self, number: int) -> Script:
        self._enter("driver", number)
        if self.told:
            yield from self._tell(number % len(self.told))
        return number

    def _tell(self, which: int) -> Script:
        self.told[which] += 1
        yield Call(self.ledgers[which], "enter", ("giver", self.told[which]), max_retries=-1)

    def what_it_told(self) -> list[Any]:
        return [self.told, self.ledgers]


def run_giver(interval: int, count: int, where: str, where_taken: str, where_made: str) -> Script:
    """Check that each ledger is created once, unnoticed by callers, whatever dies.

    where, where_taken, where_made: resources that the giver, the taker and the ledgers take; "": none.
    """
    options: dict[str, Any] = {"max_restarts": -1, "checkpoint_interval": interval}
    resources = {where_taken: 1_000} if where_taken else None
    taker = yield Create(LedgerTaker, resources=resources, **options)
    resources = {where: 1_000} if where else None
    giver = yield Create(LedgerGiver, (interval, where_made, taker), resources=resources, **options)
    own = []
    for number in range(1, count + 1):
        own.append((yield Call(giver, "give" if number % 3 == 1 else "tell", (number,), max_retries=-1)))
        if number % 6 == 0:
            yield Sleep(0.01)
    answers = yield from outcomes(own)
    told: Any = None
    taken: Any = None
    states: list[Any] = []
    for _ in range(200):
        looks = []
        for actor in (giver, taker):
            looks.append((yield Call(actor, "what_it_told", (), max_retries=-1, readonly=True)))
        told, taken = yield from outcomes(looks)
        if type(told) is Failed or type(taken) is Failed:
            break
        looks = []
        for actor in (giver, *told[1]):
            looks.append((yield Call(actor, "look", (), max_retries=-1, readonly=True)))
        states = yield from outcomes(looks)
        if any(type(state) is Failed for state in states) or _are_in(states[1:], told[0], taken[0]):
            break
        yield Sleep(0.02)  # they wait for few of the calls
    yield Drop([giver, taker])
    heard = taken[1] if type(taken) is list else []
    failed = [answer for answer in [*answers, told, taken, *states, *heard] if type(answer) is Failed]
    for answer in failed:
        is_dead = answer.kind == "ActorDiedError" and any(reason in answer.text for reason in recovery_programs.FINAL)
        assert answer.kind in ALLOWED or is_dead, f"a caller has noticed: {answer.kind}: {answer.text}"
    if failed:
        return failed[0]
    assert dict(states[0]) == {"driver": list(range(1, count + 1))}, states[0]
    assert len(taken[0]) == len(told[0]), f"{len(told[0])} were given, {len(taken[0])} taken"
    for state, *numbers in zip(states[1:], told[0], taken[0], strict=True):
        wanted = {who: list(range(1, n + 1)) for who, n in zip(("giver", "taker"), numbers, strict=True) if n}
        assert dict(state) == wanted, f"entries {state}, {numbers} were made"
    return [answers, told[0], taken[0]]


def _are_in(states: list[Any], told: list[int], taken: list[int]) -> bool:
    """Return whether all entries of both have arrived."""
    for state, said, more in zip(states, told, taken, strict=False):
        entered = dict(state)
        if len(entered.get("giver", ())) < said or len(entered.get("taker", ())) < more:
            return False
    return len(told) == len(taken)
