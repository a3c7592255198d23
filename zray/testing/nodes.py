"""Faults of values: deaths of the nodes that hold a value, and stores that lose it."""

from __future__ import annotations

from ..api.cluster_utils import Cluster
from ..api.freeing import lose
from ..api.objects import wait
from ..api.sessions import require_runtime
from ..util.state import list_objects
from .kinds import Fault
from .ledger import Happened, Ledger

ROWS_MAX = 1_000


def strike(fault: Fault, ledger: Ledger) -> None:
    """Do what a fault of a value says, once the value is there.

    Raises:
        NotImplementedError: it cannot be done: the text says why.
    """
    (_lose if fault.kind == "lose_object" else _kill_holders)(fault, ledger)


def _holders(fault: Fault) -> list[str]:
    """Return the ids of the nodes that hold a fault's value, once the value is there.

    Raises:
        NotImplementedError: no node has it, or the session is in local mode.
    """
    assert fault.ref is not None
    if getattr(require_runtime(), "session", "") == "local":
        raise NotImplementedError(f"{fault}: zray.testing.faults needs nodes, which local mode does not have.")
    wait([fault.ref], fetch_local=False)
    rows = list_objects(filters=[("object_id", "=", fault.object_id)], limit=ROWS_MAX)
    holders = [row["node_id"] for row in rows if row["state"] in ("MEMORY", "DISK")]
    if not holders:
        raise NotImplementedError(
            f"{fault}: no node holds the value, since values of at most 100 KiB travel inside messages."
        )
    return sorted(set(holders))


def _lose(fault: Fault, ledger: Ledger) -> None:
    holders = _holders(fault)
    assert fault.ref is not None
    kept = lose(fault.ref)
    if kept:
        nodes = ", ".join(fact.node.partition("/")[0] for fact in kept)
        raise NotImplementedError(
            f"{fault}: node {nodes} keeps the value, since a task or an actor there takes it, or an actor with "
            "checkpoint_interval may.  Get the results of such tasks first, or open the block before you submit them."
        )
    for node_id in holders:
        ledger.note(Happened(str(fault), node_id=node_id))


def _kill_holders(fault: Fault, ledger: Ledger) -> None:
    """Kill the nodes that hold a fault's value, and wait until the cluster knows."""
    holders = set(_holders(fault))
    found = [(cluster, node) for cluster in Cluster.all for node in cluster.worker_nodes if node.node_id in holders]
    if not found:
        raise NotImplementedError(
            f"{fault}: node {', '.join(sorted(holders))} holds the value, and zray.testing kills only nodes that "
            "zray.cluster_utils.Cluster.add_node has added to a head of this process."
        )
    for cluster, node in found:
        ledger.note(Happened(str(fault), pid=node.pid, node_id=node.node_id))
        cluster.remove_node(node)
    for cluster in {cluster for cluster, _ in found}:
        cluster.wait_for_nodes()
