"""A worker's index of its log: which task has written which part, and when; a line of JSON for each part.

    {"t": 1700000000.5, "out": 4096, "err": 0, "task": "0a1b...", "name": "train"}
    {"t": 1700000001.5, "out": 8192, "err": 0, "task": "0a1c...", "name": "C.step", "actor": "0a0f...", "class": "C"}

`out` and `err` are the lengths of the log and of its file of errors ahead of the part.  The first text of a task begins
a part, and so does text that follows a second later, so that outputs of several workers can be put in order.  The file
appears with the first part: few short actors print.
"""

from __future__ import annotations

import os
import time
from typing import Any

from msgspec import json

from ...wire.task_spec import TaskSpec

PART_SECONDS = 1.0


class TaskIndex:
    """The index of this worker's log."""

    def __init__(self, log: str, errors: str, path: str) -> None:
        self.log, self.errors, self.path = log, errors, path
        self.descriptor = -1
        self.task_id = b""
        self.noted_at = 0.0

    def is_due(self, spec: TaskSpec) -> bool:
        """Return whether text of the task begins a part."""
        return spec.task_id is not self.task_id or time.monotonic() - self.noted_at > PART_SECONDS

    def note(self, spec: TaskSpec, name: str, actor: Any) -> None:
        """Note that text of a task follows.  Work goes on if the index is full, or its folder gone.

        actor: of which the task is a call (worker/actor_runner.py), or None.
        """
        self.task_id, self.noted_at = spec.task_id, time.monotonic()
        facts: dict[str, Any] = {"t": time.time(), "out": _size(self.log), "err": _size(self.errors)}
        facts |= {"task": spec.task_id.hex(), "name": name}
        if actor is not None:
            facts |= {"actor": actor.actor_id.hex(), "class": actor.options.class_name, "called": actor.options.name}
        try:
            if self.descriptor < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self.descriptor = os.open(self.path, flags, 0o600)
            os.write(self.descriptor, json.encode(facts) + b"\n")
        except OSError:
            pass


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
