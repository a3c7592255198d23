"""The submitter of tasks: a driver or a running task, and the number of its children.

Ids of children and puts follow from the submitter's id and these counts alone, so that a re-execution makes the same
ids.
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
    """A parent of tasks.  Several threads may draw from its counters."""

    __slots__ = ("_children", "_puts", "actor_id", "captured", "name", "path", "prefix", "random", "task_id")

    def __init__(
        self, task_id: bytes, name: str = "", actor_id: bytes = b"", where: Where | None = None, path: bytes = b""
    ) -> None:
        self.task_id = task_id
        self.name = name
        self.actor_id = actor_id
        self.path = path  # b"": a driver's, or of a job without a seed
        self.random: Any = None  # the generator of random numbers, made on demand (util/random_numbers.py)
        self.captured = captured_by(where)  # placement of children without an own strategy; None: anywhere
        self.prefix = children_prefix(task_id)
        self._children = itertools.count(1)
        self._puts = itertools.count()

    def next_task_id(self) -> bytes:
        """Return the id of the next child."""
        return self.prefix + next(self._children).to_bytes(COUNTER_BYTES, "big")

    def path_of(self, task_id: bytes) -> bytes:
        """Return the path for the spec of a child."""
        return child_path(self.path, task_id) if self.path else b""

    def next_put(self) -> int:
        """Return the number of the next put value."""
        return next(self._puts)


def captured_by(where: Where | None) -> Where | None:
    """Return the capturing placement group of a running task, if any."""
    return Where(group=where.group, captures=True) if where is not None and where.captures else None


class Call(Struct, eq=False, weakref=True):
    """A run of a task or of an actor's method; what it submits, it submits as this."""

    spec: TaskSpec
    outer: Call | None = None  # the task below, inside whose wait this one runs
    is_open: bool = True  # its code runs: an exception may be raised in it
    submitter: Submitter | None = None  # None: made when it first submits, of which few tasks do
    limit: Any = None  # TimeLimit of a task that has one


# The call of this context.  Plain tasks and serial actors' calls set `Worker.call` instead.
current_call: contextvars.ContextVar[Call | None] = contextvars.ContextVar("zray_call", default=None)
