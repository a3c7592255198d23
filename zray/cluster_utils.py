"""Nodes of a cluster on one machine, under the name by which programs written for Ray find them."""

from .api.cluster_utils import Cluster, Node
from .on_import import shadows

__all__ = ["Cluster", "Node"]

shadows.name_absent(__name__)
