"""Concurrency groups of actors: each group has its own number of calls at once."""

import asyncio
import threading

import pytest

import zray
from zray.exceptions import ActorDiedError, TaskCancelledError

pytestmark = pytest.mark.timeout(60)


class Meter:
    """Counts calls of each group that run at once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = {}
        self.most = {}
        self.gate = threading.Event()

    def _enter(self, group):
        with self.lock:
            self.running[group] = self.running.get(group, 0) + 1
            self.most[group] = max(self.most.get(group, 0), self.running[group])

    def _leave(self, group):
        with self.lock:
            self.running[group] -= 1

    @zray.method(concurrency_group="io")
    def read(self, seconds=0.02):
        self._enter("io")
        threading.Event().wait(seconds)
        self._leave("io")
        return threading.current_thread() is threading.main_thread()

    @zray.method(concurrency_group="io")
    def wait(self):
        self.gate.wait(30)
        return "waited"

    def open(self):
        self.gate.set()

    def plain(self):
        self._enter("")
        threading.Event().wait(0.02)
        self._leave("")

    def seen(self):
        return self.most


@zray.remote
class AsyncMeter:
    def __init__(self):
        self.running = {}
        self.most = {}
        self.gate = asyncio.Event()

    async def _run(self, group):
        self.running[group] = self.running.get(group, 0) + 1
        self.most[group] = max(self.most.get(group, 0), self.running[group])
        await asyncio.sleep(0.02)
        self.running[group] -= 1

    @zray.method(concurrency_group="io")
    async def read(self):
        await self._run("io")

    async def plain(self):
        await self._run("")

    @zray.method(concurrency_group="io")
    async def wait(self):
        await self.gate.wait()

    async def open(self):
        self.gate.set()

    async def seen(self):
        return self.most


@pytest.fixture(params=[False, True], ids=["session", "local"])
def any_mode(request):
    zray.init(num_cpus=2, local_mode=request.param)
    yield
    zray.shutdown()


@pytest.fixture
def session():
    zray.init(num_cpus=2)
    yield
    zray.shutdown()


def test_each_group_runs_its_number_of_calls_at_once(any_mode):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 3}).remote()
    refs = [meter.read.remote() for _ in range(12)] + [meter.plain.remote() for _ in range(4)]
    zray.get(refs)
    seen = zray.get(meter.seen.remote())
    assert seen["io"] == 3 and seen[""] == 1


def test_full_group_does_not_hold_back_the_others(any_mode):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1, "other": 1}).remote()
    waits = [meter.wait.remote() for _ in range(5)]
    assert zray.get(meter.plain.remote(), timeout=20) is None
    assert zray.get(meter.seen.options(concurrency_group="other").remote(), timeout=20) == {"": 1}
    zray.get(meter.open.remote())
    assert zray.get(waits, timeout=20) == ["waited"] * 5


def test_more_calls_than_may_be_under_way_do_not_hold_back_the_others(session):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1}).remote()
    waits = [meter.wait.remote() for _ in range(3_000)]
    assert zray.get(meter.plain.remote(), timeout=20) is None
    zray.get(meter.open.remote())
    assert zray.get(waits, timeout=40) == ["waited"] * 3_000


def test_max_concurrency_is_the_number_of_the_other_methods(session):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1}, max_concurrency=2).remote()
    zray.get([meter.plain.remote() for _ in range(8)])
    assert zray.get(meter.seen.remote()) == {"": 2}


def test_async_actor_has_groups(any_mode):
    meter = AsyncMeter.options(concurrency_groups={"io": 2}, max_concurrency=4).remote()
    zray.get([meter.read.remote() for _ in range(10)] + [meter.plain.remote() for _ in range(10)])
    assert zray.get(meter.seen.remote()) == {"io": 2, "": 4}


def test_full_group_of_an_async_actor_does_not_hold_back_the_others(session):
    meter = AsyncMeter.options(concurrency_groups={"io": 1}).remote()
    waits = [meter.wait.remote() for _ in range(700)]
    zray.get(meter.open.remote(), timeout=20)
    assert zray.get(waits, timeout=20) == [None] * 700


def test_group_of_one_call_is_given_at_the_call(session):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1, "slow": 2}).remote()
    refs = [meter.read.options(concurrency_group="slow").remote() for _ in range(6)]
    zray.get(refs)
    assert zray.get(meter.seen.remote()) == {"io": 2}  # the method's own name for what it counts


def test_misspelt_group_raises_at_the_call_and_harms_nobody(any_mode):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1}, name="meter").remote()
    for handle in (meter, zray.get_actor("meter")):
        with pytest.raises(ValueError, match=r"'oi'.*no such group.*'io'"):
            handle.read.options(concurrency_group="oi")
    assert zray.get(meter.seen.remote()) == {}


def test_method_of_a_group_that_the_actor_lacks_is_refused_at_its_creation(session):
    with pytest.raises(ValueError, match=r"Meter.* 'io'.*it has none"):
        zray.remote(Meter).remote()


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        (["io"], TypeError),
        ({"io": "x"}, TypeError),
        ({"io": 0}, ValueError),
        ({1: 1}, TypeError),
        ({"": 1}, ValueError),
    ],
)
def test_odd_groups_are_refused(groups, error):
    with pytest.raises(error, match="concurrency_groups"):
        zray.remote(Meter).options(concurrency_groups=groups)


def test_empty_groups_are_none(session):
    @zray.remote(concurrency_groups={})
    class Plain:
        def one(self):
            return 1

    assert zray.get(Plain.remote().one.remote()) == 1


def test_call_that_waits_for_its_group_is_cancelled(session):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1}).remote()
    first, second, third = [meter.wait.remote() for _ in range(3)]
    zray.cancel(second)
    zray.get(meter.open.remote())
    with pytest.raises(TaskCancelledError):
        zray.get(second, timeout=20)
    assert zray.get([first, third], timeout=20) == ["waited"] * 2


def test_calls_that_wait_for_their_group_fail_when_the_actor_leaves(session):
    @zray.remote(concurrency_groups={"io": 1})
    class Leaves:
        def __init__(self):
            self.gate = threading.Event()

        @zray.method(concurrency_group="io")
        def wait(self):
            self.gate.wait(2)
            return "ended"

        def leave(self):
            zray.actor.exit_actor()

    actor = Leaves.remote()
    first, *others = [actor.wait.remote() for _ in range(4)]
    with pytest.raises(ActorDiedError):
        zray.get(actor.leave.remote(), timeout=20)
    for ref in others:
        with pytest.raises(ActorDiedError):
            zray.get(ref, timeout=20)


def test_handles_that_are_passed_on_keep_the_groups(session):
    meter = zray.remote(Meter).options(concurrency_groups={"io": 1}).remote()

    @zray.remote
    def use(handle):
        return zray.get(handle.read.options(concurrency_group="io").remote())

    assert zray.get(use.remote(meter)) is False


def test_groups_and_checkpoints_exclude_each_other(session):
    with pytest.raises(ValueError, match="concurrency_groups"):
        zray.remote(Meter).options(concurrency_groups={"io": 1}, checkpoint_interval=1).remote()


class Stages:
    """Words of calls, in their order."""

    def __init__(self):
        self.words = []

    def said(self):
        return self.words


@zray.remote
class AsyncItems(Stages):
    @zray.method(concurrency_group="one")
    async def items(self, holds):
        try:
            for number in range(1_000_000):
                yield threading.Lock() if number and holds == "an error" else number
                if not holds:
                    await asyncio.sleep(0.001)
        finally:
            self.words.append("begun")
            await asyncio.sleep(0.1)
            self.words.append("ended")

    @zray.method(concurrency_group="one")
    async def behind(self):
        self.words.append("behind")


@zray.remote
class ThreadedItems(Stages):
    @zray.method(concurrency_group="one")
    def items(self, holds):
        try:
            for number in range(1_000_000):
                yield threading.Lock() if number and holds == "an error" else number
        finally:
            self.words.append("begun")
            threading.Event().wait(0.1)
            self.words.append("ended")

    @zray.method(concurrency_group="one")
    def behind(self):
        self.words.append("behind")


@pytest.mark.parametrize(
    "holds, ends", [("", "cancel"), ("", "del"), ("draws", "cancel"), ("draws", "del"), ("an error", "by itself")]
)
@pytest.mark.parametrize("actor_class", [AsyncItems, ThreadedItems])
def test_generator_has_its_slot_until_its_finally_has_run(session, actor_class, holds, ends):
    """Also one that is held back at its `yield`, or whose item cannot be pickled."""
    actor = actor_class.options(concurrency_groups={"one": 1}, max_concurrency=2).remote()
    items = actor.items.options(max_buffered=1 if holds == "draws" else None).remote(holds)
    zray.get(next(items))
    behind = actor.behind.remote()
    if ends == "cancel":
        zray.cancel(items)
    elif ends == "del":
        del items
    zray.get(behind, timeout=20)
    assert zray.get(actor.said.remote()) == ["begun", "ended", "behind"]
