"""Details of one row of `zray top`: why it waits or failed, where it stands, and the end of its output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from zray.util.report.findings import text_of as duration

from .asking import Asker, Sample
from .tables import Row, text_of
from .views import SHORT_ID, values

# The end of a log that is read, and lines of it.
LOG_BYTES, LOG_LINES = 64 << 10, 200
PATH_LINES = 20
ACTS = ("task", "actor", "function")


def details(row: Row, sample: Sample, asker: Asker) -> Iterator[tuple[str, list[str]]]:
    """Yield titles with their lines."""
    if row.kind == "place":
        yield f"VALUES MADE AT {text_of(row.id)}", values(sample, row.id)
        return
    lines = why(row.id, row, sample)
    with asker.history.lock:
        lines += [f"It raised {text_of(each.error)}." for each in asker.history.failures if each.task_id == row.id][-1:]
    yield "WHY", lines
    pid = pid_of(row, sample)
    if pid:
        yield f"STACK of process {pid}", stack(pid, row.node, asker)
        yield f"LOG of process {pid}, its last lines", log_tail(pid, row.node, asker) or ["It has printed nothing."]


def pid_of(row: Row, sample: Sample) -> int:
    """The process that runs a row's task or actor now; 0: none."""
    if row.kind == "task":
        return next((task.pid for task in sample.tasks if task.task_id.hex() == row.id and not task.has_ended), 0)
    return row.pid


def why(id: str, row: Row, sample: Sample) -> list[str]:
    """Why something waits or failed; of a process, what it runs."""
    from zray.exceptions import ZrayError
    from zray.util.why import why as explain

    if row.kind == "worker":
        own = [task for task in sample.tasks if task.pid == row.pid and task.state == "RUNNING"]
        id = own[0].task_id.hex() if own else ""
        if not id:
            return ["The process runs no task."]
    try:
        lines = [text_of(line) for line in explain(id)]
    except ValueError as error:
        lines = [text_of(str(error))]
    except (ZrayError, OSError) as error:
        lines = [f"The session does not say: {text_of(str(error))}"]
    return lines


def stack(pid: int, node: str, asker: Asker) -> list[str]:
    """Where the threads of a process stand, if it is on this machine."""
    from ..stack import lines_of
    from ..stacks import Unreadable, stacks

    if node not in asker.here:
        return [f"It is on another machine: `zray stack {pid}` shows it there (node {node[:SHORT_ID]})."]
    try:
        threads = stacks(pid)
    except (Unreadable, OSError) as error:
        return [f"Process {pid} {error}."]
    lines = []
    for thread in threads:
        if not thread.is_own:
            lines.append("main thread" if thread.is_main else text_of(f"thread {thread.id} {thread.name}"))
            lines += [f"  {text_of(line)}" for line in lines_of(thread, False)]
    return lines or ["It runs nothing but code of zray's: it waits for work."]


def log_tail(pid: int, node: str, asker: Asker) -> list[str]:
    """The last lines of a process's output, without marks and control characters; the node's sessions are looked at."""
    session = asker.here.get(node)
    if session is None:
        return [f"Its log is on another machine: `zray logs {pid}` shows it there (node {node[:SHORT_ID]})."]
    path = log_of(session, pid)
    if path is None:
        return []
    return lines_of_tail(path)


def log_of(session: str, pid: int) -> str | None:
    """The log of a process of a session on this machine."""
    from zray.api.log_sessions import log_sessions

    for one in log_sessions():
        if one.name == session:
            for name in one.workers():
                if name.rpartition("-")[2] == f"{pid}.log":
                    return os.path.join(one.folder, name)
    return None


def lines_of_tail(path: str) -> list[str]:
    """The last lines of a log, as far as they are in its last bytes."""
    from zray.host.session.log_marks import unmarked

    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - LOG_BYTES, 0))
            text = file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return []
    lines = [unmarked(line + "\n").strip("\0\r\n") for line in text.split("\n")]
    if size > LOG_BYTES:
        del lines[0]  # its beginning is missing
    return [text_of(last_drawn(line), 1_000) for line in lines if line][-LOG_LINES:]


def last_drawn(line: str) -> str:
    """Return the text that a terminal shows of a line that was drawn again and again."""
    return line.rstrip("\r").rpartition("\r")[2]


def findings() -> Iterator[tuple[str, list[str]]]:
    """Yield why the run takes its time, as `zray report` says it, from the records that there are."""
    from zray.api.run_records import present_run
    from zray.util.report.content import content_of

    content = content_of(present_run("zray top"))
    yield "WHY IT TAKES ITS TIME", [text_of(content["headline"])]
    lines = []
    for each in content["findings"]:
        lines += [f"{100 * each['share']:4.0f} %  {text_of(each['text'])}", f"        {text_of(each['advice'])}"]
    yield "FINDINGS", lines or ["Nothing stands out."]
    lines = [
        f"{duration(spent):>8}  {count:>6,} x  {text_of(kind):<8}  {text_of(name)}"
        for kind, name, count, spent in content["path"]["rows"]
        if spent > 0
    ]
    yield "CRITICAL PATH", lines[:PATH_LINES]


def end(row: Row, force: bool) -> str:
    """End a task, the tasks of a function, or an actor; return what was done, as a sentence."""
    if row.kind == "actor":
        from zray.api.sessions import require_runtime
        from zray.wire.actors import KillActor

        runtime: Any = require_runtime()
        runtime.say(KillActor(bytes.fromhex(row.id)))
        runtime.flush()
        return f"Actor {row.cells[1]} was told to end."
    import click

    from ..cancel import cancel_all

    try:
        tasks, calls = cancel_all(row.id, force, True)
    except click.ClickException as error:
        return text_of(error.message)
    return f"Cancelled {tasks + calls:,} of {row.cells[1] if row.kind == 'task' else row.cells[0]}."
