"""Resources that a node has by itself, beside those that it is started with: which node it is, and its object store."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from ...wire import groups, hosts, task_spec
from ...wire.amounts import HEAD_NODE, NODE_PREFIX, STORE_MEMORY

if TYPE_CHECKING:
    from ...roles.local_scheduler import LocalScheduler
    from ..cluster.membership import Membership

# A session of one machine is reached there.
LOOPBACK = "127.0.0.1"


def with_names_of_node(total: dict[str, int], member: Membership | None) -> dict[str, int]:
    """`total`, and one of each resource that names this node: by its address, and as the head.

    A program outside of the cluster is no node.
    """
    if member is not None and member.kind == "driver":
        return total
    endpoint = (member.advertised or member.endpoint) if member is not None else f"{LOOPBACK}:0"
    names = [NODE_PREFIX + address for address in _addresses(endpoint.rpartition(":")[0].strip("[]"))]
    if member is None or member.kind == "head":
        names.append(HEAD_NODE)
    return {**total, **dict.fromkeys(names, task_spec.RESOURCE_UNIT)}


def _addresses(name: str) -> list[str]:
    """As nodes() shows it, and as get_node_ip_address() does."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, name)
            return [name]
    try:
        return list(dict.fromkeys((name, socket.gethostbyname(name))))
    except OSError:
        return [name]  # others may know it


def fact_of_only_node(local: LocalScheduler, used: int) -> hosts.NodeFact:
    """What is told of the node of a session that no other can join.  used: bytes of its object store."""
    total, free = groups.plain(local.resources.total), groups.plain(local.resources.free)
    total[STORE_MEMORY] = local.load.store_bytes * task_spec.RESOURCE_UNIT
    free[STORE_MEMORY] = max(0, local.load.store_bytes - used) * task_spec.RESOURCE_UNIT
    fact = hosts.NodeFact(local.address, "head", total, free, local.dispatch.ready_count, local.labels)
    fact.endpoint, fact.hostname = f"{LOOPBACK}:0", socket.gethostname()
    return fact
