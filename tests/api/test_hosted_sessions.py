"""Hosted actors in sessions of a test's own: ends of programs, detached actors, local mode."""

import asyncio
import ctypes
import os
import sys

import pytest

import zray
from tests.gates import Gate, until
from tests.scripts import start_script
from zray.exceptions import ActorDiedError, ActorUnavailableError
from zray.util.state import list_actors


@zray.remote(hosted=True)
class Last:
    def __init__(self, path=None):
        self.path, self.count = path, 0

    def pid(self):
        return os.getpid()

    def add(self):
        self.count += 1
        return self.count

    def __ray_shutdown__(self):
        if self.path:
            self.path.write_text("done")


def test_shutdown_code_runs_at_the_end_of_the_session(start, tmp_path):
    with start(num_cpus=1):
        actors = [Last.remote(tmp_path / str(number)) for number in range(3)]
        zray.get([actor.pid.remote() for actor in actors])
    assert [(tmp_path / str(number)).read_text() for number in range(3)] == ["done"] * 3


GUEST = """
    import zray
    from tests.api.test_hosted_sessions import Last
    zray.init(address={address!r})
    lasting = [Last.options(name=f"lasting-{{n}}", namespace="host", lifetime="detached").remote() for n in range(2)]
    passing = [Last.options(name=f"passing-{{n}}", namespace="host").remote() for n in range(2)]
    print(zray.get([actor.add.remote() for actor in lasting + passing]), flush=True)
    print(len(set(zray.get([actor.pid.remote() for actor in lasting + passing]))), flush=True)
    zray.shutdown()
"""


def test_detached_actors_outlive_their_program_and_the_others_of_their_process(start, tmp_path):
    with start(num_cpus=2, namespace="host") as context:
        with start_script(tmp_path, GUEST.format(address=context["address"])) as guest:
            found = guest.communicate(timeout=60)[0]
        assert found.split("\n")[:2] == ["[1, 1, 1, 1]", "1"]
        lasting = [zray.get_actor(f"lasting-{number}") for number in range(2)]
        until(lambda: not {"passing-0", "passing-1"} & set(zray.util.list_named_actors()))
        assert zray.get([actor.add.remote() for actor in lasting]) == [2, 2]
        zray.kill(lasting[0])
        with pytest.raises(ActorDiedError):
            zray.get(lasting[0].add.remote())
        assert zray.get(lasting[1].add.remote()) == 3
        assert zray.get(Last.remote().pid.remote()) != zray.get(lasting[1].pid.remote())


def test_local_mode_runs_hosted_actors_as_its_other_ones(start):
    with start(local_mode=True):
        actors = [Last.remote() for _ in range(3)]
        assert zray.get([actor.add.remote() for actor in actors]) == [1] * 3
        with pytest.raises(ValueError, match="hosted=True"):
            Last.options(num_cpus=1)


def test_actors_of_a_cluster_are_hosted_on_the_node_of_their_maker(cluster):
    cluster.connect()

    @zray.remote(num_cpus=1)
    def make(count):
        made = [Last.remote() for _ in range(count)]
        zray.get([actor.add.remote() for actor in made])
        return made, zray.get_runtime_context().get_node_id()

    here = [Last.remote() for _ in range(3)]
    assert zray.get([actor.add.remote() for actor in here]) == [1] * 3
    there, _ = zray.get(make.remote(3))
    assert zray.get([actor.add.remote() for actor in there]) == [2] * 3
    pids = zray.get([actor.pid.remote() for actor in (*here, *there)])
    assert len(set(pids[:3])) == len(set(pids[3:])) == 1 and pids[0] != pids[-1]


@zray.remote(hosted=True)
class Async:
    async def ask(self):
        return 1

    async def exit_beside(self, code):
        async def leave():
            sys.exit(code)

        self.task = asyncio.create_task(leave())
        await asyncio.Event().wait()

    async def stop_loop(self):
        asyncio.get_running_loop().stop()
        return "goes on"


@pytest.mark.parametrize(("code", "reason"), [(0, r"left by sys.exit\(0\)"), (3, r"event loop called sys.exit\(3\)")])
def test_an_exit_beside_the_calls_of_the_shared_loop_ends_its_actor_alone(start, code, reason):
    with start(num_cpus=1):
        leaver, other = Async.remote(), Async.remote()
        assert zray.get([leaver.ask.remote(), other.ask.remote()]) == [1, 1]
        leaver.exit_beside.remote(code)
        until(lambda: not is_alive(leaver), deadline_s=30)
        with pytest.raises(ActorDiedError, match=reason):
            zray.get(leaver.ask.remote())
        assert zray.get([other.stop_loop.remote(), other.ask.remote()]) == ["goes on", 1]


def is_alive(actor):
    found = {each.actor_id: each.state for each in list_actors()}
    return found[actor._actor_id.hex()] == "ALIVE"


def test_a_killed_actor_whose_method_runs_on_starts_again_in_another_process(start, gate):
    @zray.remote(hosted=True, max_restarts=-1, max_task_retries=-1)
    class Waiter:
        def pid(self):
            return os.getpid()

        @zray.method(max_task_retries=0)
        def wait(self):
            begun.open()
            gate.wait()

    begun = Gate(gate.path + "-begun")
    with start(num_cpus=1):
        waiter, other = Waiter.remote(), Waiter.remote()
        pid = zray.get(waiter.pid.remote())
        waits = waiter.wait.remote()
        begun.wait()
        zray.kill(waiter, no_restart=False)
        assert zray.get(waiter.pid.remote()) != pid
        with pytest.raises(ActorUnavailableError, match="was killed"):
            zray.get(waits)
        assert zray.get(other.pid.remote()) == pid
        gate.open()


def test_a_crash_in_c_code_ends_all_actors_of_the_process_and_says_so(start):
    @zray.remote(hosted=True)
    class Fragile:
        def ask(self):
            return 1

        def crash(self):
            ctypes.string_at(0)

    with start(num_cpus=1):
        first, second = Fragile.remote(), Fragile.remote()
        assert zray.get([first.ask.remote(), second.ask.remote()]) == [1, 1]
        for ref in (first.crash.remote(), second.ask.remote()):
            with pytest.raises(ActorDiedError, match="SIGSEGV"):
                zray.get([ref, second.ask.remote()])
