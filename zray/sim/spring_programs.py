"""Programs with generators of actors that recover, or are called by such: items come once, and so does each effect."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .generator_programs import ItemMaker
from .language import Call, CallGenerator, Create, Draw, Drop, Get, Item, LeaveStream, Put, Sleep, Submit, remote
from .recovery_programs import ALLOWED, FINAL, Ledger
from .task_programs import outcomes
from .values import Big, Failed, RemoteError

Script = Generator[Any, Any, Any]


@remote
class Spring:
    """An actor that counts its items, and keeps a line for each call: [name, items before, items]."""

    def __init__(self, start: int) -> None:
        self.total = start
        self.lines: list[list[Any]] = []

    def save(self) -> Any:
        return [self.total, self.lines]

    def restore(self, state: Any) -> Script:
        self.total, self.lines = state
        yield from ()

    def flow(self, name: str, count: int, size: int, seconds: float, box: list[Any]) -> Script:
        """Yield items: small and large ones.  box: a ledger, which some of the items are entered into."""
        line: list[Any] = [name, self.total, 0]
        self.lines.append(line)
        for number in range(count):
            yield Sleep(seconds)
            self.total += 1
            line[2] += 1
            if box and number % 4 == 1:
                ledger = (yield Get(box[0]))[0]
                entered = yield Get((yield Call(ledger, "enter", (name, number), max_retries=-1)))
                assert entered == 1 + number // 4, f"{name} has entered {entered} times at item {number}"
            yield Item([self.total, Big(self.total % 250, size) if size and self.total % 3 else None])
        return count

    def enter(self, name: str) -> int:
        """An ordinary call between the generators."""
        self.lines.append([name, self.total, 0])
        return self.total

    def look(self) -> list[Any]:
        """Return the lines.  Readonly."""
        return self.lines


def drawn_from(stream: Any, size: int, at_most: int) -> Script:
    """Return the numbers of the items as they come, or the error that ends them."""
    found: list[Any] = []
    while len(found) < at_most:
        try:
            ref = yield Draw(stream)
            if ref is None:
                break
            number, value = yield Get(ref)
        except RemoteError as error:
            found.append(error.failed)
            break
        assert value is None or value == Big(number % 250, size), f"item {number}: {value}"
        found.append(number)
        yield Drop([ref])
    return found


@remote
def use_spring(box: list[Any], name: str, count: int, size: int, seconds: float, most: int) -> Script:
    """Draw from a spring in a task; a further run of the task draws from a call of its own."""
    spring, _ = yield Get(box[0])
    args: tuple[Any, ...] = (name, count, size, seconds, [])
    stream = yield CallGenerator(spring, "flow", args, max_retries=-1, max_buffered=most)
    found = yield from drawn_from(stream, size, count + 1)
    yield LeaveStream(stream)
    return found


def run_spring(interval: int, turns: int, count: int, size: int, seconds: float, where: str) -> Script:
    """Draw from generators of an actor whose processes and nodes die: to the end, in part, late, or by tasks."""
    options: dict[str, Any] = {"max_restarts": -1, "checkpoint_interval": interval}
    options["resources"] = {where: 10_000} if where else None
    ledger = yield Create(Ledger, (0,), **options)
    inner = yield Put([ledger])
    spring = yield Create(Spring, (1,), **options)
    box = yield Put([spring, ledger])
    tasks = []
    for turn in range(turns % 3):
        tasks.append((yield Submit(use_spring, ([box], f"task-{turn}", count, size, seconds, turn), max_retries=-1)))
    found: list[list[Any]] = []
    wanted, entered, late = [], [], []
    for turn in range(turns):
        name, at_most = f"driver-{turn}", count // 2 if turn % 4 == 2 else count + 1
        args = (name, count, size, seconds, [inner] if turn % 3 == 1 else [])
        most = 0 if turn % 4 == 1 else turn % 3
        stream = yield CallGenerator(spring, "flow", args, max_retries=-1, max_buffered=most)
        entered.append((yield Call(spring, "enter", (f"between-{turn}",), max_retries=-1)))
        wanted.append(min(count, at_most))
        found.append([])
        if turn % 4 == 1:
            late.append((turn, stream))
            continue
        found[turn] = yield from drawn_from(stream, size, at_most)
        yield LeaveStream(stream)
    for turn, stream in late:
        found[turn] = yield from drawn_from(stream, size, count + 1)
        yield LeaveStream(stream)
    answers = yield from outcomes(entered)
    used = yield from outcomes(tasks)
    (lines,) = yield from outcomes([(yield Call(spring, "look", (), max_retries=-1, readonly=True))])
    yield Drop([spring, ledger, box, inner])
    _check(found, wanted, answers, lines)
    for numbers in used:
        if type(numbers) is list and not any(type(number) is Failed for number in numbers):
            assert [number - numbers[0] for number in numbers] == list(range(count)), f"a task has drawn {numbers}"
    return [_relative(numbers, want) for numbers, want in zip(found, wanted, strict=True)]


def _relative(numbers: list[Any], want: int) -> list[Any]:
    failed = next((number for number in numbers if type(number) is Failed), None)
    return [failed] * want if failed is not None else [number - numbers[0] for number in numbers]


def _check(found: list[list[Any]], wanted: list[int], answers: list[Any], lines: Any) -> None:
    allowed = (
        (*ALLOWED, "ObjectReconstructionFailedError") if type(lines) is Failed else ("ObjectStoreFullError", "task")
    )
    for item in [*(item for numbers in found for item in numbers), *answers, lines]:
        if type(item) is Failed:
            is_dead = item.kind == "ActorDiedError" and any(reason in item.text for reason in FINAL)
            is_full = item.kind != "task" or "of the store's" in item.text  # no room for an item
            assert is_dead or (item.kind in allowed and is_full), f"a consumer has noticed: {item.kind}: {item.text}"
    if type(lines) is Failed:
        return
    by_name, total = {}, 1
    for name, before, items in lines:
        assert before == total, f"{name} began at {before}, and those before it had come to {total}"
        assert name not in by_name or name.startswith("task-"), f"{name} is in the state twice"
        by_name[name] = (before, items)
        total += items
    for turn, (numbers, want) in enumerate(zip(found, wanted, strict=True)):
        assert f"driver-{turn}" in by_name, f"driver-{turn} is not in the state"
        before, items = by_name[f"driver-{turn}"]
        has_failed = any(type(number) is Failed for number in numbers)
        numbers = [number for number in numbers if type(number) is not Failed]
        assert items >= (len(numbers) if has_failed else want), (
            f"driver-{turn} has yielded {items} items, {want} were drawn"
        )
        assert numbers == list(range(before + 1, before + 1 + len(numbers))), f"driver-{turn} at {before}: {numbers}"
    for turn, answer in enumerate(answers):
        assert type(answer) is Failed or answer == by_name[f"between-{turn}"][0], f"between-{turn}: {answer}"


@remote
class Brook:
    """An actor whose calls draw from a generator of another actor, and enter some of the items into a ledger."""

    def __init__(self) -> None:
        self.found: list[list[int]] = []

    def save(self) -> Any:
        return self.found

    def restore(self, state: Any) -> Script:
        self.found = state
        yield from ()

    def draw(self, name: str, box: list[Any], args: tuple[Any, ...], at_most: int, most: int) -> Script:
        found: list[int] = []
        self.found.append(found)
        source, ledger = yield Get(box[0])
        method = "make" if len(args) == 3 else "flow"
        stream = yield CallGenerator(source, method, args, max_retries=-1, max_buffered=most)
        while len(found) < at_most and (ref := (yield Draw(stream))) is not None:
            value = yield Get(ref)
            found.append(value[0])
            if len(found) % 4 == 1:
                entered = yield Get((yield Call(ledger, "enter", (name, value[0]), max_retries=-1)))
                assert entered == 1 + len(found) // 4, f"{name} has entered {entered} times at {found}"
            yield Drop([ref])
        yield LeaveStream(stream)
        return found

    def look(self) -> list[Any]:
        return self.found


def run_brook(
    interval: int, turns: int, count: int, size: int, where: str, recovers: bool, *, may_fail: bool = True
) -> Script:
    """Have an actor whose processes and nodes die draw from generators of another one.

    recovers: so does the other actor; else another run of its calls yields the same items.  may_fail: several nodes
    may be lost, or the store may be full.
    """
    options: dict[str, Any] = {"max_restarts": -1, "checkpoint_interval": interval}
    options["resources"] = {where: 10_000} if where else None
    brook = yield Create(Brook, (), **options)
    ledger = yield Create(Ledger, (0,), **options)
    if recovers:
        source = yield Create(Spring, (1,), **options)
    else:
        source = yield Create(ItemMaker, (), max_restarts=-1)
    box = yield Put([source, ledger])
    answers, wanted = [], []
    for turn in range(turns):
        name, at_most = f"brook-{turn}", count // 2 if turn % 4 == 2 else count + 1
        args: tuple[Any, ...] = (name, count, size, 0.001, []) if recovers else (count, size, 0.001)
        call = (name, [box], args, at_most, turn % 3)
        answers.append((yield Call(brook, "draw", call, max_retries=-1)))
        wanted.append(min(count, at_most))
        if turn % 5 == 4:
            yield Sleep(0.01)
    found = yield from outcomes(answers)
    looks = []
    for actor in (brook, ledger, source)[: 2 + recovers]:
        looks.append((yield Call(actor, "look", (), max_retries=-1, readonly=True)))
    states = yield from outcomes(looks)
    yield Drop([brook, ledger, source, box])
    for item in [*found, *states] if not may_fail else ():
        assert type(item) is not Failed, f"a caller has noticed: {item.kind}: {item.text}"
    _check_brook(found, wanted, states)
    return [items if type(items) is Failed else len(items) for items in found]


def run_beck(interval: int, turns: int, count: int, size: int) -> Script:
    """Have two actors that recover, one of which draws from the other, lose their node: nobody notices."""
    return run_brook(interval, turns, count, size, "room", recovers=True, may_fail=False)


def _check_brook(found: list[Any], wanted: list[int], states: list[Any]) -> None:
    for item in [*found, *states]:
        if type(item) is Failed:
            is_dead = item.kind == "ActorDiedError" and any(reason in item.text for reason in FINAL)
            assert is_dead or item.kind in (*ALLOWED, "task"), f"a caller has noticed: {item.kind}: {item.text}"
    if any(type(item) is Failed for item in [*found, *states]):
        return
    assert states[0] == found, f"the state has {states[0]}, and the answers {found}"
    entered = {name: numbers for name, numbers in states[1]}
    by_name = {name: (before, items) for name, before, items in states[2]} if len(states) == 3 else {}
    assert len(by_name) == (len(states[2]) if by_name else 0), "a call is in the state of the other actor twice"
    for turn, (items, want) in enumerate(zip(found, wanted, strict=True)):
        name = f"brook-{turn}"
        before, made = by_name.get(name, (items[0] - 1, want))
        assert items == list(range(before + 1, before + 1 + want)), f"{name} at {before}: {items}, {want} wanted"
        assert made >= want, f"{name}: {made} items were made"
        assert entered.get(name) == items[::4], f"{name} has entered {entered.get(name)} of {items}"
