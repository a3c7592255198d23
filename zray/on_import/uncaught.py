"""Uncaught errors of a program, shown without the zray frames that raised them (store/folding.py)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType


def install() -> None:
    """Show uncaught errors without zray's frames from now on, unless the program has a hook of its own.

    The hook stays after the session, whose error may end the program.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and shell.showtraceback.__module__ != __name__:
        _cut_in(shell)


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


def _cut_in(shell: Any) -> None:
    """Let a shell of IPython, or of a notebook, cut each error that it shows: only shells tell of its display."""
    shown = shell.showtraceback

    def showtraceback(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        cut_all((exc_tuple or sys.exc_info())[1])
        shown(exc_tuple, *args, **kwargs)

    shell.showtraceback = showtraceback


def lines_for_ipython(error: BaseException) -> list[str]:
    """Return the traceback of an error of zray as IPython shows it, for shells that begin after `import zray`."""
    cut_all(error)
    shell = sys.modules["IPython"].get_ipython()
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return lines


def cut_all(error: BaseException | None) -> None:
    """Cut the traceback of an error, and the tracebacks of all causes and members."""
    from ..exceptions.parts import is_group
    from ..store.folding import shows_all

    seen: set[int] = set()
    todo: list[BaseException | None] = [error] if not shows_all() else []
    while todo:
        part = todo.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            cut(part.__traceback__)
            members: Any = part
            todo += [part.__cause__, part.__context__, *(members.exceptions if is_group(type(part)) else ())]


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    cut_all(error)
    sys.__excepthook__(kind, error, trace)
