"""Use of nodes: processors, memory, object store, workers and tasks of each."""

from __future__ import annotations

from typing import Any

from ..api.cluster_info import ask_for_nodes
from ..api.metrics import recorded_metrics
from ..wire.task_spec import RESOURCE_UNIT

__all__ = ["node_usage"]

# Metrics of nodes, and the keys of their numbers.
KEYS = {
    "zray_node_cpu_percent": "cpu_percent",
    "zray_node_mem_used_bytes": "mem_used_bytes",
    "zray_node_mem_total_bytes": "mem_total_bytes",
    "zray_object_store_capacity_bytes": "store_capacity_bytes",
    "zray_object_store_objects": "store_objects",
    "zray_node_workers": "workers",
    "zray_node_tasks": "tasks",
    "zray_node_tasks_ready": "tasks_ready",
    "zray_node_tasks_ended": "tasks_ended",
}
LOCATIONS = {"shared_memory": "store_bytes", "disk": "disk_bytes"}


def node_usage() -> dict[str, dict[str, Any]]:
    """Return how much of each living node is in use.

    Returns:
        A dict by node id, each with cpu_percent (of the machine, since the last question), mem_used_bytes,
        mem_total_bytes, store_bytes, disk_bytes, store_capacity_bytes, store_objects, workers, tasks (not ended),
        tasks_ready (waiting for a worker or a resource only), tasks_ended, and resources: {name: [in use, in all]}.
        A node that has not answered has its resources alone.

    Raises:
        NotImplementedError: in local mode.

    Example:
        for node_id, usage in node_usage().items():
            print(node_id[:8], usage["resources"]["CPU"], usage.get("cpu_percent"))
    """
    found: dict[str, dict[str, Any]] = {}
    for node in ask_for_nodes():
        if node.kind != "driver":
            amounts = {
                name: [(total - node.free.get(name, 0)) / RESOURCE_UNIT, total / RESOURCE_UNIT]
                for name, total in sorted(node.total.items())
                if not name.startswith("node:")
            }
            found[node.node.partition("/")[0]] = {"resources": amounts}
    for facts, numbers in recorded_metrics().series:
        tags = dict(facts.tags)
        key = KEYS.get(facts.name) or LOCATIONS.get(tags.get("location", ""))
        usage = found.get(tags.get("node", "").partition("/")[0])
        if key is not None and usage is not None:
            usage[key] = numbers[0] if key == "cpu_percent" else int(numbers[0])
    return found
