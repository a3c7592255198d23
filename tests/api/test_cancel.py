"""cancel() in real processes: tasks and calls in each state, by force, with children, and over and over."""

import asyncio
import random
import select
import sys
import threading
import time

import pytest

import zray
from tests.gates import until
from zray.exceptions import TaskCancelledError, TaskTimeoutError, WorkerCrashedError

WAIT = 20.0  # s: for what comes within milliseconds


@pytest.fixture(scope="module", autouse=True)
def driver(nothing_left):
    with zray.init(num_cpus=2) as context:
        yield context


@zray.remote
class Log:
    """Words that tasks say while they run."""

    def __init__(self):
        self.said = []

    def say(self, word):
        self.said.append(word)

    def words(self):
        return self.said


@pytest.fixture
def log():
    return Log.options(num_cpus=0).remote()


def has_said(log, word):
    until(lambda: word in zray.get(log.words.remote(), timeout=WAIT))


@zray.remote
def quick(value=1):
    return value


@zray.remote(max_retries=3, retry_exceptions=True)
def busy(log, how):
    try:
        zray.get(log.say.remote("begun"))
        if how == "loop":
            while True:
                sum(range(100))
        elif how == "sleep":
            select.select([], [], [], 1000)
        elif how == "lock":
            threading.Lock().acquire() and threading.Event().wait()
        elif how == "swallows":
            select.select([], [], [], 1000)
    except KeyboardInterrupt:
        if how == "swallows":
            return "mine"
        zray.get(log.say.remote("interrupted"))
        raise


def fails(ref):
    with pytest.raises(TaskCancelledError):
        zray.get(ref, timeout=WAIT)
    return True


@zray.remote(max_retries=3)
def leaves(log, how, code):
    try:
        zray.get(log.say.remote("begun"))
        select.select([], [], [], 1000)
    except BaseException:
        if how == "handler":
            sys.exit(code)
        raise
    finally:
        if how == "finally":
            sys.exit(code)


@zray.remote
def yields_and_leaves(log, code):
    try:
        yield 1
        zray.get(log.say.remote("begun"))
        select.select([], [], [], 1000)
    finally:
        sys.exit(code)


@zray.remote
async def awaits_and_leaves(log, code):
    try:
        await log.say.remote("begun")
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        sys.exit(code)


@pytest.mark.parametrize("code", [0, 3, None, "no more"])
@pytest.mark.parametrize("how", ["handler", "finally"])
def test_cancelled_task_that_leaves_by_sys_exit_is_cancelled_and_not_retried(log, how, code):
    ref = leaves.remote(log, how, code)
    has_said(log, "begun")
    zray.cancel(ref)
    assert fails(ref)
    assert zray.get([quick.remote(number) for number in range(8)], timeout=WAIT) == list(range(8))
    assert zray.get(log.words.remote(), timeout=WAIT) == ["begun"]


@pytest.mark.parametrize("function", [yields_and_leaves, awaits_and_leaves])
def test_cancelled_generator_and_coroutine_that_leave_by_sys_exit_are_cancelled(log, function):
    made = function.remote(log, 3)
    has_said(log, "begun")
    zray.cancel(made)
    assert fails(made.completed() if function is yields_and_leaves else made)


def test_task_that_leaves_by_sys_exit_when_its_time_is_over_has_run_too_long(log):
    ref = leaves.options(timeout=0.1).remote(log, "handler", 3)
    with pytest.raises(TaskTimeoutError):
        zray.get(ref, timeout=WAIT)


@pytest.mark.parametrize("how", ["loop", "sleep", "lock"])
def test_task_that_runs_is_interrupted_and_not_retried(log, how):
    ref = busy.remote(log, how)
    has_said(log, "begun")
    zray.cancel(ref, recursive=False)  # what it submits while it ends runs
    assert fails(ref)
    assert zray.get(log.words.remote(), timeout=WAIT) == ["begun", "interrupted"]
    assert zray.get([quick.remote() for _ in range(10)], timeout=WAIT) == [1] * 10


def test_task_that_waits_in_get_is_interrupted(log):
    @zray.remote(num_cpus=0)
    def waits(log, refs):
        zray.get(log.say.remote("waits"))
        return zray.get(refs[0])

    never = busy.remote(log, "sleep")
    ref = waits.remote(log, [never])
    has_said(log, "waits")
    zray.cancel(ref)
    assert fails(ref)
    zray.cancel(never)
    assert fails(never)


def cleaning(log, name):
    """A task's end, which others hear of."""
    zray.get(log.say.remote(f"{name} ends"), timeout=WAIT)


@pytest.mark.parametrize("ended_by", ["cancel", "timeout", "break", "canceled coroutine", "canceled call"])
def test_cleanup_of_a_cancelled_task_may_submit(log, ended_by):
    @zray.remote
    def works():
        try:
            log.say.remote("begun")
            select.select([], [], [], 1000)
        finally:
            cleaning(log, "works")

    @zray.remote
    def yields():
        try:
            yield from range(1000)
        finally:
            cleaning(log, "yields")

    @zray.remote
    async def awaits():
        try:
            log.say.remote("begun")
            await asyncio.sleep(1000)
        finally:
            await log.say.remote("awaits ends")

    @zray.remote(num_cpus=0)
    class Actor:
        async def awaits(self):
            try:
                log.say.remote("begun")
                await asyncio.sleep(1000)
            finally:
                await log.say.remote("awaits ends")

    if ended_by == "break":
        made = yields.options(max_buffered=2).remote()
        zray.get(next(made))
        del made
        has_said(log, "yields ends")
        return
    actor = Actor.remote()
    begins = {
        "cancel": works.remote,
        "timeout": works.options(timeout=0.5).remote,
        "canceled coroutine": awaits.remote,
        "canceled call": actor.awaits.remote,
    }
    ref = begins[ended_by]()
    has_said(log, "begun")
    if ended_by != "timeout":
        zray.cancel(ref)
    until(lambda: any(word.endswith(" ends") for word in zray.get(log.words.remote(), timeout=WAIT)))


def test_call_that_has_asked_whether_it_is_cancelled_may_submit(log):
    @zray.remote(num_cpus=0)
    class Actor:
        def polls(self):
            log.say.remote("begun")
            until(lambda: zray.get_runtime_context().is_canceled())
            cleaning(log, "polls")

    ref = Actor.remote().polls.remote()
    has_said(log, "begun")
    zray.cancel(ref)
    has_said(log, "polls ends")


def test_task_cleans_up_in_peace_after_the_interrupt(log):
    """Also with tasks that run inside of its own wait."""

    @zray.remote
    def cleans(log):
        try:
            log.say.remote("begun")
            select.select([], [], [], 1000)
        finally:
            refs = [quick.remote(number) for number in range(20)]
            zray.get(log.say.remote(f"cleaned {sum(zray.get(refs))}"))

    ref = cleans.remote(log)
    has_said(log, "begun")
    for _ in range(3):
        zray.cancel(ref, recursive=False)
    assert fails(ref)
    has_said(log, "cleaned 190")


def test_value_of_a_task_that_catches_the_interrupt_counts(log):
    ref = busy.remote(log, "swallows")
    has_said(log, "begun")
    zray.cancel(ref)
    assert zray.get(ref, timeout=WAIT) == "mine"


def other_error(log):
    """C code makes another exception of the interrupt, for example: `ndarray.tofile` raises SystemError."""
    yield 1
    try:
        zray.get(log.say.remote("begun"))
        select.select([], [], [], 1000)
    except KeyboardInterrupt as error:
        raise SystemError("other") from error


@zray.remote
def plain_other_error(log):
    return list(other_error(log))


RETURNS = {"one": plain_other_error}
for returns in (2, "dynamic", "streaming"):
    RETURNS[returns] = zray.remote(num_returns=returns)(other_error)


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("limit", [None, 0.5])
def test_cancelled_task_that_raises_another_error_counts_as_cancelled(log, returns, limit):
    assert zray.get(log.words.remote(), timeout=WAIT) == []  # the actor has started
    made = RETURNS[returns].options(timeout=limit).remote(log)
    has_said(log, "begun")
    ref = made[1] if returns == 2 else made.completed() if returns == "streaming" else made
    if limit is None:
        zray.cancel(ref)
    error = TaskCancelledError if limit is None else TaskTimeoutError
    with pytest.raises(error) as raised:
        zray.get(ref, timeout=WAIT)
    assert type(raised.value) is error
    if limit is None:
        assert "SystemError: other" in str(raised.value)


def test_text_of_a_cancelled_task_has_the_lines_of_the_program_only(log):
    @zray.remote
    def numbers():
        yield from range(100)

    made = numbers.options(max_buffered=1).remote()
    assert zray.get(next(made), timeout=WAIT) == 0
    zray.cancel(made)
    runs = busy.remote(log, "sleep")
    has_said(log, "begun")
    zray.cancel(runs, recursive=False)
    for ref, line in ((made.completed(), ""), (runs, ", in busy\n")):
        with pytest.raises(TaskCancelledError) as raised:
            zray.get(ref, timeout=WAIT)
        text = str(raised.value)
        assert line in text and "zray/" not in text and text.endswith("\nKeyboardInterrupt: cancelled"), text


def test_import_ends_before_its_task_is_interrupted(tmp_path):
    """Half an import would stay in the process: Python would find parts of the module, and never load it again."""
    source = """
import zray
open(__file__ + ".begun", "w").close()
while not zray.get_runtime_context().is_canceled():
    pass
for _ in range(200_000):
    sum(range(10))
open(__file__ + ".ended", "w").close()
"""
    (tmp_path / "slow_to_import.py").write_text(source)

    @zray.remote
    def imports(folder):
        sys.path.insert(0, folder)
        import slow_to_import  # noqa: F401

        select.select([], [], [], 1000)

    ref = imports.remote(str(tmp_path))
    until((tmp_path / "slow_to_import.py.begun").exists)
    zray.cancel(ref)
    assert fails(ref)
    assert (tmp_path / "slow_to_import.py.ended").exists()


def test_force_ends_a_task_that_nothing_interrupts(log):
    @zray.remote(max_retries=3)
    def stubborn(log):
        zray.get(log.say.remote("begun"))
        while True:
            try:
                select.select([], [], [], 1000)
            except KeyboardInterrupt:
                pass

    ref = stubborn.remote(log)
    has_said(log, "begun")
    zray.cancel(ref, force=True)
    with pytest.raises(TaskCancelledError) as raised:
        zray.get(ref, timeout=WAIT)
    assert isinstance(raised.value, WorkerCrashedError)
    assert zray.get(quick.remote(), timeout=WAIT) == 1


def test_tasks_that_wait_or_are_queued_never_run(log):
    blockers = [busy.remote(log, "sleep") for _ in range(2)]
    until(lambda: zray.get(log.words.remote(), timeout=WAIT).count("begun") == 2)
    queued = [busy.remote(log, "loop") for _ in range(20)]
    waiting = quick.remote(blockers[0])
    for ref in (*queued, waiting):
        zray.cancel(ref)
    assert all(fails(ref) for ref in (*queued, waiting))
    for ref in blockers:
        zray.cancel(ref)
    assert all(fails(ref) for ref in blockers)
    assert zray.get(log.words.remote(), timeout=WAIT).count("begun") == 2


def test_dependents_raise_and_each_return_of_a_task_does(log):
    @zray.remote(num_returns=2)
    def two(log):
        zray.get(log.say.remote("begun"))
        select.select([], [], [], 1000)

    first, second = two.remote(log)
    after = quick.remote(second)
    has_said(log, "begun")
    zray.cancel(second)
    assert fails(first) and fails(second) and fails(after)


def test_children_are_cancelled_with_their_parent_if_that_is_asked_for(log):
    @zray.remote(num_cpus=0)
    def child(log, word):
        zray.get(log.say.remote(word))
        select.select([], [], [], 1000)

    @zray.remote(num_cpus=0)
    def parent(log, word):
        return zray.get(child.remote(log, word))

    @zray.remote(num_cpus=0)
    def short(log):
        return [child.remote(log, "left")]

    for recursive in (True, False):
        word = f"child {recursive}"
        ref = parent.remote(log, word)
        has_said(log, word)
        zray.cancel(ref, recursive=recursive)
        assert fails(ref)
    (left,) = zray.get(short.remote(log), timeout=WAIT)
    has_said(log, "left")
    zray.cancel(left)
    assert fails(left)


def test_value_that_is_there_or_was_put_is_left_alone():
    for number in range(200):
        ref = quick.remote(number)
        assert zray.get(ref, timeout=WAIT) == number
        zray.cancel(ref, force=bool(number % 2))
        assert zray.get(ref, timeout=WAIT) == number
    ref = zray.put(3)
    zray.cancel(ref, force=True)
    assert zray.get(ref) == 3


def test_argument_that_is_no_ref_of_a_task_is_refused():
    actor = Log.remote()
    for wrong in (actor, [quick.remote()], None, "id"):
        with pytest.raises(TypeError, match="takes the ref of a task"):
            zray.cancel(wrong)
    with pytest.raises(TypeError):
        zray.cancel(quick.remote(), force=1)
    with pytest.raises(ValueError, match="kill"):
        zray.cancel(actor.words.remote(), force=True)


# --- actors ---


@zray.remote(num_cpus=0)
class Sync:
    def runs(self, log):
        zray.get(log.say.remote("begun"))
        while not zray.get_runtime_context().is_canceled():
            threading.Event().wait(0.001)
        zray.get(log.say.remote("saw it"))
        return "lost"

    def waits(self, value):
        return value

    def quick(self):
        return zray.get_runtime_context().is_canceled()


@pytest.mark.parametrize("concurrency", [1, 4])
def test_call_of_an_actor_is_told_and_its_value_does_not_count(log, concurrency):
    actor = Sync.options(max_concurrency=concurrency).remote()
    ref = actor.runs.remote(log)
    has_said(log, "begun")
    zray.cancel(ref, recursive=False)
    assert fails(ref)
    has_said(log, "saw it")
    assert zray.get(actor.quick.remote(), timeout=WAIT) is False


def test_queued_calls_end_and_those_behind_them_go_on(log):
    actor = Sync.remote()
    blocker = actor.runs.remote(log)
    has_said(log, "begun")
    queued, last = [actor.quick.remote() for _ in range(50)], actor.quick.remote()
    late = busy.remote(log, "sleep")
    waiting = actor.waits.remote(late)
    for ref in (*queued, waiting):
        zray.cancel(ref)
    assert fails(waiting)
    zray.cancel(blocker)
    assert fails(blocker) and all(fails(ref) for ref in queued)
    assert zray.get(last, timeout=WAIT) is False
    zray.cancel(late)
    assert fails(late)


@zray.remote(num_cpus=0)
class Async:
    async def runs(self, log):
        try:
            await log.say.remote("begun")
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await log.say.remote("cancelled")
            raise

    async def asks(self):
        return zray.get_runtime_context().is_canceled()

    async def quick(self):
        return 1


def test_call_of_an_async_actor_is_cancelled_where_it_awaits(log):
    actor = Async.remote()
    ref = actor.runs.remote(log)
    has_said(log, "begun")
    zray.cancel(ref, recursive=False)
    assert fails(ref)
    has_said(log, "cancelled")
    assert zray.get(actor.quick.remote(), timeout=WAIT) == 1
    with pytest.raises(RuntimeError, match="CancelledError"):
        zray.get(actor.asks.remote(), timeout=WAIT)


# --- over and over ---


@zray.remote(max_retries=2)
def some(seconds, depth):
    end = time.monotonic() + seconds
    refs = [some.remote(seconds, depth - 1)] if depth else []
    while time.monotonic() < end:
        threading.Event().wait(seconds / 5)
    return len(zray.get(refs)) + 1


@pytest.mark.timeout(120)
def test_tasks_cancelled_at_random_moments_end_and_no_other_is_harmed():
    chance = random.Random(7)
    for _ in range(15):
        refs = [some.remote(chance.choice((0.0, 0.001, 0.01)), chance.randint(0, 1)) for _ in range(20)]
        kept = [quick.remote(number) for number in range(20)]
        for ref in chance.sample(refs, 20):
            if chance.random() < 0.3:
                zray.wait([ref], timeout=0.002)
            zray.cancel(ref, force=chance.random() < 0.1, recursive=chance.random() < 0.5)
        for ref in refs:
            try:
                assert zray.get(ref, timeout=WAIT) in (1, 2)
            except TaskCancelledError:
                pass
        assert zray.get(kept, timeout=WAIT) == list(range(20))
