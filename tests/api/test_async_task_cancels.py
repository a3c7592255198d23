"""cancel() and time limits of async functions as tasks: CancelledError is raised where the coroutine awaits."""

import asyncio
import select
import time

import pytest

import zray
from tests.gates import Gate
from zray.exceptions import TaskCancelledError, TaskTimeoutError

WAIT = 4.0  # s: less than the time after which a worker is ended; what is awaited comes within milliseconds
LONG = 1000

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module", autouse=True)
def driver(nothing_left):
    with zray.init(num_cpus=2) as context:
        yield context


@pytest.fixture
def begun(tmp_path):
    return Gate(tmp_path / "begun")


@pytest.fixture
def cleaned(tmp_path):
    return Gate(tmp_path / "cleaned")


@zray.remote
def child(seconds):
    select.select([], [], [], seconds)


async def in_order(begun, how):
    """A coroutine with several awaits, each inside of another."""
    begun.open()
    if how == "sleep":
        await asyncio.sleep(LONG)
    elif how == "event":
        await asyncio.Event().wait()
    elif how == "gather":
        await asyncio.gather(asyncio.sleep(LONG), asyncio.Event().wait())
    elif how == "group":
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(LONG))])
    elif how == "ref":
        await child.remote(LONG)
    elif how == "get":
        zray.get(child.remote(LONG))
    elif how == "blocks":
        select.select([], [], [], LONG)
    elif how == "computes":
        while True:
            sum(range(100))
    elif how == "turns":
        while True:
            await asyncio.sleep(0)


@zray.remote(max_retries=3, retry_exceptions=True)
async def waits(begun, cleaned, how):
    try:
        if how.startswith("inner "):
            await asyncio.gather(in_order(begun, how.removeprefix("inner ")), asyncio.sleep(LONG))
        else:
            await in_order(begun, how)
    finally:
        await asyncio.sleep(0)
        cleaned.open()


HOW = ["sleep", "event", "gather", "group", "ref", "get", "blocks", "computes", "turns"]
HOW += ["inner computes", "inner turns", "inner ref"]


@pytest.mark.parametrize("how", HOW)
def test_cancelled_coroutine_ends_at_once_and_cleans_up(begun, cleaned, how):
    ref = waits.remote(begun, cleaned, how)
    begun.wait()
    zray.cancel(ref)
    with pytest.raises(TaskCancelledError) as raised:
        zray.get(ref, timeout=WAIT)
    text = str(raised.value)
    assert type(raised.value) is TaskCancelledError and text.startswith("Task waits was cancelled:"), text
    assert "zray/host" not in text
    assert cleaned.is_open()


@pytest.mark.parametrize("how", HOW)
def test_coroutine_with_a_time_limit_ends_in_time_and_cleans_up(begun, cleaned, how):
    with pytest.raises(TaskTimeoutError, match="Task waits ran longer than its timeout of 0.3 s"):
        zray.get(waits.options(timeout=0.3).remote(begun, cleaned, how), timeout=WAIT)
    assert cleaned.is_open()


def test_error_is_cancelled_error_once_and_awaits_of_the_clean_up_are_left_alone(begun, cleaned, tmp_path):
    @zray.remote
    async def tells(begun, cleaned, path):
        try:
            begun.open()
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            path.write_text("CancelledError")
            for _ in range(100):
                await asyncio.sleep(0)
            await child.remote(0)
            cleaned.open()
            raise

    ref = tells.remote(begun, cleaned, tmp_path / "error")
    begun.wait()
    for _ in range(3):
        zray.cancel(ref, recursive=False)
    with pytest.raises(TaskCancelledError):
        zray.get(ref, timeout=WAIT)
    assert (tmp_path / "error").read_text() == "CancelledError" and cleaned.is_open()


@pytest.mark.parametrize("limit", [None, 0.3])
def test_value_of_a_coroutine_that_swallows_the_error_counts_and_a_line_says_so(begun, capfd, limit):
    @zray.remote
    async def swallows(begun):
        try:
            begun.open()
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            return "mine"

    ref = swallows.options(timeout=limit).remote(begun)
    begun.wait()
    if limit is None:
        zray.cancel(ref)
    assert zray.get(ref, timeout=WAIT) == "mine"
    what = "was cancelled" if limit is None else "ran longer than its timeout of 0.3 s"
    end, printed = time.monotonic() + WAIT, ""
    while f"swallows {what}, and has returned a value" not in printed:
        assert time.monotonic() < end, printed
        printed += capfd.readouterr().err


def test_worker_and_its_loop_run_further_tasks(begun, cleaned):
    @zray.remote(num_cpus=2)
    async def add(a, b):
        await asyncio.sleep(0)
        return a + b

    for how in ("sleep", "computes"):
        ref = waits.options(num_cpus=2).remote(begun, cleaned, how)
        begun.wait()
        zray.cancel(ref)
        with pytest.raises(TaskCancelledError):
            zray.get(ref, timeout=WAIT)
        assert zray.get([add.remote(1, number) for number in range(5)], timeout=WAIT) == [1, 2, 3, 4, 5]


def test_outer_coroutine_goes_on_when_the_task_inside_of_its_wait_runs_for_too_long(begun, cleaned):
    """The wait runs the other task inside of itself: the event loop of the outer task is not the inner one's."""

    @zray.remote(num_cpus=2)
    async def outer(begun, cleaned):
        await asyncio.sleep(0)
        try:
            zray.get(waits.options(num_cpus=2, timeout=0.3).remote(begun, cleaned, "sleep"))
        except TaskTimeoutError:
            await asyncio.sleep(0)
            return "outer"

    assert zray.get(outer.remote(begun, cleaned), timeout=2 * WAIT) == "outer"
