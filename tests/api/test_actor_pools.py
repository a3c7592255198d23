"""Actors and workers whose process owns a pool of processes end, and let go of their resources."""

import atexit
import concurrent.futures
import multiprocessing
import os
import threading

import pytest

import zray
from tests.gates import Gate, forever, is_running, nothing_is_held, until

pytestmark = pytest.mark.usefixtures("session")


class WithExecutor:
    """An actor that keeps an executor, whose threads end in the callbacks of `threading` at a normal exit."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context)

    def work(self):
        return list(self.pool.map(abs, [-1, -2]))


class WithLoky:
    """An actor whose module has a pool of loky, as scikit-learn and joblib make one."""

    def work(self):
        import joblib

        return joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(number) for number in (-1, -2))


class WithBusyChild:
    """An actor with a child process that multiprocessing waits for at exit, and that does not end."""

    def work(self):
        self.child = multiprocessing.get_context("fork").Process(target=forever)
        self.child.start()
        return [1, 2]


class WithBusyThread:
    """An actor with a thread pool that is at work: no thread is waited for."""

    def work(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        begun = threading.Event()
        self.pool.submit(lambda: (begun.set(), forever()))
        begun.wait()
        return [1, 2]


@pytest.mark.parametrize("ending", ["scope", "__ray_terminate__"])
@pytest.mark.parametrize("kind", [WithExecutor, WithLoky, WithBusyChild, WithBusyThread])
def test_an_actor_with_a_pool_ends(kind, ending):
    if kind is WithLoky:
        pytest.importorskip("joblib")
    actor = zray.remote(num_cpus=1)(kind).remote()
    assert zray.get(actor.work.remote()) == [1, 2]
    pid = zray.get(actor.__ray_call__.remote(lambda self: os.getpid()))
    if ending != "scope":
        getattr(actor, ending).remote()
    del actor
    until(lambda: not is_running(pid))
    until(nothing_is_held)


def test_a_worker_with_a_pool_ends_after_its_last_call():
    @zray.remote(max_calls=1)
    def pool():
        import __main__

        __main__.pool = WithExecutor()
        return __main__.pool.work(), os.getpid()

    answer, pid = zray.get(pool.remote())
    assert answer == [1, 2]
    until(lambda: not is_running(pid))


def test_functions_of_atexit_run_after_those_of_the_pools(tmp_path):
    """Callbacks run as at a normal exit; one that fails keeps none from running."""

    class Both(WithExecutor):
        def __init__(self, gate):
            super().__init__()
            atexit.register(lambda: gate.open() if threads_have_ended() else None)
            threading._register_atexit(lambda: 1 / 0)

    def threads_have_ended():
        return not any("ExecutorManager" in type(each).__name__ for each in threading.enumerate())

    gate = Gate(tmp_path / "gate")
    actor = zray.remote(Both).remote(gate)
    assert zray.get(actor.work.remote()) == [1, 2]
    pid = zray.get(actor.__ray_call__.remote(lambda self: os.getpid()))
    del actor
    until(lambda: not is_running(pid))
    assert gate.is_open()
