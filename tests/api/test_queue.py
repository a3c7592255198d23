"""Queue: order, bounds, timeouts, batches, and what happens to items of consumers that go away."""

import asyncio
import os
import queue as python_queue
import signal
import time

import pytest

import zray
from tests.gates import Gate, Tally, until
from zray.util import queue_actor, queue_ahead
from zray.util.multiprocessing import JoinableQueue
from zray.util.queue import Empty, Full, Queue

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def queue(session):
    queue = Queue()
    yield queue
    queue.shutdown(force=True)


@pytest.fixture
def bounded(session):
    queue = Queue(maxsize=2)
    yield queue
    queue.shutdown(force=True)


@zray.remote
def produce(queue, items):
    for item in items:
        queue.put(item)


@zray.remote
def consume(queue, count):
    return [queue.get(timeout=20) for _ in range(count)]


def waiting_getters(queue):
    """Number of consumers that the actor knows to wait."""
    return zray.get(queue.actor.waiting.remote())


class Watched(queue_actor.QueueActor):
    """Actor of a queue that tells how many consumers wait, and takes items back soon."""

    lease_seconds = 0.3

    def waiting(self):
        return sum(not waiting.done() for waiting, _ in self.getters)


@pytest.fixture
def watched(session, monkeypatch):
    monkeypatch.setattr("zray.util.queue.QueueActor", Watched)
    queue = Queue()
    yield queue
    queue.shutdown(force=True)


def test_items_leave_in_the_order_of_arrival(queue):
    for value in range(500):
        queue.put(value)
    assert queue.qsize() == queue.size() == len(queue) == 500 and not queue.empty() and not queue.full()
    assert [queue.get() for _ in range(500)] == list(range(500))
    assert queue.empty()


def test_errors_are_those_of_python(queue, bounded):
    assert issubclass(Empty, python_queue.Empty) and issubclass(Full, python_queue.Full)
    for call in (queue.get_nowait, lambda: queue.get(block=False), lambda: queue.get(timeout=0.01)):
        with pytest.raises(Empty):
            call()
    for value in range(2):
        bounded.put(value)
    assert bounded.full()
    for call in (lambda: bounded.put_nowait(3), lambda: bounded.put(3, timeout=0.01)):
        with pytest.raises(Full):
            call()
    assert [bounded.get(), bounded.get()] == [0, 1]


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_negative_timeouts_are_refused(queue, timeout):
    with pytest.raises(ValueError, match="timeout"):
        queue.put(1, timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        queue.get(timeout=timeout)


def test_timeout_is_kept(queue):
    start = time.monotonic()
    with pytest.raises(Empty):
        queue.get(timeout=0.3)
    assert 0.29 < time.monotonic() - start < 5


def test_handle_travels_to_tasks(queue):
    both = [produce.remote(queue, range(300)), consume.remote(queue, 300)]
    assert zray.get(both)[1] == list(range(300))


@pytest.mark.parametrize(
    "item", [None, "text" * 1_000, {"a": [1, (2,)]}, list(range(50)), 2**70, {1, 2}, b"x" * 200_000]
)
def test_any_value_is_an_item(queue, item):
    queue.put(item)
    queue.put(item)
    assert [queue.get(), queue.get()] == [item, item]


def test_ref_stands_for_its_value_and_a_ref_inside_stays_one(queue):
    queue.put(zray.put(3))
    queue.put([zray.put(4)])
    assert queue.get() == 3 and zray.get(queue.get()[0]) == 4


def test_put_of_a_task_is_seen_when_the_task_has_ended(queue):
    """Also where it did not wait for the actor."""
    for _ in range(20):
        zray.get(produce.remote(queue, range(10)))
        assert queue.qsize() == 10
        assert queue.get_nowait_batch(10) == list(range(10))


def test_full_queue_holds_producers_back(bounded):
    producer = produce.remote(bounded, range(20))
    until(lambda: bounded.full())
    assert zray.wait([producer], timeout=0)[0] == []
    assert [bounded.get(timeout=20) for _ in range(20)] == list(range(20))
    zray.get(producer)


def test_quick_puts_keep_the_bound(session):
    """Although those that surely have room do not wait for the actor."""
    queue = Queue(maxsize=50)
    for _ in range(3):
        for value in range(50):
            queue.put(value)
        assert queue.full() and queue.qsize() == 50
        with pytest.raises(Full):
            queue.put_nowait(50)
        assert queue.get_nowait_batch(50) == list(range(50))
    queue.shutdown(force=True)


def test_several_producers_keep_the_bound(session):
    queue = Queue(maxsize=20)
    producers = [produce.remote(queue, range(part, part + 200)) for part in (0, 200)]
    seen, sizes = [], []
    while len(seen) < 400:
        sizes.append(zray.get(queue.actor.qsize.remote()))
        seen.append(queue.get(timeout=20))
    assert sorted(seen) == list(range(400)) and max(sizes) <= 20
    zray.get(producers)
    queue.shutdown(force=True)


def test_several_consumers_get_each_item_once(queue):
    """Although each may be given items ahead."""
    consumers = [consume.remote(queue, 400) for _ in range(2)]
    for value in range(800):
        queue.put(value)
    parts = zray.get(consumers)
    assert sorted(parts[0] + parts[1]) == list(range(800))
    assert all(part == sorted(part) for part in parts)


def test_consumer_waits_for_the_items_that_another_one_has_ahead():
    """Items that come back are before those behind them."""

    async def main():
        actor = queue_actor.QueueActor(0)
        await actor.put(b"producer", "first", None)
        assert await actor.get(b"one", 1, 1.0, 1) == ["first"]
        for value in range(6):
            actor.put_now(value)
        assert await actor.get(b"one", 2, 1.0, 3) == [0, 1, 2]
        second = asyncio.ensure_future(actor.get(b"two", 1, 20.0, 1))
        third = asyncio.ensure_future(actor.get(b"three", 1, 20.0, 1))
        await asyncio.sleep(0)
        assert not second.done() and actor.qsize() == 3
        actor.used(b"one", 2, 1, True)  # it gives 1 and 2 back
        return await second, await third, await actor.get(b"two", 2, 0.0, 1)

    assert asyncio.run(main()) == ([1], [2], [3])


def test_consumer_waits_no_longer_than_it_may_for_items_ahead_of_another_one():
    async def main():
        actor = queue_actor.QueueActor(0)
        for value in range(4):
            actor.put_now(value)
        assert await actor.get(b"one", 1, 1.0, 3) == [0, 1, 2]
        return await actor.get(b"two", 1, 0.01, 1)

    assert asyncio.run(main()) == [3]


def test_items_that_come_back_find_their_room():
    """Producers do not fill it meanwhile; items that are used make room."""

    async def main():
        actor = queue_actor.QueueActor(6)
        for value in range(6):
            actor.put_now(value)
        assert await actor.get(b"one", 1, 1.0, 100) == [0, 1, 2]  # half of the bound
        putters = [asyncio.ensure_future(actor.put(b"producer", value, 20.0)) for value in (6, 7)]
        await asyncio.sleep(0)
        assert actor.put_batch(b"other", [9]) == 3 and await actor.put(b"other", 9, 0.0) == -1
        actor.used(b"one", 1, 1, False)
        assert await putters[0] == 0 and not putters[1].done()
        actor.used(b"one", 1, 0, True)  # it gives 1 and 2 back
        await asyncio.sleep(0)
        assert actor.qsize() == 6 and not putters[1].done()
        assert await actor.get(b"one", 2, 0.0, 1) == [1]
        assert await putters[1] == 0
        assert [(await actor.get(b"two", number, 0.0, 1))[0] for number in range(6)] == [2, 3, 4, 5, 6, 7]

    asyncio.run(main())


def test_batch_is_taken_and_put_whole_or_not_at_all(queue, bounded):
    queue.put_nowait_batch(range(5))
    queue.put_nowait_batch([])
    with pytest.raises(Empty, match="6 items: the queue has 5"):
        queue.get_nowait_batch(6)
    assert queue.get_nowait_batch(0) == [] and queue.get_nowait_batch(5) == [0, 1, 2, 3, 4]
    with pytest.raises(Full, match="3 items"):
        bounded.put_nowait_batch([1, 2, 3])
    assert bounded.empty()
    with pytest.raises(TypeError):
        queue.put_nowait_batch(3)
    with pytest.raises(TypeError):
        queue.get_nowait_batch(1.5)
    with pytest.raises(ValueError, match="negative"):
        queue.get_nowait_batch(-1)


def test_asyncio_puts_into_a_queue_without_bound_are_never_refused(queue):
    async def main():
        for item in range(5):
            await queue.put_async(item, block=item % 2 == 0)
        return [await queue.get_async() for _ in range(5)]

    assert asyncio.run(main()) == list(range(5))


def test_asyncio_puts_and_gets(bounded):
    async def main():
        await bounded.put_async(1)
        await bounded.put_async(2)
        with pytest.raises(Full):
            await bounded.put_async(3, block=False)
        with pytest.raises(Full):
            await bounded.put_async(3, timeout=0.01)
        found = [await bounded.get_async(), await bounded.get_async(timeout=5)]
        with pytest.raises(Empty):
            await bounded.get_async(timeout=0.01)
        waiting = asyncio.create_task(bounded.get_async())
        await bounded.put_async(4)
        return [*found, await waiting]

    assert asyncio.run(main()) == [1, 2, 4]


def test_items_ahead_that_a_consumer_does_not_use_go_back(queue):
    for value in range(300):
        queue.put(value)
    got = [queue.get() for _ in range(100)]
    assert queue._ahead.count > 0
    until(lambda: queue._ahead.count == 0)
    assert zray.get(consume.remote(queue, 200)) == list(range(100, 300)) and got == list(range(100))


def test_batch_has_the_items_that_were_ahead(queue):
    for value in range(200):
        queue.put(value)
    got = [queue.get() for _ in range(50)]
    assert got + queue.get_nowait_batch(150) == list(range(200))


def test_killed_consumer_swallows_no_item(watched, monkeypatch, tmp_path):
    @zray.remote(max_retries=0)
    def block(queue, tally):
        tally.visit()
        queue.get()

    tally = Tally(tmp_path / "tally")
    killed = block.remote(watched, tally)
    until(lambda: waiting_getters(watched) == 1)
    os.kill(tally.pids()[0], signal.SIGKILL)
    with pytest.raises(zray.exceptions.WorkerCrashedError):
        zray.get(killed)
    watched.put("item")
    assert watched.get(timeout=20) == "item"


def test_blocked_consumer_holds_no_cpu(watched):
    consumers = [consume.remote(watched, 1) for _ in range(2)]
    until(lambda: waiting_getters(watched) == 2)
    zray.get(produce.remote(watched, [1, 2]))
    assert sorted(zray.get(consumers)) == [[1], [2]]


def test_late_reply_is_not_used(watched, monkeypatch):
    """The actor may have given the item to another consumer: the consumer asks again."""
    monkeypatch.setattr(queue_ahead, "HOLD_SECONDS", -100.0)
    watched.put(1)
    with pytest.raises(Empty):
        watched.get(timeout=0.1)
    monkeypatch.undo()
    assert watched.get(timeout=20) == 1


def test_leases_end_before_an_item_is_given_again():
    assert queue_actor.WAIT_SECONDS + queue_actor.HOLD_SECONDS < queue_actor.LEASE_SECONDS


def test_shutdown_ends_the_actor(session):
    for force in (False, True):
        queue = Queue()
        other = zray.get(zray.put([queue]))[0]
        queue.put(1)
        queue.shutdown(force=force)
        queue.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            queue.put(1)
        with pytest.raises(zray.exceptions.RayActorError):
            other.get(timeout=20)


def test_lost_actor_is_noticed_by_puts_that_do_not_wait(session):
    queue = Queue()
    queue.put(1)
    zray.kill(queue.actor)
    with pytest.raises(zray.exceptions.RayActorError):
        for value in range(1_000):
            queue.put(value)


def test_options_are_those_of_the_actor(session):
    queue = Queue(actor_options={"name": "jobs", "num_cpus": 1})
    queue.put(1)
    assert zray.get(zray.get_actor("jobs").qsize.remote()) == 1
    assert zray.available_resources()["CPU"] == 1
    queue.shutdown(force=True)
    until(lambda: zray.available_resources()["CPU"] == 2)


def test_joinable_queue_waits_for_finished_items(gate, tmp_path):
    @zray.remote
    def work(queue, gate):
        for _ in range(2):
            queue.get()
            gate.wait()
            queue.task_done()

    @zray.remote
    def join(queue):
        queue.join()

    queue = JoinableQueue()
    queue.join()
    for value in range(2):
        queue.put(value)
    joined, worked = join.remote(queue), work.remote(queue, Gate(gate.path))
    assert zray.wait([joined], timeout=0.05)[0] == []
    gate.open()
    zray.get([joined, worked])
    with pytest.raises(ValueError, match="task_done"):
        queue.task_done()
    queue.shutdown(force=True)
