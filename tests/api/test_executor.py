"""Executor: concurrent.futures over tasks, with asyncio too."""

import asyncio
import concurrent.futures
import os
import signal
import threading
from functools import partial

import pytest

import zray
from tests.gates import Gate, Tally, until
from zray.util.executor import Executor
from zray.util.state import list_tasks

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(scope="module")
def executor(session):
    with Executor() as executor:
        yield executor


def add(first, second=0):
    return first + second


def fail(error):
    raise error


def wait(gate, tally=None):
    if tally is not None:
        tally.visit()
    gate.wait()
    return os.getpid()


def test_submit_returns_a_future_of_the_result(executor):
    future = executor.submit(add, 1, second=2)
    assert isinstance(future, concurrent.futures.Future) and isinstance(executor, concurrent.futures.Executor)
    assert future.result(timeout=20) == 3 and future.done()
    assert [executor.submit(add, value).result() for value in range(20)] == list(range(20))


@pytest.mark.parametrize(
    ("call", "expected"), [((pow, 2, 10), 1024), ((str, 3), "3"), ((partial(add, 1), 2), 3), (([].count, 1), 0)]
)
def test_anything_that_can_be_called_is_taken(executor, call, expected):
    assert executor.submit(*call).result() == expected
    assert list(executor.map(call[0], *[[argument] for argument in call[1:]])) == [expected]


def test_method_of_a_changed_object_sees_the_change(executor):
    items = [1]
    assert executor.submit(items.count, 1).result() == 1
    items.append(1)
    assert executor.submit(items.count, 1).result() == 2


def test_remote_function_keeps_its_options(executor):
    @zray.remote(name="of its own", max_retries=0)
    def name():
        raise KeyError

    with pytest.raises(zray.exceptions.TaskError, match="of its own"):
        executor.submit(name).result()


def test_ref_stands_for_its_value(executor):
    assert executor.submit(add, zray.put(1), 2).result() == 3


def test_error_is_that_of_the_function(executor):
    assert isinstance(executor.submit(fail, KeyError("k")).exception(), KeyError)
    assert isinstance(executor.submit(fail, TimeoutError()).exception(), zray.exceptions.TaskError)


def test_futures_are_waited_for_with_those_of_python(executor):
    futures = [executor.submit(add, value) for value in range(100)]
    assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == list(range(100))
    assert not concurrent.futures.wait(futures).not_done


@pytest.mark.parametrize("chunksize", [1, 7])
def test_map_gives_results_in_order(executor, chunksize):
    found = executor.map(add, range(1_000), range(1_000, 9_000), chunksize=chunksize)
    assert list(found) == [2 * value + 1_000 for value in range(1_000)]
    assert list(executor.map(add, [])) == []


def test_error_of_map_comes_in_its_place(executor):
    results = executor.map(lambda value: 1 // value, [1, 1, 0, 1])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_has_a_timeout_for_all(executor, gate):
    results = executor.map(wait, [gate], timeout=0.05)
    with pytest.raises(concurrent.futures.TimeoutError):
        next(results)
    gate.open()


def test_timeout_of_the_function_is_its_error(executor):
    with pytest.raises(zray.exceptions.TaskError):
        list(executor.map(fail, [TimeoutError("mine")], timeout=30))


def test_map_submits_before_anybody_asks(executor, gate, tmp_path):
    tally = Tally(tmp_path / "tally")
    executor.map(wait, [gate], [tally])
    until(lambda: tally.count() == 1)
    gate.open()


def test_limit_bounds_the_calls_at_a_time(gate, tmp_path):
    tally = Tally(tmp_path / "tally")
    second = Gate(tmp_path / "second")
    with Executor(max_workers=1) as executor:
        results = executor.map(wait, [gate, second], [tally, tally])
        chunks = executor.map(add, range(10), chunksize=4)
        until(lambda: tally.count() == 1)
        last = executor.submit(add, 1)
        assert not last.running() and last.cancel()
        gate.open()
        until(lambda: tally.count() == 2)
        second.open()
        assert len(list(results)) == 2 and list(chunks) == list(range(10))


def test_shutdown_waits_and_refuses_further_calls(gate):
    executor = Executor()
    futures = [executor.submit(add, value) for value in range(50)]
    results = executor.map(add, range(50))
    executor.shutdown()
    assert all(future.done() for future in futures) and list(results) == list(range(50))
    for call in (lambda: executor.submit(add, 1), lambda: executor.map(add, [1])):
        with pytest.raises(RuntimeError, match="shut down"):
            call()


def test_shutdown_cancels_calls_that_wait(gate):
    executor = Executor()
    futures = [executor.submit(wait, gate) for _ in range(20)]
    executor.shutdown(wait=False, cancel_futures=True)
    cancelled = [future.cancelled() for future in futures]
    assert cancelled[:2] == [False, False] and sum(cancelled) >= 10
    gate.open()
    executor.shutdown()
    assert len({future.result() for future in futures if not future.cancelled()}) <= 2


def test_shutdown_cancels_calls_of_map_that_wait(gate, tmp_path):
    executor, tally, ended = Executor(), Tally(tmp_path / "tally"), Tally(tmp_path / "ended")

    def work(number):
        wait(gate, tally)
        ended.visit()

    results = executor.map(work, range(20))
    until(lambda: tally.count() == 2)
    executor.shutdown(wait=False, cancel_futures=True)
    gate.open()
    executor.shutdown()
    with pytest.raises(concurrent.futures.CancelledError):
        list(results)
    assert 2 <= tally.count() == ended.count() <= 18


def test_interrupted_map_cancels_the_calls_that_wait(gate, tmp_path):
    tally = Tally(tmp_path / "tally")

    def interrupt():
        until(lambda: tally.count() == 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt), Executor() as executor:
        interrupter.start()
        try:
            list(executor.map(wait, [gate] * 20, [tally] * 20))
        finally:
            gate.open()
    interrupter.join()
    assert 2 <= tally.count() <= 18  # workers hold some calls ahead


def test_terminated_workers_are_free_at_once(tmp_path):
    shut, tally = Gate(tmp_path / "shut"), Tally(tmp_path / "tally")
    executor = Executor()
    futures = [executor.submit(wait, shut, tally) for _ in range(20)]
    results = executor.map(wait, [shut] * 5)
    until(lambda: tally.count() == 2)
    executor.terminate_workers()
    assert concurrent.futures.wait(futures, timeout=20).not_done == set()
    for future in futures:
        assert future.cancelled() or isinstance(future.exception(), zray.exceptions.TaskCancelledError)
    with pytest.raises(concurrent.futures.CancelledError):
        next(results)
    assert zray.get(zray.remote(add).remote(1), timeout=20) == 1
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(add, 1)


def test_asyncio_runs_calls_in_it(executor):
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*[loop.run_in_executor(executor, add, value, 1) for value in range(10)])

    assert asyncio.run(main()) == list(range(1, 11))


@pytest.mark.parametrize("wrong", [0, -1, "2", True])
def test_wrong_limits_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match="max_workers"):
        Executor(max_workers=wrong)


def test_options_are_those_of_the_tasks():
    with Executor(remote_options={"num_cpus": 2, "name": "wide"}) as executor:
        assert executor.submit(add, 1).result() == 1
        with pytest.raises(zray.exceptions.TaskError, match="wide"):
            executor.submit(fail, KeyError()).result()


class Scaled:
    def scale(self, value):
        return 2 * value

    def __call__(self, value):
        return 3 * value


@pytest.mark.parametrize(
    "fn, name",
    [
        (partial(partial(add, 1)), "add"),
        (Scaled().scale, "Scaled.scale"),
        (Scaled(), "Scaled"),
        (abs, "abs"),
        (lambda value: value, "<lambda>"),
    ],
)
@pytest.mark.parametrize("way", ["submit", "map", "map with a limit", "map of chunks"])
def test_tasks_have_the_names_of_functions(executor, fn, name, way):
    before = {task.task_id for task in list_tasks(limit=10_000)}
    if way == "submit":
        executor.submit(fn, 1).result()
    elif way == "map with a limit":
        with Executor(max_workers=1) as limited:
            list(limited.map(fn, [1, 2]))
    else:
        list(executor.map(fn, [1, 2], chunksize=2 if way == "map of chunks" else 1))
    new = [task for task in list_tasks(limit=10_000) if task.task_id not in before]
    assert {task.name for task in new} == {name}


def test_error_names_the_function_of_a_partial(executor):
    with pytest.raises(zray.exceptions.TaskError, match="task fail "):
        executor.submit(partial(fail, ValueError("no"))).result()
