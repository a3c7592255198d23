"""Generators of actors that recover: each item comes once, in order, whatever dies, and the state is exact."""

import os
import signal

import numpy as np
import pytest

import zray
from tests.gates import Gate, Tally, is_running, until
from zray.exceptions import GeneratorRetryError, TaskCancelledError

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("session")]


@zray.remote(checkpoint_interval=0)
class Source:
    """Counts what it has yielded; may wait at a gate ahead of an item."""

    def __init__(self, folder):
        self.folder, self.total, self.ends = str(folder), 0, []

    def numbers(self, count, size=0, gate_at=None):
        try:
            for number in range(count):
                if number == gate_at:
                    Gate(f"{self.folder}/gate").wait()
                Tally(f"{self.folder}/yields").visit()
                self.total += 1
                yield np.full(size, self.total) if size else self.total
        finally:
            self.ends.append(self.total)

    def endless(self):
        while True:
            self.total += 1
            yield self.total

    def fails_after(self, count):
        yield from self.numbers(count)
        raise KeyError(count)

    def differs(self, small):
        yield 1
        yield os.getpid() if small else 2
        Gate(f"{self.folder}/gate").wait()
        yield 3

    def fewer(self):
        yield 1
        if not Gate(f"{self.folder}/gate").is_open():
            yield 2
            Gate(f"{self.folder}/gate").wait()

    def fails_once(self):
        self.total += 1
        yield self.total
        if self.total == 1:
            raise ConnectionError

    def pid(self):
        return os.getpid()

    def state(self):
        return self.total, self.ends

    @zray.method(readonly=True)
    def look(self, count):
        for number in range(count):
            yield self.total + number


@pytest.fixture
def source(tmp_path):
    return Source.remote(tmp_path)


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path / "gate")


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


def numbers_of(refs):
    return [int(np.ravel(zray.get(ref))[0]) for ref in refs]


@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize("drawn", [0, 2])
def test_generator_under_way_goes_on_after_the_death_of_its_process(source, gate, tmp_path, size, drawn):
    pid = zray.get(source.pid.remote())
    refs = source.numbers.remote(6, size, gate_at=3)
    kept = [next(refs) for _ in range(drawn)]
    until(lambda: Tally(tmp_path / "yields").count() == 3)
    kill(pid)
    gate.open()
    assert numbers_of(kept) + numbers_of(refs) == [1, 2, 3, 4, 5, 6]
    assert zray.get(source.state.remote()) == (6, [6])


@pytest.mark.parametrize("size", [0, 100_000])
def test_ended_generator_is_replayed_for_the_state(source, gate, size):
    pid = zray.get(source.pid.remote())
    refs = source.numbers.remote(3, size)
    zray.get(refs.completed())
    kill(pid)
    assert zray.get(source.state.remote()) == (3, [3])
    assert numbers_of(refs) == [1, 2, 3]
    assert numbers_of(source.numbers.remote(2, size)) == [4, 5]


@pytest.mark.parametrize("interval", [1, 2])
def test_checkpoints_stand_between_calls(tmp_path, interval):
    source = Source.options(checkpoint_interval=interval).remote(tmp_path)
    expected = 0
    for _ in range(4):
        pid = zray.get(source.pid.remote())
        assert numbers_of(source.numbers.remote(3)) == [expected + 1, expected + 2, expected + 3]
        expected += 3
        kill(pid)
    assert zray.get(source.state.remote()) == (12, [3, 6, 9, 12])


def test_error_of_a_generator_is_part_of_the_state(source):
    pid = zray.get(source.pid.remote())
    *good, bad = source.fails_after.remote(2)
    kill(pid)
    assert numbers_of(good) == [1, 2]
    with pytest.raises(KeyError):
        zray.get(bad)
    assert zray.get(source.state.remote()) == (2, [2])


@pytest.mark.parametrize("how", ["dropped", "cancelled"])
def test_generator_that_was_closed_ends_at_the_same_item_in_the_replay(source, how):
    pid = zray.get(source.pid.remote())
    refs = source.endless.remote()
    assert numbers_of([next(refs) for _ in range(3)]) == [1, 2, 3]
    if how == "dropped":
        del refs
    else:
        zray.cancel(refs)
        with pytest.raises(TaskCancelledError):
            zray.get(refs.completed())
    total, _ = zray.get(source.state.remote())
    assert total >= 3
    kill(pid)
    assert zray.get(source.state.remote()) == (total, [])


def test_call_that_was_cancelled_before_it_began_is_not_replayed(source, gate):
    pid = zray.get(source.pid.remote())
    blocked = source.numbers.remote(1, gate_at=0)
    cancelled, last = source.numbers.remote(5), source.state.remote()
    zray.cancel(cancelled)
    gate.open()
    assert zray.get(last) == (1, [1])
    kill(pid)
    assert zray.get(source.state.remote()) == (1, [1])
    assert numbers_of(blocked) == [1]


def test_cancelled_generator_whose_process_dies_has_yielded_what_was_seen(source, gate, tmp_path):
    pid = zray.get(source.pid.remote())
    refs = source.numbers.remote(5, gate_at=3)
    assert numbers_of([next(refs) for _ in range(3)]) == [1, 2, 3]
    zray.cancel(refs)
    kill(pid)
    assert zray.get(source.state.remote()) == (3, [3])
    with pytest.raises(TaskCancelledError):
        zray.get(refs.completed())


def test_back_pressure_goes_on_after_a_death(source, gate, tmp_path):
    pid = zray.get(source.pid.remote())
    refs = source.numbers.options(max_buffered=2).remote(8)
    assert numbers_of([next(refs) for _ in range(3)]) == [1, 2, 3]
    kill(pid)
    assert numbers_of([next(refs)]) == [4]
    assert numbers_of(refs) == [5, 6, 7, 8]
    pid = zray.get(source.pid.remote())
    refs = source.numbers.options(max_buffered=1).remote(5)
    kill(pid)
    assert numbers_of(refs) == [9, 10, 11, 12, 13]


def test_other_items_in_another_run_are_an_error_that_names_the_first(source, gate):
    pid = zray.get(source.pid.remote())
    refs = source.differs.remote(small=True)
    assert [zray.get(next(refs)) for _ in range(2)] == [1, pid]
    kill(pid)
    gate.open()
    assert zray.get(next(refs)) == 3
    with pytest.raises(GeneratorRetryError, match=r"Source.differs was run again, and item 1 differs"):
        zray.get(next(refs))


def test_items_that_were_let_go_of_are_compared_too(source, gate):
    pid = zray.get(source.pid.remote())
    refs = source.differs.remote(small=True)
    for _ in range(2):
        zray.get(next(refs))
    kill(pid)
    gate.open()
    with pytest.raises(GeneratorRetryError, match="item 1 differs"):
        zray.get(refs.completed())


def test_other_items_are_accepted_where_the_program_says_so(source, gate):
    pid = zray.get(source.pid.remote())
    refs = source.differs.options(deterministic=False).remote(small=True)
    assert [zray.get(next(refs)) for _ in range(2)] == [1, pid]
    kill(pid)
    gate.open()
    assert numbers_of(refs) == [3]


def test_fewer_items_in_another_run_are_an_error(source, gate):
    pid = zray.get(source.pid.remote())
    refs = source.fewer.remote()
    assert [zray.get(next(refs)) for _ in range(2)] == [1, 2]
    gate.open()
    kill(pid)
    with pytest.raises(GeneratorRetryError, match="it yielded 1 items, and an earlier attempt 2"):
        zray.get(next(refs))


def test_generator_that_raises_and_is_retried_gives_each_item_once(source):
    pid = zray.get(source.pid.remote())
    refs = source.fails_once.options(retry_exceptions=True, deterministic=False).remote()
    assert numbers_of(refs) == [1]
    kill(pid)
    assert zray.get(source.state.remote()) == (2, [])


def test_readonly_generator_leaves_the_state_as_it_is(source):
    pid = zray.get(source.pid.remote())
    numbers_of(source.numbers.remote(2))
    assert numbers_of(source.look.remote(3)) == [2, 3, 4]
    kill(pid)
    assert numbers_of(source.look.remote(2)) == [2, 3]


def test_generators_with_other_returns_are_replayed_as_far_as_they_had_run(source):
    pid = zray.get(source.pid.remote())
    assert zray.get(source.numbers.options(num_returns=2).remote(2)) == [1, 2]
    assert zray.get(source.numbers.options(num_returns=1).remote(5)) == 3
    dynamic = list(zray.get(source.numbers.options(num_returns="dynamic").remote(3)))
    assert numbers_of(dynamic) == [4, 5, 6]
    before = zray.get(source.state.remote())
    kill(pid)
    assert zray.get(source.state.remote()) == before
    assert numbers_of(dynamic) == [4, 5, 6]


def test_dynamic_generator_under_way_is_run_again(source, gate, tmp_path):
    pid = zray.get(source.pid.remote())
    ref = source.numbers.options(num_returns="dynamic").remote(4, 100_000, gate_at=2)
    until(lambda: Tally(tmp_path / "yields").count() == 2)
    kill(pid)
    gate.open()
    assert numbers_of(zray.get(ref)) == [1, 2, 3, 4]
    assert zray.get(source.state.remote()) == (4, [4])


def test_process_that_dies_again_and_again(source, tmp_path):
    refs = source.numbers.options(max_buffered=1).remote(40)
    found = []
    while len(found) < 40:
        found += numbers_of([next(refs)])
        if len(found) % 10 == 5:
            kill(int(max((tmp_path / "yields").iterdir()).read_text()))
    assert found == list(range(1, 41))
    assert zray.get(source.state.remote()) == (40, [40])


def test_generator_of_a_task_is_drawn_again_by_a_replay(tmp_path):
    @zray.remote
    def numbers(count):
        yield from range(count)

    @zray.remote(checkpoint_interval=0)
    class Caller:
        def __init__(self):
            self.found = []

        def call(self, count, dies):
            refs = numbers.options(max_buffered=2).remote(count)
            self.found += [zray.get(next(refs)), zray.get(next(refs))]
            if dies and Tally(tmp_path).visit() == 1:
                os._exit(1)
            self.found += numbers_of(refs)
            return self.found

        def pid(self):
            return os.getpid()

    caller = Caller.remote()
    assert zray.get(caller.call.remote(4, True)) == [0, 1, 2, 3]
    kill(zray.get(caller.pid.remote()))
    assert zray.get(caller.call.remote(3, False)) == [0, 1, 2, 3, 0, 1, 2]
