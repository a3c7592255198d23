"""Control processes never un-pickle: all that a cluster has, looked at from inside while it works (S8, B16)."""

import json
import os
import signal

import psutil
import pytest

import zray
from tests.gates import is_running, until
from tests.host import probe
from zray.cluster_utils import Cluster
from zray.host import context, spawn

pytestmark = pytest.mark.slow


class Canary:
    """Its unpickling leaves a trace: which process did it."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        code = "open(__import__('os').path.join({!r}, str(__import__('os').getpid())), 'w').close()"
        return exec, (code.format(self.folder),)


@pytest.fixture
def cluster(nothing_left, monkeypatch, tmp_path):
    """Every role in a process of its own, and a driver's node."""
    monkeypatch.setenv(probe.VARIABLE, str(tmp_path))
    monkeypatch.setattr(spawn, "_PROGRAM", probe.under(spawn._PROGRAM))
    head = {"num_cpus": 0, "gcs_shards": 2, "global_schedulers": 2}
    with Cluster(True, head_node_args=head) as cluster:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster
        zray.shutdown()


def control_processes(cluster):
    """What each is -> pid."""
    found = {"head": cluster.head_node.pid, "node": cluster.worker_nodes[0].pid, "driver": context.runtime.node_pid}
    for child in psutil.Process(cluster.head_node.pid).children():
        if "zray.host.service_main" in " ".join(child.cmdline()):
            found[f"service {child.pid}"] = child.pid
    return found


def test_no_control_process_unpickles_or_could(cluster, tmp_path):
    cluster.connect()
    canaries, work = tmp_path / "canaries", zray.remote(lambda *values: len(values))
    canaries.mkdir()
    value = [Canary(str(canaries)), bytes(1 << 20)]

    @zray.remote
    class Holder:
        def keep(self, *values):
            return len(values)

    holder = Holder.remote()
    refs = [zray.put(value), work.remote(Canary(str(canaries)))]
    refs += [work.remote(refs[0]), holder.keep.remote(Canary(str(canaries))), holder.keep.remote(refs[0])]
    assert zray.get(refs[1:], timeout=60) == [1, 1, 1, 1]
    processes = control_processes(cluster)
    assert len(processes) == 3 + 2 + 2
    opened = {int(name) for name in os.listdir(canaries)}
    assert opened and not opened & set(processes.values())

    for name, pid in processes.items():
        os.kill(pid, signal.SIGUSR1)
        until(lambda path=tmp_path / str(pid): path.exists())
        seen = json.loads((tmp_path / str(pid)).read_text())
        assert seen == {"imports": [], "held": [], "loaded": []}, name

    # And were there code that does: the process ends, and says what was asked for.
    zray.shutdown()
    services = [pid for name, pid in processes.items() if name.startswith("service")]
    for pid in (services[0], services[-1], cluster.worker_nodes[0].pid, cluster.head_node.pid):
        os.kill(pid, signal.SIGUSR2)
        until(lambda pid=pid: not is_running(pid))
    for node in (cluster.head_node, cluster.worker_nodes[0]):
        with open(node.session.log_path("node"), encoding="utf-8") as log:
            assert "a node must not unpickle" in log.read()
