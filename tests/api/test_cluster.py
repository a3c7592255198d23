"""Programs on several nodes: real processes, loopback TCP, encrypted."""

import os

import numpy as np
import psutil
import pytest

import zray
from tests.gates import is_running, nothing_is_held, until
from tests.scripts import run_script
from tests.titles import is_kind
from zray.cluster_utils import Cluster
from zray.exceptions import AuthenticationError, ClusterLostError
from zray.host import context
from zray.host.client import control
from zray.host.security import token_input
from zray.host.security.keyring import KeyPair, Token


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head with one CPU, a node with two and a disk, a node with one and a tape."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=2, resources={"disk": 2})
        cluster.add_node(num_cpus=1, resources={"tape": 1})
        cluster.wait_for_nodes()
        yield cluster


@pytest.fixture
def driver(cluster):
    """A program on the head's machine: it joins through the head."""
    with zray.init(address=cluster.address, namespace="tests") as found:
        yield found


@zray.remote
def where():
    return zray.get_runtime_context().get_node_id()


@zray.remote
def total_and_double(array):
    return zray.get_runtime_context().get_node_id(), float(array.sum()), array * 2


def test_the_nodes_are_listed_from_everywhere(cluster, driver):
    expected = {node.node_id for node in cluster.list_all_nodes()}
    assert {node["NodeID"] for node in zray.nodes()} == expected
    assert all(node["Alive"] for node in zray.nodes())
    total = zray.cluster_resources()
    assert total.pop("memory") > 0 and total.pop("object_store_memory") > 0
    names = {"node:127.0.0.1": 3.0, "node:__internal_head__": 1.0}
    assert total == {"CPU": 4.0, "disk": 2.0, "tape": 1.0, **names}
    until(nothing_is_held)
    seen = zray.remote(lambda: {node["NodeID"] for node in zray.nodes()})
    assert zray.get(seen.options(resources={"tape": 1}).remote(), timeout=20) == expected


def test_a_task_runs_where_its_resources_are(cluster, driver):
    head, disk, tape = (node.node_id for node in cluster.list_all_nodes())
    assert driver["node_id"] == head
    places = [where.options(resources={name: 1}).remote() for name in ("disk", "tape") * 5]
    assert zray.get(places, timeout=20) == [disk, tape] * 5
    assert zray.get(where.remote(), timeout=20) in (head, disk, tape)


def test_large_values_go_there_and_come_back(cluster, driver):
    array = np.arange(1_000_000.0)
    one, two, three = zray.get(total_and_double.options(resources={"disk": 1}).remote(array), timeout=30), 0, 0
    assert one[0] == cluster.worker_nodes[0].node_id and one[1] == array.sum()
    np.testing.assert_array_equal(one[2], array * 2)
    # By ref: made on one node, taken on another, looked at here.
    make = zray.remote(lambda: np.full(500_000, 7.0)).options(resources={"disk": 1})
    two, three = zray.get(total_and_double.options(resources={"tape": 1}).remote(make.remote()), timeout=30)[:2]
    assert (two, three) == (cluster.worker_nodes[1].node_id, 3_500_000.0)


def test_a_large_result_stays_where_it_is_until_it_is_wanted(cluster, driver):
    make = zray.remote(lambda: np.ones(500_000)).options(resources={"disk": 1})
    ref = make.remote()
    assert zray.wait([ref], timeout=20) == ([ref], [])
    store = context.runtime.ask(zray_status).counts["store_objects"]
    assert zray.get(ref, timeout=20).sum() == 500_000
    assert context.runtime.ask(zray_status).counts["store_objects"] == store + 1


def zray_status(request):
    from zray.wire.session import GetStatus

    return GetStatus(request)


def test_errors_come_back(driver):
    def fail():
        raise KeyError("far away")

    with pytest.raises(KeyError, match="far away"):
        zray.get(zray.remote(fail).options(resources={"tape": 1}).remote(), timeout=20)


def test_a_flood_is_spread_over_the_nodes(cluster, driver):
    def work():
        import threading

        threading.Event().wait(0.05)
        return zray.get_runtime_context().get_node_id()

    used = set(zray.get([zray.remote(work).remote() for _ in range(60)], timeout=40))
    assert used == {node.node_id for node in cluster.list_all_nodes()}


def test_nested_tasks_and_refs_travel(driver):
    def inner(x):
        return x + 1

    def outer(refs):
        far = zray.remote(inner).options(resources={"tape": 1})
        return zray.get(far.remote(zray.get(refs[0])))

    ref = zray.put(41)
    assert zray.get(zray.remote(outer).options(resources={"disk": 1}).remote([ref]), timeout=30) == 42


def test_a_program_from_outside_joins_with_the_token(cluster, tmp_path):
    """No session of this cluster is to be found where it looks: it gets a node of its own, without CPUs."""
    code = """
        import os, zray
        zray.init(address=os.environ["CLUSTER"])
        assert "ZRAY_TOKEN" not in os.environ
        seen = zray.remote(lambda: ("ZRAY_TOKEN" in os.environ, zray.get_runtime_context().get_node_id()))
        leaked, node = zray.get(seen.remote(), timeout=20)
        nodes = {node["NodeID"] for node in zray.nodes()}
        assert not leaked and node in nodes
        assert zray.get_runtime_context().get_node_id() not in nodes
        print(len(nodes), zray.cluster_resources()["CPU"], sum(zray.get([zray.remote(lambda: 1).remote()] * 3)))
        """
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    os.environ.update(CLUSTER=cluster.address, ZRAY_TOKEN=cluster.token, ZRAY_TMPDIR=str(folder))
    try:
        result = run_script(tmp_path, code)
    finally:
        for name in ("CLUSTER", "ZRAY_TOKEN", "ZRAY_TMPDIR"):
            del os.environ[name]
    assert result.returncode == 0, result.stderr
    assert result.stdout == "3 4.0 3\n"
    cluster.wait_for_nodes()
    assert not list(folder.iterdir())


def test_address_where_nothing_listens_is_said_before_a_token_is_asked_for(monkeypatch):
    monkeypatch.delenv("ZRAY_TOKEN", raising=False)
    monkeypatch.setattr(token_input, "_taken", "")  # that of a test before
    with pytest.raises(ConnectionError, match=r"Nothing listens at 127.0.0.1:1: the head has ended"):
        zray.init(address="127.0.0.1:1")


def test_without_a_token_nobody_joins_from_outside(cluster, tmp_path):
    code = "import os, zray; zray.init(address=os.environ['CLUSTER'])"
    os.environ.update(CLUSTER=cluster.address, ZRAY_TMPDIR=str(tmp_path))
    try:
        result = run_script(tmp_path, code)
    finally:
        del os.environ["CLUSTER"], os.environ["ZRAY_TMPDIR"]
    assert result.returncode == 1
    assert "ConnectionError" in result.stderr and "ZRAY_TOKEN is not set" in result.stderr


def test_token_that_is_none_is_refused_on_a_machine_of_the_cluster_too(cluster, monkeypatch):
    """No token is needed there; on any other machine the program would fail."""
    monkeypatch.setenv("ZRAY_TOKEN", "abc")
    monkeypatch.setattr(token_input, "_taken", "")
    with pytest.raises(zray.exceptions.AuthenticationError, match="This is not a join token"):
        zray.init(address=cluster.address)
    assert not zray.is_initialized()


@pytest.mark.parametrize("wrong, why", [("pair", "does not know this token"), ("head_public", "wrong cluster key")])
def test_a_token_of_another_cluster_is_an_error_of_authentication(cluster, wrong, why):
    token = Token.decode(cluster.token)
    setattr(token, wrong, KeyPair.draw() if wrong == "pair" else KeyPair.draw().public)
    kept, cluster.token = cluster.token, token.encode()
    try:
        with pytest.raises(AuthenticationError, match=why):
            cluster.add_node(num_cpus=1)
    finally:
        cluster.token = kept


@pytest.mark.parametrize("scheme", ["", "ray://", "zray://"])
def test_a_program_can_tell_others_where_its_cluster_is(cluster, scheme):
    with zray.init(address=scheme + cluster.address) as found:
        assert found["address"] == found.address_info["gcs_address"] == cluster.address
        there = zray.remote(lambda: zray.get_runtime_context().gcs_address).options(resources={"tape": 1})
        assert zray.get(there.remote(), timeout=20) == cluster.address


@pytest.mark.parametrize(
    "address", ["nowhere", "host:", ":1", "127.0.0.1:0", "127.0.0.1:70000", "a b:1", "x" * 300 + ":1"]
)
def test_an_address_that_is_none_is_refused(address, nothing_left):
    with pytest.raises((ValueError, ConnectionError)):
        zray.init(address=address)


# --- nodes that go ---


def test_a_node_that_leaves_is_listed_no_more(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        node = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        cluster.remove_node(node, allow_graceful=True)
        assert not is_running(node.pid)
        cluster.wait_for_nodes()


def test_when_the_head_ends_its_nodes_end_and_their_drivers_are_told(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        node = cluster.add_node(num_cpus=1)
        head, cluster.head_node = cluster.head_node, None

        os.environ["ZRAY_ADDRESS"] = "auto"  # the newest: the node
        try:
            zray.init()
        finally:
            del os.environ["ZRAY_ADDRESS"]
        assert zray.get(where.remote(), timeout=20) == node.node_id
        control.end(head.session, head.pid)
        with pytest.raises(ClusterLostError, match="head of the cluster has ended"):
            zray.get(zray.remote(lambda: 1).options(resources={"never": 1}).remote(), timeout=20)
        zray.shutdown()
        until(lambda: not is_running(node.pid))
        cluster.remove_node(node)


def test_what_a_driver_has_started_elsewhere_ends_with_it(cluster, tmp_path):
    code = f"""
        import os, pathlib, threading, time, zray
        zray.init(address="{cluster.address}")

        def stay(path):
            pathlib.Path(path).write_text(str(os.getpid()) + ".")
            threading.Event().wait()

        ref = zray.remote(stay).options(resources={{"tape": 1}}).remote("{tmp_path}/pid")
        while not os.path.exists("{tmp_path}/pid"):
            time.sleep(0.01)
        """
    assert run_script(tmp_path, code).returncode == 0
    pid = int((tmp_path / "pid").read_text().rstrip("."))
    until(lambda: not is_running(pid))
    tape = cluster.worker_nodes[1]
    with control.Control(tape.session, tape.pid) as link:
        until(lambda: (counts := link.status().counts)["jobs"] == counts["tasks"] == counts["objects"] == 0)


def test_tasks_elsewhere_know_the_namespace_and_modules_of_their_program(cluster, tmp_path):
    (tmp_path / "beside_the_script.py").write_text("def answer():\n    return 42\n")
    code = f"""
        import os, zray, beside_the_script
        zray.init(address="{cluster.address}", namespace="here")
        far = zray.remote(beside_the_script.answer).options(resources={{"tape": 1}})
        facts = lambda: (zray.get_runtime_context().namespace, os.getcwd() == "{os.getcwd()}")
        there = zray.remote(facts).options(resources={{"disk": 1}})
        print(zray.get(far.remote(), timeout=20), *zray.get(there.remote(), timeout=20))
        """
    done = run_script(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "42 here True\n"), done.stderr


def test_each_node_listens_on_one_port_and_its_workers_on_none(cluster):
    """A firewall needs one rule per node."""
    with zray.init(address=cluster.address):
        assert zray.get([zray.remote(lambda: 1).remote() for _ in range(20)], timeout=20) == [1] * 20
        for node in [cluster.head_node, *cluster.worker_nodes]:
            assert ports_of(node) == {int(node.session.read_info().endpoint.rpartition(":")[2])}


def test_a_node_that_runs_replicas_listens_on_one_port_too(nothing_left):
    """They call all others; two members of one chain meet through the head."""
    with Cluster(True, head_node_args={"num_cpus": 1, "gcs_replicas": 3}) as cluster:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        for node in nodes:
            until(lambda node=node: any(is_kind(" ".join(one.cmdline()).encode(), "service") for one in family(node)))
        with zray.init(address=cluster.address):
            assert zray.get([zray.remote(lambda: 1).remote() for _ in range(20)], timeout=20) == [1] * 20
        for node in nodes:
            assert ports_of(node) == {int(node.session.read_info().endpoint.rpartition(":")[2])}


def family(node):
    """Its processes."""
    process = psutil.Process(node.pid)
    return [process, *process.children(recursive=True)]


def ports_of(node):
    """On which it or a process of it listens."""
    pids = {one.pid for one in family(node)}
    return {
        connection.laddr.port
        for connection in psutil.net_connections("inet")
        if connection.pid in pids and connection.status == psutil.CONN_LISTEN
    }
