"""The progress bar of `zray.get(refs, progress=True)`: how many of the refs are ready.

The bar is drawn on standard error, where that is a terminal, or in a notebook.  Elsewhere nothing is drawn.  Lines of
workers and print statements of the program appear above the bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...object_ref import ObjectRef

if TYPE_CHECKING:
    from ..client.runtime import Runtime

# A look costs a step for each missing ref, and the bar is drawn as often.
LOOK_SECONDS = 0.1


def show(runtime: Runtime, refs: Any, timeout: float | None, progress: Any) -> float | None:
    """Wait with a bar for the refs of a `get`, and return the rest of its timeout.

    Raises:
        ValueError: progress is neither a bool nor "text".
        the first failure to arrive.
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

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return
    deadline = None if timeout is None else time.monotonic() + timeout
    missing = list(dict.fromkeys(ref.id for ref in refs))
    total = len(missing)
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
        task = bar.add_task("", total=total)
        while missing:
            left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
            is_ready = runtime.wait(missing, len(missing), max(0.0, left), True)
            ready = [object_id for object_id in missing if is_ready(object_id)]
            missing = [object_id for object_id in missing if not is_ready(object_id)]
            bar.update(task, completed=total - len(missing))
            runtime.waiting.raise_failure(ready)
            if deadline is not None and time.monotonic() >= deadline:
                return
