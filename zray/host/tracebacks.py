"""Uncaught exceptions of a driver's program without the frames of zray that raised them (store/folding.py)."""

from __future__ import annotations

import sys
from types import TracebackType

from ..store.folding import OWN_FOLDER, shows_all


def install() -> None:
    """From now on, unless the program has a hook of its own.

    It stays after the session, whose error may end the program.
    """
    if sys.excepthook is sys.__excepthook__ and not shows_all():
        sys.excepthook = _show


def cut(trace: TracebackType | None) -> None:
    """Leave out the last frames, as far as they are zray's own.  A traceback of nothing but own frames stays."""
    last = None  # of the program's
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        part = todo.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            cut(part.__traceback__)
            todo += [part.__cause__, part.__context__]
    sys.__excepthook__(kind, error, trace)
