"""Names that Ray's programs lean on beside the documented ones: _remote, as_future, nil."""

import asyncio
import concurrent.futures
import threading

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
def add(a, b=0):
    return a + b


@zray.remote
def pair(a):
    return a, a + 1


@zray.remote
class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self, amount=1):
        self.count += amount
        return self.count

    @zray.method(num_returns=2)
    def pair(self):
        return self.count, -self.count


def test_remote_function_by_its_older_name():
    assert zray.get(add._remote([1], {"b": 2})) == 3
    assert zray.get(add._remote(args=(1,), kwargs=None, num_cpus=0.5, num_returns=None, resources=None)) == 1
    assert zray.get(pair._remote(args=[1], num_returns=2)) == [1, 2]
    with pytest.raises(ValueError, match="no option 'none_such'"):
        add._remote([1], none_such=1)
    with pytest.raises(TypeError, match="missing a required argument"):
        add._remote()


def test_actors_by_their_older_name():
    counter = Counter._remote(args=[5], kwargs={}, num_cpus=0.1, name=None)
    assert zray.get(counter.add._remote()) == 6
    assert zray.get(counter.add._remote(kwargs={"amount": 4}, name="more")) == 10
    assert zray.get(counter.pair._remote(num_returns=None)) == [10, -10]
    with pytest.raises(TypeError):
        Counter._remote([1, 2, 3])


def test_refs_as_futures():
    async def work():
        ref = add.remote(1)
        future = ref.as_future()
        assert isinstance(future, asyncio.Future)
        failed = add.remote("a", 1).as_future()
        with pytest.raises(TypeError):
            await failed
        assert await asyncio.wait_for(add.remote(2).as_future(), 20) == 2
        done, _ = await asyncio.wait([add.remote(3).as_future()])
        assert [one.result() for one in done] == [3]
        return await future

    assert asyncio.run(work()) == 1
    future = add.remote(4).future()
    assert isinstance(future, concurrent.futures.Future) and future.result(20) == 4


def test_nil_is_a_ref_on_nothing():
    nil, ref = zray.ObjectRef.nil(), zray.put(1)
    assert nil.is_nil() and not ref.is_nil()
    assert nil == zray.ObjectRef.nil() and nil != ref and nil.binary() == b"\xff" * len(ref.binary())
    assert zray.get(zray.put([nil, ref])) == [nil, ref]
    box = zray.get(zray.remote(lambda box: box).remote({"a": nil}))
    assert box == {"a": nil}
    uses = (
        lambda: zray.get(nil),
        lambda: zray.get([ref, nil]),
        lambda: zray.wait([nil]),
        lambda: zray.wait([nil, ref], num_returns=2),
        lambda: add.remote(nil),
        lambda: add.remote(1, b=nil),
        lambda: Counter.remote(nil),
        nil.future,
    )
    for use in uses:
        with pytest.raises(ValueError, match="refers to no object"):
            use()
    in_a_task = zray.remote(lambda box, use: use(box[0]))
    for use in (zray.get, lambda nil: zray.wait([nil]), add.remote):
        with pytest.raises(ValueError, match="refers to no object"):
            zray.get(in_a_task.remote([nil], use), timeout=20)


def test_actor_with_a_hundred_thousand_calls_at_a_time():
    class Waiter:
        def __init__(self):
            self.event = asyncio.Event()
            self.count = 0

        async def wait(self):
            self.count += 1
            await self.event.wait()
            return 1

        async def release(self):
            self.event.set()
            return self.count

    waiter = zray.remote(max_concurrency=100_000)(Waiter).remote()
    refs = [waiter.wait.remote() for _ in range(12_000)]
    while zray.get(waiter.__ray_call__.remote(lambda self: self.count), timeout=30) < len(refs):
        pass
    assert zray.get(waiter.release.remote(), timeout=30) == len(refs)
    assert sum(zray.get(refs, timeout=40)) == len(refs)
    with pytest.raises(ValueError, match="max_concurrency must be from 1 to 100,000"):
        zray.remote(max_concurrency=100_001)(Waiter)


def test_calls_wait_for_threads_that_the_system_does_not_give():
    """An actor may have far more calls at a time than a container may have threads."""

    @zray.remote(max_concurrency=100_000)
    class Threaded:
        def take_no_more(self):
            def start(thread):
                raise RuntimeError("can't start new thread")

            self.start, threading.Thread.start = threading.Thread.start, start

        def add(self, amount):
            return amount + 1

        def take_more(self):
            threading.Thread.start = self.start

    actor = Threaded.remote()
    zray.get(actor.take_no_more.remote())
    assert zray.get([actor.add.remote(number) for number in range(50)], timeout=20) == list(range(1, 51))
    zray.get(actor.take_more.remote(), timeout=20)
