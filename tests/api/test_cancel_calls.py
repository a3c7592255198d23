"""Cancelled calls that their actor has, and that have not begun: they end at once, and the actor runs the others."""

import os
import signal
import threading

import pytest

import zray
from tests.gates import until
from zray.exceptions import TaskCancelledError

pytestmark = pytest.mark.timeout(60)
WAIT = 15.0  # s: for what comes within milliseconds


@pytest.fixture(scope="module", autouse=True)
def driver(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as context:
        yield context


class Blocked:
    def __init__(self):
        self.event, self.began = threading.Event(), []

    def block(self, number, path):
        self.began.append(number)
        while not os.path.exists(path):
            self.event.wait(0.01)
        return number

    def items(self, count):
        yield from range(count)

    def numbers(self):
        return self.began


class AsyncBlocked(Blocked):
    async def block(self, number, path):
        import asyncio

        self.began.append(number)
        while not os.path.exists(path):
            await asyncio.sleep(0.01)
        return number

    async def items(self, count):
        for number in range(count):
            yield number

    async def numbers(self):
        return self.began


KINDS = {
    "plain": (Blocked, {}, 1),
    "threaded": (Blocked, {"max_concurrency": 2}, 2),
    "groups": (Blocked, {"concurrency_groups": {"io": 2}}, 2),
    "async": (AsyncBlocked, {"max_concurrency": 2}, 2),
    "async groups": (AsyncBlocked, {"concurrency_groups": {"io": 2}}, 2),
    "hosted": (Blocked, {"hosted": True, "max_concurrency": 2}, 2),
}


def made(kind, **options):
    cls, options_of_kind, running = KINDS[kind]
    actor = zray.remote(cls).options(**options_of_kind, **options).remote()
    group = {"concurrency_group": "io"} if "groups" in kind else {}
    return actor, lambda method, **more: method.options(**group, **more), running


@pytest.mark.parametrize("kind", KINDS)
def test_call_behind_others_ends_at_once_and_the_others_go_on(kind, tmp_path):
    actor, on, running = made(kind)
    path = str(tmp_path / "go")
    assert zray.get(actor.numbers.remote(), timeout=WAIT) == []
    refs = [on(actor.block).remote(number, path) for number in range(running + 5)]
    generator = on(actor.items).remote(3)
    last = on(actor.block).remote(99, path)
    if "groups" in kind:
        until(lambda: len(zray.get(actor.numbers.remote(), timeout=WAIT)) == running)
    else:
        assert zray.wait(refs, timeout=0.1) == ([], refs)  # the actor has got them all
    cancelled = [refs[-2], generator.completed(), refs[running]]
    for ref in (refs[-2], generator, refs[running]):
        zray.cancel(ref)
    for ref in cancelled:
        with pytest.raises(TaskCancelledError):
            zray.get(ref, timeout=WAIT)
    open(path, "w").close()
    left = [ref for ref in refs if ref not in cancelled]
    numbers = [number for number in range(running + 5) if number not in (running, running + 3)]
    assert zray.get([*left, last], timeout=WAIT) == [*numbers, 99]
    assert sorted(zray.get(actor.numbers.remote(), timeout=WAIT)) == [*numbers, 99]


def test_actor_that_computes_without_python_drops_a_call_too(tmp_path):
    """No signal's handler runs then."""
    actor = zray.remote(Pipe).remote()
    read_end = zray.get(actor.open.remote(str(tmp_path / "pipe")), timeout=WAIT)
    first, second = actor.read.remote(read_end), actor.read.remote(read_end)
    zray.wait([first], timeout=0.1)
    zray.cancel(second)
    with pytest.raises(TaskCancelledError):
        zray.get(second, timeout=WAIT)
    with open(tmp_path / "pipe", "wb") as pipe:
        pipe.write(b"x")
    assert zray.get(first, timeout=WAIT) == 1


class Pipe:
    def open(self, path):
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)

    def read(self, read_end):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        return len(os.read(read_end, 1))


def test_call_with_an_argument_of_a_cancelled_call_fails_with_it(tmp_path):
    actor, _, _ = made("plain")
    path = str(tmp_path / "go")
    first, second = actor.block.remote(0, path), actor.block.remote(1, path)
    third = actor.block.remote(second, path)
    zray.wait([first], timeout=0.1)
    zray.cancel(second)
    with pytest.raises(TaskCancelledError):
        zray.get(second, timeout=WAIT)
    open(path, "w").close()
    with pytest.raises(TaskCancelledError):
        zray.get(third, timeout=WAIT)
    assert zray.get(actor.numbers.remote(), timeout=WAIT) == [0]


@pytest.mark.parametrize("when", ["before a checkpoint", "behind it"])
def test_replay_drops_a_cancelled_call_too(when, tmp_path):
    interval = 3 if when == "behind it" else 100
    actor = zray.remote(checkpoint_interval=interval, max_restarts=-1)(Tally).remote()
    pid, path = zray.get(actor.pid.remote(), timeout=WAIT), str(tmp_path / "go")
    refs = [actor.add.remote(number, path) for number in (1, 10, 100, 1000)]
    zray.wait(refs, timeout=0.1)
    zray.cancel(refs[1])
    with pytest.raises(TaskCancelledError):
        zray.get(refs[1], timeout=WAIT)
    open(path, "w").close()
    assert zray.get([refs[0], *refs[2:]], timeout=WAIT) == [1, 101, 1101]
    os.kill(pid, 9)
    assert zray.get(actor.add.remote(5, path), timeout=WAIT) == 1106
    assert zray.get(actor.pid.remote(), timeout=WAIT) != pid


class Tally:
    def __init__(self):
        self.sum = 0

    def pid(self):
        return os.getpid()

    def add(self, number, path):
        until(lambda: os.path.exists(path))
        self.sum += number
        return self.sum
