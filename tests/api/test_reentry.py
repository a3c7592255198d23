"""Finalizers and signals' handlers that call zray in the middle of a call of their own thread: never a hang."""

import contextlib
import gc
import signal

import pytest

import zray
from tests.gates import until
from zray.host import context

HITS = 100


@zray.remote
def same(value):
    return value


@zray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


def test_what_begins_in_the_middle_of_another_call(start):
    """Tasks, calls of actors, and their ends."""
    start(num_cpus=2)
    counter, other = Counter.remote(), Counter.remote()
    assert zray.get([counter.add.remote(), other.add.remote()], timeout=20) == [1, 1]
    with context.runtime.lock:
        ref = same.remote([1])
        first, second = same.options(num_returns=2).remote((3, 4))
        calls = [counter.add.remote() for _ in range(3)]
        same.remote(1)  # nobody keeps its ref
        zray.kill(other)
    assert zray.get([ref, first, second, *calls], timeout=20) == [[1], 3, 4, 2, 3, 4]
    with pytest.raises(zray.exceptions.ActorDiedError):
        zray.get(other.add.remote(), timeout=20)


def test_what_cannot_wait_is_refused_in_the_middle_of_another_call(start):
    start(num_cpus=2)
    ref = same.remote(b"x" * 5_000_000)
    late = same.remote(ref)
    zray.wait([ref], timeout=20)
    for use in (
        lambda: zray.get(ref),
        lambda: zray.get([ref], timeout=1),
        lambda: zray.wait([late]),
        lambda: zray.put(1),
        lambda: zray.put(b"x" * 5_000_000),
        lambda: same.remote(b"x" * 5_000_000),
        lambda: Counter.remote(),
        lambda: ref.future(),
        lambda: zray.get_actor("nobody"),
    ):
        with context.runtime.lock, pytest.raises(RuntimeError, match="a finalizer .* or a signal handler"):
            use()
    assert zray.get([late, same.remote(1)], timeout=20) == [b"x" * 5_000_000, 1]


def test_a_handler_that_calls_zray_at_any_moment(start):
    start(num_cpus=2)
    begun, answers = [], []
    assert zray.get(same.remote(0), timeout=20) == 0  # imports that are not done are no place to begin them again

    def handle(number, frame):
        begun.append(same.remote(5))
        with contextlib.suppress(RuntimeError):
            answers.append(zray.get(same.remote(1), timeout=20))
        if len(begun) < HITS:
            signal.setitimer(signal.ITIMER_REAL, 0.002)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while len(begun) < HITS:
            assert zray.get([same.remote(i) for i in range(200)], timeout=20) == list(range(200))
            assert zray.get(zray.put("here")) == "here"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(begun) == HITS
    assert answers
    assert set(answers) == {1}
    assert set(zray.get(begun, timeout=20)) == {5}


class Finalized:
    """In a circle: the collector ends it, in the middle of anything."""

    def __init__(self, finish):
        self.me = self
        self.finish = finish

    def __del__(self):
        with contextlib.suppress(RuntimeError):
            self.finish()


def test_a_finalizer_that_calls_zray_at_any_moment(start):
    start(num_cpus=2)
    counter, finished = Counter.remote(), []
    ways = [
        lambda: finished.append(counter.add.remote()),
        lambda: counter.add.remote() and finished.append(None),
        lambda: zray.get(same.remote(1), timeout=20),
        lambda: zray.put([1]),
    ]
    before = gc.get_threshold()
    try:
        for turn in range(HITS):
            gc.set_threshold(17 + turn % 50, 2, 2)
            Finalized(ways[turn % 4])
            assert zray.get([same.remote([i]) for i in range(8)], timeout=20) == [[i] for i in range(8)]
    finally:
        gc.set_threshold(*before)
    # A collection in another thread may be under way: `collect` does nothing then, and that thread runs the finalizers.
    until(lambda: gc.collect() is not None and len(finished) == HITS // 2)
    answers = zray.get([ref for ref in finished if ref is not None], timeout=20)
    assert sorted(answers) == sorted(set(answers))
    assert zray.get(counter.add.remote(), timeout=20) == HITS // 2 + 1
