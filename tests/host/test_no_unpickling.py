"""Control processes never unpickle: all those of a cluster, seen from inside at work (docs/security.md, S8 and B16)."""

import json
import os
import signal
import time
from contextlib import ExitStack

import psutil
import pytest

import zray
from tests.gates import is_running, until
from tests.host import probe
from tests.titles import is_kind
from zray.cluster_utils import Cluster
from zray.host import context
from zray.host.process import spawn

pytestmark = pytest.mark.slow


class Canary:
    """Its unpickling leaves a trace: which process did it."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        code = "open(__import__('os').path.join({!r}, str(__import__('os').getpid())), 'w').close()"
        return exec, (code.format(self.folder),)


@pytest.fixture
def cluster(nothing_left, cold_starts, monkeypatch, tmp_path):
    """Every role in a process of its own, replicas on a node too, and a driver's node."""
    monkeypatch.setenv(probe.VARIABLE, str(tmp_path))
    monkeypatch.setattr(spawn, "_PROGRAM", probe.under(spawn._PROGRAM))
    head = {"num_cpus": 0, "gcs_shards": 2, "gcs_replicas": 2, "global_schedulers": 2}
    with Cluster(True, head_node_args=head) as cluster:
        for number in range(2):
            cluster.add_node(num_cpus=2, resources={f"place {number}": 9})
        cluster.wait_for_nodes()
        yield cluster
        zray.shutdown()


def control_processes(cluster):
    """What each is -> pid."""
    found = {"driver": context.runtime.node_pid}
    for name, node in (("head", cluster.head_node), *((f"node {n}", it) for n, it in enumerate(cluster.worker_nodes))):
        found[name] = node.pid
        for child in psutil.Process(node.pid).children():
            if is_kind(" ".join(command_of(child)).encode(), "service"):
                found[f"service {child.pid} of {name}"] = child.pid
    return found


def command_of(process):
    """What it was told to run; of one that ends at this moment, nothing."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # or nobody has taken note of its end yet: a ZombieProcess is one too
        return []


def services_of(processes, name):
    return [pid for what, pid in processes.items() if what.startswith("service") and what.endswith(f" of {name}")]


def all_roles(cluster):
    """Once they are where they belong: of each chain one on a node, one and a spare with the head; two schedulers.

    And once the probe is in each of them: one that has only just been started would die of its signal.
    """
    return until(
        lambda: (
            len(services_of(found := control_processes(cluster), "head")) == 4 + 2
            and sum(len(services_of(found, f"node {number}")) for number in range(2)) == 2
            and all(map(probe.hears, found.values()))
            and found
        )
    )


@zray.remote(num_cpus=0)
class Holder:
    """What is said to it, and what it says, goes from node to node; what it is, to its guardian and to shards."""

    def __init__(self, canary):
        self.canary = canary

    def keep(self, *values):
        return [self.canary, len(values)]

    def fail(self):
        raise ValueError(self.canary)

    def __zray_save__(self):
        return self.canary

    def __zray_restore__(self, canary):
        self.canary = canary


def play(canary):
    """Values, small and large, as arguments, results, errors and states, between nodes and into the shards."""
    places = [{"resources": {f"place {number}": 1}} for number in range(2)]
    value = [canary, bytes(1 << 20)]
    work = zray.remote(lambda *values: [canary, len(values)])  # its code has one too
    fails = zray.remote(retry_exceptions=True, max_retries=1)(lambda canary: [][len(repr(canary))])
    refs = [zray.put(value)]
    for place in places:
        tasks = work.options(**place)
        refs += [tasks.remote(canary), tasks.remote(refs[0]), tasks.remote(refs[-1]), tasks.remote([refs[-1]])]
        holder = Holder.options(max_restarts=-1, max_task_retries=-1, checkpoint_interval=2, **place).remote(canary)
        refs += [holder.keep.remote(canary), holder.keep.remote(refs[0]), holder.keep.remote([refs[1]])]
        named = Holder.options(name=f"named {place}", lifetime="detached", **place).remote(canary)
        refs.append(named.keep.remote(refs[1]))
        for failing in (fails.options(**place).remote(canary), named.fail.remote()):
            with pytest.raises((IndexError, ValueError)):
                zray.get(failing, timeout=60)
        assert zray.get(zray.get_actor(f"named {place}").keep.remote(1), timeout=60)[1] == 1
    assert [value[1] for value in zray.get(refs[1:], timeout=60)] == [1] * (len(refs) - 1)
    return refs


def tell(pid, number, *, until_true):
    """Send it a signal; once a second, since the interpreter looks at one that came just ahead of its going to sleep
    when it is woken (2 of 150,000, sent to one that does little else), and replicas that nobody asks sleep for long.
    """
    sent = 0.0

    def come():
        nonlocal sent
        if until_true():
            return True
        if time.monotonic() > sent + 1:
            sent = time.monotonic()
            os.kill(pid, number)
        return False

    try:
        until(come)
    except AssertionError:
        raise AssertionError(f"not heard: {open(f'/proc/{pid}/cmdline', errors='replace').read()[:300]}") from None


def test_no_control_process_unpickles_or_could(cluster, tmp_path):
    cluster.connect()
    canaries = tmp_path / "canaries"
    canaries.mkdir()
    before = all_roles(cluster)
    refs = play(Canary(str(canaries)))
    # One of a chain that is made anew is given the shard's state, and its log.
    os.kill(services_of(before, "node 0" if services_of(before, "node 0") else "node 1")[0], signal.SIGKILL)
    processes = until(lambda: (now := all_roles(cluster)) != before and now)
    assert [value[1] for value in zray.get(refs[1:], timeout=60)] == [1] * (len(refs) - 1)
    opened = {int(name) for name in os.listdir(canaries)}
    assert opened and not opened & set(processes.values())

    for name, pid in processes.items():
        tell(pid, signal.SIGUSR1, until_true=(tmp_path / str(pid)).exists)
        seen = json.loads((tmp_path / str(pid)).read_text())
        assert seen == {"imports": [], "held": [], "loaded": []}, name

    # And were there code that does: the process ends, and says what was asked for.
    zray.shutdown()
    hosting = "node 0" if services_of(processes, "node 0") else "node 1"
    ends = [services_of(processes, "head")[0], services_of(processes, "head")[-1], services_of(processes, hosting)[0]]
    hosts = (cluster.worker_nodes[int(hosting[-1])], cluster.head_node)
    with ExitStack() as logs:  # a session's folder goes soon after its node
        said = [logs.enter_context(open(node.session.log_path("node"), encoding="utf-8")) for node in hosts]
        for pid in (*ends, *(node.pid for node in hosts)):
            tell(pid, signal.SIGUSR2, until_true=lambda pid=pid: not is_running(pid))
        for log in said:
            assert "a node process must not unpickle" in log.read()
