"""What is lost with a node is made again from specs that lie on the head's disk: real processes, kill -9."""

from pathlib import Path

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.roles.gcs.flushing import unpack_page
from zray.store.records import PAGE, Scan

LINES = 4


def flushed(cluster):
    """How many specs lie in pages on the disk."""
    pages = Path(cluster.head_node.session.folder).rglob("page-*")
    found = [Scan(str(path), PAGE, may_be_torn=False) for path in pages if path.suffix != ".new"]
    return sum(len(unpack_page(record.payload)) for scan in found for record in scan)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [{}, {"gcs_replicas": 2}])
def test_what_is_lost_is_made_again_from_specs_on_disk(plan, nothing_left):
    """A line of two tasks each: what the second one took is let go of by its program, and made again too."""

    def base(number):
        return np.full(100_000, number, np.uint64)

    def with_place(array):
        here = int(zray.get_runtime_context().get_node_id(), 16)
        return here, array + 1

    with Cluster(True, head_node_args={"num_cpus": 0, "gcs_lineage_memory": 1, **plan}) as cluster:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            bases = [zray.remote(base).remote(number) for number in range(LINES)]
            pairs = [zray.remote(with_place).options(num_returns=2).remote(array) for array in bases]
            del bases
            places = zray.get([place for place, _ in pairs], timeout=30)
            until(lambda: flushed(cluster) >= 2 * LINES)
            doomed = next(node for node in cluster.worker_nodes if node.node_id == f"{places[0]:016x}")
            cluster.remove_node(doomed)
            arrays = zray.get([array for _, array in pairs], timeout=60)
            assert [set(array) for array in arrays] == [{number + 1} for number in range(LINES)]
