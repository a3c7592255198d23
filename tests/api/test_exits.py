"""sys.exit() in tasks and actors ends their process, as in Ray: 0 in an actor is the actor's wish, all else a death."""

import argparse
import os
import sys

import pytest

import zray
from tests.gates import Tally

pytestmark = pytest.mark.usefixtures("session")

ActorDiedError, WorkerCrashedError = zray.exceptions.ActorDiedError, zray.exceptions.WorkerCrashedError


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
def test_a_task_that_exits_is_a_task_whose_worker_died(code, tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_retries=1)
    def leaves(code):
        tally.visit()
        sys.exit(code)

    with pytest.raises(
        WorkerCrashedError, match=f"exited with code {code if isinstance(code, int) else int(bool(code))}"
    ):
        zray.get(leaves.remote(code), timeout=30)
    assert tally.count() == 2


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
    assert zray.get(actor.pid.remote(), timeout=30) != first
    with pytest.raises(ActorDiedError, match="after 1 restart"):
        zray.get(actor.leave.remote(code), timeout=30)
