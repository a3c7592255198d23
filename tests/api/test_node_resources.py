"""Resources that every node has by itself: names of the node, and the size of its object store."""

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.util import get_node_ip_address
from zray.util.placement_group import placement_group

STORE = 64 << 20
LARGE = 30 << 20  # more than the program's modules, which both nodes have
HEAD = "node:__internal_head__"


@zray.remote
def where():
    return zray.get_runtime_context().get_node_id()


def test_session_of_one_machine(start):
    start(num_cpus=1, object_store_memory=STORE, _memory=1e9)
    total = zray.cluster_resources()
    own = f"node:{get_node_ip_address()}"
    assert total == {"CPU": 1.0, "memory": 1e9, "object_store_memory": float(STORE), own: 1.0, HEAD: 1.0}
    assert all(type(amount) is float for amount in total.values())
    assert zray.available_resources() == total
    (node,) = zray.nodes()
    assert node["Resources"] == total
    assert own == f"node:{node['NodeManagerAddress']}"
    refs = [where.options(resources={name: 0.01}).remote() for name in (own, HEAD)]
    assert zray.get(refs, timeout=30) == [node["NodeID"]] * 2
    with pytest.raises(zray.exceptions.TaskUnschedulableError):
        zray.get(where.options(resources={own: 1.5}).remote(), timeout=30)


def test_values_in_the_store_are_not_available(start):
    start(num_cpus=1, object_store_memory=STORE)
    ref = zray.put(np.zeros(10 << 20, np.uint8))
    until(lambda: STORE - zray.available_resources()["object_store_memory"] == pytest.approx(10 << 20, abs=1 << 16))
    del ref
    until(lambda: zray.available_resources()["object_store_memory"] == STORE)


def test_nodes_of_a_cluster(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE}) as cluster:
        second = cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"second": 1})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            address = f"node:{get_node_ip_address()}"
            total = zray.cluster_resources()
            assert (total[HEAD], total[address], total["object_store_memory"]) == (1.0, 2.0, 2.0 * STORE)
            for node in zray.nodes():
                assert node["Resources"]["object_store_memory"] == STORE
                assert (HEAD in node["Resources"]) == (node["NodeID"] == cluster.head_node.node_id)
            assert zray.get(where.options(resources={HEAD: 0.001}).remote(), timeout=30) == cluster.head_node.node_id
            here = where.options(resources={address: 0.01, "second": 0.01})
            assert zray.get(here.remote(), timeout=30) == second.node_id
            group = placement_group([{"CPU": 1, HEAD: 0.01}, {"CPU": 1, address: 0.01}], strategy="STRICT_SPREAD")
            assert group.wait(30)

            @zray.remote(resources={"second": 0.1}, num_cpus=0)
            def keep():
                return zray.put(np.zeros(LARGE, np.uint8))

            ref = zray.get(keep.remote(), timeout=30)
            until(lambda: 2 * STORE - zray.available_resources()["object_store_memory"] >= LARGE)
            del ref
            until(lambda: 2 * STORE - zray.available_resources()["object_store_memory"] < LARGE)
