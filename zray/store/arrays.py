"""numpy arrays: a head of dtype and shape, then the elements.  Imports numpy only when there is an array.

    tag (1) | order (1) | bytes of the head (2) | bytes said (2) | msgpack (dtype.str, shape) | padding | data

The head is padded to 16 bytes, or to where a buffer of its own begins (layout.py) where the elements were not
copied into it.

A head is worked out once per dtype and shape: programs send the same few again and again.
"""

from __future__ import annotations

import struct
from pickle import PickleBuffer
from typing import Any

from msgspec.msgpack import Decoder, Encoder

from .layout import NDARRAY, Serialized, begin_after

# Smaller arrays are copied at once; larger ones directly to their final place.
ARRAY_INBAND_MAX = 64 * 1024
HEADS_MAX = 1024  # Then the cache begins anew.
# Kinds fully described by dtype.str: no fields, no objects, no registered types.
PLAIN_KINDS = frozenset("biufcmMSU")
C_ORDER, F_ORDER = 0, 1

HEAD = struct.Struct("<BBHH")
SAID_AT = HEAD.size

_encode = Encoder().encode
_decode = Decoder(tuple[str, tuple[int, ...]]).decode
# (dtype, shape) -> head of an in-band array; None: not a plain dtype, or an empty array.
_heads: dict[tuple[Any, tuple[int, ...]], bytes | None] = {}
# head -> dtype, shape (None where a vector needs no reshaping), order
_read: dict[bytes, tuple[Any, tuple[int, ...] | None, str]] = {}
# numpy.frombuffer, once a head has been read.
_frombuffer: Any = None


def encode_array(array: Any) -> Serialized | None:
    """Serialize an array of exactly numpy.ndarray; None if only pickle can do it."""
    try:
        head = _heads[array.dtype, array.shape]
    except KeyError:
        head = _remember_head(array)
    if head is None:
        return None
    order = C_ORDER
    if array.ndim > 1:
        flags = array.flags
        if flags.f_contiguous and not flags.c_contiguous:
            order, array = F_ORDER, array.T
    if array.nbytes < ARRAY_INBAND_MAX:
        if order == F_ORDER:
            head = _head(array.dtype, array.shape[::-1], order, 0)
        data = head + array.tobytes()
        return Serialized(data, (), (), len(data))
    large_head = _head(array.dtype, array.shape[::-1] if order else array.shape, order, array.nbytes)
    elements = _bytes_of(array)
    return Serialized(large_head, (elements,), (), len(large_head) + elements.nbytes)


def decode_array(data: Any, *, writable: bool = False) -> Any:
    """Return the array: a read-only view of `data`; or a writable one, if `data` is writable.

    An array in bytes is a copy: numpy cannot protect these bytes, shared with other readers in this process.
    """
    is_copied = type(data) is bytes
    if not is_copied and not writable:
        data = memoryview(data).toreadonly()
    length = data[2] | data[3] << 8
    head = bytes(data[:length])
    try:
        dtype, shape, order = _read[head]
    except KeyError:
        dtype, shape, order = _read_head(head)
    if is_copied:
        data = data[length:]
        length = 0
    array = _frombuffer(data, dtype, -1, length)
    return array if shape is None else array.reshape(shape, order=order)


def array_parts(array: Any) -> tuple[Any, ...] | None:
    """Return how to pickle an array with its elements out of band, whatever its strides; None: numpy's way."""
    if array.dtype.hasobject or not array.nbytes:
        return None
    return restore_array, (PickleBuffer(_bytes_of(array)), array.dtype, array.shape)


def restore_array(elements: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """The reverse of `array_parts`."""
    import numpy

    return numpy.frombuffer(elements, dtype).reshape(shape)


def _bytes_of(array: Any) -> memoryview:
    """Return the elements in C order, without a copy if possible."""
    import numpy

    # Through a view of bytes: times and texts cannot be exported in their own types.
    return memoryview(numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8))


def _remember_head(array: Any) -> bytes | None:
    import numpy

    dtype = array.dtype
    head = None
    if dtype.kind in PLAIN_KINDS and array.nbytes and numpy.dtype(dtype.str) == dtype:
        head = _head(dtype, array.shape, C_ORDER, 0)
    if len(_heads) >= HEADS_MAX:
        _heads.clear()
    _heads[dtype, array.shape] = head
    return head


def _head(dtype: Any, shape: tuple[int, ...], order: int, size: int) -> bytes:
    """Return the head, padded to the start of `size` bytes behind it; 0: elements copied into it."""
    said = _encode((dtype.str, shape))
    length = begin_after(SAID_AT + len(said), size)
    return (HEAD.pack(NDARRAY, order, length, len(said)) + said).ljust(length, b"\0")


def _read_head(head: bytes) -> tuple[Any, tuple[int, ...] | None, str]:
    import numpy

    global _frombuffer
    _frombuffer = numpy.frombuffer
    _, order, _, said_length = HEAD.unpack_from(head)
    dtype_str, shape = _decode(head[SAID_AT : SAID_AT + said_length])
    found = (numpy.dtype(dtype_str), None if len(shape) == 1 else shape, "F" if order else "C")
    if len(_read) >= HEADS_MAX:
        _read.clear()
    _read[head] = found
    return found
