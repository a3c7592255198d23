"""zray.util.multiprocessing.Pool: what Python's own tests of pools ask for, and what is zray's."""

import multiprocessing
import os
import signal
import threading
from functools import partial

import pytest

import zray
from tests.gates import Gate, Tally, forever, nothing_is_held, until, until_ended
from zray.util.multiprocessing import Pool
from zray.util.multiprocessing.pool import AsyncResult
from zray.util.state import list_tasks

pytestmark = pytest.mark.usefixtures("session")

# Of Python's tests.  Left out: an exit of the interpreter without zray, and a result that zray can pickle.
CLASSES = {
    "_TestPool": [
        "test_apply",
        "test_async",
        "test_async_timeout",
        "test_context",
        "test_empty_iterable",
        "test_enter",
        "test_imap",
        "test_imap_handle_iterable_exception",
        "test_imap_unordered",
        "test_imap_unordered_handle_iterable_exception",
        "test_make_pool",
        "test_map",
        "test_map_async",
        "test_map_async_callbacks",
        "test_map_chunksize",
        "test_map_handle_iterable_exception",
        "test_map_no_failfast",
        "test_map_unplicklable",
        "test_release_task_refs",
        "test_resource_warning",
        "test_starmap",
        "test_starmap_async",
        "test_terminate",
        "test_traceback",
        "test_wrapped_exception",
    ],
    "_TestPoolWorkerErrors": ["test_async_error_callback"],
    "_TestPoolWorkerLifetime": [
        "test_pool_maxtasksperchild_invalid",
        "test_pool_worker_lifetime",
        "test_pool_worker_lifetime_early_close",
    ],
}
CASES = [(kind, name) for kind, names in CLASSES.items() for name in names]


@pytest.fixture(scope="module")
def cases(session):
    """Python's test classes, with our Pool in the place of multiprocessing.Pool."""
    source = pytest.importorskip("test._test_multiprocessing", reason="this Python has no tests of its own")
    mixin = {"TYPE": "processes", "Pool": Pool}
    patch = pytest.MonkeyPatch()
    patch.setattr(source.multiprocessing, "Pool", Pool)
    made = {kind: type(kind, (getattr(source, kind), source.unittest.TestCase), dict(mixin)) for kind in CLASSES}
    for case in made.values():
        case.setUpClass = case.tearDownClass = classmethod(lambda cls: None)
    with Pool(4) as pool:
        yield made, pool
    pool.join()
    patch.undo()


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[name for _, name in CASES])
def test_test_of_python_passes(cases, kind, name):
    made, pool = cases
    if not hasattr(made[kind], name):
        pytest.skip("this Python has no such test")
    case = made[kind](name)
    case.pool = pool
    result = case.run()
    assert not result.errors and not result.failures, (result.errors + result.failures)[0][1]


@pytest.fixture(scope="module")
def pool(session):
    with Pool(2) as pool:
        yield pool
    pool.join()


def square(value):
    return value * value


def identify(gate=None):
    if gate is not None:
        gate.wait()
    return os.getpid()


def visit(tally, gate):
    tally.visit()
    gate.wait()
    return os.getpid()


def test_names_are_those_of_python():
    assert zray.util.multiprocessing.TimeoutError is multiprocessing.TimeoutError
    assert isinstance(Pool, type) and AsyncResult is multiprocessing.pool.AsyncResult


@pytest.mark.parametrize("chunksize", [None, 1, 7, 10_000])
def test_map_gives_results_in_order(pool, chunksize):
    assert pool.map(square, range(2_000), chunksize=chunksize) == [value * value for value in range(2_000)]


def test_calls_run_in_the_processes_of_the_pool(pool):
    pids = {worker.pid for worker in pool._pool}
    assert len(pids) == 2 and os.getpid() not in pids
    assert set(pool.starmap(identify, [()] * 200)) <= pids


def test_error_is_that_of_the_function(pool):
    with pytest.raises(ZeroDivisionError) as caught:
        pool.map(lambda value: 1 // value, [1, 0])
    assert type(caught.value) is ZeroDivisionError and "1 // value" in str(caught.value.__cause__)


def test_partial_methods_and_builtins_are_called(pool):
    from functools import partial

    assert pool.map(partial(pow, 2), [1, 2]) == [2, 4]
    assert pool.map("abc".count, "aa") == [1, 1]
    assert pool.apply(partial(square), (3,)) == 9 and pool.apply(dict, (), {"a": 1}) == {"a": 1}


def test_function_of_a_map_is_sent_once_to_each_worker(pool):
    class Squarer:
        def __call__(self, value):
            return value * value

    assert pool.map(Squarer(), range(40), chunksize=1) == [value * value for value in range(40)]
    before = pool._crew.next_token
    assert pool.map(Squarer(), range(40), chunksize=1) == [value * value for value in range(40)]
    assert pool.map(abs, [-1] * 40, chunksize=1) == pool.map(abs, [-1] * 40, chunksize=1) == [1] * 40
    assert pool._crew.next_token == before + 2


def test_changed_method_of_an_object_is_what_the_next_call_runs(pool):
    items = [1]
    assert pool.apply(items.count, (1,)) == pool.map(items.count, [1])[0] == 1
    items.append(1)
    assert pool.apply(items.count, (1,)) == pool.map(items.count, [1])[0] == 2


MAIN = """
import sys
import zray
from zray.util.multiprocessing import Pool

state = "of the program"

def helper():
    return state

def start(value):
    global state
    state = value

def look(_):
    return state, helper()

def change(value):
    global state
    state = value

if __name__ == "__main__":
    with zray.init(num_cpus=1):
        with Pool(1, initializer=start, initargs=("of the worker",)) as pool:
            print(pool.map(look, [0]), pool.apply(change, ("changed",)), pool.map(look, [0]), state)
        pool.join()
"""


def test_initializer_sets_what_functions_of_the_program_read(tmp_path):
    """Functions of the main file share its global variables, as in a forked process."""
    import subprocess
    import sys

    (tmp_path / "program.py").write_text(MAIN)
    result = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert result.stdout == ("[('of the worker', 'of the worker')] None [('changed', 'changed')] of the program\n"), (
        result.stderr
    )


def test_worker_that_dies_fails_its_call_only(gate, tmp_path):
    with Pool(1) as pool:
        tally = Tally(tmp_path / "tally")
        first = pool.apply_async(visit, (tally, gate))
        others = [pool.apply_async(square, (value,)) for value in range(5)]
        until(lambda: tally.pids())
        os.kill(tally.pids()[0], signal.SIGKILL)
        with pytest.raises(zray.exceptions.ActorDiedError):
            first.get(timeout=20)
        assert [other.get(timeout=20) for other in others] == [0, 1, 4, 9, 16]
        assert pool._pool[0].is_alive()


def test_slow_call_holds_back_no_other(gate, tmp_path):
    with Pool(2) as pool:
        tally = Tally(tmp_path / "tally")
        slow = pool.apply_async(visit, (tally, gate))
        until(lambda: tally.count() == 1)
        assert pool.map(square, range(200), chunksize=1) == [value * value for value in range(200)]
        assert not slow.ready()
        gate.open()
        assert slow.get(timeout=20) == tally.pids()[0]


def test_terminated_pool_fails_what_it_has_not_done(gate):
    pool = Pool(1)
    results = [pool.apply_async(identify, (gate,)), pool.map_async(identify, [gate] * 3)]
    iterator = pool.imap(identify, [gate])
    pool.terminate()
    pool.join()
    for result in results:
        with pytest.raises(zray.exceptions.RayError):
            result.get(timeout=20)
    with pytest.raises(zray.exceptions.RayError):
        iterator.next(timeout=20)


def submit_and_wait(folder):
    def child():
        Tally(folder / "begun").visit()
        try:
            forever()
        finally:
            Tally(folder / "ended").visit()

    zray.get(zray.remote(child).remote())


def test_terminated_pool_cancels_what_its_calls_have_submitted(tmp_path):
    pool = Pool(1)
    pool.apply_async(submit_and_wait, (tmp_path,))
    until(lambda: Tally(tmp_path / "begun").count() == 1)
    pool.terminate()
    pool.join()
    until(lambda: Tally(tmp_path / "ended").count() == 1 and nothing_is_held())


def test_failing_initializer_fails_the_calls():
    def fail():
        raise KeyError("on purpose")

    with Pool(1, initializer=fail) as pool:
        with pytest.raises(zray.exceptions.ActorDiedError, match="on purpose"):
            pool.apply_async(square, (1,)).get(timeout=20)


def test_result_that_cannot_be_pickled_is_an_error_of_python(pool):
    with pytest.raises(multiprocessing.pool.MaybeEncodingError):
        pool.apply(threading.Lock)
    assert pool.apply(square, (2,)) == 4


def test_callback_that_raises_loses_no_result(pool, monkeypatch):
    said = []
    monkeypatch.setattr(threading, "excepthook", lambda args: said.append(args.exc_type))

    def fail(value):
        raise KeyError(value)

    assert pool.apply_async(square, (3,), callback=fail).get(timeout=20) == 9
    assert pool.map_async(square, [3], callback=fail).get(timeout=20) == [9]
    assert said == [KeyError, KeyError] and pool.apply(square, (2,)) == 4


def test_iterable_may_wait_for_earlier_results(pool, tmp_path):
    """Results come while the next item is not there yet."""
    gate = Gate(tmp_path / "gate")

    def items():
        yield 1
        gate.wait()
        yield 2

    results = pool.imap(square, items())
    assert next(results) == 1
    gate.open()
    assert list(results) == [4]


def test_workers_end_with_the_pool():
    pool = Pool(2)
    pids = [worker.pid for worker in pool._pool]
    pool.close()
    pool.join()
    until_ended(pids)


@pytest.mark.parametrize("options", [{"processes": 0}, {"maxtasksperchild": 0}])
def test_wrong_numbers_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        Pool(**options)
    with pytest.raises(TypeError, match="initializer"):
        Pool(1, initializer=3)


def test_options_are_those_of_the_actors():
    with Pool(1, ray_remote_args={"num_cpus": 2}) as pool:
        assert pool.apply(square, (2,)) == 4
        assert zray.available_resources().get("CPU", 0) == 0
    until(lambda: zray.available_resources().get("CPU") == 2)


def named_in_lists(value, error=None):
    if error is not None:
        raise error
    return value


def test_calls_have_the_names_of_functions():
    with Pool(1) as pool:
        pool.map(named_in_lists, range(4), chunksize=1)
        pool.starmap(named_in_lists, [(1,)])
        pool.apply(partial(named_in_lists, 1))
        pool.apply(divmod, (3, 2))
        with pytest.raises(ValueError, match="no"):
            pool.apply(named_in_lists, (1, ValueError("no")))
        names = [task.name for task in list_tasks(limit=10_000)]
    assert names.count("named_in_lists") >= 4 and "divmod" in names
    assert "Worker.run" not in names and "Worker.run_once" not in names
