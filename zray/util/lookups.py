"""Look-ups in the cluster of a program: names of actors, and the address of this node."""

from __future__ import annotations

from typing import Any

from ..api import sessions
from ..api.cluster_info import ask_for_nodes
from ..host.driver.startup import cluster_of
from ..options.remote_options import check_flag
from ..wire.actors import FindActorNames

__all__ = ["get_node_ip_address", "list_named_actors"]

LOOPBACK = "127.0.0.1"


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """List the names of living actors, in alphabetical order.  Actors that are still starting are listed too.

    Args:
        all_namespaces: list the actors of all namespaces, not only this program's.  Default: False.

    Returns:
        A list of names; with all_namespaces, a list of {"name": ..., "namespace": ...}.
    """
    check_flag("all_namespaces", all_namespaces)
    runtime = sessions.require_runtime()
    reply = runtime.ask(lambda request: FindActorNames(request, runtime.namespace, all_namespaces))
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in reply.names]
    return [name for _, name in reply.names]


def get_node_ip_address(address: str = "8.8.8.8:53") -> str:
    """Return the IP address of the local node for other members of the cluster.

    The address is 127.0.0.1 in a session of one machine.  A program that joined from another machine gets its own.

    Args:
        address: HOST:PORT that is used without a session: packets to it would leave from the address returned.
            Nothing is sent.
    """
    if not sessions.is_initialized():
        return _address_towards(address)
    import socket  # here: it takes milliseconds, and few programs ask

    runtime = sessions.require_runtime()
    own = runtime.node_id.hex()
    found = next((node.endpoint for node in ask_for_nodes() if node.node.partition("/")[0] == own), "")
    if not found:  # nobody has heard of it yet
        return _address_towards(cluster_of(runtime) or address)
    name = found.rpartition(":")[0].strip("[]")
    try:
        return socket.gethostbyname(name)
    except OSError:
        return name  # others may know it


def _address_towards(address: str) -> str:
    import socket

    name, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((name, int(port)))
        except OSError:
            return LOOPBACK  # no network leads there
        found: str = probe.getsockname()[0]
        return found
