"""max_pending_calls: a call is refused where too many of the handle's calls by this process are unfinished."""

import inspect

import pytest

import zray
from tests.gates import Gate
from zray.exceptions import PendingCallsLimitExceeded

pytestmark = pytest.mark.usefixtures("session")


@zray.remote(max_pending_calls=2)
class Worker:
    def wait(self, gate):
        gate.wait()
        return 1

    def add(self, a, b=0):
        return a + b

    @zray.method(num_returns=2)
    def pair(self):
        return 1, 2


@zray.remote
def calls(handle, gate):
    """How many calls another process may make."""
    refs = []
    try:
        while len(refs) < 10:
            refs.append(handle[0].wait.remote(gate))
    except PendingCallsLimitExceeded:
        return len(refs)


def test_call_beyond_the_limit_is_refused_and_later_ones_are_not(gate):
    worker = Worker.remote()
    refs = [worker.wait.remote(gate), worker.wait.remote(gate)]
    for refused in (worker.wait, worker.add, worker.pair, worker.add.options(name="other")):
        with pytest.raises(PendingCallsLimitExceeded, match=r"2 calls .* max_pending_calls is 2"):
            refused.remote(*([gate] if refused is worker.wait else []))
    assert zray.get(worker.__ray_call__.options(num_returns=0).remote(lambda self: 1) or refs[:0]) == []
    gate.open()
    assert zray.get(refs) == [1, 1]
    for number in range(20):
        assert zray.get(worker.add.remote(number, b=1)) == number + 1


def test_calls_that_finish_unseen_are_not_counted(gate):
    """Nobody waits for them, or has their refs."""
    worker = Worker.remote()
    gate.open()
    made = 0
    while made < 30:
        try:
            worker.wait.remote(gate)
            made += 1
        except PendingCallsLimitExceeded:
            zray.get(worker.__ray_ready__.remote())  # behind those


def test_several_returns_and_failures_count_as_one_call_each(gate):
    worker = Worker.remote()
    assert zray.get(worker.pair.remote()) == [1, 2]
    for _ in range(5):
        with pytest.raises(TypeError):
            zray.get(worker.add.remote("a", b=1))


def test_each_process_has_calls_of_its_own(tmp_path):
    gate, worker = Gate(tmp_path / "other"), Worker.remote()
    ref = worker.wait.remote(gate)
    assert zray.get(calls.remote([worker], gate)) == 2
    gate.open()
    assert zray.get(ref) == 1


def test_limit_is_part_of_a_found_handle(gate):
    worker = Worker.options(name="limited", max_pending_calls=1).remote()
    found = zray.get_actor("limited")
    refs = [worker.wait.remote(gate), found.wait.remote(gate)]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls is 1"):
        found.wait.remote(gate)
    gate.open()
    assert zray.get(refs) == [1, 1]


def test_signature_and_values_of_the_option():
    worker = Worker.remote()
    assert "(a=..., b=..." in str(inspect.signature(worker.add.remote)) or "a, b=0" in str(
        inspect.signature(worker.add.remote)
    )
    unlimited = Worker.options(max_pending_calls=-1).remote()
    assert len(zray.get([unlimited.add.remote(1) for _ in range(50)])) == 50
    for wrong in (0, -2):
        with pytest.raises(ValueError, match="max_pending_calls must be"):
            Worker.options(max_pending_calls=wrong)
    with pytest.raises(TypeError):
        Worker.options(max_pending_calls="2")
