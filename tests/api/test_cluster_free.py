"""zray.util.free in a cluster."""

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.exceptions import ObjectFreedError
from zray.util import free
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from zray.util.state import list_objects

ELEMENTS = 100_000
PAGE = 4096


def in_use():
    free_bytes = zray.available_resources()["object_store_memory"]
    return zray.cluster_resources()["object_store_memory"] - free_bytes


def page_bytes(size):
    """Return what the store takes for so many bytes."""
    return -(-size // PAGE) * PAGE


def test_values_are_freed_on_all_nodes(cluster):
    cluster.connect()

    @zray.remote(num_cpus=1)
    def make():
        return np.ones(ELEMENTS)

    @zray.remote(num_cpus=1)
    def read_again(refs):
        return float(zray.get(refs[0]).sum())

    for node in zray.nodes():
        if node["Resources"].get("CPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            zray.get(read_again.options(scheduling_strategy=there).remote([zray.put(np.ones(1))]))
    code = 3 * page_bytes(max(entry["object_size"] for entry in list_objects()))  # its modules, on all nodes
    until(lambda: in_use() == code)
    refs = [zray.put(np.ones(ELEMENTS)), make.remote(), make.remote()]
    until(lambda: in_use() > code)
    assert zray.get([read_again.remote([ref]) for ref in refs[:2]]) == [ELEMENTS, ELEMENTS]
    zray.wait(refs, num_returns=3, fetch_local=False)  # the last one is on another node, and nowhere else
    free(refs)
    for ref in refs:
        for get in (lambda ref=ref: zray.get(ref), lambda ref=ref: zray.get(read_again.remote([ref]))):
            with pytest.raises(ObjectFreedError):
                get()
    until(lambda: in_use() == code)
