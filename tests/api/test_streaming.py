"""Generator functions and methods: items one by one, their errors, their ends; in a session and in local mode."""

import asyncio
import gc
import os
import select
import threading
import time

import numpy as np
import pytest

import zray
from tests.api.test_odd_programs import store_used
from tests.gates import nothing_is_held, until
from zray.exceptions import ActorDiedError, TaskCancelledError, TaskError, WorkerCrashedError
from zray.host import context

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["session", "local"])
def both(request, nothing_left):
    with zray.init(num_cpus=2, local_mode=request.param == "local", log_to_driver=False):
        yield request.param


@pytest.fixture
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False):
        yield


@zray.remote
def count(number, bad=None):
    for item in range(number):
        if item == bad:
            raise ValueError(f"bad {item}")
        yield item


@zray.remote
class Counter:
    def __init__(self):
        self.calls = 0

    def count(self, number):
        for item in range(number):
            self.calls += 1
            yield item * 10

    def called(self):
        return self.calls


@zray.remote
class AsyncCounter:
    async def count(self, number):
        for item in range(number):
            await asyncio.sleep(0)
            yield item * 100

    def plain(self, number):
        yield from range(number)


@zray.remote
class Gate:
    """Opens step by step."""

    def __init__(self):
        self.steps = 0

    async def open(self):
        self.steps += 1

    async def wait_for(self, step):
        while self.steps < step:
            await asyncio.sleep(0.001)


@zray.remote
def gated(gate, number):
    for item in range(number):
        zray.get(gate.wait_for.remote(item))
        yield item


@zray.remote
def endless(path):
    item = 0
    try:
        while True:
            yield item
            item += 1
            select.select([], [], [], 0.0005)
    finally:
        with open(path, "w") as file:
            file.write(str(item))


def written(path):
    return int(until(lambda: path.exists() and path.read_text()))


def values(generator):
    return [zray.get(ref) for ref in generator]


def test_items_are_refs_in_order(both):
    generator = count.remote(5)
    assert isinstance(generator, zray.ObjectRefGenerator) and iter(generator) is generator
    refs = list(generator)
    assert all(isinstance(ref, zray.ObjectRef) for ref in refs)
    assert zray.get(refs) == [0, 1, 2, 3, 4]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(generator)


@pytest.mark.parametrize("number", [0, 1, 3000])
def test_any_number_of_items(both, number):
    assert values(count.remote(number)) == list(range(number))


@pytest.mark.parametrize("bad", [0, 2])
def test_error_stands_at_its_place_and_ends_the_items(both, bad):
    refs = list(count.remote(5, bad))
    assert zray.get(refs[:-1]) == list(range(bad))
    with pytest.raises(ValueError, match=f"bad {bad}"):
        zray.get(refs[-1])
    assert len(refs) == bad + 1


def test_methods_of_actors_yield(both):
    counter, other = Counter.remote(), AsyncCounter.remote()
    assert values(counter.count.remote(3)) == [0, 10, 20]
    assert zray.get(counter.called.remote()) == 3
    assert values(other.count.remote(3)) == [0, 100, 200]
    assert values(other.plain.remote(3)) == [0, 1, 2]


def test_methods_of_threaded_actors_yield_side_by_side(session):
    counter = Counter.options(max_concurrency=2).remote()
    pair = [counter.count.remote(50), counter.count.remote(50)]
    assert [values(generator) for generator in pair] == [list(range(0, 500, 10))] * 2


def test_large_items_are_read_in_place(both):
    @zray.remote
    def arrays(number):
        for item in range(number):
            yield np.full(200_000, item)

    refs = list(arrays.remote(5))
    for item, ref in enumerate(refs):
        array = zray.get(ref)
        assert (array == item).all() and not array.flags.writeable


@pytest.mark.parametrize("is_of_actor", [False, True], ids=["task", "actor"])
@pytest.mark.parametrize("sizes", [(25_000, 0), (25_000, 400_000), (25_000, 0, 0, 30_000)], ids=str)
def test_items_of_all_sizes_leave_the_store_with_their_refs(session, sizes, is_of_actor):
    def items(count):
        for number in range(count):
            size = sizes[number % len(sizes)]
            yield np.full(size, number, np.float64) if size else number

    class Maker:
        def items(self, count):
            return items(count)

    maker = zray.remote(Maker).remote()
    made = maker.items.options(num_returns="streaming").remote(40) if is_of_actor else zray.remote(items).remote(40)
    for number, ref in enumerate(made):
        assert np.all(zray.get(ref) == number)
    del ref, made
    until(lambda: store_used() == 0)
    del maker


@pytest.mark.parametrize("sizes", ["shrink", "grow", "last", "vary"])
def test_large_items_of_different_sizes_have_their_own_bytes(session, sizes):
    bytes_of = {
        "shrink": [3_000_000 - 90_000 * item for item in range(30)],
        "grow": [300_000 + 90_000 * item for item in range(30)],
        "last": [2_000_000] * 9 + [700_000],
        "vary": [200_000 + 7919 * item * item % 2_000_000 for item in range(30)],
    }[sizes]

    @zray.remote
    def arrays(shift):
        for item, size in enumerate(bytes_of):
            yield np.full(size, item + shift, np.uint8)

    for refs in zip(arrays.remote(1), arrays.remote(100), bytes_of, range(99), strict=False):
        *pair, size, item = refs
        for array, shift in zip(zray.get(pair), (1, 100), strict=True):
            assert array.shape == (size,)
            assert (array == item + shift).all()
    until(nothing_is_held)


def test_items_with_refs_inside(both):
    @zray.remote
    def nested(number):
        for item in range(number):
            yield [zray.put(item), count.remote(1).completed()]

    inner = [pair for pair in values(nested.remote(3))]
    assert [zray.get(pair[0]) for pair in inner] == [0, 1, 2]
    assert [zray.get(pair[1]) for pair in inner] == [1, 1, 1]


def test_items_can_be_used_before_the_function_ends(session):
    gate = Gate.remote()
    generator = gated.remote(gate, 3)
    assert zray.get(next(generator)) == 0
    assert not generator.next_ready() and not generator.is_finished()
    zray.get(gate.open.remote())
    assert zray.get(next(generator)) == 1
    zray.get(gate.open.remote())
    assert values(generator) == [2] and generator.is_finished()


def test_item_is_an_argument_of_tasks(both):
    @zray.remote
    def double(value):
        return 2 * value

    assert zray.get([double.remote(ref) for ref in count.remote(4)]) == [0, 2, 4, 6]


def test_tasks_draw_from_generators_of_their_own(both):
    @zray.remote
    def total(number):
        return sum(zray.get(ref) for ref in count.remote(number))

    assert zray.get([total.remote(10), total.remote(20)]) == [45, 190]


def test_items_are_drawn_in_an_event_loop(both):
    async def draw():
        return [await ref async for ref in count.remote(100)]

    assert asyncio.run(draw()) == list(range(100))


def test_time_limit_of_a_wait_in_an_event_loop_loses_nothing(session):
    gate = Gate.remote()

    async def draw():
        generator = gated.remote(gate, 2)
        assert await (await generator.__anext__()) == 0
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(generator.__anext__(), 0.05)
        gate.open.remote()
        return [await ref async for ref in generator]

    assert asyncio.run(draw()) == [1]


def test_completed_is_a_ref_on_the_end(both):
    generator = count.remote(3)
    assert zray.get(generator.completed()) == 3
    with pytest.raises(ValueError, match="bad 1"):
        zray.get(count.remote(3, 1).completed())


def test_wait_takes_generators_beside_refs(session):
    gate = Gate.remote()
    late, early, ref = gated.remote(gate, 2), count.remote(1), zray.put(1)
    zray.get(next(late))
    ready, rest = zray.wait([late, early, ref], num_returns=2, timeout=20)
    assert ready == [early, ref] and rest == [late]
    assert zray.wait([late], timeout=0) == ([], [late])
    gate.open.remote()
    assert zray.wait([late], timeout=20) == ([late], [])
    assert zray.get(next(late)) == 1 and values(early) == [0]
    with pytest.raises(ValueError, match="twice"):
        zray.wait([late, late])


def test_generator_at_its_end_is_ready_until_it_has_said_so(both):
    """The loop of Ray's documentation."""
    unready, found = [count.remote(3), count.remote(0), zray.put(7)], []
    while unready:
        ready, unready = zray.wait(unready)
        for one in ready:
            if not isinstance(one, zray.ObjectRefGenerator):
                found.append(zray.get(one))
                continue
            try:
                found.append(zray.get(next(one)))
            except StopIteration:
                pass
            else:
                unready.append(one)
    assert sorted(found) == [0, 1, 2, 7]


def test_generator_that_has_raised_stopiteration_is_never_ready(both):
    generator = count.remote(1)
    list(generator)
    assert zray.wait([generator, zray.put(1)], timeout=5)[0] != [generator]
    assert zray.wait([generator], timeout=0) == ([], [generator])
    with pytest.raises(ValueError, match="Leave a generator out"):  # who ignores that would wait for ever
        zray.wait([generator])


def test_generator_is_not_passed_on(both):
    generator = count.remote(1)
    captured = zray.remote(lambda: list(generator))
    for use in (lambda: zray.put(generator), lambda: count.remote([generator]), captured.remote):
        with pytest.raises(TypeError, match="^You cannot return or pass a generator [^:]*: [^:]*completed\\(\\)\\.$"):
            use()
    assert zray.get(generator) is generator
    for name in ("send", "throw", "close"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(generator, name)(None)


def test_several_threads_draw_each_item_once(both):
    generator, drawn = count.remote(400), []

    def draw():
        drawn.extend(zray.get(ref) for ref in generator)

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(drawn) == list(range(400))


def test_generator_that_nobody_refers_to_ends_its_function(session, tmp_path):
    generator = endless.remote(str(tmp_path / "ended"))
    ref = next(generator)
    del generator
    gc.collect()
    assert written(tmp_path / "ended") >= 0
    assert zray.get(ref) == 0  # what was drawn stays


def test_break_ends_the_function_of_an_actor(session, tmp_path):
    @zray.remote
    class Endless:
        def run(self, path):
            try:
                yield from range(1 << 40)
            finally:
                with open(path, "w") as file:
                    file.write("0")

        def ping(self):
            return "here"

    actor = Endless.remote()
    for ref in actor.run.remote(str(tmp_path / "ended")):
        if zray.get(ref) == 5:
            break
    del ref
    assert zray.get(actor.ping.remote(), timeout=30) == "here"
    assert written(tmp_path / "ended") == 0


def test_cancel_keeps_the_items_that_are_there(session, tmp_path):
    generator = endless.remote(str(tmp_path / "ended"))
    zray.get(next(generator))
    zray.cancel(generator)
    refs = list(generator)
    with pytest.raises(TaskCancelledError):
        zray.get(refs[-1])
    assert zray.get(refs[:-1]) == list(range(1, len(refs)))


def drawn_before(generator, number, mark):
    """The first items, which the worker waits for before it dies."""
    found = [zray.get(next(generator)) for _ in range(number)]
    mark.touch()
    return found


@zray.remote(num_cpus=0)
class Endless:
    def __init__(self):
        self.running = 0

    async def items(self):
        self.running += 1
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            self.running -= 1

    async def count(self):
        return self.running


@zray.remote(num_cpus=0)
class Consumer:
    def draw(self, source):
        self.generator = source.items.options(num_returns="streaming").remote()
        return zray.get(next(self.generator))

    def leave(self):
        zray.actor.exit_actor()


@pytest.mark.parametrize("end", [lambda actor: None, lambda actor: actor.leave.remote(), zray.kill])
def test_generator_ends_with_the_actor_that_draws_however_that_ends(session, end):
    source, consumer = Endless.remote(), Consumer.remote()
    assert zray.get(consumer.draw.remote(source)) == 1
    end(consumer)
    del consumer
    until(lambda: zray.get(source.count.remote()) == 0)


def test_dead_worker_is_replaced_and_each_item_comes_once(session, tmp_path):
    @zray.remote(max_retries=1)
    def dies(drawn, died):
        for item in range(6):
            if item == 3 and not os.path.exists(died):
                until(lambda: os.path.exists(drawn))
                open(died, "w").close()
                os._exit(1)
            yield item

    generator = dies.remote(str(tmp_path / "drawn"), str(tmp_path / "died"))
    assert drawn_before(generator, 3, tmp_path / "drawn") + values(generator) == list(range(6))


def test_dead_worker_without_a_retry_is_the_last_item(session, tmp_path):
    @zray.remote(max_retries=0)
    def dies(drawn):
        yield 0
        until(lambda: os.path.exists(drawn))
        os._exit(1)

    generator = dies.remote(str(tmp_path / "drawn"))
    assert drawn_before(generator, 1, tmp_path / "drawn") == [0]
    (last,) = list(generator)
    with pytest.raises(WorkerCrashedError):
        zray.get(last)


def test_killed_actor_is_the_last_item(session):
    counter = Counter.remote()
    generator = counter.count.remote(1 << 40)
    zray.get(next(generator))
    zray.kill(counter)
    refs = list(generator)
    with pytest.raises(ActorDiedError):
        zray.get(refs[-1])


def test_exception_that_is_retried_repeats_no_item(session, tmp_path):
    @zray.remote(max_retries=1, retry_exceptions=True)
    def fails_once(mark):
        import os

        for item in range(6):
            if item == 3 and not os.path.exists(mark):
                open(mark, "w").close()
                raise RuntimeError("once")
            yield item

    assert values(fails_once.remote(str(tmp_path / "mark"))) == list(range(6))


def test_item_that_cannot_be_pickled_is_an_error_at_its_place(both):
    @zray.remote
    def odd():
        yield 1
        yield threading.Lock()
        yield 3

    refs = list(odd.remote())
    assert zray.get(refs[0]) == 1 and len(refs) == 2
    with pytest.raises((TypeError, TaskError)):
        zray.get(refs[1])


def test_function_without_yield_is_refused(both):
    @zray.remote(num_returns="streaming")
    def plain():
        return 1

    with pytest.raises(ValueError, match="no generator function"):
        plain.remote()

    @zray.remote
    async def items():
        yield 1

    for function in (items, items.options(num_returns="streaming")):
        with pytest.raises(TypeError, match="methods of async actors"):
            function.remote()


def test_number_of_returns_still_takes_a_generator_to_its_end(both):
    assert zray.get(count.options(num_returns=2).remote(2)) == [0, 1]


def test_nothing_stays_of_generators_that_were_drawn(session):

    for _ in range(20):
        values(count.remote(50))
        next(count.remote(50))
    gc.collect()
    client = context.runtime.client
    assert not client.streams

    def has_released():
        zray.get(zray.put(1))
        return len(client.held) <= 2

    until(has_released)


def test_gets_of_items_that_are_here_share_frames_for_their_releases(session):
    @zray.remote
    def blocks():
        for _ in range(100):
            yield bytes(500_000)

    refs = list(blocks.remote())
    zray.get(refs)
    link = context.runtime.connection.link
    sent, began = link.sent, time.monotonic()
    refs.reverse()
    while refs:
        zray.get(refs.pop())
    # One frame for four releases; the thread that sends what is buffered adds at most one a millisecond.
    assert link.sent - sent <= 100 / 4 + (time.monotonic() - began) * 1_000 + 5
