"""Programs that draw from generators: each item comes once, in its order, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..wire.where import Where
from .language import (
    Call,
    CallGenerator,
    Create,
    Draw,
    Drop,
    Generate,
    Get,
    Item,
    Keep,
    LeaveStream,
    Put,
    Sleep,
    Submit,
    remote,
)
from .task_programs import increment, outcomes
from .values import Big, Failed, Ref, RemoteError

Script = Generator[Any, Any, Any]


@remote
def make_items(count: int, size: int, seconds: float) -> Script:
    """Items of a size in bytes; every third one has a ref inside."""
    for number in range(count):
        yield Sleep(seconds)
        if number % 3 == 2:
            yield Item([number, (yield Put(number))])
        else:
            yield Item([number, Big(number % 256, size)] if size else [number, None])
    return count


@remote
class ItemMaker:
    def make(self, count: int, size: int, seconds: float) -> Script:
        """Yield the items of `make_items`."""
        return (yield from make_items(count, size, seconds))


@remote
def draw_inside(count: int, size: int, seconds: float) -> Script:
    """A task that draws from a generator of its own."""
    stream = yield Generate(make_items, (count, size, seconds))
    found = yield from drawn(stream)
    yield LeaveStream(stream)
    return found


def drawn(stream: Any, at_most: int = 1 << 30) -> Script:
    """The numbers of the items, as they come; a ref inside is followed."""
    found: list[int] = []
    while len(found) < at_most and (ref := (yield Draw(stream))) is not None:
        value = yield Get(ref)
        if value[0] % 3 == 2:
            assert (yield Get(value[1])) == value[0]
        found.append(value[0])
    return found


def run_generators(count: int, length: int, size: int, seconds: float) -> Script:
    """Generators of tasks and of an actor, drawn to the end, in part, or by tasks; items passed to tasks."""
    actor = yield Create(ItemMaker, max_restarts=-1)
    streams = []
    for _ in range(count):
        streams.append((yield Generate(make_items, (length, size, seconds))))
        streams.append((yield CallGenerator(actor, "make", (length, size, seconds), max_retries=-1)))
    inside = yield Submit(draw_inside, (length, size, seconds))
    wrong = []
    for index, stream in enumerate(streams):
        is_left = index % 4 == 3
        try:
            found = yield from drawn(stream, length // 2 if is_left else length + 1)
        except RemoteError as error:
            if "was put" in str(error):  # by a generator that had ended when its node was lost
                continue
            found = str(error)
        if found != list(range(length // 2 if is_left else length)):
            wrong.append((index, found))
        if index % 3:
            yield LeaveStream(stream)  # the others are left at the end
    passed = yield Generate(make_items, (3, 0, seconds))
    refs = []
    while (ref := (yield Draw(passed))) is not None:
        refs.append(ref)
    yield LeaveStream(passed)
    taken = yield Submit(take_items, tuple(refs))
    yield Drop(refs)
    assert (yield Get(taken)) == [0, 1, 2]
    try:
        assert (yield Get(inside)) == list(range(length))
    except RemoteError as error:
        assert "was put" in str(error)
    assert (yield Get((yield Submit(increment, (1,))))) == 2
    return wrong


@remote
def take_items(*items: Any) -> list[int]:
    """Items as arguments."""
    return [item[0] for item in items]


@remote
def make_bigs(count: int, size: int, seconds: float) -> Script:
    """Items of a size in bytes."""
    for number in range(count):
        yield Sleep(seconds)
        yield Item(Big(number, size) if size else number)
    return count


@remote
def make_slower(count: int, fast: int) -> Script:
    """Large items: so many at once, and then ten in a second."""
    for number in range(count):
        yield Sleep(0.1 if number >= fast else 0.0)
        yield Item(Big(number, 5_000))
    return count


@remote
class BigMaker:
    def make_slower(self, count: int, fast: int) -> Script:
        """Yield the items of `make_slower`."""
        return (yield from make_slower(count, fast))

    def make(self, count: int, size: int, seconds: float) -> Script:
        """Yield the items of `make_bigs`."""
        return (yield from make_bigs(count, size, seconds))


@remote
def square(item: Any) -> Big:
    """A large result."""
    number = item.fill if type(item) is Big else item
    return Big(number**2 % 256, 5_000)


def run_lost_squares(
    count: int, size: int, max_retries: int, max_buffered: int, way: str, pace: float, seconds: float
) -> Script:
    """Results on the third node, of tasks that took the items of a generator on the second node.

    They are fetched when the nodes may be gone.  way: how.  pace: seconds between items.
    """
    second, third = (Where(node=name, is_soft=True) for name in ("n2", "n3"))
    arguments = (count, size, pace)
    stream = yield Generate(make_bigs, arguments, max_retries=max_retries, where=second, max_buffered=max_buffered)
    items, results = [], []
    while (ref := (yield Draw(stream))) is not None:
        items.append(ref)
        if way != "submitted at once":
            results.append((yield Submit(square, (ref,), max_retries=max_retries, where=third)))
            yield Drop([items.pop()])
    for ref in items:
        results.append((yield Submit(square, (ref,), max_retries=max_retries, where=third)))
    yield Drop(items)
    yield LeaveStream(stream)
    yield Sleep(seconds)
    if way == "fetched at once":
        return (yield Get(results))
    return (yield from outcomes(results))


def run_held_back(maker: str, is_inside: bool, *arguments: Any) -> Script:
    """A generator that is held back, while its consumer waits for lost results of items that were freed.

    maker: "task", "actor", or "recoverable".  is_inside: the consumer is a task on the fourth node.
    """
    try:
        if not is_inside:
            return (yield from draw_half(maker, *arguments))
        where = Where(node="n4", is_soft=True)
        return (yield Get((yield Submit(draw_half, (maker, *arguments), max_retries=-1, where=where))))
    except RemoteError as error:  # of the generator itself
        return error.failed


@remote
def draw_half(
    maker: str, count: int, size: int, max_retries: int, max_buffered: int, taken: int, seconds: float
) -> Script:
    """Draw so many items of a generator on the second node, fetch their squares from the third, and draw the others.

    Answer: squares or errors, and the other items.
    """
    second, third = (Where(node=name, is_soft=True) for name in ("n2", "n3"))
    arguments = (count, size, 0.0)
    if maker == "task":
        stream = yield Generate(make_bigs, arguments, max_retries=max_retries, where=second, max_buffered=max_buffered)
    else:
        interval = 3 if maker == "recoverable" else -1
        actor = yield Create(BigMaker, max_restarts=-1, where=second, checkpoint_interval=interval)
        stream = yield CallGenerator(actor, "make", arguments, max_retries=max_retries, max_buffered=max_buffered)
    results = []
    for _ in range(taken):
        ref = yield Draw(stream)
        results.append((yield Submit(square, (ref,), max_retries=-1, where=third)))
        yield Drop([ref])
    for _ in range(6):  # with these messages the items are freed
        assert (yield Get((yield Submit(increment, (1,))))) == 2
    yield Sleep(seconds)
    found = yield from outcomes(results)
    others = []
    while (ref := (yield Draw(stream))) is not None:
        others.append((yield Get(ref)))
        yield Drop([ref])
    yield LeaveStream(stream)
    return found, others


def run_held_backs(*arguments: Any) -> Script:
    """Run `run_held_back`.  Answer: what is wrong.  Items that a recoverable actor has made may be lost for good."""
    result = yield from run_held_back(*arguments)
    if type(result) is Failed:
        return result
    found, others = result
    maker, _, count, size, _, _, taken, _ = arguments
    may_fail = maker == "recoverable"
    wrong = [
        (number, result)
        for number, result in enumerate(found)
        if result != Big(number**2 % 256, 5_000) and not (may_fail and type(result) is Failed and result.is_system)
    ]
    items = [Big(number, size) if size else number for number in range(taken, count)]
    return wrong, [] if others == items else others


def run_left_squares(count: int, max_buffered: int, taken: int, seconds: float, is_called: bool) -> Script:
    """Squares, on the third node, of the first items of a generator that is left early: they are fetched late."""
    second, third = (Where(node=name, is_soft=True) for name in ("n2", "n3"))
    arguments = (count, taken + 2)
    if is_called:
        actor = yield Create(BigMaker, max_restarts=-1, where=second)
        stream = yield CallGenerator(actor, "make_slower", arguments, max_retries=1, max_buffered=max_buffered)
    else:
        stream = yield Generate(make_slower, arguments, max_retries=1, where=second, max_buffered=max_buffered)
    results = []
    for _ in range(taken):
        ref = yield Draw(stream)
        results.append((yield Submit(square, (ref,), max_retries=-1, where=third)))
        yield Drop([ref])
    yield LeaveStream(stream)
    for _ in range(6):  # with these messages the items are freed
        assert (yield Get((yield Submit(increment, (1,))))) == 2
    yield Sleep(seconds)
    return (yield from outcomes(results))


@remote
class LateReader:
    """An actor that gets values long after it was given their refs."""

    def __init__(self) -> None:
        self.refs: list[Ref] = []

    def take(self, refs: list[Ref]) -> Script:
        for ref in refs:
            yield Keep(ref)
        self.refs = refs

    def read(self) -> Script:
        return (yield from outcomes(self.refs))


def run_left_and_read_elsewhere(count: int, taken: int, seconds: float) -> Script:
    """Squares, on the third node, of items of a generator that is left: an actor on the fourth gets them late."""
    second, third, fourth = (Where(node=name, is_soft=True) for name in ("n2", "n3", "n4"))
    reader = yield Create(LateReader, where=fourth)
    stream = yield Generate(make_slower, (count, taken + 2), max_retries=1, where=second)
    results = []
    for _ in range(taken):
        ref = yield Draw(stream)
        results.append((yield Submit(square, (ref,), max_retries=-1, where=third)))
        yield Drop([ref])
    yield Get((yield Call(reader, "take", (results,))))
    yield LeaveStream(stream)
    yield Drop(results)
    for _ in range(6):  # with these messages the items are freed
        assert (yield Get((yield Submit(increment, (1,))))) == 2
    yield Sleep(seconds)
    return (yield Get((yield Call(reader, "read"))))
