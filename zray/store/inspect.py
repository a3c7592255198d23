"""Why a value cannot be pickled, as a path: `f -> closure 'self' -> .log -> .lock`.

A search of its parts by trying each: bounded in depth, number of trials and time, since it runs only after a
failure and a user waits for the message.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pickle import PickleBuffer
from typing import Any

from ..exceptions import SerializationError, ZrayError
from ..object_ref import collect_refs

DEPTH_MAX = 12
TRIALS_MAX = 300
SEARCH_S_MAX = 0.5
PARTS_MAX = 100  # of a container

HINTS = {
    "lock": "make the lock where it is used, or drop it in __getstate__",
    "RLock": "make the lock where it is used, or drop it in __getstate__",
    "_thread.lock": "make the lock where it is used, or drop it in __getstate__",
    "_thread.RLock": "make the lock where it is used, or drop it in __getstate__",
    "TextIOWrapper": "open the file inside the task, and pass its name",
    "BufferedReader": "open the file inside the task, and pass its name",
    "BufferedWriter": "open the file inside the task, and pass its name",
    "socket": "connect inside the task, and pass the address",
    "generator": "pass list(generator), or make it inside the task",
    "Connection": "connect inside the task, and pass the address",
    "Thread": "start threads inside the task or actor",
    "mmap": "open the file inside the task, and pass its name",
}


def explain(value: Any, error: BaseException) -> SerializationError:
    """Return the error for a value that did not pickle."""
    if isinstance(error, SerializationError):
        return error
    if _is_refusal(error):
        return SerializationError(str(error))
    path, culprit = find_culprit(value)
    kind = type(culprit)
    name = kind.__name__
    lines = [f"Cannot pickle {' -> '.join(path)}: of type {kind.__module__}.{name} ({_first_line(error)})."]
    size = getattr(culprit, "nbytes", None)
    if isinstance(size, int):
        lines.append(f"It holds {size} bytes.")
    hint = HINTS.get(name)
    if hint:
        lines.append(f"Hint: {hint}.")
    elif isinstance(error, ZrayError):
        lines.append(str(error))
    else:
        lines.append("Hint: make it inside the task, or give its class a __reduce__ (or register_serializer).")
    return SerializationError(" ".join(lines))


def find_culprit(value: Any) -> tuple[list[str], Any]:
    """Return the path to the deepest part that fails by itself, and the part."""
    deadline = time.monotonic() + SEARCH_S_MAX
    trials = TRIALS_MAX
    path, seen = [_name(value)], {id(value)}
    for _ in range(DEPTH_MAX):
        for said, part in parts_of(value):  # noqa: B007
            trials -= 1
            if trials < 0 or time.monotonic() > deadline:
                return path, value
            if id(part) not in seen and failure_of(part) is not None:
                break
        else:
            return path, value
        seen.add(id(part))
        path.append(said)
        value = part
    return path, value


def failure_of(value: Any) -> BaseException | None:
    """Return why a value cannot be pickled, or None."""
    from .values import careful_pickler

    buffers: list[PickleBuffer] = []
    try:
        with collect_refs():
            careful_pickler()(io.BytesIO(), 5, buffers.append).dump(value)
    except Exception as error:
        return error
    return None


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts that a pickle of `value` would include, with their names."""
    try:
        yield from function_parts(value)
        if isinstance(value, dict):
            for key, part in list(value.items())[:PARTS_MAX]:
                yield f"[{_short(key)}]", part
                yield f"key {_short(key)}", key
        elif isinstance(value, (list, tuple)):
            for index, part in enumerate(value[:PARTS_MAX]):
                yield f"[{index}]", part
        elif isinstance(value, (set, frozenset)):
            for part in list(value)[:PARTS_MAX]:
                yield f"member {_short(part)}", part
        state = getattr(value, "__dict__", None)
        if isinstance(value, type):
            state = {k: v for k, v in vars(value).items() if k not in ("__dict__", "__weakref__")}
        elif "__getstate__" in {name for cls in type(value).__mro__[:-1] for name in vars(cls)}:
            state = value.__getstate__()
        if isinstance(state, dict):
            for key, part in list(state.items())[:PARTS_MAX]:
                yield f".{key}", part
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for key in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, key):
                    yield f".{key}", getattr(value, key)
    except Exception:
        return  # The user's own code fails even here: the path ends one step earlier.


def function_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts captured by a function: bound object, closure, defaults and globals, with their names."""
    bound_to = getattr(value, "__self__", None)
    if bound_to is not None and hasattr(value, "__func__"):
        yield "self", bound_to
        value = value.__func__
    code = getattr(value, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, getattr(value, "__closure__", None) or (), strict=False):
        try:
            yield f"closure {name!r}", cell.cell_contents
        except ValueError:
            continue  # A name not bound yet.
    for index, part in enumerate(value.__defaults__ or ()):
        yield f"default {index}", part
    for name in _global_names(code):
        if name in value.__globals__:
            yield f"global {name!r}", value.__globals__[name]


def _global_names(code: Any) -> Iterator[str]:
    """Yield names that a function and its inner functions look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _global_names(constant)


def _name(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else f"<{type(value).__name__}>"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 40 else text[:37] + "..."


def _first_line(error: BaseException) -> str:
    try:
        text = str(error).partition("\n")[0][:300]
    except Exception:
        text = "its own message fails"
    return f"{type(error).__name__}: {text}"


def _is_refusal(error: BaseException) -> bool:
    """Return whether a class of zray's refuses to be pickled, in a sentence that says what to do."""
    traceback, module = error.__traceback__, ""
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        traceback = traceback.tb_next
    return module.startswith("zray.") and not module.startswith("zray.store.") and not is_of_users(error)


def is_of_users(error: BaseException) -> bool:
    """Return whether an error came from user code (__getstate__, say), so that its traceback helps the user."""
    traceback = error.__traceback__
    while traceback is not None:
        module: str = traceback.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("zray", "cloudpickle", "copyreg", "pickle"):
            return True
        traceback = traceback.tb_next
    return False
