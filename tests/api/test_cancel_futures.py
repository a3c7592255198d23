"""Futures that are cancelled: of refs, of executors, and of asyncio."""

import asyncio
import concurrent.futures

import pytest

import zray
from tests.gates import Gate, Tally, until
from zray.exceptions import TaskCancelledError

WAIT = 20.0  # s: for what comes within milliseconds


@pytest.fixture(scope="module", autouse=True)
def driver(nothing_left):
    with zray.init(num_cpus=1) as context:
        yield context


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


@pytest.fixture
def tally(tmp_path):
    return Tally(tmp_path / "tally")


@zray.remote
def work(gate, tally, value=1):
    tally.visit()
    gate.wait()
    return value


@zray.remote
class Desk:
    def work(self, gate, tally):
        tally.visit()
        gate.wait()
        return "done"


def test_future_of_a_task_that_waits_is_cancelled_and_one_of_a_task_that_runs_is_not(gate, tally):
    first = work.remote(gate, tally)
    running = first.future()
    until(lambda: tally.count() == 1)
    after_it = work.remote(first, tally)
    waiting, heard = after_it.future(), []
    waiting.add_done_callback(heard.append)
    assert waiting.cancel() and waiting.cancelled() and waiting.cancel() and heard == [waiting]
    assert not running.cancel() and not running.cancelled()
    assert concurrent.futures.wait([waiting], timeout=WAIT).done == {waiting}
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(timeout=WAIT)
    with pytest.raises(TaskCancelledError):
        zray.get(after_it, timeout=WAIT)
    gate.open()
    assert running.result(timeout=WAIT) == 1 and not running.cancel()
    assert tally.count() == 1


def test_future_of_a_task_that_a_worker_holds_ahead_is_cancelled(gate, tally, tmp_path):
    opened, warm = Gate(tmp_path / "opened"), Tally(tmp_path / "warm")
    opened.open()
    zray.get([work.remote(opened, warm) for _ in range(100)], timeout=WAIT)  # so that it counts as brief
    refs = [work.remote(gate, tally, number) for number in range(6)]
    until(lambda: tally.count() == 1)
    futures = [ref.future() for ref in refs]
    cancelled = [number for number in (5, 0, 3) if futures[number].cancel()]
    assert cancelled == [5, 3] and all(futures[number].cancelled() for number in cancelled)
    gate.open()
    assert [futures[number].result(timeout=WAIT) for number in (0, 1, 2, 4)] == [0, 1, 2, 4]
    for number in cancelled:
        with pytest.raises(TaskCancelledError):
            zray.get(refs[number], timeout=WAIT)
    assert tally.count() == 4


def test_future_of_a_call_is_cancelled_in_the_queue_of_its_actor(gate, tally):
    desk = Desk.options(num_cpus=0).remote()
    refs = [desk.work.remote(gate, tally) for _ in range(3)]
    until(lambda: tally.count() == 1)
    futures = [ref.future() for ref in refs]
    assert not futures[0].cancel()
    was_cancelled = [future.cancel() for future in futures[1:]]
    gate.open()
    results = concurrent.futures.wait(futures, timeout=WAIT)
    assert not results.not_done and [future.cancelled() for future in futures[1:]] == was_cancelled
    assert tally.count() == 3 - sum(was_cancelled)


def test_future_of_a_value_is_not_cancelled():
    assert not zray.put(1).future().cancel()


def test_wait_for_cancels_nothing_unless_asked(gate, tally):
    async def main():
        running, waiting = work.remote(gate, tally), work.remote(gate, tally, 2)
        until(lambda: tally.count() == 1)
        for ref in (running, waiting):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(ref, 0.05)
        gate.open()
        return await asyncio.gather(running, waiting)

    assert asyncio.run(main()) == [1, 2]


def test_task_that_took_too_long_in_wait_for_is_cancelled_on_request(gate, tally):
    async def main():
        ref = work.remote(gate, tally)
        until(lambda: tally.count() == 1)
        try:
            await asyncio.wait_for(ref, 0.05)
        except asyncio.TimeoutError:
            zray.cancel(ref)
        with pytest.raises(TaskCancelledError):
            await ref

    asyncio.run(main())


@pytest.mark.parametrize("outcome", ["set_result", "set_exception"])
def test_future_that_is_cancelled_while_its_outcome_arrives_stays_cancelled(outcome, gate, tally):
    """The thread that receives had looked before: its traceback was in the program's output."""
    future = work.remote(gate, tally).future()
    future._give_up()
    getattr(future, outcome)(ValueError("late"))
    assert future.cancelled()
    gate.open()
