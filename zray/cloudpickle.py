"""cloudpickle, under the name by which programs written for Ray find it.

A class that the process knows stays as it is, as in every value that zray carries (store/by_value.py).
"""

import io
from collections.abc import Callable
from pickle import PickleBuffer
from typing import IO, Any

from cloudpickle import load, loads

from .store.by_value import ByValuePickler as Pickler

CloudPickler = Pickler

__all__ = ["CloudPickler", "Pickler", "dump", "dumps", "load", "loads"]


def dump(
    obj: Any,
    file: IO[bytes],
    protocol: int | None = None,
    buffer_callback: Callable[[PickleBuffer], Any] | None = None,
) -> None:
    """Write the pickle of `obj` to a file."""
    Pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)


def dumps(obj: Any, protocol: int | None = None, buffer_callback: Callable[[PickleBuffer], Any] | None = None) -> bytes:
    """The pickle of `obj`."""
    file = io.BytesIO()
    dump(obj, file, protocol, buffer_callback)
    return file.getvalue()
