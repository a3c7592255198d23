"""Clusters that several test files use."""

from collections.abc import Iterator
from contextlib import contextmanager

import zray
from zray.cluster_utils import Cluster


@contextmanager
def two_with_disks() -> Iterator[Cluster]:
    """A head without CPUs, and two nodes with disks; a program on the head."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=1, resources={"disk": 4})
        cluster.add_node(num_cpus=1, resources={"disk": 4})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address, namespace="tests"):
            yield cluster
