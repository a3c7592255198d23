"""A process that dies takes along what it alone has asked for; what others hold stays."""

import os
import signal
import sys

import pytest

import zray
from tests.gates import Tally, forever, nothing_is_held, until, until_ended

pytestmark = pytest.mark.usefixtures("session")

DEADLINE_S = 10


@zray.remote(num_cpus=0.25)
def run_forever(tally):
    tally.visit()
    forever()


@zray.remote(num_cpus=0.25)
def wait_for(gate):
    gate.wait()
    return "value"


@zray.remote(num_cpus=0.25)
class Child:
    def run_forever(self, tally):
        tally.visit()
        forever()


@zray.remote(num_cpus=0.25)
class Parent:
    def ask(self, tally, gate):
        self.ref = run_forever.remote(tally)
        run_forever.remote(tally)
        self.child = Child.remote()
        call = self.child.run_forever.remote(tally)
        return os.getpid(), call, wait_for.remote(gate)

    def exit(self):
        sys.exit(3)


@pytest.mark.parametrize("how", ["kill", "signal", "exit"])
def test_work_of_an_actor_ends_with_its_process(how, tmp_path, gate):
    tally = Tally(tmp_path / "tally")
    parent = Parent.remote()
    pid, call, shared = zray.get(parent.ask.remote(tally, gate))
    until(lambda: len(tally.pids()) == 3)
    if how == "kill":
        zray.kill(parent)
    elif how == "signal":
        os.kill(pid, signal.SIGKILL)
    else:
        parent.exit.remote()
    with pytest.raises(zray.exceptions.ActorDiedError, match="the process that had its last handle died"):
        zray.get(call, timeout=DEADLINE_S)
    until_ended([pid, *tally.pids()])
    gate.open()
    assert zray.get(shared, timeout=DEADLINE_S) == "value"
    until(nothing_is_held)


@zray.remote(max_retries=1)
def first_run_dies(tally, mark):
    """A task whose child runs in each of its runs; the first run dies in the middle."""
    ref = visit.remote(tally, mark)
    if tally.visit() == 1:
        until(lambda: mark.count() == 1)
        os.kill(os.getpid(), signal.SIGKILL)
    return zray.get(ref)


@zray.remote(num_cpus=0)
def visit(tally, mark):
    if mark.visit() == 1:
        forever()
    return mark.count()


def test_a_retry_runs_the_children_again(tmp_path):
    tally, mark = Tally(tmp_path / "tally"), Tally(tmp_path / "mark")
    assert zray.get(first_run_dies.remote(tally, mark), timeout=DEADLINE_S) == 2
    until_ended(mark.pids()[:1])
