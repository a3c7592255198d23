"""What becomes of a process's runtime in a child that user code forks: nothing.

The child has none of the threads, and a socket that is its parent's.  So it has no session; asked for one, the
API says why.  A child of a worker that comes back from user code to zray would go on as a second worker: it
ends there, with the exit code that the user's code asked for.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ... import object_ref
from .. import context
from ..process.process_utils import flush_and_exit


class _EndsHere:
    """Stands for the lock of a runtime that is the parent's: whoever takes it has left user code."""

    def __enter__(self) -> None:
        end_child(None)

    def __exit__(self, *error: object) -> None:
        """Never comes to it."""

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        """As with the statement."""
        end_child(None)
        return True

    def release(self) -> None:
        """Never comes to it."""


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
