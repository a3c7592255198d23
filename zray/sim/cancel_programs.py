"""Programs that cancel: each task has its value, or TaskCancelledError; nothing else is disturbed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .language import Call, Cancel, Create, Drop, Get, Sleep, Submit, remote
from .task_programs import increment, nap, outcome
from .values import Failed

Script = Generator[Any, Any, Any]
CANCELLED = ("TaskCancelledError", "TaskForceCancelledError")


@remote
def doomed_branch(depth: int, seconds: float) -> Script:
    """A task whose children are cancelled with it."""
    yield Sleep(seconds)
    if not depth:
        return 1
    refs = []
    for _ in range(2):
        refs.append((yield Submit(doomed_branch, (depth - 1, seconds))))
    return 1 + sum((yield Get(refs)))


@remote
class SlowAdder:
    def add(self, number: int, seconds: float) -> Script:
        """A call that takes a while."""
        yield Sleep(seconds)
        return number + 1


@remote
class SavedAdder(SlowAdder):
    """Notes its calls; its state is saved and restored."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def save(self) -> list[int]:
        return list(self.numbers)

    def restore(self, state: list[int]) -> Script:
        self.numbers = list(state)
        yield from ()

    def add(self, number: int, seconds: float) -> Script:
        self.numbers.append(number)
        return (yield from SlowAdder.add(self, number, seconds))


@remote
def cancel_for(refs: list[Any]) -> Script:
    """Cancel tasks of another process, on some node."""
    for ref in refs:
        yield Cancel(ref)
    return len(refs)


def is_right(ref: Any, value: Any) -> Script:
    """True for the value and for a cancel; else what came."""
    found = yield from outcome(ref)
    if type(found) is Failed and (found.kind in CANCELLED or "cancelled" in found.text):
        return True  # it, or a child whose value it takes
    return found == value or found


def run_cancels(count: int, depth: int, seconds: float, share: float) -> Script:
    """Tasks that wait, are queued, forwarded or run, and calls; a share of them is cancelled, some by force.

    A task beside them, and the same actors, are not disturbed.
    """
    actor, lasting = (yield Create(SlowAdder)), (yield Create(SavedAdder, checkpoint_interval=3, max_restarts=-1))
    due: list[tuple[Any, Any, bool]] = []  # ref, value, is a task
    for number in range(count):
        slow = yield Submit(nap, (seconds, number))
        due.append((slow, number, True))
        due.append(((yield Submit(increment, (slow,))), number + 1, True))
        due.append(((yield Submit(doomed_branch, (depth, seconds))), 2 ** (depth + 1) - 1, True))
        due.append(((yield Call(actor, "add", (number, seconds))), number + 1, False))
        due.append(((yield Call(lasting, "add", (number, seconds), max_retries=-1)), number + 1, False))
    beside = yield Submit(increment, (1,))
    yield Sleep(share * seconds * count)
    every = max(1, round(1 / (share + 0.1)))
    for index, (ref, _, is_task) in enumerate(due):
        if index % every == 0:
            yield Cancel(ref, force=is_task and index % 3 == 0, recursive=index % 5 != 0)
    helper = yield Submit(cancel_for, ([ref for ref, _, _ in due[1::5]],))
    found = []
    for ref, value, _ in due:
        found.append((yield from is_right(ref, value)))
    last = yield Call(actor, "add", (7, 0.0))
    numbers = yield from outcome((yield Call(lasting, "save", (), max_retries=-1)))
    assert type(numbers) is Failed or numbers == sorted(set(numbers)), f"calls have run as {numbers}"
    found += [(yield from outcome(beside)), (yield from outcome(last)), (yield from outcome(helper))]
    yield Drop([ref for ref, _, _ in due])
    return found


def run_futures(count: int, seconds: float) -> Script:
    """Tasks of which workers hold several ahead; some are cancelled, if they have not begun.  The others run."""
    brief = []
    for number in range(20):
        brief.append((yield Submit(nap, (0.0, number))))
    yield Get(brief)
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (seconds, number), max_retries=-1)))
    cancelled = set()
    for index, ref in enumerate(refs):
        if index % 3 == 1 and (yield Cancel(ref, only_waiting=True)):
            cancelled.add(index)
        if index % 7 == 6:
            yield Sleep(seconds)
            if (yield Cancel(refs[index // 2], only_waiting=True)):
                cancelled.add(index // 2)
    found = []
    for index, ref in enumerate(refs):
        value = yield from outcome(ref)
        is_cancelled = type(value) is Failed and value.kind == "TaskCancelledError"
        found.append(is_cancelled == (index in cancelled) and (is_cancelled or value == index) or value)
    yield Drop(refs)
    return [*found, (yield Get((yield Submit(increment, (1,)))))]


def run_time_limits(count: int, limit: float) -> Script:
    """Tasks that run shorter and longer than their time limit, also for so long that their workers must be ended."""
    due: list[tuple[Any, float]] = []
    for number in range(count):
        seconds = limit * (0.1, 0.5, 2.0, 5.0, 20.0)[number % 5] + (20.0 if number == count - 1 else 0.0)
        due.append(((yield Submit(nap, (seconds, number), max_retries=-1, timeout=limit)), seconds))
    behind = yield Submit(increment, (due[-1][0],))
    found = []
    for number, (ref, _) in enumerate(due):
        value = yield from outcome(ref)
        is_overdue = type(value) is Failed and value.kind == "TaskTimeoutError"
        found.append(True if is_overdue else value == number or value)
    last = yield from outcome(behind)
    found.append(type(last) is Failed or last == count)
    return found
