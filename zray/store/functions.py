"""Functions and classes to bytes and back: by cloudpickle, so that workers need not import where they were
written.
"""

from __future__ import annotations

import pickle
from typing import Any

from ..exceptions import DeserializationError
from ..object_ref import collect_refs
from .values import cloudpickled


def serialize_function(function: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """The code of a function or class, and the ids of the refs that its closure captures (unique, in order).

    Raises:
        SerializationError: names the captured part that cannot be pickled.
    """
    with collect_refs() as ids:
        code = cloudpickled(function)
    return code, tuple(ids)


def deserialize_function(code: bytes) -> Any:
    """The function or class.

    Raises:
        DeserializationError: a module that it needs is missing here, or its import failed.
    """
    try:
        return pickle.loads(code)
    except Exception as error:
        raise DeserializationError(
            f"A function of {len(code)} bytes cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error


def largest_captured(function: Any) -> tuple[str, int]:
    """What of a function's closure, defaults and globals makes the most bytes: how to say it, and how many."""
    from .inspect import function_parts

    largest, most = "", 0
    for said, part in function_parts(function):
        try:
            with collect_refs():
                size = len(cloudpickled(part))
        except Exception:
            continue
        if size > most:
            largest, most = said, size
    return largest, most
