"""A node that others reach elsewhere than where it listens: behind a router that forwards a port."""

import errno
import os
import socket
from types import SimpleNamespace

import pytest

import zray
from tests.host.wires import Wire
from zray.cluster_utils import Cluster, Node
from zray.host.cluster import admission
from zray.host.cluster.head_state import StateFolder
from zray.host.process import node_processes
from zray.host.security.token_input import advertised_address
from zray.host.session.session import Session
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

LARGE = 3_000_000


@pytest.fixture
def router(nothing_left):
    """It forwards what comes to its port to whoever is behind it."""
    with Wire(0, socket.create_server(("127.0.0.1", 0))) as wire:
        yield wire


@pytest.mark.slow
def test_others_come_to_where_a_node_says_that_it_is(router):
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        total = node_processes.declared_resources(1, None, None)
        behind = Node(
            *node_processes.start_member(total, None, cluster.address, cluster.token, advertise=router.endpoint)
        )
        cluster.worker_nodes.append(behind)
        router.port_behind = int(behind.address.rpartition(":")[2])
        assert behind.address != router.endpoint
        other = cluster.add_node(num_cpus=1)  # later: it is the one that connects
        cluster.wait_for_nodes()
        cluster.connect()
        try:
            make = zray.remote(lambda: bytes(LARGE)).options(scheduling_strategy=there(behind))
            take = zray.remote(len).options(scheduling_strategy=there(other))
            assert zray.get(take.remote(make.remote()), timeout=60) == LARGE
        finally:
            zray.shutdown()
        assert router.carried >= 1


@pytest.mark.slow
def test_a_head_behind_a_router_is_joined_at_the_routers_port(router):
    """It knows nothing of that."""
    with Cluster(True, head_node_args={"num_cpus": 1}) as cluster:
        router.port_behind = int(cluster.address.rpartition(":")[2])
        total = node_processes.declared_resources(1, None, {"far": 1})
        far = Node(*node_processes.start_member(total, None, router.endpoint, cluster.token))
        cluster.worker_nodes.append(far)
        cluster.wait_for_nodes()
        assert router.carried
        cluster.connect()
        try:
            take = zray.remote(len).options(scheduling_strategy=there(cluster.head_node))
            make = zray.remote(lambda: (bytes(LARGE), zray.get(take.remote(bytes(LARGE)))))
            value, length = zray.get(make.options(resources={"far": 1}).remote(), timeout=60)
            assert len(value) == length == LARGE
        finally:
            zray.shutdown()


def there(node):
    return NodeAffinitySchedulingStrategy(node.node_id, soft=False)


@pytest.mark.parametrize(
    "text, address",
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.1:7", "127.0.0.1:7"), ("localhost:70", "127.0.0.1:70")],
)
def test_what_may_be_advertised(text, address):
    assert advertised_address(text) == address


@pytest.mark.parametrize("text", ["", ":7", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:70000", "0.0.0.0", "0.0.0.0:7"])
def test_what_may_not(text):
    with pytest.raises(ValueError):
        advertised_address(text)


@pytest.mark.parametrize("asked", [None, 0])
def test_a_head_that_has_another_port_than_the_usual_one_says_so(asked, tmp_path, monkeypatch):
    """Not where it was told to take any."""
    session = Session("it", str(tmp_path))
    os.mkdir(session.folder)
    state = StateFolder(str(tmp_path / "state"), {})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        monkeypatch.setattr(admission, "HEAD_PORT", usual)
        head = admission.found_cluster(session, "h" * 16, state, asked, lambda line: None)
    try:
        port = head.endpoint.rpartition(":")[2]
        expected = f"Port {usual} is taken, so this head listens on port {port}" if asked is None else ""
        assert head.notice.partition(";")[0] == expected
    finally:
        head.close()
        head.neighbours.close()
        state.close()


@pytest.mark.parametrize("was_there", [False, True])
def test_a_head_waits_for_its_port_only_where_one_before_it_had_that(was_there, tmp_path, monkeypatch):
    """What the end of that one has left may hold it for a moment."""
    monkeypatch.setattr(admission, "PORT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if was_there:
            former = StateFolder(str(tmp_path / "state"), {"port": port})
            former.settle(port)
            former.close()
        state = StateFolder(str(tmp_path / "state"), {"port": port})
        listener = SimpleNamespace(tries=0)

        def bind(host, number):
            listener.tries += 1
            raise OSError(errno.EADDRINUSE, f"port {number} of {host} is taken")

        listener.bind = bind
        with pytest.raises(OSError, match="is taken"):
            admission.bind_head(listener, state, port)
        state.close()
    assert (listener.tries > 1) == was_there


@pytest.mark.slow
def test_a_port_that_is_taken_is_said():
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ConnectionError, match=f"cannot listen where it should.*{port}"):
                node_processes.start_member({}, None, cluster.address, cluster.token, port=port)
