"""Generators that calls of a recoverable actor call: a replay sees the same items, and the generator runs once."""

import os
import signal

import numpy as np
import pytest

import zray
from tests.gates import Gate, Tally, is_running, until
from zray.exceptions import ActorDiedError

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("session")]
WAIT = 30.0  # s: for what comes within milliseconds


class Source:
    """Counts what it has yielded; may wait at a gate ahead of an item."""

    def __init__(self):
        self.total, self.ends = 0, 0

    def numbers(self, count, size=0, gate=None, gate_at=-1):
        try:
            for number in range(count):
                if number == gate_at:
                    gate.wait()
                self.total += 1
                yield np.full(size, self.total) if size else self.total
        finally:
            self.ends += 1

    def endless(self):
        while True:
            self.total += 1
            yield self.total

    def fails(self):
        yield 1
        raise KeyError("two")

    def state(self):
        return self.total, self.ends


def number_of(ref):
    return int(np.ravel(zray.get(ref))[0])


@zray.remote(checkpoint_interval=0)
class Caller:
    """Draws from generators of another actor; its process dies once, behind an item."""

    def __init__(self, tally):
        self.tally, self.found, self.kept = tally, [], None

    def _dies(self, behind):
        if len(self.found) == behind and self.tally.visit() == 1:
            os._exit(1)

    def draw(self, source, args, at_most=100, behind=-1, **options):
        refs = source.numbers.options(**options).remote(*args)
        for ref in refs:
            self.found.append(number_of(ref))
            self._dies(behind)
            if len(self.found) == at_most:
                break
        del refs
        self._dies(-behind)
        return self.found

    def draw_failing(self, source, behind):
        good, bad = source.fails.remote()
        self.found.append(number_of(good))
        try:
            zray.get(bad)
        except KeyError as error:
            self.found.append(error.cause.args[0])
        self._dies(behind)
        return self.found

    def wait_for(self, source, behind):
        refs = source.numbers.remote(3)
        while True:
            (ready,), _ = zray.wait([refs, source.state.remote()], num_returns=1)
            if ready is refs:
                break
        self.found += [number_of(ref) for ref in refs]
        self._dies(behind)
        return self.found

    def begin(self, source, count):
        self.kept = source.numbers.options(max_buffered=2).remote(count)

    def go_on(self, count):
        self.found += [number_of(next(self.kept)) for _ in range(count)]
        return self.found

    def begin_endless(self, source):
        self.kept = source.endless.remote()
        return number_of(next(self.kept))

    def pid(self):
        return os.getpid()


@pytest.fixture(params=[True, False], ids=["recovers", "plain"])
def source(request):
    return zray.remote(checkpoint_interval=0 if request.param else None)(Source).remote()


@pytest.fixture
def caller(tmp_path):
    return Caller.remote(Tally(tmp_path / "deaths"))


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


def got(ref):
    return zray.get(ref, timeout=WAIT)


def kill(caller):
    pid = got(caller.pid.remote())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize("most", [0, 2])
def test_process_that_dies_between_items_sees_the_same_and_the_others(source, caller, size, most):
    options = {"max_buffered": most} if most else {}
    assert got(caller.draw.remote(source, (6, size), behind=3, **options)) == [1, 2, 3, 4, 5, 6]
    assert got(source.state.remote()) == (6, 1)


def test_items_that_are_made_while_no_process_is_there_come_too(source, caller, gate, tmp_path):
    ref = caller.draw.remote(source, (6, 0, gate, 4), behind=3)
    until(lambda: Tally(tmp_path / "deaths").count() == 1)
    gate.open()
    assert got(ref) == [1, 2, 3, 4, 5, 6]
    assert got(source.state.remote()) == (6, 1)


@pytest.mark.parametrize("size", [0, 100_000])
def test_ended_generator_is_not_run_again_by_a_replay(source, caller, size):
    assert got(caller.draw.remote(source, (3, size))) == [1, 2, 3]
    kill(caller)
    assert got(caller.draw.remote(source, (2, size))) == [1, 2, 3, 4, 5]
    assert got(source.state.remote()) == (5, 2)


@pytest.mark.parametrize("when", [2, -2], ids=["before", "after"])
def test_generator_that_is_left_ends_once(source, caller, when):
    found = got(caller.draw.remote(source, (100_000,), at_most=2, behind=when, max_buffered=2))
    assert found == [1, 2]
    total, ends = got(source.state.remote())
    assert 2 <= total <= 4 and ends == 1


def test_error_of_a_generator_is_seen_again(source, caller):
    assert got(caller.draw_failing.remote(source, behind=2)) == [1, "two"]


def test_wait_for_a_generator_is_repeated(source, caller):
    assert got(caller.wait_for.remote(source, behind=3)) == [1, 2, 3]
    assert got(source.state.remote()) == (3, 1)


def test_generator_that_lasts_over_several_calls_goes_on(source, caller):
    caller.begin.remote(source, 8)
    assert got(caller.go_on.remote(3)) == [1, 2, 3]
    kill(caller)
    assert got(caller.go_on.remote(2)) == [1, 2, 3, 4, 5]
    kill(caller)
    assert got(caller.go_on.remote(3)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert got(source.state.remote()) == (8, 1)


def test_generator_of_an_actor_that_is_killed_for_good_ends(source, caller):
    assert got(caller.begin_endless.remote(source)) == 1
    zray.kill(caller)
    assert got(source.state.remote())[0] >= 1


def test_actor_that_has_drawn_too_much_does_not_recover(source, caller):
    ref = caller.draw.remote(source, (4, 10_000_000))  # 80 MB each
    assert got(ref) == [1, 2, 3, 4]
    kill(caller)
    with pytest.raises(ActorDiedError, match="256 MiB of large ones, of generators that its calls have called"):
        got(caller.pid.remote())


def test_process_that_dies_again_and_again(source, caller):
    begun = caller.begin.remote(source, 30)
    got(begun)
    for number in range(10):
        assert got(caller.go_on.remote(3)) == list(range(1, 3 * number + 4))
        kill(caller)
    assert got(source.state.remote()) == (30, 1)
