"""A program whose actor recovers, and creates and calls other actors, in its constructor and in its calls."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from . import recovery_programs
from .language import Call, Create, Drop, Get, Keep, Sleep, remote
from .recovery_programs import ALLOWED, Ledger
from .task_programs import outcomes
from .values import Failed, Handle, RemoteError

Script = Generator[Any, Any, Any]


@remote
class LedgerMaker(Ledger):
    """A ledger that creates ledgers, and enters into these and into another one."""

    def __init__(self, start: int, interval: int, where: str, others: list[Handle]) -> None:
        super().__init__(start)
        self.interval, self.where = interval, where
        self.ledgers = list(others)
        self.told: list[int] = [0]

    def begin(self) -> Script:
        yield Keep(self.ledgers[0])
        yield from self._tell(0)
        yield from self._make()

    def save(self) -> Any:
        return [self.start, self.entries, self.interval, self.where, self.ledgers, self.told]

    def restore(self, state: Any) -> Script:
        self.start, self.entries, self.interval, self.where, self.ledgers, self.told = state
        for ledger in self.ledgers:
            yield Keep(ledger)

    def _make(self) -> Script:
        resources = {self.where: 10_000} if self.where and len(self.told) == 1 else None
        ledger = yield Create(
            Ledger, (self.start,), max_restarts=-1, checkpoint_interval=self.interval, resources=resources
        )
        yield Keep(ledger)
        self.ledgers.append(ledger)
        self.told.append(0)
        yield from self._tell(len(self.told) - 1)

    def _tell(self, which: int) -> Script:
        self.told[which] += 1
        return (yield Call(self.ledgers[which], "enter", ("maker", self.told[which]), max_retries=-1))

    def make(self, number: int) -> Script:
        self._enter("driver", number)
        yield from self._make()
        return self.ledgers

    def ask(self, number: int, size: int) -> Script:
        """Get a large answer, and look at it."""
        self._enter("driver", number)
        self.told[0] += 1
        answer = yield Get((yield Call(self.ledgers[0], "enter_large", ("maker", self.told[0], size), max_retries=-1)))
        return [answer.fill, self.told[0]]

    def tell(self, number: int, waits: bool) -> Script:
        entered = self._enter("driver", number)
        ref = yield from self._tell(number % len(self.told))
        if waits:
            yield Get(ref)
        return entered

    def use_one(self, number: int) -> Script:
        """Create a ledger, use it, and drop it."""
        self._enter("driver", number)
        ledger = yield Create(Ledger, (self.start,), max_restarts=-1, checkpoint_interval=self.interval)
        return (yield Get((yield Call(ledger, "enter", ("maker", 1), max_retries=-1))))

    def what_it_told(self) -> list[int]:
        return self.told


def run_maker(interval: int, count: int, start: int, where: str, is_beside: bool = False) -> Script:
    """Check that each ledger is created once, and each entry made once, whatever dies."""
    options: dict[str, Any] = {"max_restarts": -1, "checkpoint_interval": interval}
    resources = {where: 10_000} if where else None
    other = yield Create(Ledger, (start,), resources=resources if is_beside else None, **options)
    maker = yield Create(LedgerMaker, (start, interval, where, [other]), resources=resources, **options)
    own, ledgers, entered = [], [other], [0]
    for number in range(1, count + 1):
        if number % 7 == 3:
            own.append((yield Call(maker, "use_one", (number,), max_retries=-1)))
        elif number % 11 == 1:
            own.append((yield Call(maker, "ask", (number, 5_000), max_retries=-1)))
        elif number % 5:
            own.append((yield Call(maker, "tell", (number, number % 3 == 1), max_retries=-1)))
        else:
            ref = yield Call(maker, "make", (number,), max_retries=-1)
            own.append(ref)
            try:
                ledgers = yield Get(ref)
            except RemoteError:
                pass  # looked at below
            entered += [0] * (len(ledgers) - len(entered))
        if number % 2:
            which = number % len(ledgers)
            entered[which] += 1
            own.append((yield Call(ledgers[which], "enter", ("driver", entered[which]), max_retries=-1)))
        if number % 6 == 0:
            yield Sleep(0.01)
    answers = yield from outcomes(own)
    answers = [len(answer) if type(answer) is list else answer for answer in answers]
    states: list[Any] = []
    told: Any = None
    for _ in range(200):
        looks = [(yield Call(maker, "what_it_told", (), max_retries=-1, readonly=True))]
        for ledger in (maker, *ledgers):
            looks.append((yield Call(ledger, "look", (), max_retries=-1, readonly=True)))
        told, *states = yield from outcomes(looks)
        if any(type(state) is Failed for state in (told, *states)):
            break
        if all(
            dict(state).get("maker", []) == list(range(1, n + 1)) for state, n in zip(states[1:], told, strict=False)
        ):
            break
        yield Sleep(0.02)  # the maker does not wait for these calls
    yield Drop([maker, other])
    for answer in [*answers, told, *states]:
        if type(answer) is Failed:
            # In a call of the maker: of an actor that it has called.
            is_dead = answer.kind in ("ActorDiedError", "task") and any(
                reason in answer.text for reason in recovery_programs.FINAL
            )
            # A large answer announced to the caller's node, but not pulled, is lost to its caller.
            is_lost = answer.kind in ALLOWED or is_beside and any(kind in answer.text for kind in ALLOWED)
            # So is an answer with handles inside, if the actor is lost with both of its nodes.
            is_lost = is_lost or "the other node with the actor's state is lost" in answer.text
            assert is_lost or is_dead, f"a caller has noticed: {answer.kind}: {answer.text}"
    failed = [answer for answer in [*answers, told, *states] if type(answer) is Failed]
    if failed:
        return failed[0]
    wanted = [{"driver": count}]
    wanted += [{"maker": said, "driver": done} for said, done in zip(told, entered, strict=False)]
    for state, numbers in zip(states, wanted, strict=True):
        found = {caller: list(range(1, number + 1)) for caller, number in numbers.items() if number}
        assert dict(state) == found, f"entries {state}, {numbers} were made"
    return [answers, told, states]
