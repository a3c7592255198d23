"""Async functions as tasks: their coroutines run on the event loop of the worker."""

import asyncio
import os

import pytest

import zray


@pytest.fixture(scope="module", autouse=True)
def one_cpu(nothing_left):
    with zray.init(num_cpus=1):
        yield


@zray.remote
async def add(a, b=1):
    await asyncio.sleep(0)
    return a + b


@zray.remote
def plain(a):
    return a + 1


def test_value_of_the_coroutine_is_the_result():
    assert zray.get([add.remote(1), add.remote(zray.put(2), b=3)]) == [2, 5]
    assert asyncio.run(add.local(1)) == 2
    with pytest.raises(TypeError, match="missing a required argument"):
        add.remote()


def test_two_returns():
    @zray.remote(num_returns=2)
    async def pair():
        return 1, 2

    assert zray.get(pair.remote()) == [1, 2]


def test_error_is_the_users_and_has_his_lines_only():
    @zray.remote
    async def fail():
        await asyncio.sleep(0)
        raise KeyError("here")

    with pytest.raises(KeyError) as raised:
        zray.get(fail.remote())
    text = raised.value.traceback_str
    assert 'raise KeyError("here")' in text and text.count('File "') == 1, text


def test_retry_of_an_error(tmp_path):
    @zray.remote(max_retries=2, retry_exceptions=[ValueError])
    async def fail_once():
        path = tmp_path / "ran"
        if not path.exists():
            path.touch()
            raise ValueError
        return 1

    assert zray.get(fail_once.remote()) == 1


def test_await_of_children_lends_the_cpu():
    @zray.remote
    async def parent(depth):
        if not depth:
            return sum(await asyncio.gather(*[plain.remote(i) for i in range(3)]))
        return await parent.remote(depth - 1) + await add.remote(0)

    assert zray.get(parent.remote(2), timeout=30) == 8


def test_get_inside_of_a_coroutine():
    """The wait may run the child itself, inside of the loop that it has stopped."""

    @zray.remote
    async def parent(depth):
        await asyncio.sleep(0)
        found = zray.get(parent.remote(depth - 1)) if depth else 0
        await asyncio.sleep(0)
        assert asyncio.get_running_loop().is_running() and asyncio.current_task() is not None
        return found + 1

    assert zray.get(parent.remote(6), timeout=30) == 7


def test_awaits_inside_of_waits_on_one_cpu():
    """Deeper than there are processes: the wait of `get` runs what it waits for, whose `await` lends the CPU too."""

    @zray.remote
    async def parent(depth):
        if not depth:
            return 0
        child = parent.remote(depth - 1)
        return (zray.get(child) if depth % 2 else await child) + 1

    assert zray.get(parent.remote(14), timeout=50) == 14


def test_loop_is_kept_and_what_a_task_has_left_on_it_is_cancelled():
    @zray.remote
    async def leave_something(box):
        async def forever():
            try:
                await asyncio.Event().wait()
            finally:
                asyncio.get_running_loop().cancelled = True

        asyncio.create_task(forever())
        await asyncio.sleep(0)
        return os.getpid(), id(asyncio.get_running_loop())

    @zray.remote
    async def look():
        loop = asyncio.get_running_loop()
        return (os.getpid(), id(loop)), loop.cancelled, len(asyncio.all_tasks())

    first = zray.get(leave_something.remote([]))
    assert zray.get(look.remote()) == (first, True, 1)


def test_exit_in_a_coroutine_ends_the_worker_as_in_any_task():
    @zray.remote
    async def leave():
        raise SystemExit(3)

    with pytest.raises(zray.exceptions.WorkerCrashedError, match=r"leave called sys.exit\(3\)"):
        zray.get(leave.remote())
    assert zray.get(add.remote(1)) == 2


def test_loop_that_user_code_has_closed_is_replaced():
    @zray.remote
    async def stop():
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="Event loop stopped before Future completed"):
        zray.get(stop.remote())
    assert zray.get(add.remote(1)) == 2


def test_context_of_the_task_in_a_coroutine():
    @zray.remote(name="named")
    async def facts():
        await asyncio.sleep(0)
        return zray.get_runtime_context().get_task_name(), zray.get_runtime_context().get_task_id()

    ref = facts.remote()
    assert zray.get(ref) == ("named", ref.task_id().hex())
