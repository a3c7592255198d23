"""Files and lines of workers' output, under the names of Ray's state API; also of sessions that have ended."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from ..api import log_reader
from ..api.log_sessions import LogSession, elsewhere, grouped, log_sessions
from ..api.sessions import require_runtime

__all__ = ["get_log", "list_logs"]

SUFFIXES = {"out": False, "err": True}
# Ray's categories of files -> how names of zray's files begin and end.
CATEGORIES = {
    "worker_out": ("worker-*.log",),
    "worker_err": ("worker-*.err",),
    "driver": ("job-*.log",),
    "raylet": ("node.log", "fork-server*.log"),
    "other": ("*",),
}


def list_logs(
    *, node_id: str | None = None, glob_filter: str | None = None, session: str | None = None, **ignored: Any
) -> dict[str, list[str]]:
    """List the log files of a session that are on this machine.

    Args:
        node_id: beginning of the id of a node; None: the node of this program.
        glob_filter: pattern of names, as "worker-*".  Default: all.
        session: beginning of the name of a session that runs or has ended, in place of this program's; "last" is the
            newest.

    Returns:
        Names of files by category: "worker_out" (both streams), "worker_err" (output of C code and child processes to
        standard error), "driver" (submitted programs), "raylet" (log files of the node) and "other".

    Raises:
        ValueError: no such session or node has logs here; the text says where they are.
        NotImplementedError: in local mode.
    """
    found: dict[str, list[str]] = {}
    for one in _nodes(session, node_id):
        for name in one.files():
            if fnmatchcase(name, glob_filter or "*"):
                found.setdefault(_category(name), []).append(name)
    return found


def get_log(
    *,
    filename: str | None = None,
    node_id: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    tail: int = -1,
    follow: bool = False,
    suffix: str = "out",
    submission_id: str | None = None,
    session: str | None = None,
    **ignored: Any,
) -> Iterator[str]:
    """Return the lines of a log file, or of a task, an actor, a process or a submitted program, each with its end.

    Args:
        filename: a name of `list_logs`.
        node_id: beginning of the id of a node; None: all nodes whose logs are on this machine.
        actor_id: output of this actor.
        task_id: output of this task.
        pid: output of this process.
        tail: at most so many lines, the last ones.  Default: all.
        follow: whether to wait for further lines until the session ends.
        suffix: "out" or "err", the stream of a task, an actor or a process.
        submission_id: output of this submitted program.
        session: beginning of the name of a session that runs or has ended, in place of this program's; "last" is the
            newest.

    Raises:
        ValueError: none or several of filename, actor_id, task_id, pid and submission_id are given; or no such session
            or output has logs here.
        NotImplementedError: follow, with filename or tail; or in local mode.
    """
    given = [each for each in (filename, actor_id, task_id, pid, submission_id) if each is not None]
    if len(given) != 1:
        raise ValueError("get_log() takes one of filename, actor_id, task_id, pid and submission_id.")
    if suffix not in SUFFIXES:
        raise ValueError(f'suffix must be "out" or "err", not {suffix!r}.')
    if follow and (filename is not None or tail >= 0):
        raise NotImplementedError("get_log(follow=True) takes actor_id, task_id, pid or submission_id, without tail.")
    group = _nodes(session, node_id, are_all=True)
    wanted = log_reader.Wanted(str(given[0]), is_pid=pid is not None)
    lines = _of_file(group, filename) if filename is not None else _of(group, wanted, suffix, follow)
    return iter(deque(lines, maxlen=tail)) if tail >= 0 else lines


def _of(group: list[LogSession], wanted: log_reader.Wanted, suffix: str, follow: bool) -> Iterator[str]:
    if not follow and not log_reader.has(group, wanted):
        raise ValueError(f"No output of {wanted.what} is in the logs of session {group[0].name} on this machine.")
    found: Iterable[log_reader.LogLine] = (log_reader.follow if follow else log_reader.lines)(group, wanted)
    return (f"{line.text}\n" for line in found if line.is_error == SUFFIXES[suffix])


def _of_file(group: list[LogSession], filename: str) -> Iterator[str]:
    for one in group:
        if filename in one.files():
            return log_reader.lines_of_file(os.path.join(one.folder, filename))
    raise ValueError(
        f"No file {filename!r} is among the logs of session {group[0].name}; list_logs() has those there are."
    )


def _nodes(session: str | None, node_id: str | None, *, are_all: bool = False) -> list[LogSession]:
    """The logs of a session's nodes on this machine.  are_all: without a node's id, all of them."""
    groups = grouped(log_sessions())
    if session is None:
        runtime = require_runtime()
        if not hasattr(runtime, "note_span"):
            raise NotImplementedError(
                "Local mode writes no logs: tasks print on the terminal of the program.  Leave out local_mode=True."
            )
        session = runtime.session
        node_id = node_id or ("" if are_all else _own_node())
    for group in groups:
        if session == "last" or any(one.name.startswith(session) for one in group):
            found = [one for one in group if one.node_id.startswith(node_id or "")]
            if found:
                return found
            for node, host in elsewhere(group).items():
                if node.startswith(node_id or ""):
                    raise ValueError(f"Logs of node {node} are on its machine, {host}: `zray logs` there shows them.")
            raise ValueError(f"No node {node_id!r} of session {group[0].name} has logs on this machine.")
    raise ValueError(f"No session {session!r} has logs on this machine; `zray logs` lists those that have.")


def _own_node() -> str:
    node: str = require_runtime().node_id.hex()
    return node


def _category(name: str) -> str:
    return next(key for key, patterns in CATEGORIES.items() if any(fnmatchcase(name, each) for each in patterns))
