"""Arrays in the journal: numpy arrays in the form of msgpack-numpy, so that a restore gives the same values and dtypes.

Other programs read the body of a record by `msgpack.unpackb(body, object_hook=msgpack_numpy.decode)`.  An array of
objects, whose form would be a pickle, and one of more than `BYTES_MAX` are written as in result.json: a list or a text.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["BYTES_MAX", "decoded", "encoded", "may_hold_arrays"]

# Bytes of an array in the journal: a checkpoint holds larger ones.
BYTES_MAX = 1 << 20
# The key of msgpack-numpy as msgpack has it.  Names of metrics are texts, so no other value has such a key.
_KEY = b"\xc4\x02nd"


def encoded(value: Any) -> dict[bytes, Any] | None:
    """An array, or a complex number, in the form of msgpack-numpy; None: the value has none."""
    numpy = sys.modules.get("numpy")  # without it there is no array
    if numpy is None or type(value) is not numpy.ndarray and not isinstance(value, numpy.complexfloating):
        return None
    if value.dtype.hasobject or value.nbytes > BYTES_MAX:
        return None
    import msgpack_numpy  # here: each process of a trial would load it, and few report arrays

    array = numpy.ascontiguousarray(value)
    if array.dtype.kind in "mM":  # dates and times have no buffer
        array = array.view(numpy.int64)
    found: dict[bytes, Any] = msgpack_numpy.encode(array if isinstance(value, numpy.ndarray) else value)
    if value.dtype.kind != "V":
        found[b"type"] = value.dtype.str
    found[b"data"] = array.tobytes()
    if isinstance(value, numpy.ndarray):
        found[b"shape"] = value.shape
    return found


def may_hold_arrays(body: bytes | memoryview) -> bool:
    """Whether the bytes of a record may hold an array."""
    return _KEY in bytes(body)


def decoded(value: Any) -> Any:
    """A value of a record with the arrays that `encoded` has written.

    Raises:
        ValueError: the bytes and the shape of an array do not fit.
    """
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if b"nd" not in value:
        return {key: decoded(item) for key, item in value.items()}
    if value.get(b"kind") == b"O":  # a pickle, which zray does not write
        return value
    import msgpack_numpy

    return msgpack_numpy.decode(value)
