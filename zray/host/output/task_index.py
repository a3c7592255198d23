"""A worker's index of its log: which task has written which part, and when; a line of JSON for each part.

    {"t": 1700000000.5, "out": 4096, "task": "0a1b...", "name": "train"}
    {"t": 1700000001.5, "out": 8192, "task": "0a1c...", "name": "C.f", "actor": "0a0f...", "class": "C", "called": ""}

`out` is the length of the log ahead of the part.  The first text of a task begins a part, and so does text that follows
a second later: outputs of several workers can be put in order.  The file appears with the first part, since few short
actors print.
"""

from __future__ import annotations

import os
import time
from typing import Any

from msgspec import json

from ...wire.task_spec import TaskSpec
from ..session.log_marks import index_name

PART_SECONDS = 1.0


class TaskIndex:
    """The index of this worker's log."""

    def __init__(self, log: str) -> None:
        self.log = log
        self.descriptors: tuple[int, int] | None = None  # of the log and of the index
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
        try:
            if self.descriptors is None:
                log = os.open(self.log, os.O_PATH | os.O_CLOEXEC)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self.descriptors = log, os.open(index_name(self.log), flags, 0o600)
            log, index = self.descriptors
            facts = {"t": time.time(), "out": os.fstat(log).st_size, "task": spec.task_id.hex(), "name": name}
            if actor is not None:
                options = actor.options
                facts |= {"actor": actor.actor_id.hex(), "class": options.class_name, "called": options.name}
            os.write(index, json.encode(facts) + b"\n")
        except OSError:
            pass
