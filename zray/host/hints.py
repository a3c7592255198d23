"""Notes on a user's exception, where zray knows better than the message what went wrong."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


def add_hints(error: BaseException) -> None:
    """Add to a user's exception what helps; it stays what it was.  Needs Python 3.11, else says nothing."""
    if type(error) is ValueError and hasattr(error, "add_note"):
        text = str(error)
        if "read-only" in text or "readonly" in text:
            names = _read_only_arrays(error)
            if names:
                error.add_note(
                    f"{' and '.join(names)}: arrays that zray hands out lie in shared memory, where others read them "
                    f"too.  Copy before writing ({names[0]} = {names[0]}.copy()), or have zray make copies: "
                    "@zray.remote(writable=True), zray.get(ref, writable=True)."
                )


def _read_only_arrays(error: BaseException) -> list[str]:
    """Read-only arrays by their names in the innermost function that has any: its arguments first."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return []
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed(frames):
        if frame.f_globals.get("__name__", "").startswith("zray."):
            return []
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        names = [name for name, value in frame.f_locals.items() if _is_read_only(value, numpy)]
        names.sort(key=lambda name: name not in arguments)
        if names:
            return names
    return []


def _is_read_only(value: Any, numpy: Any) -> bool:
    return isinstance(value, numpy.ndarray) and not value.flags.writeable
