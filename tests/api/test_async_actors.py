"""Actors with async methods: one loop, many calls, references that can be awaited."""

import asyncio

import pytest

import zray
from tests.gates import Tally, until

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
def identity(value):
    return value


@zray.remote
def fail():
    raise KeyError("on purpose")


@zray.remote
class Signal:
    """Callers wait until one of them sends."""

    def __init__(self):
        self.event = asyncio.Event()
        self.waiting = 0

    async def wait(self):
        self.waiting += 1
        await self.event.wait()
        return self.waiting

    async def send(self):
        self.event.set()

    async def count(self):
        return self.waiting


def test_calls_interleave_where_they_await():
    signal = Signal.remote()
    waiting = [signal.wait.remote() for _ in range(100)]
    until(lambda: zray.get(signal.count.remote()) == 100)
    zray.get(signal.send.remote())
    assert zray.get(waiting) == [100] * 100


def test_calls_begin_in_the_order_of_submission():
    @zray.remote
    class Log:
        def __init__(self):
            self.numbers = []

        async def append(self, number):
            self.numbers.append(number)
            await asyncio.sleep(0)

        async def read(self):
            return self.numbers

    log = Log.remote()
    zray.get([log.append.remote(i) for i in range(500)])
    assert zray.get(log.read.remote()) == list(range(500))


def test_max_concurrency_is_the_most_at_once(gate, tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_concurrency=2)
    class Narrow:
        def __init__(self):
            self.inside = self.most = 0

        async def enter(self):
            tally.visit()
            self.inside += 1
            self.most = max(self.most, self.inside)
            while not gate.is_open():
                await asyncio.sleep(0.002)
            self.inside -= 1

        async def seen(self):
            return self.most

    narrow = Narrow.remote()
    refs = [narrow.enter.remote() for _ in range(5)]
    until(lambda: tally.count() == 2)
    gate.open()
    zray.get(refs)
    assert zray.get(narrow.seen.remote()) == 2


def test_many_calls_at_once():
    signal = Signal.remote()
    waiting = [signal.wait.remote() for _ in range(900)]
    zray.get(signal.send.remote())
    assert len(zray.get(waiting)) == 900


def test_references_are_awaited_inside():
    @zray.remote
    class Caller:
        async def one(self):
            return await identity.remote(1)

        async def several(self):
            return await asyncio.gather(*[identity.remote(i) for i in range(20)])

        async def listed(self, refs):
            done, pending = await asyncio.wait([asyncio.wrap_future(ref.future()) for ref in refs])
            return len(done), len(pending)

        async def failing(self):
            try:
                await fail.remote()
            except KeyError as error:
                return type(error).__name__, isinstance(error, zray.exceptions.RayTaskError)

    caller = Caller.remote()
    assert zray.get(caller.one.remote()) == 1
    assert zray.get(caller.several.remote()) == list(range(20))
    assert zray.get(caller.listed.remote([identity.remote(1), fail.remote()])) == (2, 0)
    assert zray.get(caller.failing.remote())[1] is True


def test_a_reference_that_an_async_method_returns_stays_one():
    @zray.remote
    class Giver:
        async def give(self):
            return identity.remote(1)

        def give_at_once(self):
            return identity.remote(2)

    giver = Giver.remote()
    refs = zray.get([giver.give.remote(), giver.give_at_once.remote()])
    assert [type(ref) for ref in refs] == [zray.ObjectRef] * 2
    assert zray.get(refs) == [1, 2]


def test_arguments_are_resolved_and_nested_ones_stay_references():
    @zray.remote
    class Taker:
        async def take(self, value, nested):
            return value, await nested[0]

    assert zray.get(Taker.remote().take.remote(identity.remote(1), [identity.remote(2)])) == (1, 2)


def test_errors_of_async_methods():
    @zray.remote
    class Failing:
        async def fail(self):
            await asyncio.sleep(0)
            raise KeyError("async")

        async def fine(self):
            return "fine"

    failing = Failing.remote()
    with pytest.raises(KeyError):
        zray.get(failing.fail.remote())
    assert zray.get(failing.fine.remote()) == "fine"


def test_plain_methods_beside_async_ones_run_on_the_loop():
    @zray.remote
    class Mixed:
        async def name_of_loop(self):
            return id(asyncio.get_running_loop())

        def plain(self):
            return id(asyncio.get_running_loop())

    mixed = Mixed.remote()
    assert zray.get(mixed.name_of_loop.remote()) == zray.get(mixed.plain.remote())


def test_an_actor_awaits_itself():
    @zray.remote
    class Recursive:
        async def down(self, depth):
            me = zray.get_runtime_context().current_actor
            return 0 if depth == 0 else 1 + await me.down.remote(depth - 1)

    assert zray.get(Recursive.remote().down.remote(10)) == 10


def test_each_call_has_its_own_context():
    """The children of two interleaved calls take their ids from the call that makes them."""

    @zray.remote
    class Parent:
        def __init__(self):
            self.turn = asyncio.Event()

        async def first(self):
            mine = zray.get_runtime_context().get_task_id()
            await self.turn.wait()
            return mine == zray.get_runtime_context().get_task_id(), await identity.remote("first")

        async def second(self):
            self.turn.set()
            return await asyncio.gather(*[identity.remote(i) for i in range(10)])

    parent = Parent.remote()
    first, second = parent.first.remote(), parent.second.remote()
    assert zray.get(second) == list(range(10))
    assert zray.get(first) == (True, "first")


def test_a_task_that_an_actor_started_on_its_own_loop_goes_on():
    @zray.remote
    class Background:
        def __init__(self):
            self.ticks = 0

        async def start(self):
            self.task = asyncio.ensure_future(self.run())

        async def run(self):
            while True:
                self.ticks += 1
                await asyncio.sleep(0.001)

        async def seen(self):
            return self.ticks

    background = Background.remote()
    zray.get(background.start.remote())
    until(lambda: zray.get(background.seen.remote()) > 3)


def test_the_driver_awaits_actor_calls(gate):
    async def main():
        signal = Signal.remote()
        waiting = [signal.wait.remote() for _ in range(3)]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting[0]), timeout=0.05)
        await signal.send.remote()
        return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == [3, 3, 3]


def test_a_thousand_awaited_in_the_driver():
    async def main():
        return await asyncio.gather(*[identity.remote(i) for i in range(1_000)])

    assert asyncio.run(main()) == list(range(1_000))


def test_killing_an_async_actor_fails_what_waits():
    signal = Signal.remote()
    waiting = [signal.wait.remote() for _ in range(5)]
    until(lambda: zray.get(signal.count.remote()) == 5)
    zray.kill(signal)
    for ref in waiting:
        with pytest.raises(zray.exceptions.ActorDiedError):
            zray.get(ref)
