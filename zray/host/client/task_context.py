"""The submitter of tasks: a driver or a running task, and the number of its children.

The ids of its children and puts follow from its own id and these counts alone, so that a repetition makes the
same ones.
"""

from __future__ import annotations

import contextvars
import itertools
from typing import Any

from msgspec import Struct

from ...ids import COUNTER_BYTES, child_path, children_prefix
from ...wire.task_spec import TaskSpec
from ...wire.where import Where


class Submitter:
    """One parent of tasks.  Its counters may be drawn from by several threads."""

    __slots__ = ("_children", "_puts", "actor_id", "captured", "name", "path", "prefix", "random", "task_id")

    def __init__(
        self, task_id: bytes, name: str = "", actor_id: bytes = b"", where: Where | None = None, path: bytes = b""
    ) -> None:
        self.task_id = task_id
        self.name = name
        self.actor_id = actor_id
        self.path = path  # b"": a driver's, or of a job without a seed
        self.random: Any = None  # its generator of random numbers, once one was asked for (util/random_numbers.py)
        self.captured = captured_by(where)  # where its children run that say nothing of it; None: anywhere
        self.prefix = children_prefix(task_id)
        self._children = itertools.count(1)
        self._puts = itertools.count()

    def next_task_id(self) -> bytes:
        """The id of its next child."""
        return self.prefix + next(self._children).to_bytes(COUNTER_BYTES, "big")

    def path_of(self, task_id: bytes) -> bytes:
        """What the spec of a child says of its path."""
        return child_path(self.path, task_id) if self.path else b""

    def next_put(self) -> int:
        """The number of its next put value."""
        return next(self._puts)


def captured_by(where: Where | None) -> Where | None:
    """Of what runs there: its placement group, if that captures what it starts."""
    return Where(group=where.group, captures=True) if where is not None and where.captures else None


class Call(Struct, eq=False):
    """A run of a task or of an actor's method; what it submits, it submits as this."""

    spec: TaskSpec
    submitter: Submitter | None = None  # None: made when it first submits, of which few tasks do


# The call that this context belongs to.  Plain tasks and serial actors' calls set `Worker.call` instead.
current_call: contextvars.ContextVar[Call | None] = contextvars.ContextVar("zray_call", default=None)
