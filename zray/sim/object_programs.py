"""Programs with values: refs inside them, large values, arrays that outlive their refs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .language import Close, Drop, Get, Look, Put, Sleep, Submit, View, remote
from .task_programs import increment, outcome, outcomes
from .values import Big, Failed, RemoteError

Script = Generator[Any, Any, Any]


@remote
def make_refs(count: int, size: int) -> Script:
    """Return refs: on puts, and on tasks that may still run."""
    refs = []
    for number in range(count):
        if number % 2:
            refs.append((yield Put(Big(number, size) if size else number)))
        else:
            refs.append((yield Submit(increment, (number,))))
    return refs


@remote
def sum_inside(refs: list[Any], extra: int) -> Script:
    """Take refs inside a list; look at half of them, and pass the others on."""
    values = yield Get(refs[::2])
    if len(refs) > 2:
        rest = yield Get((yield Submit(sum_inside, (refs[1::2], extra))))
    else:
        rest = 0
    return extra + rest + sum(value.fill if type(value) is Big else value for value in values)


def run_refs_inside(count: int, size: int) -> Script:
    outer = yield Submit(make_refs, (count, size))
    again = yield Submit(sum_inside, (outer, 1000))  # a dependency whose value has refs inside
    try:
        refs = yield Get(outer)
        nested = yield Put([refs, count])
        yield Drop(refs)
        inside = yield Get(nested)
        refs = inside[0]
        later = yield Submit(sum_inside, (refs, 1))
        yield Drop([outer, nested, *refs])
    except RemoteError as error:
        return [error.failed, (yield from outcome(again))]
    return [(yield from outcome(later)), (yield from outcome(again))]


@remote
def keep_none(box: list[Any]) -> int:
    """Take a ref and never look at it."""
    return len(box)


def run_borrowed(count: int) -> Script:
    found = []
    for number in range(count):
        ref = yield Put(number)
        task = yield Submit(keep_none, ([ref],))
        yield Drop([ref])
        found.append(task)
    return (yield from outcomes(found))


# --- large values ---


@remote
def make_big(fill: int, size: int) -> Big:
    return Big(fill, size)


@remote
def join_big(one: Big, two: Big) -> Big:
    return Big(one.fill ^ two.fill, max(one.size, two.size))


def run_big(count: int, size: int) -> Script:
    refs = []
    for number in range(count):
        refs.append((yield Submit(make_big, (number % 200 + 1, size + number))))
    put = yield Put(Big(255, size))
    joined = []
    for number in range(1, count):
        joined.append((yield Submit(join_big, (refs[number - 1], refs[number]))))
    joined.append((yield Submit(join_big, (put, refs[0]))))
    yield Drop(refs)
    return (yield from outcomes(joined))


@remote
def look_long(big: Big) -> Script:
    yield Sleep(0.002)
    return big.fill


@remote
def put_and_ask(number: int, size: int) -> Script:
    """Put again, after a worker's death, values that a child of the first run still takes."""
    ref = yield Put(Big(number, size))
    child = yield Submit(look_long, (ref,))
    yield Drop([ref])
    again = yield Put(Big(number + 1, size))
    found = yield Get([child, again])
    return [found[0], found[1].fill]


def run_put_again(count: int, size: int) -> Script:
    refs = []
    for number in range(count):
        refs.append((yield Submit(put_and_ask, (number, size), max_retries=-1)))
    return (yield from outcomes(refs))


@remote
def make_slowly(fill: int, size: int) -> Script:
    yield Sleep(0.1)
    return Big(fill, size)


@remote
def look_at_both(one: Big, two: Big, seconds: float) -> Script:
    yield Sleep(seconds)
    return one.fill + two.fill


def run_shared(count: int, readers: int, size: int) -> Script:
    """Share few objects among many tasks, a put and a result each, on all nodes; then repeat."""
    pairs = []
    for number in range(count):
        made = yield Submit(make_slowly, (number + 1, size), max_retries=-1)
        pairs.append(((yield Put(Big(number + 100, size))), made))
    found = []
    for seconds in (0.01, 0.0):
        refs = []
        for reader in range(readers):
            for one, two in pairs[reader % 2 :]:
                refs.append((yield Submit(look_at_both, (one, two, seconds), max_retries=-1)))
        found.append((yield from outcomes(refs)))
    yield Drop([ref for pair in pairs for ref in pair])
    return found


def run_views(count: int, size: int) -> Script:
    """Check that arrays which outlive their refs keep their bytes."""
    views = []
    expected = []
    for number in range(count):
        ref = yield Submit(make_big, (number + 1, size))
        value = yield from outcome(ref)
        if type(value) is Big:
            views.append((yield View(ref)))
            expected.append(value)
        yield Drop([ref])
        yield Get((yield Put(Big(99, size))))
    same = True
    for view, value in zip(views, expected, strict=True):
        seen = yield Look(view)
        same = same and (seen == value or not hasattr(seen, "fill"))
        yield Close(view)
    return same


# --- large values passed on by nested tasks ---

LOST = "was put, or passed as a large argument, and all its copies went with a node that is lost"


@remote
def branch(depth: int, width: int, size: int, value: Big, is_shared: bool) -> Script:
    """Run a tree in which every task passes a large value to its children, as its own put, and gets large results.

    is_shared: one put for all children.  The task keeps no ref on its puts.
    """
    if not depth:
        yield Sleep(0.02)
        return Big(1, size)
    children: list[Any] = []
    put = None
    for _ in range(width):
        put = (yield Put(value)) if put is None else put
        children.append((yield Submit(branch, (depth - 1, width, size, put, is_shared), max_retries=-1)))
        if not is_shared or len(children) == width:
            yield Drop([put])
            put = None
    values = yield Get(children)
    return Big(1 + sum(value.fill for value in values) % 249, size)


def run_grove(depth: int, width: int, size: int, is_shared: bool) -> Script:
    """Check that puts are made again when needed again, whatever dies except the driver's node."""
    fills = []
    for number in range(2):
        value = yield Submit(make_big, (number + 1, 3 * size), max_retries=-1)
        tree = yield Submit(branch, (depth, width, size, value, is_shared), max_retries=-1)
        yield Drop([value])
        top = yield from outcome(tree)
        assert type(top) is not Failed or LOST not in top.text, f"a program has noticed: {top.text}"
        fills.append(top.fill if type(top) is Big else top)
    return fills
