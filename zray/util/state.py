"""Lists of nodes, actors, tasks, objects, processes, placement groups and programs, under the names of Ray's state API.

for node in list_nodes(filters=[("state", "=", "ALIVE")]):
    print(node.node_id, node["resources_total"])
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..api.cluster_info import nodes
from ..api.runtime_context import worker_id
from ..api.sessions import require_runtime
from ..on_import import shadows
from ..wire.listing import ROWS_MAX, TASKS_MAX, ActorFact, ListWork, ObjectFact, TaskFact, WorkerFact, WorkListed
from .placement_group import placement_group_table
from .state_logs import get_log, list_logs
from .value_types import type_of

__all__ = [
    "get_actor",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]

# Ray's default.
LIMIT = 100

Filters = Sequence[tuple[str, str, Any]] | None


class State(dict[str, Any]):
    """Facts on one node, actor, task, group or program: a dict with keys as attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"There is no {name!r}; there are {', '.join(self)}.") from None


def list_nodes(*, filters: Filters = None, limit: int = LIMIT, detail: bool = False, **ignored: Any) -> list[State]:
    """List the nodes of the session, also those that died or left.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.
        detail: whether times are added from the event records: start_time_ms, end_time_ms, states_ms (when each state
            was entered last) and end_reason (None: not recorded). Default: False.

    Returns:
        Facts on each node: node_id, node_ip, node_name, state ("ALIVE" or "DEAD"), state_message, resources_total and
        labels.

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    rows: Iterable[State] = map(_node, nodes())
    return _chosen(_detailed(rows, "node", "node_id") if detail else rows, filters, limit)


def list_actors(*, filters: Filters = None, limit: int = LIMIT, detail: bool = False, **ignored: Any) -> list[State]:
    """List the actors of all programs of the session, dead ones last.

    Each node remembers the last 1,000 actors that died there; with a lost node its memory is gone.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.
        detail: whether times are added from the event records: start_time_ms, end_time_ms, states_ms (when each state
            was entered last) and end_reason (None: not recorded). Default: False.

    Returns:
        Facts on each actor: actor_id, class_name, name, ray_namespace, state ("ALIVE", "PENDING_CREATION",
        "RESTARTING", "DEAD"), job_id, node_id, pid and death_cause (how a dead one ended; None: it lives).

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    rows: Iterable[State] = map(_actor, _work().actors)
    return _chosen(_detailed(rows, "actor", "actor_id") if detail else rows, filters, limit)


def list_tasks(*, filters: Filters = None, limit: int = LIMIT, detail: bool = False, **ignored: Any) -> list[State]:
    """List the tasks and calls of all programs of the session: unfinished ones, then failed, then finished ones.

    Each node remembers the last 5,000 that finished there, and the last 1,000 that failed; the latest come first.
    A list has at most 100,000 tasks; a warning counts those without room.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.
        detail: whether times and parents are added from the event records, and older tasks that only these have: each
            process keeps its latest 16,384.  Default: False.

    Returns:
        Facts on each task: task_id, name, type ("NORMAL_TASK", "ACTOR_TASK"), state ("PENDING_ARGS_AVAIL",
        "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "RUNNING", "FINISHED", "FAILED" and others), job_id, node_id,
        actor_id, worker_pid, attempt_number, error_type ("TASK_EXECUTION_EXCEPTION", "WORKER_DIED" and others; None for
        one that has not failed), error_message (what the error says, in a line) and run_ms (for how long a running task
        has run; None: not known). With detail also parent_task_id, creation_time_ms, start_time_ms and end_time_ms
        since 1970 (None: not recorded), and phases_ms: milliseconds by phase. Of waits of 10 ms or more: queue_time_ms
        and fetch_time_ms, when the last ones for a worker and for the way of an argument began; waits_ms, milliseconds
        by what was waited for; and last_argument, the task that made the last argument.

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
        NotImplementedError: in local mode.
        NotImplementedError: detail, in local mode.
    """
    work = _work_of_tasks(ROWS_MAX)
    found = _chosen(_task_rows(work, detail), filters, limit)
    if len(found) < limit and len(work.tasks) >= ROWS_MAX:
        found = _chosen(_task_rows(_work_of_tasks(TASKS_MAX), detail), filters, limit)
    return found


def _task_rows(work: WorkListed, detail: bool) -> Iterable[State]:
    rows = map(_task, work.tasks)
    if not detail:
        return rows
    from .task_times import with_times

    return map(State, with_times([*rows]))


def list_workers(*, filters: Filters = None, limit: int = LIMIT, detail: bool = False, **ignored: Any) -> list[State]:
    """List the living worker and driver processes of the session.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.
        detail: whether times are added from the event records: start_time_ms, end_time_ms, states_ms (when each state
            was entered last) and end_reason (None: not recorded). Default: False.

    Returns:
        Facts on each process: worker_id, worker_type ("WORKER", "DRIVER"), is_alive (True), pid, node_id, job_id and
        actor_id (None: no actor).

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    rows: Iterable[State] = map(_worker, _work().workers)
    return _chosen(_detailed(rows, "worker", "worker_id") if detail else rows, filters, limit)


def list_objects(*, filters: Filters = None, limit: int = LIMIT, **ignored: Any) -> list[State]:
    """List references to values, the largest values of the session first.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.

    Returns:
        Facts on each reference: object_id, object_size (bytes; 0: not known), state ("MEMORY", "DISK"; "MESSAGE": a
        small value; "COMING": from another node; "PENDING": its task has not ended), reference_type
        ("PINNED_IN_MEMORY": the process knows the place, and may have arrays there; "LOCAL_REFERENCE": it has a ref
        alone; "USED_BY_PENDING_TASK": a task, a value or a wait refers to it; "COPY"), has_ref (whether the process
        has a ref), call_site (file and line of `put`, or the task; large values only), pid (0: none), node_id and
        value_type (as "array float64 3 x 4", "str", "pickle of module.Class"; "": not known, as on disk).

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    return _chosen((row for fact in _objects() for row in _references(fact)), filters, limit)


def list_placement_groups(
    *, filters: Filters = None, limit: int = LIMIT, detail: bool = False, **ignored: Any
) -> list[State]:
    """List the placement groups.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.
        detail: whether times are added from the event records: start_time_ms, end_time_ms, states_ms (when each state
            was entered last) and end_reason (None: not recorded). Default: False.

    Returns:
        Facts on each group, as placement_group_table() has them.

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    rows: Iterable[State] = map(State, placement_group_table().values())
    return _chosen(_detailed(rows, "placement group", "placement_group_id") if detail else rows, filters, limit)


def list_jobs(*, filters: Filters = None, limit: int = LIMIT, detail: bool = False, **ignored: Any) -> list[State]:
    """List the programs of the session.

    Args:
        filters: (key, sign, value) of each condition; signs are "=", "!=", "<", ">" and "~" (contains).
        limit: at most so many are listed.  Default: 100.
        detail: whether times are added from the event records: start_time_ms, end_time_ms, states_ms (when each state
            was entered last) and end_reason (None: not recorded). Default: False.

    Returns:
        Facts on each program: job_id, status ("RUNNING"), type ("DRIVER"), pid and node_id.

    Raises:
        ValueError: a filter is none, or the limit is less than 1.
    """
    rows: Iterable[State] = (_job(fact) for fact in _work().workers if fact.kind == "driver")
    return _chosen(_detailed(rows, "job", "job_id") if detail else rows, filters, limit)


def get_node(id: str, **ignored: Any) -> State | None:
    """Find the facts on a node, as in list_nodes(); None without such a node.

    Args:
        id: the node's id in hexadecimal.
    """
    return next((node for node in map(_node, nodes()) if node.node_id == id), None)


def get_actor(id: str, **ignored: Any) -> State | None:
    """Find the facts on an actor, as in list_actors(); None without such an actor.

    Args:
        id: the actor's id in hexadecimal.
    """
    return next((actor for actor in map(_actor, _work().actors) if actor.actor_id == id), None)


def get_task(id: str, **ignored: Any) -> State | None:
    """Find the facts on a task, as in list_tasks(); None without such a task.

    Args:
        id: the task's id in hexadecimal.

    Raises:
        NotImplementedError: in local mode.
    """
    return next((task for task in map(_task, _work_of_tasks(TASKS_MAX).tasks) if task.task_id == id), None)


def get_worker(id: str, **ignored: Any) -> State | None:
    """Find the facts on a living process, as in list_workers(); None without such a process.

    Args:
        id: the process's id, as get_runtime_context().get_worker_id() has it.
    """
    return next((worker for worker in map(_worker, _work().workers) if worker.worker_id == id), None)


def get_objects(id: str, **ignored: Any) -> list[State]:
    """Find the references to a value, as in list_objects().

    Args:
        id: the object's id in hexadecimal.
    """
    return [row for fact in _objects() if fact.object_id.hex() == id for row in _references(fact)]


def get_placement_group(id: str, **ignored: Any) -> State | None:
    """Find the facts on a placement group; None without such a group.

    Args:
        id: the group's id in hexadecimal.
    """
    found = placement_group_table().get(id)
    return None if found is None else State(found)


def summarize_actors(**ignored: Any) -> dict[str, Any]:
    """Count the actors of list_actors() by class and state."""
    return _summary([*map(_actor, _work().actors)], "class_name", "total_actors", "class")


def summarize_tasks(**ignored: Any) -> dict[str, Any]:
    """Count the tasks of list_tasks() by name and state.

    Raises:
        NotImplementedError: in local mode.
    """
    return _summary([*map(_task, _work_of_tasks(TASKS_MAX).tasks)], "name", "total_tasks", "func_name")


def summarize_objects(**ignored: Any) -> dict[str, Any]:
    """Add up the values of the session by the place that made them.

    Returns:
        {"cluster": {"summary": {call_site: {"total_objects", "total_size_mb", "node_states": {state: count}}}, ...}}.
        The call site of small values, and of copies from other nodes, is "".
    """
    facts = _objects()
    summary: dict[str, Any] = {}
    for fact in facts:
        row = summary.setdefault(fact.made, {"total_objects": 0, "total_size_mb": 0.0, "node_states": {}})
        row["total_objects"] += 1
        row["total_size_mb"] += fact.size / 1e6
        row["node_states"][fact.state] = row["node_states"].get(fact.state, 0) + 1
    size = sum(fact.size for fact in facts) / 1e6
    total = {"total_objects": len(facts), "total_size_mb": size, "summary_by": "call_site"}
    return {"cluster": {"summary": summary, **total}}


def _summary(rows: list[State], key: str, total: str, by: str) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for row in rows:
        counts = summary.setdefault(row[key], {key: row[key], "state_counts": {}})["state_counts"]
        counts[row.state] = counts.get(row.state, 0) + 1
    return {"cluster": {"summary": summary, total: len(rows), "summary_by": by}}


def _detailed(rows: Iterable[State], kind: str, key: str) -> Iterable[State]:
    """The rows with times from the event records."""
    from .state_times import with_states

    return map(State, with_states([*rows], kind, key))


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


def _work() -> WorkListed:
    """Tasks, actors and processes of all nodes."""
    return _listed(ListWork)


def _work_of_tasks(most: int) -> WorkListed:
    """At most so many tasks of all nodes.  Unfinished ones beyond the largest list are counted in a warning.

    Raises:
        NotImplementedError: in local mode.
    """
    if getattr(require_runtime(), "session", "") == "local":
        raise NotImplementedError(
            "Local mode keeps no list of tasks, which end inside of their .remote(): leave out local_mode=True."
        )
    work = _listed(lambda request: ListWork(request, most))
    if work.left_out and most == TASKS_MAX:
        lacks = f"{work.left_out:,} more tasks have not ended"
        warnings.warn(f"The list has no room for all tasks: {lacks}, and finished ones may be missing.", stacklevel=4)
    return work


def _listed(question: Callable[[int], ListWork]) -> WorkListed:
    """The answer of all nodes.  A node that does not answer is named in a warning."""
    found: WorkListed = require_runtime().ask(question)
    if found.silent:
        silent = ", ".join(node.partition("/")[0] for node in found.silent)
        warnings.warn(f"The list lacks what is on these nodes, which have not answered: {silent}.", stacklevel=4)
    return found


def _objects() -> list[ObjectFact]:
    """The largest values of all nodes, a row a copy."""
    return _listed(lambda request: ListWork(request, are_objects=True)).objects


def _references(fact: ObjectFact) -> list[State]:
    """A row for each process that refers to the value, or one for the copy.

    A process alone knows which arrays it has.  The node knows who was told the place of the value, by `put` too.
    """
    kinds = dict.fromkeys(fact.holders, "LOCAL_REFERENCE") | dict.fromkeys(fact.readers, "PINNED_IN_MEMORY")
    other = "USED_BY_PENDING_TASK" if fact.uses else "COPY"
    return [
        State(
            object_id=fact.object_id.hex(),
            object_size=fact.size,
            state=fact.state,
            reference_type=kind,
            has_ref=pid in fact.holders,
            call_site=fact.made,
            value_type=type_of(fact.head),
            pid=pid,
            node_id=fact.node.partition("/")[0],
        )
        for pid, kind in (kinds or {0: other}).items()
    ]


def _actor(fact: ActorFact) -> State:
    return State(
        actor_id=fact.actor_id.hex(),
        class_name=fact.class_name,
        name=fact.name,
        ray_namespace=fact.namespace,
        state=fact.state,
        job_id=fact.job_id.hex(),
        node_id=fact.node.partition("/")[0],
        pid=fact.pid,
        death_cause=fact.death or None,
    )


def _job(fact: WorkerFact) -> State:
    node_id = fact.node.partition("/")[0]
    return State(job_id=fact.job_id.hex(), status="RUNNING", type="DRIVER", pid=fact.pid, node_id=node_id)


def _task(fact: TaskFact) -> State:
    return State(
        task_id=fact.task_id.hex(),
        name=fact.name,
        type="ACTOR_TASK" if fact.actor_id else "NORMAL_TASK",
        state=fact.state,
        job_id=fact.job_id.hex(),
        node_id=fact.node.partition("/")[0],
        actor_id=fact.actor_id.hex() or None,
        worker_pid=fact.pid or None,
        attempt_number=fact.attempts,
        error_type=fact.error_type or None,
        error_message=fact.error or None,
        run_ms=fact.run_ms or None,
    )


def _worker(fact: WorkerFact) -> State:
    node_id = fact.node.partition("/")[0]
    return State(
        worker_id=worker_id(node_id, fact.name if fact.kind == "worker" else "driver", fact.pid),
        worker_type=fact.kind.upper(),
        is_alive=True,
        pid=fact.pid,
        node_id=node_id,
        job_id=fact.job_id.hex() or None,
        actor_id=fact.actor_id.hex() or None,
    )


def _chosen(rows: Iterable[State], filters: Filters, limit: int) -> list[State]:
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    for item in filters or ():
        if len(item) != 3 or item[1] not in SIGNS:
            signs = ", ".join(f'"{sign}"' for sign in SIGNS)
            raise ValueError(f'A filter is (key, sign, value), as ("state", "=", "ALIVE"), with {signs}, not {item!r}.')
        if item[1] in "<>" and not _is_number(item[2]):
            raise ValueError(f"{item[1]} compares numbers: {item[0]}{item[1]}{item[2]} has none.")
    found = []
    for row in rows:
        for key, _, _ in filters or ():
            if key not in row:
                raise ValueError(f"There is no {key!r} to filter by; there are {', '.join(row)}.")
        if all(SIGNS[sign](row[key], value) for key, sign, value in filters or ()):
            found.append(row)
        if len(found) == limit:
            break
    return found


def _is_equal(found: Any, value: Any) -> bool:
    return str(found).lower() == str(value).lower()  # letters of any case, as in Ray


def _is_number(value: Any) -> bool:
    try:
        return not math.isnan(float(value))
    except (TypeError, ValueError):
        return False


def _is_less(found: Any, value: Any) -> bool:
    try:
        return float(found) < float(value)
    except (TypeError, ValueError):
        return False


# Signs of filters: whether a fact and the value of the filter agree.
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": _is_equal,
    "!=": lambda found, value: not _is_equal(found, value),
    "<": _is_less,
    ">": lambda found, value: _is_less(value, found),
    "~": lambda found, value: str(value).lower() in str(found).lower(),
}


shadows.name_absent(__name__)
