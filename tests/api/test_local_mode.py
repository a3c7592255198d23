"""Local mode alone: everything runs in the program itself, debuggers reach it, and nothing is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import zray
from zray.exceptions import ActorDiedError, ClusterLostError, DeadlockError, ObjectLostError, ObjectStoreFullError
from zray.host import context
from zray.util import state
from zray.util.why import why
from zray.wire.reasons import Explain

from ..gates import until
from ..scripts import ROOT, environment

SECONDS = 20.0


@pytest.fixture
def local(monkeypatch):
    monkeypatch.delenv("ZRAY_LOCAL", raising=False)
    with zray.init(local_mode=True, num_cpus=2) as context:
        yield context


@zray.remote
def where():
    return os.getpid(), threading.get_ident()


@zray.remote(num_cpus=0)
class Sleeper:
    async def sleep(self):
        await asyncio.Event().wait()

    async def ping(self):
        return "pong"


# --- start and end ---


def test_init_returns_facts_and_a_second_one_is_refused(local):
    assert zray.is_initialized()
    assert local["session_name"] == "local"
    assert local["address"] == ""
    with pytest.raises(RuntimeError, match="called twice"):
        zray.init(local_mode=True)
    assert zray.init(ignore_reinit_error=True)["node_id"] == local["node_id"]
    zray.shutdown()
    assert not zray.is_initialized()
    zray.shutdown()


def test_environment_turns_local_mode_on(monkeypatch):
    monkeypatch.setenv("ZRAY_LOCAL", "1")
    monkeypatch.setenv("ZRAY_ADDRESS", "10.0.0.1:6379")
    assert zray.get(where.remote())[0] == os.getpid()
    zray.shutdown()
    with pytest.raises(ValueError, match="ZRAY_LOCAL=1 runs everything in the program"):
        zray.init("auto")
    monkeypatch.setenv("ZRAY_LOCAL", "yes")
    with pytest.raises(ValueError, match="must be 0 or 1"):
        zray.init()


def test_arguments_that_local_mode_does_not_have_are_refused(tmp_path):
    with pytest.raises(ValueError, match="local_mode=True runs everything in the program"):
        zray.init("10.0.0.1:6379", local_mode=True)
    with pytest.raises(TypeError, match="local_mode must be a bool"):
        zray.init(local_mode="yes")
    with pytest.raises(NotImplementedError, match="does not have the field 'working_dir'"):
        zray.init(local_mode=True, runtime_env={"working_dir": str(tmp_path)})
    assert not zray.is_initialized()


def test_value_that_another_threads_shutdown_has_dropped_is_an_error_of_zray(local):
    """Between the end of the wait and the reading."""
    ref, runtime = zray.put(1), zray.host.context.runtime
    zray.shutdown()
    with pytest.raises(ClusterLostError):
        runtime.value_of(ref.id)


def test_shutdown_leaves_no_thread_and_tells_those_that_wait(local, tmp_path):
    @zray.remote(num_cpus=0)
    class Tidy:
        def __init__(self, path):
            self.path = path

        async def __ray_shutdown__(self):
            with open(self.path, "w") as file:
                file.write("tidied")

        async def ping(self):
            return "pong"

    @zray.remote(num_cpus=0, max_concurrency=2)
    class Threaded:
        def ident(self):
            return threading.get_ident()

    before = set(threading.enumerate())
    sleeper, tidy, threaded = Sleeper.remote(), Tidy.remote(str(tmp_path / "said")), Threaded.remote()
    assert zray.get([tidy.ping.remote(), sleeper.ping.remote()]) == ["pong", "pong"]
    assert zray.get(threaded.ident.remote()) != threading.get_ident()
    ref = sleeper.sleep.remote()
    future, caught = ref.future(), []

    def wait():
        try:
            zray.get(ref)
        except zray.exceptions.RayError as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: zray.host.context.runtime.objects.watches)
    zray.shutdown()
    waiting.join(SECONDS)
    assert isinstance(caught[0], (ClusterLostError, ActorDiedError))
    assert isinstance(future.exception(SECONDS), (ClusterLostError, ActorDiedError))
    assert (tmp_path / "said").read_text() == "tidied"
    until(lambda: set(threading.enumerate()) <= before)
    with pytest.raises(ObjectLostError):
        zray.get(ref)
    with pytest.raises(ActorDiedError):
        sleeper.ping.remote()


def test_limits_of_python_are_as_before(local):
    before = sys.getrecursionlimit()
    zray.shutdown()
    assert sys.getrecursionlimit() < before


# --- inline ---


def test_tasks_and_actors_run_in_the_thread_that_calls(local):
    @zray.remote
    class Actor:
        def __init__(self):
            self.made_in = threading.get_ident()

        def where(self):
            return self.made_in, threading.get_ident()

    here = threading.get_ident()
    assert zray.get(where.remote()) == (os.getpid(), here)
    assert zray.get(Actor.remote().where.remote()) == (here, here)


def test_breakpoint_stops_in_tasks_and_methods(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "import zray\n"
        "zray.init(local_mode=True)\n"
        "@zray.remote\n"
        "def task(value):\n"
        "    secret = value * 2\n"
        "    breakpoint()\n"
        "    return secret\n"
        "@zray.remote\n"
        "class Actor:\n"
        "    def method(self):\n"
        "        inner = 'of the method'\n"
        "        breakpoint()\n"
        "        return inner\n"
        "print('got', zray.get(task.remote(21)))\n"
        "print('got', zray.get(Actor.remote().method.remote()))\n"
        "print('light', 'zmq' not in sys.modules)\n"
        "task.remote(1)\n"
        "print('not reached')\n"
    )
    commands = "p secret\nsecret = 7\nc\np inner\nc\nq\n"
    result = subprocess.run(
        [sys.executable, program], input=commands, capture_output=True, text=True, env=environment(), timeout=60
    )
    lines = [line.removeprefix("(Pdb) ") for line in result.stdout.splitlines()]
    assert "42" in lines
    assert any("got 7" in line for line in lines)
    assert "'of the method'" in lines
    assert any("got of the method" in line for line in lines)
    assert any("light True" in line for line in lines)
    assert "not reached" not in result.stdout
    assert "BdbQuit" in result.stderr
    assert result.returncode == 1


def test_interrupt_in_a_task_reaches_the_program(local):
    @zray.remote
    def interrupted():
        signal.raise_signal(signal.SIGINT)
        return "not interrupted"

    @zray.remote
    class Actor:
        def interrupted(self):
            signal.raise_signal(signal.SIGINT)

        def ping(self):
            return "pong"

    @zray.remote
    def outer():
        return zray.get(interrupted.remote())

    @zray.remote
    async def awaits():
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await asyncio.Event().wait()

    @zray.remote
    async def sleeps():
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
        await asyncio.Event().wait()

    actor = Actor.remote()
    for call in (interrupted, outer, awaits, sleeps, actor.interrupted):
        with pytest.raises(KeyboardInterrupt):
            call.remote()
    assert zray.get(actor.ping.remote()) == "pong"
    assert not zray.get_runtime_context().get_task_id()


def test_tasks_nest_deeper_than_the_stack_of_python_by_itself(local):
    @zray.remote
    def count(n):
        return 0 if n == 0 else 1 + zray.get(count.remote(n - 1))

    assert zray.get(count.remote(500)) == 500


def test_call_of_an_actor_on_itself_runs_behind_the_one_in_hand(local):
    @zray.remote
    class Actor:
        def __init__(self):
            self.seen = []

        def begin(self, own):
            ref = own[0].note.remote("second")
            self.seen.append("first")
            return [ref]

        def note(self, word):
            self.seen.append(word)
            return list(self.seen)

        def wait_for_own(self, own):
            return zray.get(own[0].note.remote("never"))

        def wait_a_moment(self, own):
            return zray.get(own[0].note.remote("late"), timeout=0.01)

    actor = Actor.remote()
    (ref,) = zray.get(actor.begin.remote([actor]))
    assert zray.get(ref) == ["first", "second"]
    with pytest.raises(DeadlockError, match="busy with the very call that waits"):
        zray.get(actor.wait_for_own.remote([actor]))
    with pytest.raises(zray.exceptions.GetTimeoutError, match="note of the actor .*has not begun"):
        zray.get(actor.wait_a_moment.remote([actor]))


def test_blocking_wait_of_an_async_method_on_its_own_actor_is_an_error(local):
    @zray.remote
    class Actor:
        async def wait_for_own(self, own):
            return zray.get(own[0].ping.remote())

        async def ping(self):
            return "pong"

    actor = Actor.remote()
    with pytest.raises(DeadlockError, match="Await the ref in an async method"):
        zray.get(actor.wait_for_own.remote([actor]), timeout=SECONDS)


def test_threads_of_the_program_share_an_actor(local):
    @zray.remote
    class Counter:
        def __init__(self):
            self.count = 0
            self.is_busy = False

        def add(self):
            assert not self.is_busy
            self.is_busy = True
            self.count += 1
            self.is_busy = False
            return self.count

    counter, found = Counter.remote(), []

    def call():
        found.extend(zray.get([counter.add.remote() for _ in range(100)], timeout=SECONDS))
        for _ in range(100):
            found.append(zray.get(counter.add.remote(), timeout=SECONDS))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
    assert sorted(found) == list(range(1, 801))


def test_wait_that_lasts_says_what_it_waits_for(local, monkeypatch, capsys):
    monkeypatch.setattr("zray.host.local_mode.runtime.EXPLAINED_AFTER", 0.01)

    @zray.remote
    class Signal:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()

        async def send(self):
            self.event.set()

    signal = Signal.remote()
    waiting = signal.wait.remote()
    thread = threading.Thread(target=zray.get, args=(waiting,))
    thread.start()
    said = []
    until(lambda: said.append(capsys.readouterr().err) or "Signal.wait of the actor" in "".join(said))
    signal.send.remote()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_actor_that_kills_itself_is_dead(local):
    @zray.remote
    class Actor:
        def end(self, own):
            zray.kill(own[0])
            return "not heard"

    actor = Actor.remote()
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="killed"):
            zray.get(actor.end.remote([actor]))


def test_actor_with_checkpoints_does_not_recover(local):
    @zray.remote(checkpoint_interval=1)
    class Saved:
        def crash(self):
            sys.exit(1)

    with pytest.raises(ActorDiedError, match="Local mode keeps no checkpoints"):
        zray.get(Saved.remote().crash.remote())


# --- objects ---


def test_values_are_freed_with_their_refs(local):
    def free():
        return zray.available_resources()["object_store_memory"]

    before = free()
    ref = zray.put(np.zeros(1_000_000))
    outer = zray.put([ref])
    assert free() <= before - 8_000_000
    del ref
    assert zray.get(zray.get(outer)[0])[0] == 0.0
    del outer
    assert free() == before
    objects = zray.host.context.runtime.objects
    zray.get([where.remote() for _ in range(10)])
    zray.put(None)
    assert len(objects.values) <= 1
    assert len(objects.held) <= 1


def test_more_than_the_object_store_holds_is_an_error(monkeypatch):
    with zray.init(local_mode=True, object_store_memory=10 << 20):
        kept = zray.put(np.zeros(1 << 20))
        with pytest.raises(ObjectStoreFullError, match="There is no room"):
            zray.put(np.zeros(1 << 20))
        del kept
        zray.put(np.zeros(1 << 20))


def test_gpus_have_names(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    @zray.remote(num_gpus=1)
    def gpus():
        return zray.get_gpu_ids()

    with zray.init(local_mode=True, num_gpus=2):
        assert zray.get(gpus.remote()) == [0]
        assert zray.get_gpu_ids() == []


def test_example_runs_in_local_mode():
    example = ROOT / "examples" / "09_async_actor.py"
    variables = {**environment(), "ZRAY_LOCAL": "1"}
    subprocess.run([sys.executable, example], env=variables, check=True, timeout=60, capture_output=True)


def test_time_limit_raises_when_the_task_has_ended(local):
    sleep = zray.remote(lambda seconds: threading.Event().wait(seconds))
    with pytest.raises(zray.exceptions.TaskTimeoutError, match="longer than its timeout of 0.01 s"):
        zray.get(sleep.options(timeout=0.01).remote(0.1))
    assert zray.get(sleep.options(timeout=10).remote(0)) is False


# --- async functions ---


@zray.remote
async def add(a, b=0):
    await asyncio.sleep(0)
    return a + b


def test_async_functions_are_tasks(local):
    @zray.remote
    async def parent(depth):
        if not depth:
            return sum(await asyncio.gather(*[add.remote(number) for number in range(3)]))
        found = zray.get(parent.remote(depth - 1)) if depth % 2 else await parent.remote(depth - 1)
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None
        return found + 1

    @zray.remote
    async def fail():
        await asyncio.sleep(0)
        raise KeyError("here")

    assert zray.get([add.remote(1), add.remote(zray.put(2), b=3), parent.remote(4)]) == [1, 5, 7]
    with pytest.raises(KeyError) as raised:
        zray.get(fail.remote())
    assert raised.value.traceback_str.count('File "') == 1


def test_async_functions_are_tasks_of_a_program_with_a_loop_of_its_own(local):
    async def program():
        first = await asyncio.gather(*[add.remote(number) for number in range(3)])
        await asyncio.sleep(0)
        return first

    assert asyncio.run(program()) == [0, 1, 2]


# --- lists ---


def test_lists_have_what_local_mode_knows(local):
    actor = Sleeper.options(name="sleeper").remote()
    assert zray.get(actor.ping.remote()) == "pong"
    refs = [zray.put(bytes(200_000)), zray.put(1)]
    (row,) = state.list_actors(filters=[("state", "=", "ALIVE")])
    assert (row.class_name, row.name, row.pid) == ("Sleeper", "sleeper", os.getpid())
    assert state.get_actor(row.actor_id) == row
    assert state.summarize_actors()["cluster"]["total_actors"] == 1
    objects = state.list_objects()
    assert [(row.object_id, row.state, row.has_ref) for row in objects] == [
        (refs[0].hex(), "MEMORY", True),
        (refs[1].hex(), "MESSAGE", True),
    ]
    assert objects[0].object_size > 200_000 and state.get_objects(refs[0].hex()) == objects[:1]
    assert [row.worker_type for row in state.list_workers()] == ["DRIVER"]
    assert [row.pid for row in state.list_jobs()] == [os.getpid()]
    assert len(state.list_nodes()) == 1 and state.list_placement_groups() == []
    del actor
    assert state.list_actors() == []


@pytest.mark.parametrize(
    "ask",
    [
        state.list_tasks,
        lambda: state.list_tasks(detail=True),
        lambda: state.get_task("00"),
        state.summarize_tasks,
        state.list_logs,
        lambda: state.get_log(pid=1),
        why,
        zray.timeline,
        lambda: context.runtime.ask(lambda request: Explain(request, [])),
    ],
)
def test_question_that_local_mode_cannot_answer_is_refused_with_a_sentence(local, ask):
    with pytest.raises(NotImplementedError, match="[Ll]eave out local_mode=True"):
        ask()
