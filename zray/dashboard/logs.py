"""Views of logs: files by node, and the last lines of a file, a task, an actor or a process.

A file is one of the list of `zray.util.state.list_logs`: no path comes from a request.
"""

from __future__ import annotations

import re

from zray.exceptions.printable import escaped

from .session import Row, Session
from .views import Asked, Seen, cut, head

LINES, LINES_MAX = 200, 2_000
KINDS = ("worker_out", "worker_err", "raylet")  # in this order
SUBJECTS = ("task_id", "actor_id", "pid")
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")


def logs(session: Session, asked: Asked) -> Seen:
    """The log files."""
    files, notes = session.log_files()
    files.sort(key=lambda row: KINDS.index(row["kind"]) if row["kind"] in KINDS else len(KINDS))
    rows = [{"key": f"{row['node_id']}/{row['filename']}", **row} for row in files]
    return Seen({"session": head(session), "elsewhere": notes}, {"logs": cut("key", rows, asked)})


def log(session: Session, asked: Asked) -> Seen:
    """The last lines.  Words: node_id and filename, or task_id, actor_id or pid; tail; suffix ("out" or "err")."""
    tail = int(asked.number("tail", LINES, 1, LINES_MAX))
    words = asked.words
    what: Row = {name: words[name] for name in (*SUBJECTS, "filename") if words.get(name)}
    if len(what) != 1:
        raise ValueError(f"A log is that of one of filename, {', '.join(SUBJECTS)}.")
    if "pid" in what:
        what["pid"] = int(asked.number("pid", 0, 0, 1 << 31))
    if "filename" in what:
        what["node_id"] = words.get("node_id") or None
    if words.get("suffix") == "err" and "filename" not in what:
        what["suffix"] = "err"
    facts: Row = {"session": head(session), "lines": [], "message": ""}
    try:
        facts["lines"] = [escaped(_COLOUR.sub("", line)) for line in session.log_lines(what, tail)]
    except ValueError as error:
        facts["message"] = str(error)
    facts["is_cut"] = len(facts["lines"]) == tail
    return Seen(facts)
