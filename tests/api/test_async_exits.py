"""Exits of async actors beside their calls: in nested tasks, in callbacks, by the loop itself, in constructors."""

import argparse
import asyncio
import sys
import threading

import pytest

import zray
from tests.gates import Gate, Tally, until

pytestmark = pytest.mark.usefixtures("session")

ActorDiedError, ActorUnavailableError = zray.exceptions.ActorDiedError, zray.exceptions.ActorUnavailableError


def interrupt():
    raise KeyboardInterrupt


def parse():
    argparse.ArgumentParser(prog="imaginary").parse_args(["--unknown"])


async def part(leave):
    await asyncio.sleep(0)
    leave()


async def in_gather(leave):
    await asyncio.gather(part(leave), asyncio.sleep(30))


async def in_wait_for(leave):
    await asyncio.wait_for(part(leave), 30)


async def in_task(leave):
    await asyncio.create_task(part(leave))


async def in_task_that_nobody_awaits(leave):
    task = asyncio.ensure_future(part(leave))
    await asyncio.sleep(30)
    return task


async def in_task_group(leave):
    async with asyncio.TaskGroup() as group:
        group.create_task(part(leave))


async def in_callback(leave):
    asyncio.get_running_loop().call_soon(leave)
    await asyncio.sleep(30)


async def in_timer(leave):
    asyncio.get_running_loop().call_later(0.01, leave)
    await asyncio.sleep(30)


async def in_thread(leave):
    await asyncio.to_thread(leave)


WAYS = [
    in_gather, in_wait_for, in_task, in_task_that_nobody_awaits, in_callback, in_timer, in_thread,
    pytest.param(in_task_group, marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups before 3.11")),
]  # fmt: skip


class Leaver:
    async def leave(self, way, leave):
        await way(leave)

    async def answer(self):
        return 42

    async def wait(self, begun, gate):
        begun.open()
        while not gate.is_open():
            await asyncio.sleep(0.002)
        return "done"


def leaver(**options):
    return zray.remote(num_cpus=0, **options)(Leaver).remote()


def death_of(actor, ref):
    with pytest.raises(ActorDiedError) as caught:
        zray.get(ref, timeout=30)
    with pytest.raises(ActorDiedError):
        zray.get(actor.answer.remote(), timeout=30)
    return str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_exit_beside_a_call_is_the_death_of_the_actor(way):
    actor = leaver()
    before = [actor.answer.remote() for _ in range(5)]
    text = death_of(actor, actor.leave.remote(way, lambda: sys.exit(3)))
    assert "exited with code 3" in text and "Leaver.leave has called sys.exit(3)" in text
    assert zray.get(before, timeout=30) == [42] * 5


@pytest.mark.parametrize(
    "leave, status, how",
    [
        (lambda: sys.exit("no more"), 1, "sys.exit('no more')"),
        (interrupt, 130, "raised KeyboardInterrupt"),
        (parse, 2, "--unknown"),
    ],
    ids=["text", "interrupt", "argparse"],
)
def test_death_by_an_exit_beside_a_call_says_how_and_by_which_call(leave, status, how):
    actor = leaver()
    text = death_of(actor, actor.leave.remote(in_gather, leave))
    assert f"exited with code {status}" in text and how in text and "Leaver.leave has " in text


def test_task_that_outlives_its_call_is_named_by_that_call(gate):
    async def begin(leave, gate):
        async def wait():
            while not gate.is_open():
                await asyncio.sleep(0.002)
            leave()

        asyncio.get_running_loop().kept = asyncio.ensure_future(wait())

    actor = leaver()
    zray.get(actor.leave.remote(lambda leave: begin(leave, gate), lambda: sys.exit(3)), timeout=30)
    pending = actor.leave.remote(lambda leave: asyncio.sleep(30), None)
    gate.open()
    assert "Leaver.leave has called sys.exit(3)" in death_of(actor, pending)


@pytest.mark.parametrize(
    "way, leave",
    [
        (in_gather, lambda: sys.exit(0)),
        (in_task_that_nobody_awaits, zray.actor.exit_actor),
        (in_callback, lambda: sys.exit(0)),
    ],
)
def test_exit_with_0_beside_a_call_ends_the_actor_for_good_behind_its_calls(way, leave, gate, tmp_path):
    begun = Gate(tmp_path / "begun")
    actor = leaver(max_restarts=-1, max_task_retries=-1)
    other = actor.wait.remote(begun, gate)
    begun.wait()

    async def leave_soon(leave):
        if way is in_gather:
            await in_gather(leave)
        else:
            await asyncio.wait([asyncio.ensure_future(way(leave))], timeout=0.1)

    left = actor.leave.remote(leave_soon, leave)
    if way is in_gather:
        with pytest.raises(ActorDiedError, match="left by"):
            zray.get(left, timeout=30)
    else:
        assert zray.get(left, timeout=30) is None
    gate.open()
    assert zray.get(other, timeout=30) == "done"
    with pytest.raises(ActorDiedError, match="left by"):
        zray.get(actor.answer.remote(), timeout=30)


def test_exit_beside_a_call_is_followed_by_a_restart_and_a_retry(tmp_path):
    tally = Tally(tmp_path / "tally")

    async def way(leave):
        if tally.visit() == 1:
            await in_gather(leave)
        await asyncio.sleep(0)

    actor = leaver(max_restarts=1, max_task_retries=1)
    assert zray.get(actor.leave.remote(way, lambda: sys.exit(3)), timeout=30) is None
    assert tally.count() == 2
    with pytest.raises(ActorDiedError, match="after 1 restart"):
        zray.get(actor.leave.options(max_task_retries=0).remote(in_gather, lambda: sys.exit(3)), timeout=30)


def test_loop_that_user_code_stops_is_the_death_of_the_actor():
    async def stop(leave):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(30)

    actor = leaver()
    assert "Leaver.leave has stopped the actor's event loop" in death_of(actor, actor.leave.remote(stop, None))


def test_loop_that_another_thread_stops_is_the_death_of_the_actor():
    async def stop(leave):
        loop = asyncio.get_running_loop()
        threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,)).start()
        await asyncio.sleep(30)

    actor = leaver()
    assert "stopped the actor's event loop" in death_of(actor, actor.leave.remote(stop, None))


@pytest.mark.parametrize(
    "kind, leave",
    [
        ("plain", lambda: sys.exit(3)),
        ("plain", interrupt),
        ("async", parse),
        ("nested", lambda: sys.exit(0)),
        ("nested", lambda: asyncio.get_running_loop().stop()),
    ],
)
def test_exit_in_a_constructor_is_the_error_of_every_call(kind, leave):
    class Plain:
        def __init__(self):
            leave()

        async def answer(self):
            return 42

    class Async(Plain):
        async def __init__(self):
            if kind == "nested":
                await asyncio.gather(part(leave))
            else:
                leave()
            await asyncio.sleep(30)

    actor = zray.remote(num_cpus=0)(Plain if kind == "plain" else Async).remote()
    with pytest.raises(ActorDiedError, match="in its constructor"):
        zray.get(actor.answer.remote(), timeout=30)


def test_async_constructor_is_awaited_before_the_first_call(gate):
    class Slow:
        async def __init__(self, value, *, more):
            self.words = []
            while not gate.is_open():
                await asyncio.sleep(0.002)
            self.words.append((value, more))

        async def read(self):
            return self.words

    slow = zray.remote(Slow).remote(1, more=2)
    read = slow.read.remote()
    assert zray.wait([read], timeout=0.1) == ([], [read])
    gate.open()
    assert zray.get(read, timeout=30) == [(1, 2)]


def test_actor_with_only_its_constructor_async_has_that_awaited_too():
    class Plain:
        async def __init__(self):
            await asyncio.sleep(0.001)
            self.value = 7

        def read(self):
            return self.value

    assert zray.get(zray.remote(Plain).remote().read.remote(), timeout=30) == 7


def test_error_in_an_async_constructor_is_the_error_of_every_call():
    class Failing:
        async def __init__(self):
            await asyncio.sleep(0)
            raise KeyError("on purpose")

        async def read(self):
            return 1

    failing = zray.remote(Failing).remote()
    with pytest.raises(ActorDiedError, match="in its constructor") as caught:
        zray.get(failing.read.remote(), timeout=30)
    assert "on purpose" in str(caught.value) and "async_runner.py" not in str(caught.value)


def test_call_that_is_cancelled_before_it_begins_is_answered():
    class Canceller:
        async def cancel_others(self):
            mine = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not mine]
            for task in others:
                task.cancel()
            return len(others)

        async def answer(self):
            return 42

    canceller = zray.remote(num_cpus=0)(Canceller).remote()
    zray.get(canceller.answer.remote(), timeout=30)

    def refs_of_a_batch():
        cancelled = canceller.cancel_others.remote()
        answers = [canceller.answer.remote() for _ in range(10)]
        return (cancelled, answers) if zray.get(cancelled, timeout=30) else None

    _, answers = until(refs_of_a_batch)
    outcomes = []
    for ref in answers:
        try:
            outcomes.append(zray.get(ref, timeout=30))
        except zray.exceptions.RayTaskError as error:
            assert isinstance(error.cause, asyncio.CancelledError)
            outcomes.append("cancelled")
    assert "cancelled" in outcomes
    assert zray.get(canceller.answer.remote(), timeout=30) == 42


@zray.remote
def identity(value):
    return value


@pytest.mark.parametrize("leave", [lambda: sys.exit(3), interrupt], ids=["exit", "interrupt"])
def test_exit_in_the_callback_of_a_future_does_not_end_the_thread_that_resolves_others(leave, gate):
    @zray.remote
    def wait():
        gate.wait()

    future = wait.remote().future()
    future.add_done_callback(lambda future: leave())
    settled = wait.remote().future()
    settled.set_result("by its user")
    gate.open()
    future.result(30)
    assert identity.remote(1).future().result(30) == 1
    assert wait.remote().future().result(30) is None
