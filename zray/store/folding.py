"""Tracebacks without zray's own frames, which do not help users.

ZRAY_FULL_TRACEBACK=1 in the environment of a process shows them all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceback import StackSummary, TracebackException
    from types import TracebackType

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
VARIABLE = "ZRAY_FULL_TRACEBACK"


def shows_all() -> bool:
    """Whether the environment asks for all frames."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def fold(told: TracebackException) -> None:
    """Remove zray's own frames from a traceback, and from its causes and members."""
    if shows_all():
        return
    todo: list[TracebackException | None] = [told]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        if part.stack is not None:
            fold_stack(part.stack)
        todo += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]


def fold_stack(stack: StackSummary) -> None:
    """The same for one stack.  A stack of nothing but own frames stays: nothing else tells of a fault in zray."""
    users = [frame for frame in stack if not frame.filename.startswith(OWN_FOLDER)]
    if users:
        stack[:] = users


def lines_of_user(trace: TracebackType | None, count: int) -> str:
    """Return the last frames of a traceback outside zray, as a traceback shows them; "": none."""
    from traceback import extract_tb, format_list

    users = [frame for frame in extract_tb(trace) if not frame.filename.startswith(OWN_FOLDER)]
    return "".join(format_list(users[-count:]))
