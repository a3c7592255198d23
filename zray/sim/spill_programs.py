"""Programs whose values are several times as large as the store: they are spilled, and restored."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from .language import Call, Create, Draw, Drop, Generate, Get, Item, Put, Sleep, Submit, Wait, remote
from .object_programs import make_big
from .task_programs import outcome
from .values import Big, RemoteError

Script = Generator[Any, Any, Any]


@remote
def look_at_two(one: Big, two: Big) -> list[int]:
    return [one.fill, two.fill]


@remote
def spill_some(first: int, count: int, size: int) -> Script:
    """Refs on values that the task puts; the first one is read again."""
    refs = []
    for number in range(first, first + count):
        refs.append((yield Put(Big(number % 200, size))))
    value = yield Get(refs[0])
    assert value.fill == first % 200
    return refs


@remote
class Shelf:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def see(self, big: Big) -> int:
        """Take a value, in the order of the calls."""
        self.seen.append(big.fill)
        return len(self.seen)

    def are_in_order(self) -> bool:
        return self.seen == sorted(self.seen)


def run_spills(count: int, size: int, seconds: float) -> Script:
    """Values of tasks, puts and tasks' puts, taken by tasks, an actor and the driver, long after they were made."""
    made = []
    for number in range(count):
        made.append((yield Submit(make_big, (number % 200 + 1, size + number), max_retries=-1)))
    put = []
    for number in range(count):
        try:
            put.append((yield Put(Big(number % 200, size))))
        except RemoteError as error:
            return error.failed
    inside = yield Submit(spill_some, (7, max(1, count // 2), size), max_retries=-1)
    pairs = []
    for number in range(count):
        pairs.append((yield Submit(look_at_two, (made[number], put[-1 - number]), max_retries=-1)))
    shelf = yield Create(Shelf)
    for number in range(count):
        yield Call(shelf, "see", (put[number],))
    yield Sleep(seconds)
    ready, _ = yield Wait(made, len(made), None, False)
    found: list[Any] = [len(ready) == len(made)]
    found.append((yield from outcome((yield Call(shelf, "are_in_order", ())))))
    for number in range(count):
        value = yield from outcome(made[number])
        found.append(value.fill if type(value) is Big else value)
        if number % 2:
            yield Drop([made[number]])
    for pair in pairs:
        found.append((yield from outcome(pair)))
    try:
        read = []
        for ref in (yield Get(inside)):
            value = yield from outcome(ref)
            read.append(value.fill if type(value) is Big else value)
            yield Drop([ref])
        found.append(read)
    except RemoteError as error:
        found.append(error.failed)
    for ref in put:
        value = yield from outcome(ref)
        found.append(value.fill if type(value) is Big else value)
    return found


@remote
class Comparer:
    def fills_of(self, one: Big, two: Big) -> list[int]:
        return [one.fill, two.fill]


def run_shared_arguments(count: int, size: int, seed: int) -> Script:
    """Calls of one actor, all submitted at once, that share values of several stores as arguments."""
    random = Random(seed)
    put = []
    for number in range(count):
        put.append((yield Put(Big(number, size))))
    comparer = yield Create(Comparer)
    calls = []
    for _ in range(3 * count):
        one, two = random.randrange(count), random.randrange(count)
        calls.append(([one, two], (yield Call(comparer, "fills_of", (put[one], put[two])))))
    for fills, call in calls:
        assert (yield Get(call)) == fills
    return len(calls)


@remote
def make_row(first: int, count: int, size: int) -> list[Big]:
    return [Big((first + number) % 200, size) for number in range(count)]


@remote
def yield_row(first: int, count: int, size: int) -> Script:
    for number in range(count):
        yield Item(Big((first + number) % 200, size - 64 * number))
    return count


@remote
def read_column(*blocks: Big) -> list[int]:
    return [block.fill for block in blocks]


def run_shuffle(rows: int, columns: int, size: int, seed: int) -> Script:
    """A task for each column of a table takes a value of each row.

    All are submitted while some rows are being made, and others have left the store.
    """
    random = Random(seed)
    table, ways = [], random.choice((("tasks", "returns", "generator"), ("put", "tasks", "returns", "generator")))
    for number in range(rows):
        way = random.choice(ways)
        made: list[Any] = []
        if way == "returns":
            made += yield Submit(make_row, (number, columns, size), num_returns=columns, max_retries=-1)
        elif way == "generator":
            stream = yield Generate(yield_row, (number, columns, size), max_retries=-1)
            for _ in range(columns):
                made.append((yield Draw(stream)))
        for column in range(columns if way in ("put", "tasks") else 0):
            if way == "tasks":
                made.append((yield Submit(make_big, (number + column, size), max_retries=-1)))
                continue
            try:
                made.append((yield Put(Big(number + column, size))))
            except RemoteError as error:
                return error.failed
        table.append(made)
    reads = []
    for column in range(columns):
        reads.append((yield Submit(read_column, tuple(row[column] for row in table), max_retries=-1)))
    for row in table:
        yield Drop([ref for ref in row if random.random() < 0.5])
    found = []
    for read in reads:
        # The files of puts may be lost; all other values are made again.
        found.append((yield from outcome(read)) if "put" in ways else (yield Get(read)))
    return found
