"""What a task raised, to bytes and back: it always works, whatever the user's exception does.

    0x82 TASK_ERROR    msgpack [function, traceback, pid, node, cause]; cause: a pickle, b"" for none
    0x83 SYSTEM_ERROR  exceptions.py, since control processes write it, which have no pickle

The exception is taken apart and put together again without its `__init__`, which may ask for more than
`args`.  Refs in it are refs inside the error value, as in any other value.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from msgspec.msgpack import Decoder, Encoder

from ..exceptions import (
    SYSTEM_ERROR,
    TASK_ERROR,
    DeserializationError,
    ExceptionInParts,
    TaskError,
    ZrayError,
    decode_system_error,
    encode_system_error,
    exception_parts,
    has_own_reduce,
    in_parts,
    system_error_of,
)
from .layout import Serialized
from .values import deserialize, serialize, to_bytes

# Errors ride in messages, and are shown to people: neither gains from more.
TEXT_MAX = 64 * 1024
CAUSE_MAX_BYTES = 256 * 1024
# A task that fails because another failed says so in a line; a chain of a thousand does not say it all.
PASSED_ON_MAX = 10

# What this process can add to an error of a task, when set (host/driver.py).
annotate: Callable[[TaskError], None] | None = None

OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep
NO_CAUSE = Serialized(b"", (), (), 0)
_HEAD = bytes((TASK_ERROR,))
_encode = Encoder().encode
_decode = Decoder(tuple[str, str, int, str, bytes]).decode


def serialize_error(
    error: BaseException, function_name: str = "", *, pid: int = 0, node: str = "", skip_frames: int = 0
) -> Serialized:
    """An error value: what `get` raises where the task's result is asked for.  Never raises.

    function_name: the task that raised it. pid: 0 means this process.
    skip_frames: how many of the outermost frames are zray's own, and of no interest.
    """
    if isinstance(error, TaskError):
        return _pass_on(error, function_name)
    text = _traceback_text(error, skip_frames)
    try:
        cause = _pickled(error)
    except BaseException:  # As in _small.
        cause = NO_CAUSE
    return _encode_task_error(function_name, text, pid or os.getpid(), node, cause)


def serialize_system_error(error: ZrayError) -> bytes:
    """An error of zray's own, which is raised as it is, with no task's traceback."""
    return system_error_of(error)


def serialize_cancellation(error: KeyboardInterrupt, function_name: str, *, skip_frames: int = 0) -> bytes:
    """A task that raised KeyboardInterrupt: it counts as cancelled, as in Ray.  The traceback goes into the text."""
    text = f"Task {function_name} raised {type(error).__name__}, so it counts as cancelled:\n"
    text += _traceback_text(error, skip_frames).rstrip()
    clean = text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate in a message
    return encode_system_error("TaskCancelledError", clean)


def deserialize_error(data: Any) -> ZrayError:
    """The exception to raise.  A task's is also an instance of the user's class, if its class is known."""
    if data[0] == SYSTEM_ERROR:
        return decode_system_error(data)
    try:
        function_name, text, pid, node, pickled = _decode(memoryview(data)[1:])
    except Exception as error:
        return DeserializationError(f"an error value of {len(data)} bytes cannot be read: {error}")
    cause = None
    if pickled:
        try:
            cause = deserialize(pickled)
        except BaseException as error:  # As above: the user's code runs here.
            text += f"\n(The exception itself cannot be unpickled in this process: {_safe(error)})"
    if not isinstance(cause, BaseException):
        cause = None
    error_here = TaskError(function_name, text, cause, pid=pid, node=node).as_instanceof_cause()
    if annotate is not None:
        annotate(error_here)
    return error_here


def _pickled(error: BaseException) -> Serialized:
    """The exception as a value; with shortened texts, and without what cannot be pickled or is too large."""
    cls = type(error)
    if has_own_reduce(cls):
        data = _small(error)
        if data.size:
            return data
    arguments, state = exception_parts(error)
    memo: dict[int, Any] = {id(error): error}
    arguments = tuple(in_parts(_shortened(part), memo) for part in arguments)
    data = _small(ExceptionInParts(cls, arguments, state))
    if data.size:
        return data
    state = {name: value for name, value in state.items() if _small(value).size}
    data = _small(ExceptionInParts(cls, arguments, state))
    if data.size:
        return data
    replaced = tuple(part if _small(part).size else _shortened(_safe_repr(part)) for part in arguments)
    data = _small(ExceptionInParts(cls, replaced, state))
    return data if data.size else _small(ExceptionInParts(cls, replaced, {}))


def _small(value: Any) -> Serialized:
    """The value, taken apart; NO_CAUSE where it cannot be, or is too large."""
    try:
        serialized = serialize(value)
    except BaseException:  # Its __reduce__ may even try to end the process.
        return NO_CAUSE
    return serialized if serialized.size <= CAUSE_MAX_BYTES else NO_CAUSE


def _shortened(value: Any) -> Any:
    if type(value) is str and len(value) > TEXT_MAX:
        half = TEXT_MAX // 2
        return f"{value[:half]}\n[... {len(value) - TEXT_MAX} characters left out ...]\n{value[-half:]}"
    if type(value) is bytes and len(value) > TEXT_MAX:
        return value[:TEXT_MAX]
    return value


def _traceback_text(error: BaseException, skip_frames: int) -> str:
    import traceback

    try:
        shown = error.__traceback__
        for _ in range(skip_frames):
            if shown is not None and shown.tb_next is not None:
                shown = shown.tb_next
        told = traceback.TracebackException(type(error), error, shown)
        if isinstance(error, ZrayError):  # where zray has found out is of no interest
            while told.stack and told.stack[-1].filename.startswith(OWN_FOLDER):
                told.stack.pop()
        text = "".join(told.format() if told.stack else told.format_exception_only())
    except BaseException as trouble:
        text = f"{type(error).__name__} (its own text fails: {_safe(trouble)})"
    return _shortened(text)


def _pass_on(error: TaskError, function_name: str) -> Serialized:
    """A task failed because it asked for the result of one that failed: the first error stays what it was."""
    text = error.traceback_str
    if function_name and function_name != error.function_name and text.count("\n(passed on by ") < PASSED_ON_MAX:
        text = f"{text.rstrip()}\n(passed on by {function_name})\n"
    cause = NO_CAUSE
    if error.cause is not None:
        try:
            cause = _pickled(error.cause)
        except BaseException:
            cause = NO_CAUSE
    return _encode_task_error(error.function_name, text, error.pid, error.node, cause)


def _encode_task_error(function_name: str, text: str, pid: int, node: str, cause: Serialized) -> Serialized:
    pickled = to_bytes(cause)
    try:
        data = _HEAD + _encode((function_name, text, pid, node, pickled))
    except Exception:  # A lone surrogate in a message.
        clean = text.encode("utf-8", "backslashreplace").decode()
        name = str(function_name).encode("utf-8", "backslashreplace").decode()
        data = _HEAD + _encode((name, clean, pid, str(node), pickled))
    return Serialized(data, (), cause.contained, len(data))


def _safe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:1000]
    except BaseException:
        return type(error).__name__


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
