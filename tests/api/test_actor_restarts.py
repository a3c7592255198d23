"""Calls on actors whose process was killed, and whose new constructor takes long."""

import os
import signal

import pytest

import zray
from tests.gates import Gate, Tally, forever, until
from zray.exceptions import ActorUnavailableError

pytestmark = pytest.mark.usefixtures("session")


@zray.remote(num_cpus=0, max_restarts=1)
class Slow:
    """Actor whose second constructor waits at a gate."""

    def __init__(self, tally, gate):
        self.number = tally.visit()
        if self.number == 2:
            gate.wait(60)

    def pid(self):
        return os.getpid()

    def made(self):
        return self.number

    def stay(self, begun):
        begun.open()
        forever()


@zray.remote(num_cpus=0)
def call_on(actor):
    try:
        return zray.get(actor.made.remote())
    except ActorUnavailableError as error:
        return error


@pytest.fixture
def tally(tmp_path):
    return Tally(tmp_path / "tally")


@pytest.fixture
def kill(tally, gate):
    """`kill(actor)` returns when its new constructor runs; the gate is open in the end."""

    def killed(actor, pid):
        os.kill(pid, signal.SIGKILL)
        until(lambda: tally.count() == 2)

    yield killed
    gate.open()


@pytest.mark.parametrize("max_task_retries", [0, 1])
def test_call_made_while_the_actor_is_restarted_fails_unless_it_may_be_repeated(tally, gate, kill, max_task_retries):
    actor = Slow.options(max_task_retries=max_task_retries).remote(tally, gate)
    kill(actor, zray.get(actor.pid.remote(), timeout=20))
    call = actor.made.remote()
    if max_task_retries:
        assert zray.wait([call], timeout=0.6) == ([], [call])
        gate.open()
        assert zray.get(call, timeout=20) == 2
    else:
        with pytest.raises(ActorUnavailableError, match="has not begun: the actor .*Slow died, and is being restarted"):
            zray.get(call, timeout=20)
        late = zray.get(call_on.remote(actor), timeout=20)
        assert isinstance(late, ActorUnavailableError)
        gate.open()
        until(lambda: zray.get(call_on.remote(actor), timeout=20) == 2)


def test_calls_made_before_the_actor_died_fail_and_those_that_may_be_repeated_wait(tally, gate, kill, tmp_path):
    actor = Slow.remote(tally, gate)
    begun = Gate(tmp_path / "begun")
    pid = zray.get(actor.pid.remote(), timeout=20)
    stays = actor.stay.remote(begun)
    behind = [actor.made.remote() for _ in range(20)]
    waits = actor.made.options(max_task_retries=-1).remote()
    begun.wait()
    kill(actor, pid)
    with pytest.raises(ActorUnavailableError, match="died while it ran"):
        zray.get(stays, timeout=20)
    for call in behind:
        with pytest.raises(ActorUnavailableError):
            zray.get(call, timeout=20)
    assert zray.wait([waits], timeout=0)[0] == []
    gate.open()
    assert zray.get(waits, timeout=20) == 2


def test_calls_of_an_actor_that_was_never_there_wait(gate, tally):
    gate_keeper = Slow.remote(tally, gate)
    assert zray.get(gate_keeper.made.remote(), timeout=20) == 1
    first = Slow.remote(tally, gate)
    call = first.made.remote()
    assert zray.wait([call], timeout=0.6) == ([], [call])
    gate.open()
    assert zray.get(call, timeout=20) == 2
