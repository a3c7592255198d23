"""Processes that end by user code: sys.exit() fails a task, and ends an actor for good (0) or as a crash; os._exit();
max_calls.
"""

import argparse
import contextlib
import os
import sys

import pytest

import zray
from tests.gates import Gate, Tally, until

ActorDiedError, WorkerCrashedError = zray.exceptions.ActorDiedError, zray.exceptions.WorkerCrashedError


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    """Two CPUs, and one GPU that is only said to be there."""
    with zray.init(num_cpus=2, num_gpus=1):
        yield


class Plain:
    def pid(self):
        return os.getpid()

    def leave(self, code):
        sys.exit(code)


class Async:
    async def pid(self):
        return os.getpid()

    async def leave(self, code):
        sys.exit(code)


def actor_of(kind, **options):
    options["max_concurrency"] = 4 if kind == "threaded" else 1000 if kind == "async" else 1
    return zray.remote(num_cpus=0, **options)(Async if kind == "async" else Plain).remote()


@pytest.mark.parametrize("code", [0, 3, None, "no more"])
@pytest.mark.parametrize("max_retries", [1, -1])
def test_task_that_calls_sys_exit_fails_at_once_and_is_not_retried(code, max_retries, tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_retries=max_retries)
    def leaves(code):
        tally.visit()
        sys.exit(code)

    with pytest.raises(WorkerCrashedError) as caught:
        zray.get(leaves.remote(code), timeout=30)
    status = code if isinstance(code, int) else int(bool(code))
    assert f"Task leaves called sys.exit({'' if code is None else repr(code)})" in str(caught.value)
    assert caught.value.exit_text == f"exited with code {status}"
    assert caught.value.pid not in (0, os.getpid())
    assert tally.count() == 1


def test_exit_of_a_task_that_runs_in_a_wait_leaves_the_waiting_task_alone(tmp_path):
    """Parents that wait have the pool at its cap, so that their children run inside of their waits."""
    tally = Tally(tmp_path / "tally")

    @zray.remote(num_cpus=0.01)
    def child():
        sys.exit(3)

    @zray.remote(num_cpus=0.01)
    def parent():
        tally.visit()
        try:
            zray.get(child.remote())
        except WorkerCrashedError as error:
            return error.exit_text
        return "no error"

    assert zray.get([parent.remote() for _ in range(20)], timeout=60) == ["exited with code 3"] * 20
    assert tally.count() == 20


def test_process_of_a_task_that_called_sys_exit_runs_no_further_task():
    @zray.remote(num_cpus=2)
    def leaves():
        sys.exit(3)

    @zray.remote(num_cpus=2)
    def pid():
        return os.getpid()

    for _ in range(3):
        with pytest.raises(WorkerCrashedError) as caught:
            zray.get(leaves.remote(), timeout=30)
        assert zray.get([pid.remote() for _ in range(5)], timeout=30).count(caught.value.pid) == 0


def test_the_error_says_where_a_task_exited():
    @zray.remote(max_retries=0)
    def parses():
        argparse.ArgumentParser(prog="imaginary").parse_args(["--unknown"])

    with pytest.raises(WorkerCrashedError) as caught:
        zray.get(parses.remote(), timeout=30)
    assert "unrecognized arguments: --unknown" in str(caught.value)
    assert "in parses" in str(caught.value)


def test_what_ran_before_an_exit_is_not_run_again(tmp_path):
    """Also what may run once only, and whose results still wait for company."""
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_retries=0)
    def works(value):
        tally.visit()
        return value

    @zray.remote(max_retries=0)
    def leaves(_):
        sys.exit(1)

    @zray.remote(max_retries=0)
    def in_one_worker():
        before = [works.remote(value) for value in range(20)]
        return before, leaves.remote(before[-1])

    before, left = zray.get(in_one_worker.remote(), timeout=30)
    with pytest.raises(WorkerCrashedError):
        zray.get(left, timeout=30)
    assert zray.get(before, timeout=30) == [*range(20)]
    assert tally.count() == 20


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_an_actor_that_exits_with_0_leaves_for_good(kind):
    actor = actor_of(kind, max_restarts=-1, max_task_retries=-1)
    before = [actor.pid.remote() for _ in range(10)]
    left = actor.leave.remote(0)
    assert len(set(zray.get(before, timeout=30))) == 1
    with pytest.raises(ActorDiedError, match=r"left by sys\.exit"):
        zray.get(left, timeout=30)
    with pytest.raises(ActorDiedError, match=r"left by sys\.exit"):
        zray.get(actor.pid.remote(), timeout=30)


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_an_actor_that_exits_with_another_code_has_died(kind):
    actor = actor_of(kind)
    before = [actor.pid.remote() for _ in range(10)]
    left = actor.leave.remote(3)
    assert len(set(zray.get(before, timeout=30))) == 1
    with pytest.raises(ActorDiedError, match="exited with code 3"):
        zray.get(left, timeout=30)
    with pytest.raises(ActorDiedError, match="exited with code 3"):
        zray.get(actor.pid.remote(), timeout=30)


@pytest.mark.parametrize("code", [None, 3])
def test_an_actor_that_may_be_restarted_is(code):
    actor = actor_of("serial", max_restarts=1)
    first = zray.get(actor.pid.remote(), timeout=30)
    with pytest.raises(zray.exceptions.ActorUnavailableError):
        zray.get(actor.leave.remote(code), timeout=30)

    def pid():
        with contextlib.suppress(zray.exceptions.ActorUnavailableError):  # its restart takes a moment
            return zray.get(actor.pid.remote(), timeout=30)

    assert until(pid) != first
    with pytest.raises(ActorDiedError, match="after 1 restart"):
        zray.get(actor.leave.remote(code), timeout=30)


def test_a_worker_ends_behind_so_many_calls_of_a_function():
    """max_calls: what leaks goes with it.  No result is lost, nothing is run twice, an error counts as a call."""

    @zray.remote(max_calls=3, max_retries=0)
    def leaks(number):
        if number == 7:
            raise KeyError(number)
        return number, os.getpid()

    refs = [leaks.remote(number) for number in range(12)]
    found = []
    for number, ref in enumerate(refs):
        if number == 7:
            with pytest.raises(KeyError):
                zray.get(ref, timeout=60)
        else:
            found.append(zray.get(ref, timeout=60))
    assert [number for number, _ in found] == [number for number in range(12) if number != 7]
    pids = [pid for _, pid in found]
    assert max(map(pids.count, pids)) <= 3


def test_a_worker_that_is_used_up_inside_of_a_wait_ends_behind_it():
    """Parents that wait have the pool at its cap, so that their children run inside of their waits."""

    @zray.remote(max_calls=1, max_retries=0, num_cpus=0.01)
    def child(number):
        return number

    @zray.remote(max_retries=0, num_cpus=0.01)
    def parent():
        return zray.get([child.remote(number) for number in range(5)])

    assert zray.get([parent.remote() for _ in range(20)], timeout=60) == [[0, 1, 2, 3, 4]] * 20


def test_a_task_with_a_gpu_has_a_worker_of_its_own():
    pid = zray.remote(num_gpus=1)(os.getpid)
    assert len({zray.get(pid.remote(), timeout=60) for _ in range(3)}) == 3
    same = zray.remote(num_gpus=1, max_calls=0)(os.getpid)
    assert len({zray.get(same.remote(), timeout=60) for _ in range(3)}) == 1


# --- os._exit(): at once, without a word ---


@pytest.mark.parametrize("count", [0, 40])
def test_what_an_actor_has_answered_is_heard_though_its_next_call_ends_it_at_once(count):
    class Fragile(Plain):
        def end(self, code):
            os._exit(code)

    for _ in range(5):
        actor = zray.remote(num_cpus=0)(Fragile).remote()
        zray.get([actor.pid.remote() for _ in range(count)])
        answers = [actor.pid.remote() for _ in range(3)]
        end = actor.end.remote(3)
        assert len(set(zray.get(answers, timeout=30))) == 1
        with pytest.raises(ActorDiedError, match="exited with code 3"):
            zray.get(end, timeout=30)


def test_what_has_ended_before_a_task_that_ends_the_process_at_once_is_done():
    """Though it may run once only, and the very function that has ended so often ends the process."""

    @zray.remote(max_retries=0)
    def works(value):
        if value == 250:
            os._exit(3)
        return value

    refs = [works.remote(value) for value in range(500)]
    with pytest.raises(WorkerCrashedError, match="exited with code 3"):
        zray.get(refs.pop(250), timeout=30)
    assert sum(zray.get(refs, timeout=30)) == sum(range(500)) - 250


def test_a_child_that_a_task_has_forked_ends_as_it_says():
    @zray.remote
    def forks():
        child = os.fork()
        if not child:
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert zray.get(forks.remote(), timeout=30) == 7


def test_a_wrong_code_is_refused_and_the_worker_goes_on():
    @zray.remote
    def wrong():
        try:
            os._exit("no number")
        except TypeError:
            return os.getpid()

    pids = zray.get([wrong.remote() for _ in range(20)], timeout=30)
    assert len(set(pids)) <= 2


def test_results_leave_ahead_of_what_has_never_run_here(tmp_path):
    """It may take long, or end this process in a way that nobody hears of."""

    @zray.remote
    class Waits:
        def brief(self):
            return 1

        def long(self, gate):
            gate.wait()

    actor, gate = Waits.remote(), Gate(tmp_path / "gate")
    first, long = actor.brief.remote(), actor.long.remote(gate)
    assert zray.get(first, timeout=30) == 1
    gate.open()
    zray.get(long, timeout=30)
