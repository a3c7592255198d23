"""Actors that end in order: by exit_actor(), by __ray_terminate__, when their last handle is gone."""

import asyncio
import atexit
import os
import signal
import threading

import psutil
import pytest

import zray
from tests.gates import Gate, Tally, is_running, until
from zray.host import context

pytestmark = pytest.mark.usefixtures("session")

ActorDiedError = zray.exceptions.ActorDiedError


class Leaver:
    def work(self, value):
        return value

    def leave(self):
        zray.actor.exit_actor()


class AsyncLeaver:
    async def work(self, value):
        return value

    async def leave(self):
        zray.actor.exit_actor()


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_leaving_answers_what_came_before(kind):
    """exit_actor(): calls before it have their values, it and those behind it fail."""

    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    actor = zray.remote(**options)(AsyncLeaver if kind == "async" else Leaver).remote()
    before = [actor.work.remote(value) for value in range(20)]
    assert zray.get(before) == list(range(20))
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.leave.remote())
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.work.remote(1))


@pytest.mark.parametrize("kind", ["threaded", "async"])
def test_the_call_that_leaves_is_answered_whoever_looks_meanwhile(kind, gate):
    """The worker's main thread goes on beside the call; it must not end the process before the answer is noted."""

    class Plain:
        def __init__(self):
            from zray.host import context
            from zray.wire.task_spec import parse_options

            host = context.runtime.actor
            main_has_looked = threading.Event()
            leave_if_asked, finished = host.leave_if_asked, host.finished

            def look():
                leave_if_asked()
                if gate.is_open():
                    main_has_looked.set()

            def finish_late(spec, result):
                if parse_options(spec.options).method == "leave":
                    gate.open()  # the driver's next call makes the main thread look
                    main_has_looked.wait(20)
                finished(spec, result)

            host.leave_if_asked, host.finished = look, finish_late

        def work(self):
            return 1

        def leave(self):
            zray.actor.exit_actor()

    class Async(Plain):
        async def work(self):
            return 1

        async def leave(self):
            zray.actor.exit_actor()

    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    actor = zray.remote(**options)(Async if kind == "async" else Plain).remote()
    left = actor.leave.remote()
    gate.wait()
    after = actor.work.remote()
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(left, timeout=30)
    zray.wait([after])


@pytest.mark.parametrize("kind", ["threaded", "async"])
def test_what_has_begun_beside_the_call_that_leaves_ends_first(kind, gate, tmp_path):
    begun = Gate(tmp_path / "begun")

    class Plain(Leaver):
        def work_long(self):
            begun.open()
            gate.wait()
            return "done"

    class Async(AsyncLeaver):
        async def work_long(self):
            begun.open()
            while not gate.is_open():
                await asyncio.sleep(0.001)
            return "done"

    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    actor = zray.remote(**options)(Async if kind == "async" else Plain).remote()
    long = actor.work_long.remote()
    begun.wait()
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.leave.remote(), timeout=20)
    behind = actor.work.remote(1)
    gate.open()
    assert zray.get(long, timeout=20) == "done"
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(behind, timeout=20)


@pytest.mark.parametrize("kind", ["threaded", "async"])
def test_an_actor_that_leaves_does_not_wait_for_a_call_without_end(kind):
    class Plain(Leaver):
        def __init__(self):
            from zray.host.worker import actor_runner

            actor_runner.LAST_CALLS_SECONDS = 0.05

        def work_long(self):
            threading.Event().wait()

    class Async(AsyncLeaver, Plain):
        async def work_long(self):
            await asyncio.get_running_loop().create_future()

    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    actor = zray.remote(**options)(Async if kind == "async" else Plain).remote()
    long = actor.work_long.remote()
    for call in (actor.leave.remote(), long):
        with pytest.raises(ActorDiedError, match="exit_actor"):
            zray.get(call, timeout=20)


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_leaving_right_behind_other_calls(kind):
    """Their results may still wait for company when the actor says that it goes: they go first."""

    for _ in range(5):
        options = {"max_concurrency": 4} if kind == "threaded" else {}
        actor = zray.remote(num_cpus=0, **options)(AsyncLeaver if kind == "async" else Leaver).remote()
        calls = [actor.work.remote(value) for value in range(20)]
        left = actor.leave.remote()
        assert zray.get(calls, timeout=20) == [*range(20)]
        with pytest.raises(ActorDiedError, match="exit_actor"):
            zray.get(left, timeout=20)


def test_the_call_that_leaves_may_have_several_returns():
    @zray.remote(max_restarts=-1, max_task_retries=-1)
    class Mortal:
        def leave(self):
            zray.actor.exit_actor()

    mortal = Mortal.remote()
    for left in mortal.leave.options(num_returns=2).remote():
        with pytest.raises(ActorDiedError, match="exit_actor"):
            zray.get(left, timeout=20)
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(mortal.leave.remote(), timeout=20)


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_the_last_words_of_an_actor_are_heard_before_its_end(kind):
    """The node, which stands still meanwhile, could hear of the process's end first."""

    class Plain:
        def leave(self, node_pid):
            os.kill(node_pid, signal.SIGSTOP)
            zray.actor.exit_actor()

    class Async:
        async def leave(self, node_pid):
            os.kill(node_pid, signal.SIGSTOP)
            zray.actor.exit_actor()

    node = psutil.Process(context.runtime.node_pid)
    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    for _ in range(3):
        actor = zray.remote(**options)(Async if kind == "async" else Plain).remote()
        worker = psutil.Process(zray.get(actor.__ray_call__.remote(lambda self: os.getpid())))
        left = actor.leave.remote(node.pid)
        try:
            until(lambda: node.status() == psutil.STATUS_STOPPED)
            psutil.wait_procs([worker], timeout=0.3)  # time to end, if it does so too early
        finally:
            node.resume()
        with pytest.raises(ActorDiedError, match="exit_actor"):
            zray.get(left, timeout=20)
        with pytest.raises(ActorDiedError, match="exit_actor"):
            zray.get(actor.leave.remote(node.pid), timeout=20)


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
@pytest.mark.parametrize("ending", ["leave", "__ray_terminate__", "scope"])
def test_an_actor_that_ends_in_order_runs_what_atexit_was_told(ending, kind, tmp_path):
    class Plain:
        def __init__(self, path):
            atexit.register(lambda: path.write_text("".join(self.words)))
            self.words = []

        def say(self, word):
            self.words.append(word)

        def leave(self):
            zray.actor.exit_actor()

    class Async(Plain):
        async def say(self, word):
            self.words.append(word)

    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    actor = zray.remote(**options)(Async if kind == "async" else Plain).remote(tmp_path / "words")
    zray.get(actor.say.remote("well"))
    pid = zray.get(actor.__ray_call__.remote(lambda self: os.getpid()))
    if ending != "scope":
        getattr(actor, ending).remote()
        until(lambda: not is_running(pid))
    del actor
    until(lambda: not is_running(pid))
    assert (tmp_path / "words").read_text() == "well"


def test_an_actor_that_is_killed_runs_nothing_more(tmp_path):
    @zray.remote
    class Mortal:
        def __init__(self, path):
            atexit.register(path.write_text, "")

        def pid(self):
            return os.getpid()

    actor = Mortal.remote(tmp_path / "words")
    pid = zray.get(actor.pid.remote())
    zray.kill(actor)
    until(lambda: not is_running(pid))
    assert not (tmp_path / "words").exists()


def test_exit_actor_outside_of_an_actor_is_refused():
    with pytest.raises(TypeError):
        zray.actor.exit_actor()
    with pytest.raises(TypeError):
        zray.get(zray.remote(lambda: zray.actor.exit_actor()).remote())


def test_an_actor_that_leaves_is_not_restarted(tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_restarts=-1, max_task_retries=-1)
    class Mortal:
        def __init__(self):
            tally.visit()

        def leave(self):
            zray.actor.exit_actor()

    mortal = Mortal.remote()
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="exit_actor"):
            zray.get(mortal.leave.remote())
    assert tally.count() == 1


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_functions_of_atexit_run_after_an_exit_in_a_constructor(kind, tmp_path):
    tally = Tally(tmp_path / "tally")

    class Quitter:
        def __init__(self):
            atexit.register(tally.visit)
            zray.actor.exit_actor()
            tally.visit()

        def work(self):
            return 1

    class AsyncQuitter(Quitter):
        async def work(self):
            return 1

    options = {"max_concurrency": 4} if kind == "threaded" else {"num_cpus": 0}
    actor = zray.remote(**options)(AsyncQuitter if kind == "async" else Quitter).remote()
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.work.remote(), timeout=20)
    until(lambda: tally.count() == 1)
