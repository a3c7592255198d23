"""Functions and classes to bytes and back: by cloudpickle, so that workers need not import their modules."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from ..object_ref import ObjectRef, collect_refs
from .layout import Serialized
from .unpickling import cannot_be_unpickled
from .values import cloudpickled, serialize


def serialize_function(function: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """Serialize a function or class.  Returns the code, and the ids of refs in its closure (unique, in order).

    Raises:
        SerializationError: names the captured part that cannot be pickled.
    """
    with collect_refs() as ids:
        code = cloudpickled(function)
    return code, tuple(ids)


def deserialize_function(code: Any) -> Any:
    """Return the function or class; a CodeInStore if published as such.

    Raises:
        DeserializationError: a needed module is missing here, or its import failed.
    """
    try:
        return pickle.loads(code)
    except Exception as error:
        raise cannot_be_unpickled("function", code, error) from error


class CodeInStore:
    """A stand-in for the code of a function or class too large for a message: an object of the store holds the code."""

    __slots__ = ("ref",)

    def __init__(self, ref: ObjectRef) -> None:
        self.ref = ref

    def __reduce__(self) -> Any:
        return CodeInStore, (self.ref,)


def code_as_value(code: bytes) -> Serialized:
    """Return the code as a value of the store: a reader sees its bytes without a copy."""
    import numpy as np

    return serialize(np.frombuffer(code, np.uint8))


def serialize_code_in_store(ref: ObjectRef) -> bytes:
    """Return the bytes published in place of the code in this object."""
    with collect_refs():
        return pickle.dumps(CodeInStore(ref), 5)


def largest_captured(function: Any) -> tuple[str, int]:
    """Return the largest part of a function's or class's closures, defaults, globals and attributes.

    The result is its name and its size in bytes; ("", 0) if there is nothing.
    """
    largest, most = "", 0
    for said, part in _captured(function):
        try:
            with collect_refs():
                size = len(cloudpickled(part))
        except Exception:
            continue
        if size > most:
            largest, most = said, size
    return largest, most


def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts captured by a function, or by a class with its methods, with their names."""
    from .inspect import function_parts

    if not isinstance(function, type):
        yield from function_parts(function)
        return
    for name, value in vars(function).items():
        value = getattr(value, "__func__", value)  # of a class method or static method
        if hasattr(value, "__code__"):
            for said, part in function_parts(value):
                yield f"{said} of {name}", part
        elif not name.startswith("__"):
            yield f"attribute {name!r}", value
