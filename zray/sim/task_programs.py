"""Programs of tasks: trees, chains, fan-in, recursion, waiting, failing."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .language import Drop, Get, Publish, Put, Runs, Sleep, Submit, Wait, remote
from .values import Big, RemoteError, UserError

Script = Generator[Any, Any, Any]
# A task asks for another one without a pause so often.  A task that is retried may wait for memory for 30 s: then a
# program asks each 0.1 s, as thousands of equal questions a second find no more.
FREQUENT_POLLS, RARE_POLL_SECONDS = 500, 0.1


def outcome(ref: Any) -> Script:
    """Return the value, or the Failed in its place."""
    try:
        return (yield Get(ref))
    except RemoteError as error:
        return error.failed


def outcomes(refs: list[Any]) -> Script:
    """Return the outcome of each ref."""
    found = []
    for ref in refs:
        found.append((yield from outcome(ref)))
    return found


@remote
def increment(number: int) -> int:
    return number + 1


@remote
def nap(seconds: float, value: Any) -> Script:
    yield Sleep(seconds)
    return value


@remote
def total(*numbers: int) -> int:
    return sum(numbers)


@remote
def tree(depth: int, width: int) -> Script:
    """Run a task per node of a tree; each gets its children's results."""
    if depth == 0:
        return 1
    refs = []
    for _ in range(width):
        refs.append((yield Submit(tree, (depth - 1, width))))
    return 1 + sum((yield Get(refs)))


def run_tree(depth: int, width: int) -> Script:
    return (yield from outcome((yield Submit(tree, (depth, width)))))


@remote
def ranked_tree(depth: int, width: int, priority: int) -> Script:
    """A tree whose children have a lower or a higher priority than their parent."""
    refs = []
    for number in range(width if depth else 0):
        own = priority + (number % 3 - 1)
        refs.append((yield Submit(ranked_tree, (depth - 1, width, own), max_retries=-1, priority=own)))
    return 1 + sum((yield Get(refs)))


def run_priorities(depth: int, width: int, count: int) -> Script:
    """Trees of several priorities at once."""
    refs = []
    for number in range(count):
        refs.append((yield Submit(ranked_tree, (depth, width, number % 5), max_retries=-1, priority=number % 5)))
    return (yield from outcomes(refs))


@remote
def deep(depth: int) -> Script:
    """Recursion: every level waits for the next."""
    if depth == 0:
        return 0
    return 1 + (yield Get((yield Submit(deep, (depth - 1,)))))


def run_deep(depth: int) -> Script:
    return (yield from outcome((yield Submit(deep, (depth,)))))


@remote
def travel(path: list[str]) -> Script:
    """Run levels that wait for the next, each in another environment."""
    if not path:
        return 0
    return 1 + (yield Get((yield Submit(travel, (path[1:],), env=path[0]))))


def run_environments(chains: int, depth: int, environments: int) -> Script:
    """Use more environments than workers, nested inside each other."""
    refs = []
    for number in range(chains):
        path = [f"env-{(number + level) % environments}" for level in range(depth)]
        refs.append((yield Submit(travel, (path,), env=f"env-{number % 2}" if number % 3 else "")))
        refs.append((yield Submit(increment, (number,), env=f"env-{number % environments}")))
        refs.append((yield Submit(increment, (refs[-1],))))
    return (yield from outcomes(refs))


@remote
def spread_out(depth: int) -> Script:
    """Run tasks and children on all nodes with space."""
    yield Sleep(0.01)
    if not depth:
        return 1
    refs = []
    for _ in range(2):
        refs.append((yield Submit(spread_out, (depth - 1,))))
    return 1 + sum((yield Get(refs)))


def run_code(bundles: int, depth: int, size: int) -> Script:
    """Run tasks that need the driver's published values, some published while tasks run."""
    refs = []
    for number in range(bundles):
        yield Publish(Big(number, size))
        refs.append((yield Submit(spread_out, (depth,))))
        refs.append((yield Submit(increment, (number,))))
    return (yield from outcomes(refs))


def run_chain(count: int, chains: int, warm: bool) -> Script:
    if warm:  # so that the mean run time is known, and links are sent along with their makers
        yield Get((yield Submit(increment, (0,))))
    ends = []
    for start in range(chains):
        ref = yield Submit(increment, (start,))
        for _ in range(count):
            before = ref
            ref = yield Submit(increment, (before,))
            yield Drop([before])
        ends.append(ref)
    return (yield from outcomes(ends))


def run_fan_in(count: int, nap_seconds: float) -> Script:
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (nap_seconds * (number % 3), number))))
    first = yield Submit(total, tuple(refs))
    second = yield Submit(total, (first, *refs[:3]))
    return (yield from outcomes([second, *refs]))


def run_flood(count: int) -> Script:
    """Submit many tiny tasks, and drop most refs at once."""
    kept = []
    for number in range(count):
        ref = yield Submit(increment, (number,))
        if number % 10:
            yield Drop([ref])
        else:
            kept.append(ref)
    return (yield from outcomes(kept))


def run_mixed_lengths(count: int) -> Script:
    """Mix long and short tasks of the same options: none may trap another for good."""
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (0.2 if number % 7 == 3 else 1e-4, number))))
    return (yield from outcomes(refs))


@remote
def split(number: int) -> list[int]:
    return [number, number + 1, number + 2]


@remote
def nothing_at_all() -> None:
    return None


def run_returns(count: int) -> Script:
    results = []
    for number in range(count):
        one, two, three = yield Submit(split, (number,), num_returns=3)
        yield Drop([two])
        yield Submit(nothing_at_all, (), num_returns=0)
        results.append((yield Submit(total, (one, three))))
    return (yield from outcomes(results))


@remote
def weigh(seconds: float, number: int, big: Big) -> Script:
    """Work with a large argument and a child."""
    yield Sleep(seconds)
    return big.size + number + (yield Get((yield Submit(increment, (number,)))))


def run_backlog(count: int, seconds: float, size: int) -> Script:
    """More than can be done soon: the first ones are short, and say nothing of how long the rest takes."""
    first = yield Submit(nap, (0.0, 0))
    yield Get(first)
    big = yield Put(Big(1, size))
    kept = [first]
    for number in range(count):
        if number % 5 == 4:
            kept.append((yield Submit(weigh, (seconds, number, big))))
            continue
        ref = yield Submit(nap, (seconds, number))
        if number % 7 == 3:
            yield Drop([ref])
        else:
            kept.append(ref)
    yield Drop([big])
    return (yield from outcomes(kept))


# --- waiting ---


def run_wait(count: int, at_once: int) -> Script:
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (0.001 * (number * 7 % 5), number))))
    found = []
    rest = refs
    while rest:
        ready, rest = yield Wait(rest, min(at_once, len(rest)))
        for ref in ready:
            found.append((ref.id, (yield from outcome(ref))))
        yield Drop(ready)
    values = [value for _, value in found]
    return (
        sorted(values)
        if all(type(value) is int for value in values)
        else next(value for value in values if type(value) is not int)
    )


@remote
def wait_inside(count: int) -> Script:
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (0.002, number))))
    yield Wait(refs, count, timeout=0.001)
    yield Wait(refs, 1, timeout=0.0005, fetch=False)
    return sum((yield Get(refs)))


@remote
def poll_inside(depth: int, timeout: float, seconds: float) -> Script:
    """Poll the next level repeatedly, and work meanwhile."""
    if depth == 0:
        yield Sleep(seconds)
        return 0
    child = yield Submit(poll_inside, (depth - 1, timeout, seconds))
    ready, polls = False, 0
    while not ready:
        ready, _ = yield Wait([child], 1, timeout=timeout)
        polls += 1
        yield Sleep(1e-4 if polls <= FREQUENT_POLLS else RARE_POLL_SECONDS)
        if not ready:
            ready, _ = yield Wait([child], 1, timeout=0)
    return 1 + (yield Get(child))


@remote
def leave_inside(count: int, timeout: float) -> Script:
    """End while others have the CPU."""
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (0.01, number))))
    yield Wait(refs, count, timeout=timeout)
    return count


def run_timeouts(count: int) -> Script:
    slow = yield Submit(nap, (0.05, 7))
    yield Wait([slow], 1, timeout=0.003)
    inside = []
    for number in range(count):
        inside.append((yield Submit(wait_inside, (3,))))
        inside.append((yield Submit(poll_inside, (2 * number, 0.002, 0.02))))
        inside.append((yield Submit(leave_inside, (3, 1e-4 * 4**number))))
    return (yield from outcomes([slow, *inside]))


def run_polls(depth: int, seconds: float) -> Script:
    """Nest more waits than there are workers: some levels run nested, and others are left meanwhile."""
    refs = []
    for number in range(4):
        refs.append((yield Submit(poll_inside, (depth, 2e-3 * 3**number, seconds))))
    return (yield from outcomes(refs))


# --- failing ---


@remote
def fail(text: str) -> Script:
    yield Sleep(1e-5)
    raise UserError(text)


@remote
def flaky(failures: int) -> Script:
    runs = yield Runs()
    if runs < failures:
        raise UserError(f"run {runs}")
    return "done"


def run_failing(count: int) -> Script:
    refs = []
    for number in range(count):
        bad = yield Submit(fail, (f"no {number}",))
        refs.append(bad)
        refs.append((yield Submit(increment, (bad,))))
        refs.append((yield Submit(flaky, (number % 3,), max_retries=-1, retry_exceptions=True)))
        refs.append((yield Submit(fail, ("always",), max_retries=2, retry_exceptions=True)))
        refs.append((yield Submit(increment, (refs[-1],))))
        # A chain behind a retried task.
        refs.append((yield Submit(total, (number, number), max_retries=-1)))
        refs.append((yield Submit(increment, (refs[-1],), max_retries=-1)))
    return (yield from outcomes(refs))


def run_infeasible() -> Script:
    """Request resources that no node has: the error is clear, and nothing hangs."""
    ref = yield Submit(increment, (1,), resources={"GPU": 10_000})
    return (yield from outcome(ref))


def run_resources(count: int) -> Script:
    """Tasks of many sizes: fractions, none, all."""
    refs = []
    for number in range(count):
        share = (0, 2_500, 5_000, 10_000)[number % 4]
        refs.append((yield Submit(nap, (0.001, number), resources={"CPU": share})))
    return (yield from outcomes(refs))
