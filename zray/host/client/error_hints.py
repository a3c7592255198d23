"""Notes on a user's exception, in cases where zray knows more about the cause than the message says."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

from ...exceptions import TaskError, ZrayError
from ...store.unpickling import where_modules_come_from


def add_hints(error: BaseException, node: str = "") -> None:
    """Add helpful notes to a user's exception, otherwise unchanged.  Needs Python 3.11, else does nothing.

    node: the node of the task, if different from the driver's node.
    """
    if node and isinstance(error, ModuleNotFoundError) and hasattr(error, "add_note"):
        error.add_note(where_modules_come_from(missing_module(error), node))
    if type(error) is ValueError and hasattr(error, "add_note"):
        text = str(error)
        if "read-only" in text or "readonly" in text:
            names = _read_only_arrays(error)
            if names:
                error.add_note(
                    f"{' and '.join(names)}: arrays from zray lie in shared memory, which other processes read "
                    f"too.  Copy before writing ({names[0]} = {names[0]}.copy()), or have zray make copies: "
                    "@zray.remote(writable=True), zray.get(ref, writable=True)."
                )


def missing_module(error: BaseException | None) -> str:
    """Return the top-level name of the missing module that caused this error; "" for other causes."""
    for _ in range(10):
        if error is None:
            break
        if isinstance(error, ModuleNotFoundError) and error.name:
            return error.name.partition(".")[0]
        error = error.__cause__
    return ""


def note_missing_module(error: TaskError) -> None:
    """Note on the error that a module absent on the worker's node is present in the driver, with its version."""
    cause = error.cause
    _say_left_behind(error, str(cause) if isinstance(cause, ImportError) else "")
    found = re.search(r"No module named '(\w+)", str(cause)) if isinstance(cause, (ImportError, ZrayError)) else None
    if found is None or not hasattr(error, "add_note"):
        return
    from importlib import metadata, util

    name = found[1]
    try:
        is_here = name in sys.modules or util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        is_here = False
    if not is_here:
        return
    try:
        version = f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        version = f"a module {name}"
    error.add_note(f"{version} is present where the driver runs, and missing on node {error.node[:8]}.")


def _say_left_behind(error: TaskError, text: str) -> None:
    """Note that a module was excluded by patterns when a working directory or package was packed."""
    found = re.search(r"No module named '([\w.]+)'|cannot import name '(\w+)' from '[\w.]+'", text)
    if found is None:
        return
    from ..code.module_discovery import left_behind, stayed

    if (words := stayed.get((found[1] or "").partition(".")[0])) is not None:
        error.traceback_str = (
            f"{error.traceback_str.rstrip()}\n{words}.  Have it on each node by the same PYTHONPATH, or install it "
            "there.\n"
        )
        return
    path = left_behind.get((found[1] or found[2]).rpartition(".")[2])
    if path is not None:
        error.traceback_str = (
            f"{error.traceback_str.rstrip()}\n{path} was left behind when the files of runtime_env were packed: a "
            f'.gitignore file or `excludes` names it.  Take it with excludes=["!{path}"].\n'
        )


def _read_only_arrays(error: BaseException) -> list[str]:
    """Return names of read-only arrays in the innermost function with any: arguments first."""
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
        names += [f"self.{name}" for name, value in _attributes_of_self(frame) if _is_read_only(value, numpy)]
        if names:
            return names
    return []


def _attributes_of_self(frame: FrameType) -> list[tuple[str, Any]]:
    """The attributes of the object whose method runs in the frame."""
    try:
        return list(vars(frame.f_locals["self"]).items())
    except Exception:  # No method, or a class whose __dict__ is user code.
        return []


def _is_read_only(value: Any, numpy: Any) -> bool:
    return isinstance(value, numpy.ndarray) and not value.flags.writeable
