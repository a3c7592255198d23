"""The nodes of the cluster and their resources, as programs ask for them."""

from __future__ import annotations

from typing import Any

from ..wire.hosts import GetNodes
from ..wire.task_spec import RESOURCE_UNIT
from .sessions import require_runtime

__all__ = ["available_resources", "cluster_resources", "nodes"]


def cluster_resources() -> dict[str, float]:
    """Sum up the resources of all living nodes.

    Returns:
        Amounts by name, as {"CPU": 4.0, "memory": 8e9}.  memory and object_store_memory are in bytes.
    """
    return _sum_of_resources("total")


def available_resources() -> dict[str, float]:
    """Sum up the resources that no task and no actor holds now.

    Returns:
        Amounts by name, as {"CPU": 4.0, "memory": 8e9}.  A resource without a free amount is left out.
    """
    return _sum_of_resources("free")


def _sum_of_resources(which: str) -> dict[str, float]:
    sums: dict[str, int] = {}
    for node in ask_for_nodes():
        for name, amount in getattr(node, which).items():
            sums[name] = sums.get(name, 0) + amount
    return {name: amount / RESOURCE_UNIT for name, amount in sums.items() if amount}


def nodes() -> list[dict[str, Any]]:
    """List the nodes of the session.  Programs that joined from other machines are left out.

    Returns:
        A dict for each node, with Ray's keys: "NodeID", "Alive", "NodeManagerAddress", "Resources", "Labels" and
        others.  The last hundred nodes that died or left are listed too: "Alive" is False, and "DeathReasonMessage"
        says why.
    """
    found = []
    for node in ask_for_nodes(with_dead=True):
        if node.kind != "driver":
            address, _, port = node.endpoint.rpartition(":")
            found.append(
                {
                    "NodeID": node.node.partition("/")[0],
                    "Alive": not node.death,
                    "NodeManagerAddress": address.strip("[]"),
                    "NodeManagerHostname": node.hostname,
                    "NodeManagerPort": int(port or 0),
                    "NodeName": address.strip("[]"),
                    "DeathReasonMessage": node.death,
                    "alive": not node.death,
                    "Resources": {name: amount / RESOURCE_UNIT for name, amount in node.total.items()},
                    "Labels": node.labels,
                }
            )
    return found


def ask_for_nodes(*, with_dead: bool = False) -> list[Any]:
    """Facts on each node, from the head (wire/hosts.py)."""
    found: list[Any] = require_runtime().ask(lambda request: GetNodes(request, with_dead)).nodes
    return found
