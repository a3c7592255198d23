"""Time limits of tasks: one that runs for too long is interrupted, or its worker is ended."""

import contextlib
import os
import select
import tempfile
import time

import pytest

import zray
from zray.exceptions import TaskCancelledError, TaskTimeoutError

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def session():
    with zray.init(num_cpus=2):
        yield


@zray.remote
def sleep(seconds, value=1):
    select.select([], [], [], seconds)
    return value


@zray.remote
def pid():
    return os.getpid()


def test_task_that_sleeps_for_too_long_raises_in_time(session):
    began = time.monotonic()
    ref = sleep.options(timeout=0.2).remote(60)
    with pytest.raises(TaskTimeoutError, match="Task sleep ran longer than its timeout of 0.2 s"):
        zray.get(ref)
    assert time.monotonic() - began < 5


def test_loop_in_python_is_interrupted_and_its_worker_stays(session):
    @zray.remote(timeout=0.2)
    def spin(stop):
        spinner = os.getpid()
        with open(stop, "w") as file:
            file.write(str(spinner))
        while True:
            pass

    with tempfile.NamedTemporaryFile("r") as file:
        with pytest.raises(TaskTimeoutError):
            zray.get(spin.remote(file.name))
        os.kill(int(file.read()), 0)  # raises if the process is gone


def test_task_that_is_fast_enough_has_its_value(session):
    limited = sleep.options(timeout=20)
    assert zray.get([limited.remote(0.001, number) for number in range(200)]) == list(range(200))


def test_time_in_the_queue_does_not_count(session):
    limited = sleep.options(timeout=2)
    assert zray.get([limited.remote(0.6, number) for number in range(10)]) == list(range(10))


def test_overdue_task_is_not_retried(session, tmp_path):
    @zray.remote(timeout=0.2, max_retries=5, retry_exceptions=True)
    def run(folder):
        open(os.path.join(folder, str(time.monotonic_ns())), "w").close()
        select.select([], [], [], 60)

    with pytest.raises(TaskTimeoutError):
        zray.get(run.remote(str(tmp_path)))
    assert len(os.listdir(tmp_path)) == 1


def test_worker_of_code_that_cannot_be_interrupted_is_ended(session):
    @zray.remote(timeout=0.2)
    def swallow():
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                select.select([], [], [], 60)

    with pytest.raises(TaskTimeoutError):
        zray.get(swallow.remote(), timeout=30)
    assert zray.get(pid.remote()) > 0


def test_value_of_a_task_that_catches_the_interrupt_counts(session):
    @zray.remote(timeout=0.2)
    def catch():
        try:
            select.select([], [], [], 60)
        except KeyboardInterrupt:
            return "cleaned up"

    assert zray.get(catch.remote()) == "cleaned up"


def test_children_of_an_overdue_task_are_cancelled(session, tmp_path):
    mark = str(tmp_path / "ended")

    @zray.remote
    def child():
        try:
            select.select([], [], [], 60)
        finally:
            open(mark, "w").close()

    @zray.remote(timeout=0.5)
    def parent():
        return zray.get(child.remote())

    with pytest.raises(TaskTimeoutError):
        zray.get(parent.remote())
    deadline = time.monotonic() + 10
    while not os.path.exists(mark):
        assert time.monotonic() < deadline


def test_dependent_task_raises_the_same_error(session):
    with pytest.raises(TaskTimeoutError):
        zray.get(sleep.remote(0, sleep.options(timeout=0.1).remote(60)))


def test_task_that_waits_in_get_is_interrupted(session):
    @zray.remote(timeout=0.3)
    def waits():
        return zray.get(sleep.remote(30))

    with pytest.raises(TaskTimeoutError):
        zray.get(waits.remote(), timeout=20)


def test_cancelled_task_with_a_time_limit_raises_that_it_was_cancelled(session):
    ref = sleep.options(timeout=50).remote(60)
    zray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        zray.get(ref)


def test_items_before_the_end_of_the_time_are_there(session):
    @zray.remote(timeout=0.5)
    def items():
        yield 1
        yield 2
        select.select([], [], [], 60)

    stream = items.remote()
    assert [zray.get(next(stream)), zray.get(next(stream))] == [1, 2]
    with pytest.raises(TaskTimeoutError):
        zray.get(next(stream))


@zray.remote(timeout=1.5, max_buffered=1)
def items(count, last_seconds=0.0):
    yield from range(count)
    select.select([], [], [], last_seconds)


def test_time_in_which_a_generator_waits_for_its_consumer_does_not_count(session):
    generator, slow = items.remote(6), []
    for ref in generator:
        slow.append(zray.get(ref))
        zray.get(sleep.remote(0.4))
    assert slow == [*range(6)]


def test_time_in_which_a_generator_runs_counts_after_it_has_waited(session):
    generator = items.remote(3, 60)
    for _ in range(2):
        zray.get(next(generator))
        zray.get(sleep.remote(0.4))
    zray.get(next(generator))
    with pytest.raises(TaskTimeoutError):
        zray.get(next(generator))


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "1 s", True])
def test_wrong_limits_are_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="timeout"):
        sleep.options(timeout=wrong)
