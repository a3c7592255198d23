"""Behaviours of actors, in a session and in local mode."""

import asyncio
import sys

import pytest

import zray
from tests.api.both_modes import SECONDS, Counter, add
from tests.gates import until
from zray.exceptions import ActorAlreadyExistsError, ActorDiedError, ActorUnavailableError
from zray.util import list_named_actors

pytestmark = pytest.mark.usefixtures("mode")


def test_actor_keeps_state_and_order():
    counter = Counter.remote(10)
    assert zray.get([counter.add.remote(), counter.add.remote(5), counter.add.remote()]) == [11, 16, 17]
    assert zray.get(counter.two.remote()) == [17, -17]
    with pytest.raises(KeyError, match="18"):
        zray.get(counter.fail.remote())
    assert zray.get(Counter.remote().call.remote(counter)) == 19


def test_actor_is_found_by_name():
    counter = Counter.options(name="hits").remote()
    assert zray.get(zray.get_actor("hits").add.remote()) == 1
    assert zray.get(Counter.options(name="hits", get_if_exists=True).remote().add.remote()) == 2
    assert "hits" in list_named_actors()
    with pytest.raises(ActorAlreadyExistsError):
        Counter.options(name="hits").remote()
    other = Counter.options(name="hits", namespace="away", lifetime="detached").remote()
    assert zray.get(zray.get_actor("hits", namespace="away").add.remote()) == 1
    assert {"name": "hits", "namespace": "away"} in list_named_actors(all_namespaces=True)
    del other
    assert zray.get(zray.get_actor("hits", "away").add.remote()) == 2
    zray.kill(zray.get_actor("hits", "away"))
    del counter
    until(lambda: "hits" not in list_named_actors())
    with pytest.raises(ValueError, match="no living actor"):
        zray.get_actor("hits")


def test_actor_that_leaves_or_is_killed_is_dead():
    leaver, victim = Counter.remote(), Counter.remote()
    assert zray.get(leaver.add.remote()) == 1
    for call in (leaver.leave, leaver.add):
        with pytest.raises(ActorDiedError, match=r"actor Counter left by exit_actor\(\)"):
            zray.get(call.remote())
    zray.kill(victim)
    with pytest.raises(ActorDiedError, match=r"was killed by kill\(\)"):
        zray.get(victim.add.remote())


def test_actor_whose_constructor_raises_is_dead():
    @zray.remote(num_cpus=0)
    class Broken:
        def __init__(self):
            raise OSError("no disk")

        def use(self):
            return 1

    with pytest.raises(ActorDiedError, match="(?s)died in its constructor.*no disk") as raised:
        zray.get(Broken.remote().use.remote())
    assert str(raised.value).count("File ") == 1


def test_actor_is_restarted_after_an_exit():
    fragile = Counter.remote()
    with pytest.raises(ActorDiedError, match="The actor Counter died"):
        zray.get(fragile.crash.remote())
    counter = Counter.options(max_restarts=1).remote(5)
    assert zray.get(counter.add.remote()) == 6
    with pytest.raises(ActorUnavailableError, match="while it ran Counter.crash; it is restarted"):
        zray.get(counter.crash.remote())
    retried = counter.add.options(max_task_retries=3)
    assert zray.get(retried.remote()) == 6
    assert zray.get(counter.restarted.remote())
    with pytest.raises(ActorDiedError, match=r"after 1 restart \(max_restarts=1\)"):
        zray.get(counter.crash.remote())


def test_call_is_retried_on_a_restarted_actor(tmp_path):
    @zray.remote(num_cpus=0, max_restarts=2, max_task_retries=2)
    class Fragile:
        def work(self, path):
            with open(path, "a+") as file:
                file.write("x")
                file.seek(0)
                if len(file.read()) < 3:
                    sys.exit(1)
            return "done"

    assert zray.get(Fragile.remote().work.remote(str(tmp_path / "runs"))) == "done"


def test_killed_actor_is_restarted_where_the_program_says_so():
    counter = Counter.options(max_restarts=1, max_task_retries=1).remote()
    assert zray.get(counter.add.remote()) == 1
    zray.kill(counter, no_restart=False)
    until(lambda: zray.get(counter.add.remote()) == 1)  # a call may come before the kill


def test_async_calls_await_each_other():
    @zray.remote(num_cpus=0)
    class Signal:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "woken"

        async def send(self):
            self.event.set()

        async def through(self, own):
            return await own[0].wait.remote()

        async def of_task(self, value):
            return await add.remote(value)

        async def fail(self):
            raise KeyError("async")

    signal = Signal.remote()
    waiting, nested = signal.wait.remote(), signal.through.remote([signal])
    later = add.remote(waiting, b="!")
    counter = Counter.remote("")
    calls = [counter.add.remote(waiting), counter.add.remote("?")]
    assert zray.wait([waiting], timeout=0)[0] == []
    zray.get(signal.send.remote())
    assert zray.get([waiting, nested, later, *calls], timeout=SECONDS) == [
        "woken",
        "woken",
        "woken!",
        "woken",
        "woken?",
    ]
    assert zray.get(signal.of_task.remote(1), timeout=SECONDS) == 2
    with pytest.raises(KeyError, match="async"):
        zray.get(signal.fail.remote())


def test_task_of_an_async_method_may_call_the_actor():
    @zray.remote
    def ask(handle):
        return zray.get(handle[0].answer.remote())

    @zray.remote(num_cpus=0)
    class Asked:
        async def begin(self, own):
            return await ask.remote(own)

        async def answer(self):
            return 42

    asked = Asked.remote()
    assert zray.get(asked.begin.remote([asked]), timeout=SECONDS) == 42


def test_async_actor_leaves():
    @zray.remote(num_cpus=0)
    class Leaver:
        async def leave(self):
            zray.exit_actor()

    leaver = Leaver.remote()
    with pytest.raises(ActorDiedError, match=r"left by exit_actor\(\)"):
        zray.get(leaver.leave.remote(), timeout=SECONDS)
    with pytest.raises(ActorDiedError, match="left by"):
        zray.get(leaver.leave.remote(), timeout=SECONDS)


def test_calls_of_a_threaded_actor_run_at_once():
    @zray.remote(num_cpus=0, max_concurrency=3)
    class Meeting:
        def __init__(self):
            import threading

            self.barrier = threading.Barrier(3)

        def meet(self):
            self.barrier.wait(SECONDS)
            return zray.get(add.remote(1))

    meeting = Meeting.remote()
    assert zray.get([meeting.meet.remote() for _ in range(6)], timeout=SECONDS) == [2] * 6


def test_last_handle_ends_the_actor_and_runs_what_its_class_has(tmp_path):
    @zray.remote(num_cpus=0)
    class Tidy:
        def __init__(self, path):
            self.path = path

        def __ray_shutdown__(self):
            with open(self.path, "w") as file:
                file.write("tidied")

        def hello(self):
            return "hello"

    path = tmp_path / "said"
    tidy = Tidy.options(name="tidy").remote(str(path))
    assert zray.get(tidy.hello.remote()) == "hello"
    del tidy
    until(lambda: "tidy" not in list_named_actors() and path.exists() and path.read_text() == "tidied")


@zray.remote(num_cpus=0)
def call(method, *args):
    return zray.get(method.remote(*args))


def test_method_is_a_value_that_keeps_its_actor_and_options():
    method = Counter.remote(10).add
    assert zray.get(call.remote(method, 5)) == 15
    twice = zray.get(zray.put({"both": Counter.remote(1).two.options(num_returns=2)}))["both"]
    assert zray.get(twice.remote()) == [1, -1]

    @zray.remote(num_cpus=0)
    def make():
        return Counter.remote(20).add

    @zray.remote(num_cpus=0)
    def over():
        return zray.get(method.remote(1))

    made = zray.get(make.remote())
    assert zray.get([made.remote(), over.remote()]) == [21, 16]


@zray.remote(num_cpus=0)
class Swallower:
    def __init__(self, *, leaves=False):
        self.leave(leaves)

    def leave(self, leaves=True):
        try:
            if leaves:
                zray.actor.exit_actor()
        except BaseException:
            pass
        return "swallowed"

    def fail(self):
        try:
            zray.actor.exit_actor()
        finally:
            raise KeyError("instead")


class AsyncSwallower:
    async def leave(self):
        try:
            zray.actor.exit_actor()
        except BaseException:
            return "swallowed"


@pytest.mark.parametrize("kind", ["serial", "threaded", "async", "raises"])
def test_exit_cannot_be_swallowed(kind):
    if kind == "async":
        actor = zray.remote(AsyncSwallower).remote()
    else:
        actor = Swallower.options(max_concurrency=3 if kind == "threaded" else 1).remote()
    method = actor.fail if kind == "raises" else actor.leave
    for ref in (method.remote(), actor.leave.remote()):
        with pytest.raises(ActorDiedError, match=r"left by exit_actor\(\)"):
            zray.get(ref, timeout=SECONDS)


@zray.remote(num_cpus=0)
class Quitter:
    def __init__(self):
        zray.actor.exit_actor()

    def add(self):
        return 1


@zray.remote(num_cpus=0)
class AsyncQuitter:
    def __init__(self):
        zray.actor.exit_actor()

    async def add(self):
        return 1


@pytest.mark.parametrize("kind", ["serial", "threaded", "async", "swallowed"])
def test_exit_in_a_constructor_is_an_exit(kind):
    if kind == "swallowed":
        method = Swallower.remote(leaves=True).leave
    elif kind == "async":
        method = AsyncQuitter.remote().add
    else:
        method = Quitter.options(max_concurrency=3 if kind == "threaded" else 1).remote().add
    for _ in range(2):
        with pytest.raises(ActorDiedError, match=r"left by exit_actor\(\)"):
            zray.get(method.remote(), timeout=SECONDS)


def test_names_of_a_local_class_are_without_its_function():
    @zray.remote(num_cpus=0)
    class Local:
        def name(self):
            return zray.get_runtime_context().get_task_name()

    actor = Local.remote()
    assert zray.get(actor.name.remote()) == "Local.name" and repr(actor).startswith("Actor(Local, ")
    with pytest.raises(TypeError, match=r"^Local\.name is a method of actors: Local\.remote"):
        Local.name()
