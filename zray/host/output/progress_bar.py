"""The progress bar of `zray.get(refs, progress=True)`: how many of the refs are ready.

The bar is drawn on standard error, where that is a terminal, or in a notebook.  Lines of workers and print statements
of the program appear above the bar.  Elsewhere, as in a pipe, a long wait has a line now and then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...object_ref import ObjectRef
from ...store.values import is_error

if TYPE_CHECKING:
    from ..client.runtime import Runtime

# A look costs a step for each missing ref, and the bar is drawn as often.
LOOK_SECONDS = 0.1
# In a pipe, looks are rarer.  Short waits have no line.
LOOK_UNSEEN_SECONDS, LINE_SECONDS = 0.5, 5.0


def show(runtime: Runtime, refs: Any, timeout: float | None, progress: Any) -> float | None:
    """Wait with a bar for the refs of a `get`, and return the rest of its timeout.

    Raises:
        ValueError: progress is neither a bool nor "text".
    """
    if progress is not True and progress is not False and progress != "text":
        raise ValueError(f'progress must be True, False or "text", not {progress!r}.')
    began = time.monotonic()
    if progress:
        refs = [refs] if type(refs) is ObjectRef else refs
        if isinstance(refs, (list, tuple)) and all(type(ref) is ObjectRef for ref in refs):
            _wait_with_bar(runtime, refs, timeout)
    return None if timeout is None else max(0.0, timeout - (time.monotonic() - began))


def _wait_with_bar(runtime: Runtime, refs: Sequence[ObjectRef], timeout: float | None) -> None:
    """Return when all refs are ready, or the time is over."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    deadline = None if timeout is None else time.monotonic() + timeout
    missing = list(dict.fromkeys(ref.id for ref in refs))
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        _wait(runtime, missing, deadline, LOOK_UNSEEN_SECONDS, Lines(len(missing)).show)
        return
    columns = (
        TextColumn("zray.get"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    is_same_terminal = sys.stdout.isatty()
    with Progress(*columns, console=console, redirect_stdout=is_same_terminal, redirect_stderr=True) as bar:
        task = bar.add_task("", total=len(missing))
        _wait(runtime, missing, deadline, LOOK_SECONDS, lambda done: bar.update(task, completed=done))


def _wait(
    runtime: Runtime, missing: list[bytes], deadline: float | None, seconds: float, show: Callable[[int], None]
) -> None:
    """Return when all objects are ready or one is a failure, which the `get` behind raises, or the time is over.

    show: is told at each look how many are ready.
    """
    total, values = len(missing), runtime.client.values
    while missing:
        left = seconds if deadline is None else min(seconds, deadline - time.monotonic())
        is_ready = runtime.wait(missing, len(missing), max(0.0, left), True)
        ready = [object_id for object_id in missing if is_ready(object_id)]
        missing = [object_id for object_id in missing if not is_ready(object_id)]
        show(total - len(missing))
        has_failed = any(type(value := values.get(each)) is bytes and is_error(value) for each in ready)
        if has_failed or (deadline is not None and time.monotonic() >= deadline):
            return


class Lines:
    """The lines of a wait in a pipe: one each LINE_SECONDS, and one at the end of a wait that has had others."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.began = self.said_at = time.monotonic()

    def show(self, done: int) -> None:
        """Print a line, if it is time."""
        now = time.monotonic()
        is_end = done == self.total and self.said_at > self.began
        if now - self.said_at < LINE_SECONDS and not is_end:
            return
        self.said_at = now
        passed = now - self.began
        left = f", about {_clock(passed * (self.total - done) / done)} left" if 0 < done < self.total else ""
        with suppress(OSError, ValueError):  # nobody reads it, and a line is no reason to fail
            print(
                f"zray.get: {done:,} of {self.total:,} ready after {_clock(passed)}{left}", file=sys.stderr, flush=True
            )


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"
