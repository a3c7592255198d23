"""Views by name: those of the page, and the lists and counts under Ray's paths."""

from __future__ import annotations

from collections.abc import Callable

from . import logs, views, work
from .session import Row, Session
from .views import Asked, Seen, View


def _trials(session: Session, asked: Asked) -> Seen:
    """Experiments: the module imports Tune, which few pages need."""
    from .experiments import Experiments

    if session.experiments is None:
        session.experiments = Experiments()
    found: Seen = session.experiments.view(session, asked)
    return found


VIEWS: dict[str, View] = {
    "actor": work.actor,
    "actors": views.actors,
    "groups": views.groups,
    "jobs": views.jobs,
    "log": logs.log,
    "logs": logs.logs,
    "node": work.node,
    "nodes": views.nodes,
    "object": work.object_,
    "objects": views.objects,
    "overview": work.overview,
    "task": work.task,
    "tasks": work.tasks,
    "tile": work.stream,
    "trials": _trials,
    "why": work.why,
    "workers": views.workers,
}


def _listing(kind: str, key: str, ask: Callable[[Session], list[Row]]) -> View:
    """Return a view that lists rows as zray.util.state has them."""

    def view(session: Session, asked: Asked) -> Seen:
        rows = ask(session)
        return Seen({"total": len(rows)}, {kind: views.cut(key, rows, asked)})

    return view


# Ray's paths.
LISTS: dict[str, View] = {
    "actors": _listing("actors", "actor_id", lambda session: session.actors()),
    "jobs": _listing("jobs", "job_id", lambda session: session.jobs()),
    "nodes": _listing("nodes", "node_id", lambda session: session.nodes()),
    "objects": _listing("objects", "object_id", lambda session: session.objects()),
    "placement_groups": _listing("placement_groups", "placement_group_id", lambda session: session.groups()),
    "tasks": _listing("tasks", "task_id", lambda session: session.tasks()),
    "workers": _listing("workers", "worker_id", lambda session: session.workers()),
}
SUMMARIES: dict[str, View] = {
    "actors": lambda session, asked: Seen(session.summary("actors")),
    "objects": lambda session, asked: Seen(session.summary("objects")),
    "tasks": lambda session, asked: Seen(session.summary("tasks")),
}
