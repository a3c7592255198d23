"""Uncaught errors of a program, shown without the zray frames that raised them (store/folding.py)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


def install() -> None:
    """Show uncaught errors without zray's frames from now on, unless the program has a hook of its own.

    The hook stays after the session, whose error may end the program.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def uninstall() -> None:
    """Show all frames: only frames of zray tell of a fault in its own processes and commands."""
    if sys.excepthook is _show:
        sys.excepthook = sys.__excepthook__


def cut(trace: TracebackType | None) -> None:
    """Leave out the last frames, as far as they are zray's own.  A traceback of nothing but own frames stays."""
    from ..store.folding import OWN_FOLDER

    last = None  # of the program's
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def lines_for_ipython(error: BaseException) -> list[str]:
    """Return the traceback as in IPython, also for notebooks, without the zray frames that raised the error."""
    cut_all(error)
    shell = sys.modules["IPython"].get_ipython()
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return lines


def cut_all(error: BaseException) -> None:
    """Cut the traceback of an error, and the tracebacks of all causes."""
    from ..store.folding import shows_all

    seen: set[int] = set()
    todo: list[BaseException | None] = [error] if not shows_all() else []
    while todo:
        part = todo.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            cut(part.__traceback__)
            todo += [part.__cause__, part.__context__]


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    cut_all(error)
    sys.__excepthook__(kind, error, trace)
