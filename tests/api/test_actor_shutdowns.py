"""`__ray_shutdown__` and `__del__` of actors: at each end in order, and at no other."""

import asyncio
import gc
import os
import sys
import threading

import pytest

import zray
from tests.gates import is_running, until

pytestmark = pytest.mark.usefixtures("session")

ActorDiedError = zray.exceptions.ActorDiedError


@pytest.fixture
def words(tmp_path):
    """A file to which actors add a word each."""
    path = tmp_path / "words"
    path.touch()
    return path


def note(path, word):
    with open(path, "a") as file:
        file.write(f"{word} ")


class Plain:
    def __init__(self, words):
        self.words = words
        self.thread = threading.get_ident()

    def pid(self):
        return os.getpid()

    def leave(self):
        zray.actor.exit_actor()

    def exit(self, code):
        sys.exit(code)

    def __ray_shutdown__(self):
        note(self.words, "shutdown" if threading.get_ident() == self.thread else "elsewhere")

    def __del__(self):
        note(self.words, "del")


class Async(Plain):
    async def pid(self):
        return os.getpid()

    async def __ray_shutdown__(self):
        await asyncio.sleep(0.01)
        Plain.__ray_shutdown__(self)


def actor_of(kind, words, **options):
    options = {"num_cpus": 0, "max_concurrency": 4 if kind == "threaded" else None, **options}
    return zray.remote(**options)(Async if kind == "async" else Plain).remote(words)


ENDINGS = [
    ("serial", "scope"), ("serial", "leave"), ("serial", "__ray_terminate__"), ("serial", "exit"),
    ("threaded", "scope"), ("async", "scope"), ("async", "leave"),
]  # fmt: skip


@pytest.mark.parametrize("kind, ending", ENDINGS)
def test_methods_run_once_at_an_end_in_order(kind, ending, words):
    actor = actor_of(kind, words)
    pid = zray.get(actor.pid.remote(), timeout=30)
    if ending != "scope":
        with pytest.raises(ActorDiedError, match="left by"):
            zray.get(getattr(actor, ending).remote(*[0] * (ending == "exit")), timeout=30)
    del actor
    until(lambda: not is_running(pid))
    assert words.read_text() == "shutdown del "


def test_methods_of_a_threaded_actor_run_once_when_it_leaves(words):
    actor = actor_of("threaded", words)
    with pytest.raises(ActorDiedError, match="left by"):
        zray.get(actor.leave.remote(), timeout=30)
    until(lambda: words.read_text().endswith("del "))
    assert words.read_text().split()[1:] == ["del"]


@pytest.mark.parametrize("ending", ["kill", "crash"])
def test_methods_do_not_run_after_a_kill_or_a_crash(ending, words):
    actor = actor_of("serial", words)
    pid = zray.get(actor.pid.remote(), timeout=30)
    if ending == "kill":
        zray.kill(actor)
    else:
        actor.exit.remote(3)
    until(lambda: not is_running(pid))
    assert words.read_text() == ""


def test_finalizer_runs_where_something_else_refers_to_the_instance(words):
    class Slotted:
        __slots__ = ("path",)

        def __init__(self, path):
            self.path = path

        def __del__(self):
            note(self.path, "slotted")

    class Cyclic(Plain):
        def __init__(self, words):
            super().__init__(words)
            self.me = self
            gc.disable()

    for cls in (Slotted, Cyclic):
        actor = zray.remote(num_cpus=0)(cls).remote(words)
        zray.get(actor.__ray_ready__.remote(), timeout=30)
        del actor
    until(lambda: len(words.read_text().split()) == 3)
    assert sorted(words.read_text().split()) == ["del", "shutdown", "slotted"]


def test_attributes_of_the_instance_are_finalized_with_it(words):
    class Connection:
        def __init__(self, path):
            self.path = path

        def __del__(self):
            note(self.path, "connection")

    class Holder:
        def __init__(self, path):
            self.connection = Connection(path)

        def __del__(self):
            note(self.connection.path, "holder")

    actor = zray.remote(num_cpus=0)(Holder).remote(words)
    zray.get(actor.__ray_ready__.remote(), timeout=30)
    del actor
    until(lambda: words.read_text() == "holder connection ")


def test_shutdown_method_may_call_other_actors_and_wait(words):
    class Log:
        def add(self, word):
            note(words, word)

    class Caller:
        def __init__(self, log):
            self.log = log

        def __ray_shutdown__(self):
            zray.get(self.log.add.remote("called"))
            note(words, "returned")

    log = zray.remote(num_cpus=0)(Log).remote()
    caller = zray.remote(num_cpus=0)(Caller).remote(log)
    zray.get(caller.__ray_ready__.remote(), timeout=30)
    del caller
    until(lambda: words.read_text() == "called returned ")


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
def test_error_in_the_shutdown_method_keeps_nothing_from_the_end(raised, words):
    class Failing(Plain):
        def __ray_shutdown__(self):
            raise raised

    actor = zray.remote(num_cpus=0)(Failing).remote(words)
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.leave.remote(), timeout=30)
    until(lambda: words.read_text() == "del ")
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.pid.remote(), timeout=30)


@pytest.mark.parametrize("kind", ["serial", "async"])
def test_shutdown_method_without_end_does_not_keep_the_process(kind):
    class Stuck:
        def __init__(self):
            from zray.host.worker import actor_methods

            actor_methods.SHUTDOWN_SECONDS = 0.05

        def pid(self):
            return os.getpid()

        def leave(self):
            zray.actor.exit_actor()

        def __ray_shutdown__(self):
            threading.Event().wait()

    class AsyncStuck(Stuck):
        async def pid(self):
            return os.getpid()

    actor = zray.remote(num_cpus=0)(AsyncStuck if kind == "async" else Stuck).remote()
    pid = zray.get(actor.pid.remote(), timeout=30)
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.leave.remote(), timeout=30)
    until(lambda: not is_running(pid))
    with pytest.raises(ActorDiedError, match="exit_actor"):
        zray.get(actor.pid.remote(), timeout=30)
