"""What a node needs to start: little, and what it can do without comes later."""

import subprocess
import sys

from msgspec import msgpack

from tests.gates import DEADLINE_S
from zray.host import workers
from zray.host.session import Session
from zray.host.workers import Workers
from zray.roles.effects import WorkerStarted


def test_a_node_of_a_cluster_imports_nothing_that_takes_long():
    """asyncio alone is a third of all that it imports, and pyzmq's look at a socket's monitor brings it."""
    code = "import sys, zray.host.node_main, zray.host.node, zray.host.membership, zray.host.head; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"], **OPTIONS)
    assert not {"asyncio", "numpy", "cloudpickle"} & set(done.stdout.split())


def test_workers_that_are_ordered_before_there_is_a_fork_server_are_started_by_it(monkeypatch, tmp_path):
    """Those of a node that joins a cluster: it is a member first."""
    import socket

    heard, (ours, theirs) = [], socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(workers, "launch_fork_server", lambda session: (1, ours))
    pool = Workers(Session("f" * 16, str(tmp_path)), None, heard.append, heard.append)
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


OPTIONS = {"capture_output": True, "text": True, "check": True, "timeout": DEADLINE_S}
