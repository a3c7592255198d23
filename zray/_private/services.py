"""The address of this node, under the name in Ray's private modules."""

from ..util.lookups import get_node_ip_address

__all__ = ["get_node_ip_address"]
