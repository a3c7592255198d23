"""Removes the runtime of a process from children that user code forks.

The child has none of the threads, and a socket that belongs to its parent.  So the child has no session, and the API
raises an error with the reason.  A worker's child that returns from user code to zray would continue as a second
worker: it ends at this point, with the exit code of the user's code.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ... import object_ref
from .. import context
from ..process.process_utils import flush_and_exit


class _EndsHere:
    """A stand-in for the lock of a parent's runtime: a thread that takes it has left user code."""

    def __enter__(self) -> None:
        end_child(None)

    def __exit__(self, *error: object) -> None:
        """Never called."""

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        """End the child, as the `with` statement does."""
        end_child(None)
        return True

    def release(self) -> None:
        """Never called."""


def end_child(error: BaseException | None) -> None:
    """End a forked child, with the code that `error` stands for."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    flush_and_exit(code & 0xFF)


def _after_fork_in_child() -> None:
    runtime: Any = context.runtime
    if runtime is None:
        return
    context.set_runtime(None)
    context.is_forked = True
    object_ref.on_restore = lambda object_id: None
    object_ref.resolve_future = None
    runtime.lock = runtime.connection.lock = _EndsHere()
    if not runtime.is_worker and (life := getattr(runtime, "life", None)) is not None:  # not in local mode
        os.close(life)


os.register_at_fork(after_in_child=_after_fork_in_child)
