"""Timeouts of `get` and `wait` in tasks and actors of one CPU: what was lent meanwhile does not hold them up.

Every child waits at a gate, which opens only when its parent has answered: a wait that lasts as long as what it is
for would never end.
"""

import signal
import threading

import pytest

import zray
from tests.gates import Gate, until
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@pytest.fixture(scope="module")
def one_cpu(nothing_left):
    with zray.init(num_cpus=1):
        yield


pytestmark = pytest.mark.usefixtures("one_cpu")


@zray.remote
def wait_at(gate, value=None):
    gate.wait()
    return value


@zray.remote
def waits(gate, timeout, times):
    refs = [wait_at.remote(gate, number) for number in range(2)]
    for _ in range(times):
        ready, rest = zray.wait(refs, timeout=timeout)
        assert not ready and rest == refs
    return refs


@zray.remote
def gets(refs, timeout):
    try:
        return zray.get(refs, timeout=timeout)
    except zray.exceptions.GetTimeoutError:
        return "late"


class Parent:
    """An actor that holds the only CPU for life: its child takes none."""

    def ask(self, gate, timeout):
        self.child = wait_at.options(num_cpus=0).remote(gate, 7)
        try:
            return zray.get(self.child, timeout=timeout)
        except zray.exceptions.GetTimeoutError:
            return "late"

    def answer(self):
        return zray.get(self.child)


class Alarm(Exception):
    pass


def alarm_after(seconds, handler):
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def raise_alarm(number, frame):
    raise Alarm


@zray.remote
def gets_under_an_alarm(gate):
    child = wait_at.remote(gate, 3)
    alarm_after(0.1, raise_alarm)
    try:
        zray.get(child)
    except Alarm:
        return [child]


@zray.remote
def puts_under_an_alarm(gate):
    """With its CPU lent to a child, and a wait by which that child is found to have it."""
    child = wait_at.remote(gate, 3)
    alarm_after(0.1, raise_alarm)
    try:
        zray.wait([child])
    except Alarm:
        return [zray.put(bytes(1_000_000)), child]


@zray.remote
def chain(depth, gate, folder):
    """Each level waits for the next, for a limited time."""
    child = chain.remote(depth - 1, gate, folder) if depth else wait_at.remote(gate)
    ready, _ = zray.wait([child], timeout=0.3)
    Gate(f"{folder}/level-{depth}").open()
    zray.get(child)
    return depth


@zray.remote
def beside(gate):
    """Another thread of it waits, and lends its CPU."""
    child = wait_at.remote(gate, 1)
    found = []
    thread = threading.Thread(target=lambda: found.append(zray.wait([child], timeout=1.0)))
    thread.start()
    thread.join()
    return found[0][0], [child]


@zray.remote
def open_gate(gate):
    gate.open()


@zray.remote
def echo(value):
    return value


@pytest.fixture
def parent():
    actor = zray.remote(num_cpus=1)(Parent).remote()
    yield actor
    zray.kill(actor)


@pytest.mark.parametrize("timeout, times", [(0.2, 1), (0.02, 10), (0, 10), (1e-6, 10)])
def test_timeout_of_wait_holds_in_a_task_with_one_cpu(gate, timeout, times):
    children = zray.get(waits.remote(gate, timeout, times), timeout=20)
    gate.open()
    assert zray.get(children, timeout=20) == [0, 1]


@pytest.mark.parametrize("timeout", [0.2, 0])
def test_timeout_of_get_holds_in_an_actor_with_one_cpu(parent, gate, timeout):
    assert zray.get(parent.ask.remote(gate, timeout), timeout=20) == "late"
    gate.open()
    assert zray.get(parent.answer.remote(), timeout=20) == 7


def test_actor_whose_time_was_over_answers_the_next_call(parent, gate):
    assert zray.get(parent.ask.remote(gate, 0.1), timeout=20) == "late"
    assert zray.get(parent.ask.remote(gate, 0), timeout=20) == "late"
    gate.open()
    assert zray.get(parent.answer.remote(), timeout=20) == 7


def test_look_of_a_task_finds_what_is_there_and_what_is_not(gate):
    here, late = zray.put(1), wait_at.options(num_cpus=0).remote(gate, 2)
    look = zray.remote(lambda refs: zray.wait(refs, num_returns=2, timeout=0)[0] == refs[:1])
    assert zray.get(look.remote([here, late]), timeout=20)
    assert zray.get(gets.remote([here], 0), timeout=20) == [1]
    assert zray.get(gets.remote([here, late], 0), timeout=20) == "late"
    gate.open()


def test_look_of_a_task_lends_nothing(tmp_path):
    """The only CPU stays with the one that looks: its child does not begin."""

    @zray.remote
    def looks(child_is_there):
        child = open_gate.remote(child_is_there)
        for _ in range(50):
            assert zray.wait([child], timeout=0)[0] == []
        return child_is_there.is_open(), [child]

    has_begun, children = zray.get(looks.remote(Gate(tmp_path / "child")), timeout=20)
    assert not has_begun
    zray.get(children, timeout=20)


def test_exception_of_a_signals_handler_ends_a_wait_at_once(gate):
    (child,) = zray.get(gets_under_an_alarm.remote(gate), timeout=20)
    gate.open()
    assert zray.get(child, timeout=20) == 3


def test_task_that_a_signal_called_away_can_put_while_its_cpu_is_in_use(gate):
    large, child = zray.get(puts_under_an_alarm.remote(gate), timeout=20)
    gate.open()
    assert zray.get([large, child], timeout=20) == [bytes(1_000_000), 3]


def test_wait_in_a_signals_handler_ends_and_so_does_the_one_around_it(gate):
    @zray.remote
    def waits_twice():
        found = []

        def look(number, frame):
            found.append(zray.get(echo.options(num_cpus=0).remote(1)))
            gate.open()

        child = wait_at.remote(gate, 2)
        alarm_after(0.1, look)
        return [zray.get(child), *found]

    assert zray.get(waits_twice.remote(), timeout=20) == [2, 1]


def test_timeouts_hold_where_the_node_has_as_many_workers_as_it_may(gate, tmp_path):
    """A worker beyond the cap runs what a limited wait is for: inside that wait, it would hold it up."""
    ref = chain.remote(9, gate, str(tmp_path))
    until(lambda: all((tmp_path / f"level-{depth}").exists() for depth in range(10)))
    gate.open()
    assert zray.get(ref, timeout=20) == 9


def test_timeout_of_another_thread_holds(gate):
    ready, (child,) = zray.get(beside.remote(gate), timeout=20)
    assert ready == []
    gate.open()
    assert zray.get(child, timeout=20) == 1


def test_timeout_holds_in_a_placement_group(gate):
    group = zray.util.placement_group([{"CPU": 1}])
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    children = zray.get(waits.options(scheduling_strategy=strategy).remote(gate, 0.1, 2), timeout=20)
    gate.open()
    assert zray.get(children, timeout=20) == [0, 1]
    zray.util.remove_placement_group(group)


def test_all_cpu_is_there_again_afterwards():
    until(lambda: zray.available_resources().get("CPU") == 1)
