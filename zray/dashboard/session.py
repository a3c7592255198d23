"""The session that the dashboard shows: questions to zray's public API, from one thread.

Tests put made data in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import zray
from zray.util import node_usage, recorded_runs, state
from zray.util.why import why

Row = dict[str, Any]

# More rows than any answer of a node has.
ALL = 1_000_000
# Tasks that a look takes: more would be a burden on the nodes, once a second.
TASKS = 10_000
JOBS = "_zray_job_submission"  # the namespace of submitted programs
REGISTRY = "registry"
LOG_CHARACTERS_MAX = 4_000  # of a line


class Session:
    """Answers of a running session.  Rows have the keys of zray.util.state.

    Args:
        facts: of zray.init().
        results: folder of experiments; None: Tune's.
    """

    def __init__(self, facts: Row, results: str | None = None) -> None:
        self.facts, self.results = facts, results
        self.experiments: Any = None  # that were looked at

    def nodes(self) -> list[Row]:
        """All nodes, also those that died."""
        return [*state.list_nodes(limit=ALL)]

    def usage(self) -> dict[str, Row]:
        """Return the amounts in use, by node."""
        return node_usage.node_usage()

    def workers(self) -> list[Row]:
        """All living processes but this one."""
        return [row for row in state.list_workers(limit=ALL) if row["pid"] != os.getpid()]

    def tasks(self) -> list[Row]:
        """Tasks that the nodes remember: unfinished, failed, finished."""
        return [*state.list_tasks(limit=TASKS)]

    def actors(self) -> list[Row]:
        """All actors, dead ones last."""
        return [*state.list_actors(limit=ALL)]

    def objects(self) -> list[Row]:
        """References to values, the largest values first."""
        return [*state.list_objects(limit=ALL)]

    def summary(self, kind: str) -> Row:
        """Counts of actors, objects or tasks, as zray.util.state has them."""
        found: Row = getattr(state, f"summarize_{kind}")()
        return found

    def groups(self) -> list[Row]:
        """All placement groups."""
        return [*state.list_placement_groups(limit=ALL)]

    def jobs(self) -> list[Row]:
        """Submitted programs, and the other programs of the session but this one."""
        drivers = [row for row in state.list_jobs(limit=ALL) if row["pid"] != os.getpid()]
        return [*map(_job_row, self._submitted()), *drivers]

    def _submitted(self) -> list[Any]:
        # The client makes the registry where there is none: a page that is looked at makes no actor.
        named = [("ray_namespace", "=", JOBS), ("name", "=", REGISTRY), ("state", "=", "ALIVE")]
        if not state.list_actors(filters=named):
            return []
        from zray.job_submission import JobSubmissionClient

        return [job for job in JobSubmissionClient().list_jobs() if job.submission_id]

    def runs(self) -> recorded_runs.Runs:
        """The recorded runs of tasks."""
        return recorded_runs.recorded_runs()

    def why(self, id: str) -> list[str]:
        """Reasons in words.

        Raises:
            ValueError: nothing has the id.
        """
        return why(id)

    def log_files(self) -> tuple[list[Row], list[str]]:
        """The log files that are on this machine, and a sentence for each node whose logs are elsewhere."""
        found, notes = [], []
        for node in self.nodes():
            try:
                by_kind = state.list_logs(node_id=node["node_id"])
            except ValueError as error:
                notes += [str(error)] if node["state"] == "ALIVE" else []
                continue
            for kind, names in by_kind.items():
                found += [{"node_id": node["node_id"], "filename": name, "kind": kind} for name in names]
        return found, notes

    def log_lines(self, what: Row, tail: int) -> list[str]:
        """The last lines of a file (node_id, filename), a task, an actor or a process (task_id, actor_id or pid).

        Raises:
            ValueError: there is no such output on this machine.
        """
        lines: Iterator[str] = state.get_log(tail=tail, **what)
        return [line.rstrip("\n")[:LOG_CHARACTERS_MAX] for line in islice(lines, tail)]


def joined(address: str, results: str | None = None) -> Session:
    """Join a session as a program that only looks.

    Args:
        results: folder of experiments; None: Tune's.

    Raises:
        ConnectionError: no session is there.
    """
    return Session(zray.init(address=address, log_to_driver=False, record="", _only_looks=True), results)


def _job_row(job: Any) -> Row:
    return {
        "job_id": job.submission_id,
        "submission_id": job.submission_id,
        "status": str(job.status),
        "type": str(job.type),
        "entrypoint": job.entrypoint,
        "message": job.message,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "node_id": job.driver_node_id,
        "driver_exit_code": job.driver_exit_code,
        "pid": None,
    }
