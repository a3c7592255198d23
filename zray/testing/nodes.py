"""Deaths of nodes that hold a value."""

from __future__ import annotations

from ..api.cluster_utils import Cluster
from ..api.objects import wait
from ..util.state import list_objects
from .kinds import Fault
from .ledger import Happened, Ledger

ROWS_MAX = 1_000


def kill_holders(fault: Fault, ledger: Ledger) -> None:
    """Kill the nodes that hold a fault's value, once the value is there, and wait until the cluster knows.

    Raises:
        NotImplementedError: no node that may be killed holds it; or, if it is to be lost, another one too.
    """
    assert fault.ref is not None
    wait([fault.ref], fetch_local=False)
    rows = list_objects(filters=[("object_id", "=", fault.object_id)], limit=ROWS_MAX)
    holders = {row["node_id"] for row in rows if row["state"] in ("MEMORY", "DISK")}
    found = [(cluster, node) for cluster in Cluster.all for node in cluster.worker_nodes if node.node_id in holders]
    others = holders - {node.node_id for _, node in found}
    if not found or (others and fault.kind == "lose_object"):
        raise NotImplementedError(_why_not(fault, holders, others))
    for cluster, node in found:
        ledger.note(Happened(str(fault), pid=node.pid, node_id=node.node_id))
        cluster.remove_node(node)
    for cluster in {cluster for cluster, _ in found}:
        cluster.wait_for_nodes()


def _why_not(fault: Fault, holders: set[str], others: set[str]) -> str:
    if not holders:
        return f"{fault}: no node holds the value, since values of at most 100 KiB travel inside messages."
    return (
        f"{fault}: node {', '.join(sorted(others))} holds the value, and zray.testing kills only nodes that "
        "zray.cluster_utils.Cluster.add_node has added to a head of this process."
    )
