"""`__ray_shutdown__` and `__del__` of actors where their session ends."""

import subprocess
import threading
import time

import pytest

import zray
from tests.api.test_actor_shutdowns import Plain, note
from tests.cli.commands import command_line
from tests.gates import Gate, is_running, until
from tests.scripts import ROOT, environment, run_script
from zray.cluster_utils import Cluster
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@pytest.fixture
def words(tmp_path):
    """A file to which actors add a word each."""
    path = tmp_path / "words"
    path.touch()
    return path


def test_methods_run_where_a_program_ends_and_its_session_with_it(words, tmp_path):
    done = run_script(
        tmp_path,
        f"""
        import zray
        from tests.api.test_actor_shutdowns import actor_of
        zray.init(num_cpus=1)
        actors = [actor_of(kind, {str(words)!r}) for kind in ("serial", "threaded", "async")]
        zray.get([actor.pid.remote() for actor in actors])
        """,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(words.read_text().split()) == ["del"] * 3 + ["shutdown"] * 3


def test_actors_that_stop_when_their_last_handle_goes_are_waited_for_at_the_end(words, tmp_path):
    done = run_script(
        tmp_path,
        f"""
        import time, zray
        from tests.api.test_actor_shutdowns import note
        zray.init(num_cpus=1)
        @zray.remote
        class Slow:
            def __ray_shutdown__(self):
                note({str(words)!r}, "begun")
                time.sleep(0.5)
                note({str(words)!r}, "ended")
        slow = Slow.remote()
        zray.get(slow.__ray_ready__.remote())
        del slow
        """,
    )
    assert done.returncode == 0, done.stderr
    assert words.read_text() == "begun ended "


def test_session_waits_for_a_busy_actor_whose_call_ends_in_time(words, tmp_path):
    class Busy(Plain):
        def work(self, begun):
            begun.open()
            threading.Event().wait(0.5)

    with zray.init(num_cpus=1):
        busy = zray.remote(Busy).remote(words)
        begun = Gate(tmp_path / "begun")
        busy.work.remote(begun)
        begun.wait()
    assert words.read_text() == "shutdown del "


@pytest.mark.slow
def test_session_does_not_wait_for_ever_for_a_busy_actor(words, tmp_path):
    class Busy(Plain):
        def work(self, begun):
            begun.open()
            threading.Event().wait()

    with zray.init(num_cpus=1):
        busy = zray.remote(Busy).remote(words)
        pid = zray.get(busy.pid.remote(), timeout=30)
        begun = Gate(tmp_path / "begun")
        busy.work.remote(begun)
        begun.wait()
        began = time.monotonic()
    assert 4 < time.monotonic() - began < 15
    assert words.read_text() == "" and not is_running(pid)


@pytest.mark.slow
def test_session_does_not_wait_for_ever_for_a_shutdown_method(words):
    class Stuck(Plain):
        def __ray_shutdown__(self):
            note(self.words, "begun")
            threading.Event().wait()

    with zray.init(num_cpus=1):
        stuck = zray.remote(Stuck).remote(words)
        pid = zray.get(stuck.pid.remote(), timeout=30)
        began = time.monotonic()
    assert 4 < time.monotonic() - began < 15
    assert words.read_text() == "begun " and not is_running(pid)


@pytest.fixture
def cluster(nothing_left):
    """A head without CPUs, and a node."""
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        yield cluster
        zray.shutdown()


@pytest.mark.slow
def test_methods_run_where_a_program_leaves_its_cluster_and_where_the_cluster_ends(cluster, words, tmp_path):
    done = run_script(
        tmp_path,
        f"""
        import zray
        from tests.api.test_actor_shutdowns import actor_of
        zray.init(address={cluster.address!r})
        options = [{{}}, {{"lifetime": "detached", "name": "lasting"}}]
        actors = [actor_of("serial", {str(words)!r}, num_cpus=1, **each) for each in options]
        print(*zray.get([actor.pid.remote() for actor in actors]))
        """,
    )
    assert done.returncode == 0, done.stderr
    passing, lasting = map(int, done.stdout.split())
    until(lambda: not is_running(passing))
    assert words.read_text() == "shutdown del "
    assert is_running(lasting)
    cluster.remove_node(cluster.head_node, allow_graceful=True)
    until(lambda: not is_running(lasting))
    assert words.read_text() == "shutdown del " * 2


@pytest.mark.slow
def test_methods_run_where_an_actor_goes_on_elsewhere_since_its_node_leaves(cluster, words):
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    cluster.connect()
    leaving = cluster.worker_nodes[0]
    here = NodeAffinitySchedulingStrategy(leaving.node_id, soft=True)
    actor = zray.remote(Plain).options(num_cpus=1, max_restarts=-1, scheduling_strategy=here).remote(words)
    pid = zray.get(actor.pid.remote(), timeout=30)
    session = cluster.head_node.session.name
    drain = subprocess.Popen(
        command_line("drain", leaving.node_id[:10], "--session", session),
        env=environment(),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: not is_running(pid))
    assert drain.wait(30) == 0
    assert words.read_text() == "shutdown del "
    until(lambda: is_running(pid_of(actor)))


def pid_of(actor):
    try:
        return zray.get(actor.pid.remote(), timeout=30)
    except zray.exceptions.ActorUnavailableError:
        return 0


@pytest.mark.parametrize("end", ["zray.shutdown()", "zray.kill(actor)", "del actor, drawer"])
def test_consumer_of_items_has_one_error_and_no_traceback_when_session_or_actor_ends(end, tmp_path):
    """The wait for an item is one for the end of its generator too, and had the error twice."""
    done = run_script(
        tmp_path,
        f"""
        import asyncio, time, zray
        zray.init(num_cpus=2)
        @zray.remote
        class Source:
            async def items(self):
                yield 1
                await asyncio.sleep(100)
        @zray.remote
        class Drawer:
            async def draw(self, source):
                async for ref in source.items.remote():
                    await ref
        async def draw(source, arrived):
            async for ref in source.items.remote():
                await ref
                arrived.set()
        async def main():
            actor, arrived = Source.remote(), asyncio.Event()
            drawer = Drawer.remote()
            drawer.draw.remote(actor)
            drawing = asyncio.ensure_future(draw(actor, arrived))
            await arrived.wait()
            {end}
            if "del" in {end!r}:
                drawing.cancel()
            (error,) = await asyncio.gather(drawing, return_exceptions=True)
            print(type(error).__name__)
        asyncio.run(main())
        """,
    )
    assert done.returncode == 0, done.stderr
    name = {"zray.shutdown()": "ClusterLostError", "zray.kill(actor)": "ActorDiedError"}.get(end, "CancelledError")
    assert done.stdout.split() == [name]
    assert "Traceback" not in done.stderr and "InvalidStateError" not in done.stderr, done.stderr
