"""The head's GCS in processes of its own, and on disk."""

import contextlib
import os
import signal

import pytest

import zray
from tests.gates import until
from tests.titles import is_kind
from zray.cluster_utils import Cluster, Node
from zray.exceptions import ZrayError
from zray.host.client import control
from zray.host.cluster import head
from zray.host.process import node_processes
from zray.host.process.process_utils import children_of
from zray.host.session.session import Session

MANY = {"gcs_shards": 2, "gcs_replicas": 2, "global_schedulers": 2}


def services(pid):
    """{what the process was started for: its pid}"""
    found = {}
    for child in children_of(pid):
        try:
            with open(f"/proc/{child}/cmdline", "rb") as file:
                if is_kind(file.read(), "service"):
                    found[os.path.basename(os.readlink(f"/proc/{child}/fd/1")).removesuffix(".log")] = child
        except OSError:
            continue  # it ended meanwhile
    return found


def fork_server(pid):
    """Its pid; 0: there is none at the moment."""
    return next((child for child in children_of(pid) if is_kind(command_line(child), "fork server")), 0)


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""  # it ended meanwhile


@pytest.fixture
def cluster(nothing_left):
    """`cluster(**head_node_args)`: with a second node, which has the resource "far", and a driver on the head."""
    with Cluster() as made:

        def start(**arguments):
            made.add_node(**{"num_cpus": 1, **arguments})
            made.add_node(num_cpus=1, resources={"far": 1})
            made.wait_for_nodes()
            made.connect()
            return made

        yield start
        zray.shutdown()


def far(function):
    return zray.remote(function).options(resources={"far": 0.01})


def test_shards_replicas_and_schedulers_are_processes_and_do_the_work(cluster):
    made = cluster(**MANY)
    names = {"gcs-0-0", "gcs-0-1", "gcs-1-0", "gcs-1-1", "global-0", "global-1"}
    assert set(services(made.head_node.pid)) == names
    refs = [far(lambda number: number * 2).remote(number) for number in range(50)]
    assert zray.get(refs, timeout=30) == [number * 2 for number in range(50)]
    chained = far(sum).remote([1, 2, 3])
    assert zray.get(far(lambda value: value + 1).remote(chained), timeout=30) == 7


def test_one_replica_and_one_scheduler_are_in_the_head(cluster):
    made = cluster()
    assert not services(made.head_node.pid)
    assert zray.get(far(lambda: 1).remote(), timeout=30) == 1
    path = os.path.join(made.head_node.session.folder, "state", "gcs-0", "0")
    assert any(name.startswith("log-") for name in os.listdir(path))


@pytest.mark.parametrize("victim", ["gcs-0-0", "gcs-0-1"])
def test_a_replica_is_killed_and_replaced_while_tasks_run(cluster, victim):
    made = cluster(gcs_replicas=2)
    work = far(lambda number: number)
    for _ in range(2):
        until(lambda: is_settled(made))
        before = services(made.head_node.pid)[victim]
        refs = [work.remote(number) for number in range(100)]
        os.kill(before, signal.SIGKILL)
        refs += [work.remote(number) for number in range(100)]
        assert zray.get(refs, timeout=30) == [*range(100)] * 2
        until(lambda pid=before: services(made.head_node.pid).get(victim, pid) != pid)


def counts(made):
    """What the head's roles count."""
    with control.Control(made.head_node.session, made.head_node.pid) as link:
        return link.status().counts


def is_on(made, machines):
    """Whether the chain has two members that have everything, on so many nodes."""
    found = counts(made)
    return (found["gcs-0_replicas"], found["gcs-0_machines"]) == (2, machines)


def is_settled(made):
    """Whether it is on both nodes, and what the head runs beyond that is a spare: nobody is on the way out."""
    return is_on(made, machines=2) and counts(made)["gcs-0_spares"] == 1


def test_replicas_and_schedulers_outlive_the_fork_servers_beside_them(cluster):
    """What a dead fork server leaves behind is ended, and nothing else: not all replicas of a shard at once."""
    made = cluster(gcs_replicas=2, global_schedulers=2)
    until(lambda: is_settled(made))
    pids = [node.pid for node in made.list_all_nodes()]
    before = [services(pid) for pid in pids]
    assert [len(found) for found in before] == [4, 1]
    forkers = [fork_server(pid) for pid in pids]
    for pid in forkers:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(fork_server(pid) not in (0, old) for pid, old in zip(pids, forkers, strict=True)))
    assert zray.get([far(lambda: 1).remote() for _ in range(10)], timeout=30) == [1] * 10
    assert [services(pid) for pid in pids] == before


def test_all_replicas_at_once_go_on_from_their_logs(cluster):
    made = cluster(gcs_replicas=2)
    assert zray.get([far(lambda: 1).remote() for _ in range(10)], timeout=30) == [1] * 10
    for pid in services(made.head_node.pid).values():
        os.kill(pid, signal.SIGKILL)
    assert zray.get([far(lambda: 2).remote() for _ in range(10)], timeout=30) == [2] * 10
    until(lambda: is_settled(made))


@pytest.mark.slow
def test_the_second_replica_lives_on_the_other_node_and_either_may_be_lost(cluster):
    """Nothing that was acknowledged is lost, and another one catches up: a new process there, or the head's spare."""
    made = cluster(gcs_replicas=2, resources={"here": 1})
    (node,) = made.worker_nodes
    until(lambda: is_on(made, machines=2))
    (there,) = services(node.pid).values()
    lasting = zray.remote(type("Lasting", (), {"ping": lambda self: 7}))
    lasting.options(name="lasting", lifetime="detached", num_cpus=0, resources={"here": 0.1}).remote()
    ping = lambda: zray.get(zray.get_actor("lasting").ping.remote(), timeout=30)  # noqa: E731
    assert ping() == 7
    # The head's members, all at once: only the other node has everything now.
    for pid in services(made.head_node.pid).values():
        with contextlib.suppress(ProcessLookupError):  # a spare to be, that has just been taken out
            os.kill(pid, signal.SIGKILL)
    assert ping() == 7
    assert zray.get([far(lambda number: number).remote(number) for number in range(20)], timeout=30) == [*range(20)]
    until(lambda: is_on(made, machines=2))
    # The one there.
    os.kill(there, signal.SIGKILL)
    assert ping() == 7
    until(lambda: there not in services(node.pid).values() and is_on(made, machines=2))
    # The whole node.
    made.remove_node(node)
    until(lambda: is_on(made, machines=1))
    assert ping() == 7


@pytest.mark.slow
def test_a_node_that_is_to_run_no_replicas_runs_none(nothing_left):
    """The second replica waits for one that may."""
    with Cluster(True, head_node_args={"num_cpus": 0, "gcs_replicas": 2}) as made:
        total = node_processes.declared_resources(1, None, None)
        unwilling = Node(
            *node_processes.start_member(total, None, made.address, made.token, replicas=False, is_bound=True)
        )
        made.worker_nodes.append(unwilling)
        willing = made.add_node(num_cpus=1)
        until(lambda: is_on(made, machines=2))
        assert len(services(willing.pid)) == 1 and not services(unwilling.pid)


def test_nothing_is_left_of_a_head_that_is_killed(cluster, leftovers):
    made = cluster(**MANY)
    pids = services(made.head_node.pid)
    os.kill(pids["global-0"], signal.SIGSTOP)  # it cannot see anything any more
    zray.shutdown()
    made.remove_node(made.head_node)
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()))


def test_two_heads_on_one_state_folder(tmp_path, nothing_left):
    path = str(tmp_path / "state")
    with Cluster(True, head_node_args={"num_cpus": 0, "state_dir": path}):
        with pytest.raises(ConnectionError, match="another head keeps its state"):
            Cluster(True, head_node_args={"num_cpus": 0, "state_dir": path})
    with Cluster(True, head_node_args={"num_cpus": 0, "state_dir": path, "gcs_replicas": 2}):
        pass
    with pytest.raises(ConnectionError, match="1 shards, not of 3"):
        Cluster(True, head_node_args={"num_cpus": 0, "state_dir": path, "gcs_shards": 3})


def test_a_head_that_cannot_listen_leaves_its_state_to_others(tmp_path, monkeypatch):
    """It has read its log by then."""

    def found_cluster(session, host, state, port, log):
        raise ZrayError("its port is taken")

    monkeypatch.setattr(head, "found_cluster", found_cluster)
    cluster = {"kind": "head", "state_dir": str(tmp_path / "state"), "port": 0}
    for _ in range(2):
        with pytest.raises(ZrayError, match="its port is taken"):
            head.take_up(Session("it", str(tmp_path)), "h" * 16, cluster, lambda line: None, lambda role, message: None)
    assert os.path.exists(tmp_path / "state" / "gcs-0" / "0" / "lock")
    descriptors = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert not [path for path in descriptors if path.startswith(str(tmp_path))]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_damaged_log_is_refused_with_its_place(tmp_path, nothing_left, replicas):
    path = tmp_path / "state"
    arguments = {"num_cpus": 0, "state_dir": str(path), "gcs_replicas": replicas}
    for _ in range(2):
        with Cluster(True, head_node_args=arguments):
            pass
    (log,) = (path / "gcs-0" / "0").glob("log-*")
    data = bytearray(log.read_bytes())
    data[len(data) // 2 - 8] ^= 0xFF
    log.write_bytes(data + data)
    with pytest.raises(ConnectionError, match=r"log-\d+ at byte \d+"):
        Cluster(True, head_node_args=arguments)


def test_a_head_on_the_state_of_another_one_forgets_its_nodes(cluster, tmp_path):
    """What they held is free, whoever is the head now."""
    made = cluster(state_dir=str(tmp_path / "state"))
    refs = [far(lambda: bytes(200_000)).remote() for _ in range(5)]
    zray.wait(refs, num_returns=5, timeout=30)
    name = zray.remote(type("Named", (), {"ping": lambda self: 1})).options(name="once", lifetime="detached").remote()
    assert zray.get(name.ping.remote(), timeout=30) == 1
    with control.Control(made.head_node.session, made.head_node.pid) as link:
        until(lambda: link.status().counts["task_records"])
    made.shutdown()
    zray.shutdown()
    with Cluster(True, head_node_args={"num_cpus": 1, "state_dir": str(tmp_path / "state")}) as again:
        with control.Control(again.head_node.session, again.head_node.pid) as link:
            until(lambda: link.status().counts["epoch"] > 1 << 20)
            until(lambda: link.status().counts["task_records"] == 0)
