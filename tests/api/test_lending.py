"""A task that waits lends its CPU, whichever thread it waits in: on one CPU all of these would wait for ever."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import zray
from tests.gates import until


@pytest.fixture(scope="module")
def one_cpu(nothing_left):
    with zray.init(num_cpus=1):
        yield


@zray.remote
def double(value):
    return 2 * value


@zray.remote
def in_threads(count):
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda value: zray.get(double.remote(value)), range(count)))


@zray.remote
def in_a_thread_and_here():
    """The main thread's wait takes the place of the other's, and the other's goes on lending behind it."""
    found = []

    def one_after_the_other():
        for value in range(3):
            found.append(zray.get(double.remote(value)))

    thread = threading.Thread(target=one_after_the_other)
    thread.start()
    found.append(zray.get(double.remote(10)))
    thread.join()
    return sorted(found)


@zray.remote
def by_wait():
    found = []
    thread = threading.Thread(target=lambda: found.extend(zray.wait([double.remote(1)])[0]))
    thread.start()
    thread.join()
    return zray.get(found)


@zray.remote
def by_await():
    async def both():
        return await asyncio.gather(double.remote(1), double.remote(2))

    return asyncio.run(both())


@zray.remote
def by_await_beside_others():
    """It submits something all the time."""

    async def both():
        async def submit():
            while True:
                double.options(num_cpus=0).remote(1)
                await asyncio.sleep(0.02)

        others = asyncio.create_task(submit())
        value = await double.remote(1)
        others.cancel()
        return value

    return asyncio.run(both())


@zray.remote
def by_future():
    return double.remote(3).future().result()


@zray.remote
def leaves_a_thread_behind(gate, path):
    """It ends while its CPU is lent, and its thread waits on."""
    threading.Thread(target=lambda: zray.get([touch.remote(path), behind.remote(gate)]), daemon=True).start()
    until(lambda: os.path.exists(path))


@zray.remote
def touch(path):
    Path(path).touch()


@zray.remote(num_cpus=0)
def behind(gate):
    gate.wait()


@zray.remote(num_cpus=1)
class Asks:
    def __init__(self, num_cpus):
        self.double = double.options(num_cpus=num_cpus)

    async def doubled(self, value):
        return await self.double.remote(value)


def test_threads_of_a_task(one_cpu):
    assert zray.get(in_threads.remote(3), timeout=60) == [0, 2, 4]
    assert zray.get(in_a_thread_and_here.remote(), timeout=60) == [0, 2, 4, 20]
    assert zray.get(by_wait.remote(), timeout=60) == [2]


def test_awaits_and_futures_of_a_task(one_cpu):
    assert zray.get(by_await.remote(), timeout=60) == [2, 4]
    assert zray.get(by_future.remote(), timeout=60) == 6
    assert zray.get(by_await_beside_others.remote(), timeout=60) == 2


def test_async_actor_that_awaits_keeps_the_only_cpu(one_cpu):
    actor = Asks.remote(0)
    assert zray.get([actor.doubled.remote(value) for value in range(3)], timeout=60) == [0, 2, 4]
    other = Asks.remote(1)
    zray.kill(actor)
    ref = other.doubled.remote(5)
    _, waiting = zray.wait([ref], timeout=1.0)  # the node is told four times a second of what a process awaits
    assert waiting == [ref] and "CPU" not in zray.available_resources()
    zray.kill(other)


def test_what_a_thread_waits_for_that_its_task_has_left_behind(one_cpu, gate, tmp_path):
    zray.get(leaves_a_thread_behind.remote(gate, str(tmp_path / "lent")), timeout=60)
    assert zray.get([double.remote(value) for value in range(10)], timeout=60) == list(range(0, 20, 2))
    until(lambda: zray.available_resources().get("CPU") == 1)
    gate.open()


def test_whoever_has_waited_goes_on_before_a_flood_is_over(one_cpu, gate):
    """It had its CPU back when the queue was empty, and no sooner: of a flood without end, never."""

    class Keeper:
        def keep(self):
            gate.wait(30)

    keeper = zray.remote(num_cpus=0, max_concurrency=2)(Keeper).remote()
    waiting = zray.remote(lambda: zray.get(keeper.keep.remote())).remote()
    short = zray.remote(lambda: threading.Event().wait(0.002))
    zray.get(short.remote(), timeout=20)  # with the CPU of the one that waits
    flood = [short.remote() for _ in range(2_000)]
    zray.get(flood[0], timeout=20)
    gate.open()
    zray.get(waiting, timeout=20)
    _, left = zray.wait(flood, num_returns=len(flood), timeout=0)
    assert len(left) > len(flood) // 2
    zray.get(flood, timeout=40)


def test_all_of_it_is_there_again_afterwards(one_cpu):
    assert zray.get(in_threads.remote(2), timeout=60) == [0, 2]
    until(lambda: zray.available_resources().get("CPU") == 1)
