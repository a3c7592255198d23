"""Lists of nodes, named actors, placement groups and programs, under the names of Ray's state API.

for node in list_nodes(filters=[("state", "=", "ALIVE")]):
    print(node.node_id, node["resources_total"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import absent, api
from ..cluster_info import nodes
from .lookups import list_named_actors
from .placement_group import placement_group_table

__all__ = [
    "get_actor",
    "get_node",
    "get_placement_group",
    "list_actors",
    "list_jobs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_tasks",
    "list_workers",
    "summarize_actors",
]

# Ray's default.
LIMIT = 100

Filters = Sequence[tuple[str, str, Any]] | None


class State(dict[str, Any]):
    """Facts on one node, actor, group or program: a dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"There is no {name!r}; there are {', '.join(self)}.") from None


def list_nodes(*, filters: Filters = None, limit: int = LIMIT, **ignored: Any) -> list[State]:
    """List the nodes of the session, also those that died or left.

    Args:
        filters: (key, "=" or "!=", value) of each condition.
        limit: at most so many are listed.  Default: 100.

    Returns:
        Facts on each node: node_id, node_ip, node_name, state ("ALIVE" or "DEAD"), state_message, resources_total and
        labels.

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    return _chosen(map(_node, nodes()), filters, limit)


def list_actors(*, filters: Filters = None, limit: int = LIMIT, **ignored: Any) -> list[State]:
    """List the living actors that have a name, in all namespaces.  Actors without a name are not listed.

    Args:
        filters: (key, "=" or "!=", value) of each condition.
        limit: at most so many are listed.  Default: 100.

    Returns:
        Facts on each actor: actor_id, class_name, name, ray_namespace and state, which is "ALIVE".

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    return _chosen(_actors(), filters, limit)


def list_placement_groups(*, filters: Filters = None, limit: int = LIMIT, **ignored: Any) -> list[State]:
    """List the placement groups.

    Args:
        filters: (key, "=" or "!=", value) of each condition.
        limit: at most so many are listed.  Default: 100.

    Returns:
        Facts on each group, as placement_group_table() has them.

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    return _chosen(map(State, placement_group_table().values()), filters, limit)


def list_jobs(*, filters: Filters = None, limit: int = LIMIT, **ignored: Any) -> list[State]:
    """List this program.  Other programs of a cluster are not listed; `zray status` shows those of this machine.

    Args:
        filters: (key, "=" or "!=", value) of each condition.
        limit: at most so many are listed.  Default: 100.

    Returns:
        Facts on this program: job_id, status ("RUNNING") and type ("DRIVER").

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    job = State(job_id=api.get_runtime_context().get_job_id(), status="RUNNING", type="DRIVER")
    return _chosen([job], filters, limit)


def get_node(id: str, **ignored: Any) -> State | None:
    """Find the facts on a node, as in list_nodes(); None without such a node.

    Args:
        id: the node's id in hexadecimal.
    """
    return next((node for node in map(_node, nodes()) if node.node_id == id), None)


def get_actor(id: str, **ignored: Any) -> State | None:
    """Find the facts on a living actor with a name, as in list_actors(); None without such an actor.

    Args:
        id: the actor's id in hexadecimal.
    """
    return next((actor for actor in _actors() if actor.actor_id == id), None)


def get_placement_group(id: str, **ignored: Any) -> State | None:
    """Find the facts on a placement group; None without such a group.

    Args:
        id: the group's id in hexadecimal.
    """
    found = placement_group_table().get(id)
    return None if found is None else State(found)


def summarize_actors(**ignored: Any) -> dict[str, Any]:
    """Count the living actors that have a name, by class and state."""
    summary: dict[str, Any] = {}
    for actor in _actors():
        counts = summary.setdefault(actor.class_name, {"class_name": actor.class_name, "state_counts": {}})
        counts["state_counts"][actor.state] = counts["state_counts"].get(actor.state, 0) + 1
    return {"cluster": {"summary": summary, "total_actors": sum(1 for _ in _actors()), "summary_by": "class"}}


def _absent(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        raise absent.not_built(absent.NAMES, f"zray.util.state.{name}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raise NotImplementedError: absent; the text says what to do instead."
    return refuse


list_tasks = _absent("list_tasks")
list_objects = _absent("list_objects")
list_workers = _absent("list_workers")


def _node(fact: dict[str, Any]) -> State:
    return State(
        node_id=fact["NodeID"],
        node_ip=fact["NodeManagerAddress"],
        node_name=fact["NodeName"],
        state="ALIVE" if fact["Alive"] else "DEAD",
        state_message=fact["DeathReasonMessage"],
        resources_total=fact["Resources"],
        labels=fact["Labels"],
    )


def _actors() -> Iterable[State]:
    for entry in list_named_actors(all_namespaces=True):
        try:
            found = api.get_actor(entry["name"], entry["namespace"])
        except ValueError:
            continue  # it has ended since
        yield State(
            actor_id=found._actor_id.hex(),
            class_name=found._class_name,
            name=entry["name"],
            ray_namespace=entry["namespace"],
            state="ALIVE",
        )


def _chosen(rows: Iterable[State], filters: Filters, limit: int) -> list[State]:
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    for item in filters or ():
        if len(item) != 3 or item[1] not in ("=", "!="):
            raise ValueError(f'A filter is (key, "=" or "!=", value), as ("state", "=", "ALIVE"), not {item!r}.')
    found = []
    for row in rows:
        if all((str(row.get(key)) == str(value)) is (sign == "=") for key, sign, value in filters or ()):
            found.append(row)
        if len(found) == limit:
            break
    return found
