"""Errors raised by tasks, to bytes and back: never fails, whatever the user's exception does.

    0x82 TASK_ERROR    msgpack [function, traceback, pid, node, cause]; cause: a pickle, b"" for none
    0x83 SYSTEM_ERROR  zray.exceptions, since control processes write it, which have no pickle

The exception is taken apart and put together again without its `__init__`, which may ask for more than `args`.  Refs in
it are refs inside the error value, as in any other value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from ..exceptions import (
    SYSTEM_ERROR,
    TASK_ERROR,
    DeserializationError,
    TaskError,
    ZrayError,
    decode_system_error,
    encode_system_error,
    system_error_of,
)
from ..exceptions.parts import ExceptionInParts, exception_parts, has_own_reduce, in_parts, is_group
from .layout import Serialized
from .values import deserialize, serialize, to_bytes

# Errors ride in messages, and are shown to people: neither gains from more.
TEXT_MAX = 64 * 1024
CAUSE_MAX_BYTES = 256 * 1024
# Limit for the text of a group's exception, beside its pickle.
SAID_MAX = 1_000
# A task that fails because another failed adds a line; a chain of a thousand does not add all.
PASSED_ON_MAX = 10
PASSED_ON_FRAMES = 3  # of each of those: the call of get(), and its callers

# Set by a process to add notes to an error of a task (host/driver/driver.py).
annotate: Callable[[TaskError], None] | None = None

NO_CAUSE = Serialized(b"", (), (), 0)
_HEAD = bytes((TASK_ERROR,))
_encode = Encoder().encode
_decode = Decoder(tuple[str, str, int, str, bytes]).decode


def serialize_error(
    error: BaseException, function_name: str = "", *, pid: int = 0, node: str = "", skip_frames: int = 0
) -> Serialized:
    """Return an error value, which `get` of the task's result raises.  Never raises.

    function_name: the task that raised.  pid: 0 means this process.

    skip_frames: number of outermost frames of zray's own, to be left out.
    """
    if isinstance(error, TaskError):
        return _pass_on(error, function_name)
    text = traceback_text(error, skip_frames)
    return _encode_task_error(function_name, text, pid or os.getpid(), node, _pickled(error))


def serialize_system_error(error: ZrayError) -> bytes:
    """Return an error of zray's own, raised unchanged, without a task's traceback."""
    return system_error_of(error)


def serialize_cancellation(error: BaseException, function_name: str, how: str = "", *, skip_frames: int = 0) -> bytes:
    """Return the error of a task that is cancelled, or raised KeyboardInterrupt: cancelled, as in Ray.  The text
    includes the traceback.
    """
    how = how or getattr(error, "how", f"raised {type(error).__name__}, so it counts as cancelled")
    text = f"Task {function_name} {how}:\n"
    text += traceback_text(error, skip_frames).rstrip()
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
    is_itself = True
    if pickled:
        try:
            cause = deserialize(pickled)
        except BaseException as error:  # As above: the user's code runs here.
            text += f"\n(The exception itself cannot be unpickled in this process: {_safe(error)})"
            cause, is_itself = error if isinstance(error, ZrayError) else None, False
    if not isinstance(cause, BaseException):
        cause = None
    error_here = TaskError(function_name, text, cause, pid=pid, node=node)
    if is_itself:
        error_here = error_here.as_instanceof_cause()
    if annotate is not None:
        annotate(error_here)
    return error_here


def _pickled(error: BaseException) -> Serialized:
    """Return the exception as a value; with shortened texts, and without parts that are too large or cannot be pickled.

    An error of zray's own replaces an exception that cannot be pickled at all.
    """
    try:
        for candidate, contained in _candidates(error):
            data = _small(candidate)
            if data.size:
                return replace(data, contained=tuple(dict.fromkeys((*data.contained, *contained))))
    except BaseException:  # Its attributes are the user's code too.
        pass
    return serialize(_stand_in(error, "isn't serializable", _why_not(type(error))))


def _candidates(error: BaseException) -> Iterator[tuple[Any, tuple[bytes, ...]]]:
    """Yield ever smaller versions of an exception, and the refs inside parts pickled already."""
    cls = type(error)
    if has_own_reduce(cls):
        yield error, ()
    arguments, state = exception_parts(error)
    contained: tuple[bytes, ...] = ()
    if is_group(cls):
        members = [_pickled(member) for member in arguments[1]]
        contained = tuple(object_id for member in members for object_id in member.contained)
        said = [_said(member)[:SAID_MAX] for member in arguments[1]]
        arguments = (_shortened(arguments[0]), tuple(map(Member, map(to_bytes, members), said)))
    else:
        memo: dict[int, Any] = {id(error): error}
        arguments = tuple(in_parts(_shortened(part), memo) for part in arguments)
    yield ExceptionInParts(cls, arguments, state), contained
    notes = state.get("__notes__")
    if isinstance(notes, list):
        state["__notes__"] = [note if type(note) is str else _safe_repr(note) for note in notes]
    state = {name: value for name, value in state.items() if _small(value).size}
    yield ExceptionInParts(cls, arguments, state), contained
    if not is_group(cls):
        arguments = tuple(part if _small(part).size else _shortened(_safe_repr(part)) for part in arguments)
        yield ExceptionInParts(cls, arguments, state), ()
    yield ExceptionInParts(cls, arguments, {}), contained


class Member:
    """An exception of a group, pickled separately: if it fails on arrival, the others do not."""

    def __init__(self, data: bytes, said: str) -> None:
        self.data = data
        self.said = said

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_member, (self.data, self.said)


def restore_member(data: bytes, said: str) -> BaseException:
    """Return the exception, or an error of zray's own in its place."""
    try:
        member = deserialize(data)
        if isinstance(member, BaseException):
            return member
        why = f"It came as an object of type {type(member).__name__}."
    except BaseException as error:  # As in deserialize_error.
        why = _safe(error)
    return ZrayError(f"An exception cannot be unpickled here.  It was {said}\n({why})")


def _stand_in(error: BaseException, what: str, why: str) -> ZrayError:
    return ZrayError(f"An exception {what}.  It was {_said(error)}{why}")


def stand_in_for(member: BaseException, error: BaseException) -> ZrayError:
    """Return the error that replaces a group's member which does not pickle.  error: the reason."""
    return _stand_in(member, "isn't serializable", f"\n({_safe(error)})")


def _said(error: BaseException) -> str:
    """Type and text of an exception."""
    cls = type(error)
    try:
        text = _shortened(str(error))
    except BaseException as trouble:
        text = f"(its own text fails: {type(trouble).__name__})"
    return f"{cls.__module__}.{cls.__qualname__}: {text}"


def _why_not(cls: type) -> str:
    try:
        serialize(cls)
    except BaseException as error:
        return f"\n({_safe(error)})"
    return f"\n(It holds more than {CAUSE_MAX_BYTES:,} bytes, or cannot be taken apart.)"


def _small(value: Any) -> Serialized:
    """Return the serialized value; NO_CAUSE if impossible or too large."""
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


def traceback_text(error: BaseException, skip_frames: int) -> str:
    """Return the traceback of an error without zray's frames.  Never raises.  skip_frames: as in serialize_error."""
    import traceback

    from .folding import OWN_FOLDER, fold

    try:
        shown = error.__traceback__
        for _ in range(skip_frames):
            if shown is not None and shown.tb_next is not None:
                shown = shown.tb_next
        told = traceback.TracebackException(type(error), error, shown)
        if isinstance(error, (ZrayError, KeyboardInterrupt)):  # where zray has found out is of no interest
            while told.stack and told.stack[-1].filename.startswith(OWN_FOLDER):
                told.stack.pop()
        fold(told)
        text = "".join(told.format() if told.stack else told.format_exception_only())
    except BaseException as trouble:
        text = f"{type(error).__name__} (its own text fails: {_safe(trouble)})"
    return _shortened(text)


def _pass_on(error: TaskError, function_name: str) -> Serialized:
    """Return the error of a task that failed on the result of a failed task: the first error stays unchanged.

    The outer task's lines that led to the error are added to the text.
    """
    text = error.traceback_str
    if function_name and function_name != error.function_name and text.count("\n(passed on by ") < PASSED_ON_MAX:
        from .folding import lines_of_user

        lines = lines_of_user(error.__traceback__, PASSED_ON_FRAMES)
        added = f"\n(passed on by {function_name})\n{lines}"
        # A chain of calls of the same function says so once.
        text = text if text.rstrip().endswith(added.rstrip()) else text.rstrip() + added
    cause = NO_CAUSE if error.cause is None else _pickled(error.cause)
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
