"""Calls on actors: in order per caller, and no caller waits for what another one's call lacks."""

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
class Counter:
    """Counts."""

    def __init__(self):
        self.count = 0

    def add(self, amount=1):
        self.count += amount
        return self.count


def test_many_calls_are_under_way_and_run_in_order():
    counter = Counter.remote()
    assert zray.get([counter.add.remote() for _ in range(3_000)]) == list(range(1, 3_001))


def test_a_call_waits_for_its_arguments_and_later_calls_wait_for_it(gate):
    """Calls of one caller run in the order of submission, also when a later one could start sooner."""

    @zray.remote
    def slow_five():
        gate.wait()
        return 5

    counter = Counter.remote()
    first, second = counter.add.remote(slow_five.remote()), counter.add.remote(1)
    assert zray.wait([second], timeout=0.1)[0] == []
    gate.open()
    assert zray.get([first, second]) == [5, 6]


def test_several_callers_each_in_their_own_order():
    @zray.remote
    class Log:
        def __init__(self):
            self.lines = []

        def append(self, who, number):
            self.lines.append((who, number))

        def read(self):
            return self.lines

    @zray.remote
    def write(log, who):
        zray.get([log.append.remote(who, number) for number in range(100)])

    log = Log.remote()
    zray.get([write.remote(log, who) for who in range(3)])
    lines = zray.get(log.read.remote())
    for who in range(3):
        assert [number for writer, number in lines if writer == who] == list(range(100))


def test_a_call_waits_for_its_argument_and_other_callers_do_not():
    """Not even where the argument comes from one of them: else it would never come."""

    @zray.remote
    def ask(counter):
        return zray.get([counter.add.remote() for _ in range(3)])[-1]

    counter = Counter.remote()
    assert zray.get(counter.add.remote(ask.remote(counter)), timeout=20) == 6


def test_the_calls_of_an_actor_stay_in_order_whichever_of_its_methods_calls(gate):
    @zray.remote
    def slow_five():
        gate.wait()
        return 5

    @zray.remote
    class Caller:
        def call(self, counter, amounts):
            return [counter.add.remote(amounts[0])]

    counter, caller = Counter.remote(), Caller.remote()
    [first] = zray.get(caller.call.remote(counter, [slow_five.remote()]))
    [second] = zray.get(caller.call.remote(counter, [1]))
    assert zray.wait([second], timeout=0.1)[0] == []
    gate.open()
    assert zray.get([first, second]) == [5, 6]
