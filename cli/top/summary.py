"""The first lines of `zray top`: which session this is, and the one thing that a person should know about it."""

from __future__ import annotations

import re
import time
from typing import Any

from zray.util.report.findings import bytes_of
from zray.util.report.findings import text_of as duration

from .asking import Sample, node_of
from .history import FAILURES_KEPT, History
from .tables import cut, text_of
from .views import ON_DISK, SHORT_ID, totals

# Waits that last for less are none to speak of.
WAIT_LOOKS = 3
# A wait for a core is usual: tasks take turns.
BUSY, BUSY_LOOKS = re.compile(r" for [\d.]+ CPU:"), 30
FAILED_SECONDS = 600.0


def program_of(sample: Sample, history: History) -> tuple[str, float | None]:
    """The name and pid of the first program of a session, and when it began (None: not known)."""
    programs = sample.programs()
    if not programs:
        return "no program", None
    first = programs[0]
    with history.lock:
        labels = [lane.label for lane in history.lanes.values() if lane.pid == first.pid and lane.is_program]
    name = text_of(labels[0].removeprefix("driver ")) if labels else "program"
    more = f" and {len(programs) - 1:,} more" if len(programs) > 1 else ""
    here = {node.id for node in sample.nodes if node.is_here}
    return f"{name} ({first.pid}){more}", _begin_of(first.pid) if node_of(first) in here else None


def _begin_of(pid: int) -> float | None:
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def header(sample: Sample, history: History, state: str) -> list[str]:
    """The parts of the first line, the most important one first."""
    program, began = program_of(sample, history)
    living, known, used, cpus, store, size = totals(sample.nodes)
    parts = [f"zray {sample.session[:SHORT_ID]}", program, state]
    parts += [duration(sample.at - began)] if began is not None else []
    parts += [f"cpu {used:g}/{cpus:g}", f"store {bytes_of(store)}"]
    parts += [f"nodes {living}/{known}"] if known > 1 else []
    return parts + (
        [f"{len(sample.workers) - len(sample.programs()) - 1:,} workers, store of {bytes_of(size)}"] if size else []
    )


def first_line(parts: list[str], width: int) -> str:
    """The parts for which there is room."""
    line = cut(parts[0], width)
    for part in parts[1:]:
        part = cut(part, 40)
        if len(line) + 2 + len(part) > width:
            break
        line += f"  {part}"
    return line


class Waits:
    """The task that waits for a resource or its arguments for longest, and the reason in words.

    A session is asked for a reason each few looks at most.

    Args:
        looks_min: looks after which a task counts as one that waits.
    """

    EVERY = 5

    def __init__(self, looks_min: int = WAIT_LOOKS) -> None:
        self.looks_min = looks_min
        self.looks: dict[bytes, int] = {}  # tasks that wait, by the looks that have seen them
        self.reason = ""
        self.task = b""
        self.count = 0

    def look(self, sample: Sample, explain: Any) -> None:
        """Take a sample.

        Args:
            explain: tells why a task waits, given its id in hexadecimal, as lines.
        """
        waiting = [task for task in sample.tasks if task.state == "PENDING_NODE_ASSIGNMENT"]
        waiting = waiting or [task for task in sample.tasks if task.state == "PENDING_ARGS_AVAIL"]
        self.looks = {task.task_id: self.looks.get(task.task_id, 0) + 1 for task in waiting}
        self.count += 1
        longest = max(waiting, key=lambda task: self.looks[task.task_id], default=None)
        if longest is None or self.looks[longest.task_id] < self.looks_min:
            self.reason, self.task = "", b""
            return
        if longest.task_id == self.task and self.count % self.EVERY:
            return
        self.task = longest.task_id
        alike = sum(task.name == longest.name for task in waiting)
        why = reason_of([text_of(line.strip()) for line in explain(longest.task_id.hex())], text_of(longest.name))
        if BUSY.match(why) and self.looks[longest.task_id] < BUSY_LOOKS:
            self.reason = ""
            return
        self.reason = f"{alike:,} {text_of(longest.name, 40)} wait{'s' * (alike == 1)}{why}"


def reason_of(lines: list[str], name: str) -> str:
    """The last reason of a chain, behind "wait": what is held, and by whom."""
    reasons = [re.sub(r"^ObjectRef\(\w+\): ", "", line) for line in lines]
    while len(reasons) > 1 and reasons[-1].startswith("held by"):
        reasons[-2:] = [f"{reasons[-2]}, {reasons[-1]}"]
    if not reasons:
        return ": the node gives no reason"
    own = f"task {name} waits"
    return reasons[-1].removeprefix(own) if reasons[-1].startswith(own) else f": {reasons[-1]}"


def finding(sample: Sample, history: History, waits: Waits) -> tuple[str, str]:
    """Return the sentence that a person should read first, and the key that shows more of it ("": none)."""
    lost = [node for node in sample.nodes if node.state == "lost"]
    if lost:
        reason = text_of(lost[-1].reason) or "no reason is known"
        return f"node {lost[-1].id[:SHORT_ID]} is lost: {reason}", "5"
    if sample.silent:
        return f"{len(sample.silent):,} nodes do not answer: {', '.join(sample.silent)}", "5"
    if waits.reason:
        return waits.reason, "w"
    with history.lock:
        failures = [each for each in history.failures if each.at > sample.at - FAILED_SECONDS]
    if failures:
        last = failures[-1]
        at = time.strftime("%H:%M:%S", time.localtime(last.at))
        name = text_of(last.function, 40)
        count = f"{len(failures):,}" + (" or more" if len(failures) == FAILURES_KEPT else "")
        return f"{count} failed in 10 minutes, the last at {at}: {name}, {text_of(last.error)}", "x"
    spilled = sum(node.counts.get(ON_DISK, 0.0) for node in sample.nodes)
    if spilled:
        return f"{bytes_of(spilled)} of values are on disk: the store has no room for them", "4"
    unfinished = [task for task in sample.tasks if not task.has_ended]
    if not unfinished:
        return "Nothing runs and nothing waits.", ""
    running = sum(task.state == "RUNNING" for task in unfinished)
    waiting = len(unfinished) - running
    if sample.is_cut:
        waiting = max(waiting, sum(node.waiting for node in sample.nodes))
    return f"{running:,} run, {waiting:,} wait; nothing stands out.", ""
