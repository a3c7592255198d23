"""Processes of a cluster that stand still, and heads that are gone: who waits, and who gives up."""

import contextlib
import os
import signal
import threading

import pytest

import zray
from tests.gates import is_running, until
from tests.scripts import ROOT, from_outside, start_script
from zray.cluster_utils import Cluster, Node
from zray.exceptions import ClusterLostError
from zray.host.client import control
from zray.host.process import node_processes
from zray.host.process.node_processes import DRIVER_WAIT_MIN
from zray.host.process.process_utils import children_of
from zray.host.session.session import lasting_sessions
from zray.roles.local_scheduler.membership.lease import LEASE_SECONDS
from zray.roles.monitor import SILENT_TICKS_MAX, TICK_SECONDS
from zray.wire.orders import RevokeKey

# Longer than any lease, and than the monitor waits for a node that is silent.
LONG_SECONDS = 4.0
assert LONG_SECONDS > DRIVER_WAIT_MIN + 0.6
assert LONG_SECONDS > max(LEASE_SECONDS, SILENT_TICKS_MAX * TICK_SECONDS) + 1.0


def all_of(node):
    """A node's process and what it has started."""
    return descendants(node.pid)


def descendants(pid):
    found, new = [], [pid]
    while new:
        found += new
        new = [child for pid in new for child in children_of(pid)]
    return found


def stand_still(pids, seconds):
    """SIGSTOP for so long: the time is the matter here.  They go on in another order than they stopped in."""
    pids = list(dict.fromkeys(pids))
    stopped = []
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # a worker that was idle
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        threading.Event().wait(seconds)
    finally:
        for pid in sorted(stopped, key=str, reverse=True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def nodes_of(cluster):
    with control.Control(cluster.head_node.session, cluster.head_node.pid) as link:
        return {fact.node.partition("/")[0] for fact in link.nodes()}


@pytest.mark.slow
def test_a_head_that_stood_still_finds_its_nodes_as_they_were(cluster, gate):
    """They see that it stands still, and wait: no lease ends meanwhile."""
    cluster.connect()
    work = zray.remote(lambda at: (at.wait(), zray.get_runtime_context().get_node_id())[1])
    refs = [work.remote(gate) for _ in range(2)]
    until(lambda: zray.available_resources().get("CPU", 0) == 0)
    stand_still([cluster.head_node.pid], LONG_SECONDS)
    gate.open()
    assert set(zray.get(refs, timeout=30)) == {node.node_id for node in cluster.worker_nodes}
    assert nodes_of(cluster) == {node.node_id for node in cluster.list_all_nodes()}


WORKING = """
    import sys
    sys.path.insert(0, {root!r})
    import numpy as np
    import zray
    from tests.gates import Gate

    zray.init({init})

    @zray.remote(num_cpus=1)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    add = zray.remote(num_cpus=1)(lambda array, number: int(array.sum()) + number)
    wait = zray.remote(num_cpus=1)(lambda: Gate({gate!r}).wait(60))
    counter = Counter.remote()
    put = zray.put(np.ones(100_000))
    assert zray.get(counter.add.remote()) == 1
    held = wait.remote()
    refs = [add.remote(put, number) for number in range(5)] + [counter.add.remote() for _ in range(5)]
    print(zray.host.context.runtime.node_pid, flush=True)
    zray.get(held)
    refs += [add.remote(put, number) for number in range(5)] + [counter.add.remote() for _ in range(5)]
    print(zray.get(refs))
"""
_SUMS = [100_000 + number for number in range(5)]
DONE = f"{[*_SUMS, *range(2, 7), *_SUMS, *range(7, 12)]}\n"


@contextlib.contextmanager
def working(folder, gate, init, variables=()):
    """WORKING, which waits at the gate; and the process id of its node."""
    code = WORKING.format(root=str(ROOT), init=init, gate=gate.path)
    with start_script(folder, code, variables) as driver:
        try:
            yield driver, int(driver.stdout.readline() or driver.stderr.read())
        finally:
            driver.kill()


def finish(driver, gate):
    """It is as if nothing had been."""
    gate.open()
    said, wrong = driver.communicate(timeout=60)
    assert said == DONE, wrong


@pytest.mark.slow
def test_where_all_stood_still_nothing_is_lost(cluster, tmp_path, gate):
    """A laptop's lid, with the program on it; and before that the program alone, which others wait for."""
    with working(tmp_path, gate, f"address={cluster.address!r}") as (driver, _):
        stand_still([driver.pid], LONG_SECONDS)
        stand_still([driver.pid, *(pid for node in cluster.list_all_nodes() for pid in all_of(node))], LONG_SECONDS)
        finish(driver, gate)
    assert nodes_of(cluster) == {node.node_id for node in cluster.list_all_nodes()}


@pytest.mark.slow
def test_a_session_of_a_program_that_stood_still_goes_on(tmp_path, gate, nothing_left):
    with working(tmp_path, gate, "num_cpus=2") as (driver, node):
        stand_still([driver.pid, *descendants(node)], LONG_SECONDS)
        finish(driver, gate)


@pytest.mark.slow
def test_a_second_goes_unnoticed(cluster):
    """A second is less than any lease."""
    for node in cluster.worker_nodes:
        stand_still([node.pid], 1.0)
    assert nodes_of(cluster) == {node.node_id for node in cluster.list_all_nodes()}
    assert all(is_running(node.pid) for node in cluster.worker_nodes)


@pytest.mark.slow
def test_a_worker_that_stood_still_is_waited_for(cluster, gate):
    """Its node answers for it: a process that is stopped is no dead one."""
    cluster.connect()
    actor = zray.remote(num_cpus=1)(Counter).remote()
    pid = zray.get(actor.add.remote(), timeout=30)[1]
    work = zray.remote(lambda at: (at.wait(), os.getpid())[1]).remote(gate)
    stand_still([pid], LONG_SECONDS)
    gate.open()
    assert zray.get(actor.add.remote(), timeout=30) == (2, pid)
    assert zray.get(work, timeout=30) != pid


class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count, os.getpid()


@pytest.fixture
def hasty(nothing_left):
    """A cluster that waits for programs outside no longer than it must."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "driver_wait": DRIVER_WAIT_MIN}) as cluster:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster


@pytest.mark.slow
def test_a_program_outside_whose_lid_was_closed_goes_on(cluster, tmp_path, gate):
    """The lid of one laptop of several machines is closed for longer than any node may be silent."""
    with working(tmp_path, gate, f"address={cluster.address!r}", from_outside(cluster, tmp_path)) as (driver, node):
        stand_still([driver.pid, *descendants(node)], LONG_SECONDS)
        finish(driver, gate)


@pytest.mark.slow
def test_a_program_outside_that_is_killed_with_its_node_is_not_waited_for(cluster, tmp_path):
    """Neither can say goodbye; but their machine says that they are gone."""
    variables = from_outside(cluster, tmp_path)
    with start_script(tmp_path, OUTSIDE.format(address=cluster.address), variables) as driver:
        assert driver.stdout.readline() == "ready\n", driver.stderr.read()
        for pid in (int(driver.stdout.readline()), driver.pid):
            os.kill(pid, signal.SIGKILL)
        for node in cluster.list_all_nodes():
            with control.Control(node.session, node.pid) as link:
                until(lambda link=link: (counts := link.status().counts)["actors"] == counts["jobs"] == 0)
    until(lambda: not os.listdir(tmp_path / "outside"))  # its fork server sees to that


OUTSIDE = """
    import zray
    zray.init(address={address!r})

    @zray.remote(num_cpus=1)
    class Busy:
        def ready(self):
            return "ready"

        def stay(self):
            __import__("threading").Event().wait()

    busy = Busy.remote()
    print(zray.get(busy.ready.remote()), flush=True)
    ref = busy.stay.remote()
    print(zray.host.context.runtime.node_pid, flush=True)
    try:
        zray.get(ref)
    except zray.exceptions.ClusterLostError as error:
        print("told:", error)
        zray.shutdown()
        zray.init(address={address!r})
        print(zray.get(Busy.remote().ready.remote()))
"""


@pytest.mark.slow
def test_a_program_outside_whose_lid_was_closed_for_too_long_is_told_so(hasty, tmp_path):
    """It was given up, and nothing of it is left on the others; it can connect anew."""
    cluster = hasty
    variables = from_outside(cluster, tmp_path)
    with start_script(tmp_path, OUTSIDE.format(address=cluster.address), variables) as driver:
        assert driver.stdout.readline() == "ready\n", driver.stderr.read()
        laptop = [driver.pid, int(driver.stdout.readline())]
        for pid in laptop:
            os.kill(pid, signal.SIGSTOP)
        try:
            for node in cluster.list_all_nodes():
                with control.Control(node.session, node.pid) as link:
                    until(lambda link=link: (counts := link.status().counts)["actors"] == counts["jobs"] == 0)
        finally:
            for pid in laptop:
                os.kill(pid, signal.SIGCONT)
        said, _ = driver.communicate(timeout=30)
    told, again = said.splitlines()
    assert told.startswith("told: ") and "was removed from the cluster" in told and again == "ready", said
    assert driver.returncode == 0
    assert not os.listdir(tmp_path / "outside")


@pytest.mark.slow
def test_a_node_that_stood_still_for_long_is_lost_and_ends_when_it_finds_out(cluster):
    """The node is fenced; others do its work."""
    stopped, other = cluster.worker_nodes
    cluster.connect()
    make = zray.remote(lambda: (threading.Event().wait(0.05), zray.get_runtime_context().get_node_id())[1])
    refs = [make.remote() for _ in range(40)]
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        until(lambda: stopped.node_id not in nodes_of(cluster))
        assert other.node_id in zray.get(refs, timeout=30)
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    until(lambda: not is_running(stopped.pid))
    assert other.node_id in nodes_of(cluster)


def newcomer(cluster, known):
    """A node that nobody here has started."""
    for session in lasting_sessions():
        info = session.read_info()
        if info is not None and info.node_id and info.node_id not in known and info.cluster == cluster.address:
            return Node(session, info.node_pid)
    return None


@pytest.fixture
def returning(cluster):
    """A node of a cluster that was told to come back."""
    total = node_processes.declared_resources(1, None, {"here": 1})
    node = Node(*node_processes.start_member(total, None, cluster.address, cluster.token, rejoin=True))
    cluster.worker_nodes.append(node)
    cluster.wait_for_nodes()
    return node


@pytest.mark.slow
def test_a_node_that_was_lost_comes_back_as_another_one(cluster, returning):
    """The new node has an id of its own; nothing is left of the former one."""
    former = all_of(returning)
    known = {node.node_id for node in cluster.list_all_nodes()}
    os.kill(returning.pid, signal.SIGSTOP)
    try:
        until(lambda: returning.node_id not in nodes_of(cluster))
    finally:
        os.kill(returning.pid, signal.SIGCONT)
    another = until(lambda: newcomer(cluster, known), 60)
    assert another.session.read_info().called == returning.session.name  # `zray stop` finds it by that
    with open(another.session.log_path("node")) as log:
        first = log.readline()
    assert f"in the place of host {returning.node_id}, which ended: " in first and "no heartbeat for" in first, first
    cluster.worker_nodes[cluster.worker_nodes.index(returning)] = another
    until(lambda: not any(is_running(pid) for pid in former))
    cluster.wait_for_nodes()
    cluster.connect()
    where = zray.remote(lambda: zray.get_runtime_context().get_node_id()).options(resources={"here": 1})
    assert zray.get(where.remote(), timeout=30) == another.node_id


@pytest.mark.slow
def test_one_whose_key_was_revoked_meanwhile_does_not(cluster, returning):
    known = {node.node_id for node in cluster.list_all_nodes()}
    os.kill(returning.pid, signal.SIGSTOP)
    try:
        with control.Control(cluster.head_node.session, cluster.head_node.pid) as link:
            link.order(RevokeKey(1, returning.node_id))
        until(lambda: returning.node_id not in nodes_of(cluster))
    finally:
        os.kill(returning.pid, signal.SIGCONT)
    until(lambda: not is_running(returning.pid), 60)
    assert newcomer(cluster, known) is None


@pytest.mark.slow
def test_a_node_waits_for_a_head_that_was_killed_as_long_as_it_was_told_to(nothing_left):
    """And its drivers are told in the end."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        patient = cluster.add_node(num_cpus=1)
        hasty = cluster.add_node(num_cpus=1, head_wait=LONG_SECONDS)
        cluster.wait_for_nodes()
        os.environ["ZRAY_ADDRESS"] = "auto"  # the newest: the hasty one
        try:
            zray.init()
        finally:
            del os.environ["ZRAY_ADDRESS"]
        head = cluster.head_node
        cluster.remove_node(head)
        assert zray.get(zray.remote(lambda: 7).remote(), timeout=20) == 7  # work that needs no head goes on
        with pytest.raises(ClusterLostError, match="was not started again for 4 s"):
            zray.get(zray.remote(lambda: 1).options(resources={"never": 1}).remote(), timeout=20)
        until(lambda: not is_running(hasty.pid))
        assert not os.path.exists(hasty.session.folder)
        assert is_running(patient.pid)
        zray.shutdown()
