"""What a node needs to start: little, and what it can do without comes later."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import msgpack

import zray
from tests.gates import DEADLINE_S, until
from tests.scripts import start_script
from zray.host.node import worker_processes
from zray.host.node.worker_processes import Workers
from zray.host.process.machine_resources import why_store_is_too_large
from zray.host.session.session import Session, live_sessions
from zray.roles.effects import WorkerStarted

LEFTOVER_DEADLINE_S = 20.0
OPTIONS = {"capture_output": True, "text": True, "check": True, "timeout": DEADLINE_S}


def test_a_node_of_a_cluster_imports_nothing_that_takes_long():
    """asyncio alone is a third of all that it imports, and pyzmq's look at a socket's monitor brings it."""
    modules = ("node.main", "node.node", "cluster.membership", "cluster.head")
    code = f"import sys, {', '.join(f'zray.host.{name}' for name in modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"], **OPTIONS)
    assert not {"asyncio", "numpy", "cloudpickle"} & set(done.stdout.split())


def test_a_node_launches_its_fork_server_before_it_imports_anything_large():
    code = "import sys; from zray.host import context; import zray.host.node.main; print(*sys.modules)"  # as spawn does
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"], **OPTIONS)
    assert not {"msgspec", "zmq", "inspect"} & set(done.stdout.split())


def test_a_program_that_is_killed_before_it_has_a_node_leaves_no_folder(monkeypatch, tmp_path):
    """Nobody would remove that of its sessions (found by chance: it takes a kill within a millisecond)."""
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    assert live_sessions() == []
    session = Session.named_anew()
    assert not any(tmp_path.iterdir())
    session.make_folder()
    assert Session.named_anew().folder != session.folder and os.path.isdir(session.logs)
    session.remove()
    assert not any(tmp_path.iterdir())


def test_workers_that_are_ordered_before_there_is_a_fork_server_are_started_by_it(monkeypatch, tmp_path):
    """Those of a node that joins a cluster: it is a member first."""
    heard, (ours, theirs) = [], socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(worker_processes, "launch_fork_server", lambda session, hash_seed: (1, ours))
    pool = Workers(Session("f" * 16, str(tmp_path)), None, heard.append, heard.append, lambda: None)
    try:
        pool.start("w1", 1)
        pool.start("w2", 2)
        pool.kill("w1")
        assert pool.launch() is ours
        orders = [msgpack.decode(theirs.recv(4096)) for _ in range(3)]
        assert orders == [["start", "w1", 1], ["start", "w2", 2], ["kill", "w1"]]
        theirs.send(msgpack.encode(["started", "w1", 7]))
        assert pool.receive() and heard == [WorkerStarted("w1", 7)]
    finally:
        pool.close()
        theirs.close()


@pytest.fixture
def deaths(monkeypatch, tmp_path):
    """`deaths(*lives)`: fork servers that die after so many seconds each (None: before they are ready).  How many the
    node has seen when it gives up (0: it does not), and what it says of the last death.
    """
    (tmp_path / ("f" * 16) / "logs").mkdir(parents=True)
    clock, ends = [100.0], []

    def launch(session, hash_seed):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends.append(theirs)
        return 1, ours

    monkeypatch.setattr(worker_processes, "launch_fork_server", launch)
    monkeypatch.setattr(worker_processes, "reap", lambda pid, in_words: "was killed by SIGKILL")
    monkeypatch.setattr(worker_processes, "end_children", lambda spared: None)
    monkeypatch.setattr(worker_processes, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    pool = Workers(Session("f" * 16, str(tmp_path)), None, lambda message: None, print, lambda: None)

    def run(*lives):
        if pool.connection is None:
            pool.launch()
        for number, life in enumerate(lives, 1):
            clock[0] += 30.0  # to import all that workers need: on a busy machine it takes long
            if life is not None:
                ends[-1].send(msgpack.encode(["ready"]))
                assert pool.receive()
                clock[0] += life
            ends[-1].close()
            if not pool.receive():
                return number, pool.death
        return 0, pool.death

    yield run
    pool.close()
    for theirs in ends:
        theirs.close()


def test_fork_servers_that_die_in_quick_succession_end_the_node_and_those_that_had_lived_do_not(deaths):
    """A session lasts for weeks, and an OOM killer comes by now and then."""
    assert deaths(0.1, *[4.5] * 20, 0.1, 0.1, 0.1, 4.5, 0.1, 0.1, 0.1)[0] == 0
    assert deaths(0.1, 0.1)[0] == 1


def test_fork_servers_that_are_never_ready_end_the_node_however_long_they_take(deaths):
    assert deaths(*[None] * 20)[0] == 5


def test_a_fork_server_that_left_no_words_is_not_quoted(deaths, tmp_path):
    assert deaths(1.0)[1] == "its fork server was killed by SIGKILL; its log is empty"
    (tmp_path / ("f" * 16) / "logs" / "fork-server.log").write_text("\nMemoryError\n")
    assert deaths(1.0)[1] == "its fork server was killed by SIGKILL; the end of its log:\nMemoryError\n"


def test_a_store_that_the_machine_cannot_hold_is_warned_of_and_works_up_to_what_there_is(start):
    """The same program runs on a machine with less memory."""
    status = os.statvfs("/dev/shm")
    most = status.f_blocks * status.f_frsize
    assert why_store_is_too_large(most) == why_store_is_too_large(None) == ""
    with pytest.warns(RuntimeWarning, match=rf"/dev/shm of this machine holds {most:,}: ") as noted:
        start(num_cpus=1, object_store_memory=most + 4096)
    assert noted[0].filename == __file__
    assert zray.get(zray.put(np.ones(100_000))).sum() == 100_000


@pytest.mark.slow
def test_nothing_is_left_of_a_cluster_whose_program_is_killed(tmp_path, leftovers):
    """A head, its processes, a node, and a task that runs there."""
    code = """
    import sys, threading
    import zray as ray
    from zray.cluster_utils import Cluster

    cluster = Cluster(True, head_node_args={"num_cpus": 0, "gcs_replicas": 2})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    ray.get(ray.remote(lambda: 1).remote())
    kept = ray.remote(lambda: threading.Event().wait()).remote()
    print("it runs", flush=True)
    sys.stdin.readline()
    """
    with start_script(tmp_path, code, stdin=subprocess.PIPE) as driver:
        assert driver.stdout.readline() == "it runs\n", driver.stderr.read()
        driver.kill()
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def has_numpy(pid):
    """Whether a process has imported numpy."""
    return "/numpy/" in Path(f"/proc/{pid}/maps").read_text()


def test_fork_server_of_node_without_cpus_imports_with_its_first_worker(start, cold_starts):
    context = start(num_cpus=0)
    pid = Session(context.address_info["session_name"]).read_info().fork_server_pid
    until(lambda: Path(f"/proc/{pid}/comm").read_text() == "zray: fork serv\n")
    assert not has_numpy(pid)
    assert zray.get(zray.remote(num_cpus=0)(os.getpid).remote()) != os.getpid()
    assert has_numpy(pid)
