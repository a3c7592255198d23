"""Resources that every node has beside the declared ones: its own names, and its object store."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from ...wire import groups, hosts, task_spec
from ...wire.amounts import HEAD_NODE, NODE_PREFIX, STORE_MEMORY

if TYPE_CHECKING:
    from ...roles.local_scheduler import LocalScheduler
    from ..cluster.membership import Membership

# The address of a session of one machine.
LOOPBACK = "127.0.0.1"


def with_names_of_node(total: dict[str, int], member: Membership | None) -> dict[str, int]:
    """Return `total` with a unit of each resource that names this node: by its address, and as the head.

    A program outside the cluster is no node.
    """
    if member is not None and member.kind == "driver":
        return total
    endpoint = (member.advertised or member.endpoint) if member is not None else f"{LOOPBACK}:0"
    names = [NODE_PREFIX + address for address in _addresses(endpoint.rpartition(":")[0].strip("[]"))]
    if member is None or member.kind == "head":
        names.append(HEAD_NODE)
    return {**total, **dict.fromkeys(names, task_spec.RESOURCE_UNIT)}


def _addresses(name: str) -> list[str]:
    """Return the addresses as in nodes() and get_node_ip_address()."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, name)
            return [name]
    try:
        return list(dict.fromkeys((name, socket.gethostbyname(name))))
    except OSError:
        return [name]  # other machines may know the name


def fact_of_only_node(local: LocalScheduler, used: int) -> hosts.NodeFact:
    """Return the facts about the node of a session without a cluster.  used: bytes of its object store."""
    total, free = groups.plain(local.resources.total), groups.plain(local.resources.free)
    total[STORE_MEMORY] = local.load.store_bytes * task_spec.RESOURCE_UNIT
    free[STORE_MEMORY] = max(0, local.load.store_bytes - used) * task_spec.RESOURCE_UNIT
    fact = hosts.NodeFact(local.address, "head", total, free, local.dispatch.ready_count, local.labels)
    fact.endpoint, fact.hostname = f"{LOOPBACK}:0", socket.gethostname()
    return fact
