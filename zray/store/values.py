"""Values to bytes and back.  The formats are in layout.py; errors are in errors.py.

    serialize(value) -> Serialized        in parts; large buffers not yet copied
    to_bytes / write_into                 laid out, in bytes or in shared memory
    deserialize(bytes or ndarray)         the value; arrays are read-only views of its memory

Scalars of exact type go as msgpack, arrays with a small head, everything else by pickle.  C's own pickle is preferred;
cloudpickle handles the rest, and values that depend on the driver's `__main__`, absent in workers.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from pickle import PickleBuffer
from types import CodeType
from typing import Any

from msgspec.msgpack import Decoder, Encoder

from .. import object_ref
from ..exceptions import SYSTEM_ERROR, TASK_ERROR, DeserializationError, SerializationError, ZrayError
from ..object_ref import ObjectRef, collect_refs
from . import layout, libraries
from .arrays import array_parts, decode_array, encode_array
from .copying import copy_bytes
from .exception_values import MemberTrials, mentions_slots, with_slots

# Larger bytes are copied once, straight to their final place.
BYTES_INBAND_MAX = 64 * 1024

SCALARS = frozenset((bool, int, float, str))
# The first byte of an error value.
ERROR_TAGS = frozenset((TASK_ERROR, SYSTEM_ERROR))
# Short results such as (loss, accuracy) cost half as much by msgpack as by pickle; in longer ones the look at each part
# costs the gain.  Immutable parts only, so that nothing can be shared between them.
FLAT_PARTS = frozenset((bool, int, float, str, bytes, type(None)))
FLAT_PREFIX: dict[type, bytes] = {list: b"", tuple: bytes((layout.TUPLE,)), dict: bytes((layout.DICT,))}
FLAT_MAX = 16
_encode = Encoder().encode
_decode = Decoder().decode
_decode_tuple_said = Decoder(tuple[Any, ...]).decode
_dumps = pickle.dumps
_loads = pickle.loads
# A pickle of protocol 5 mentions a class or function by this opcode alone.
STACK_GLOBAL = 0x93
# cloudpickle's replacement for a file's name.
NAMELESS_FILE = "<dynamic-code>"
_refusals_seen = 0
_NONE = layout.Serialized(b"\xc0", (), (), 1)

# numpy.ndarray, once the program has imported numpy: zray alone never does.
_ndarray: Any = None

# Class -> (serializer, deserializer), by `register_serializer`.
_custom: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


def serialize(value: Any) -> layout.Serialized:
    """Take a value apart.  What its buffers point at must not change before they are written.

    Raises:
        SerializationError: names the part that cannot be pickled.
    """
    if value is None:
        return _NONE
    kind = type(value)
    if kind in SCALARS:
        try:
            data = _encode(value)
        except Exception:  # An int of more than 64 bits, a lone surrogate, 4 GiB of text.
            data = _dumps(value, 5)
        return layout.Serialized(data, (), (), len(data))
    if kind is bytes:
        if len(value) > BYTES_INBAND_MAX:
            return layout.with_buffers(layout.BYTES_HEAD, (memoryview(value),))
        data = _encode(value)
        return layout.Serialized(data, (), (), len(data))
    if kind is _ndarray:
        encoded = encode_array(value)
        if encoded is not None:
            return encoded
    elif _ndarray is None and "numpy" in sys.modules:
        _learn_numpy()
        return serialize(value)
    elif kind in FLAT_PREFIX and len(value) <= FLAT_MAX:
        for part in value.values() if kind is dict else value:
            if type(part) not in FLAT_PARTS:
                if type(part) is ObjectRef:
                    return _serialize_collecting(value)
                break
        else:
            flat = _serialize_flat(value, kind)
            if flat is not None:
                return flat
    return serialize_pickled(value)


def serialize_pickled(value: Any) -> layout.Serialized:
    """As `serialize`, but by pickle whatever the value is."""
    buffers: list[PickleBuffer] = []
    try:
        data = _pickled(value, buffers)
    except Exception:
        # A ref inside, mostly: collecting refs costs as much as pickling a small tuple, so it is not done before.
        return _serialize_collecting(value)
    # Without a STACK_GLOBAL no class or function is mentioned, and nothing needs a second look.
    if STACK_GLOBAL in data and _needs_care(data):
        return _serialize_collecting(value)
    if buffers:
        return layout.pickle_with_buffers(data, [buffer.raw() for buffer in buffers], ())
    return layout.Serialized(data, (), (), len(data))


def _pickled(value: Any, buffers: list[PickleBuffer]) -> bytes:
    """The pickle in C."""
    if libraries.is_unseen():
        libraries.look_around()
    if libraries.reducers:
        return libraries.pickled(value, buffers)
    return _dumps(value, 5, buffer_callback=buffers.append)


def _serialize_flat(value: Any, kind: type) -> layout.Serialized | None:
    """A short tuple, list or dict of scalars; None where msgpack cannot say it exactly."""
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return None
    try:
        data = FLAT_PREFIX[kind] + _encode(value)
    except Exception:
        return None
    return layout.Serialized(data, (), (), len(data))


def to_bytes(serialized: layout.Serialized) -> bytes:
    """The value laid out in one bytes object."""
    if not serialized.buffers:
        return serialized.inband
    pieces: list[Any] = [serialized.inband]
    end = len(serialized.inband)
    for begin, buffer in layout.placed(serialized):
        pieces += (bytes(begin - end), buffer)
        end = begin + buffer.nbytes
    return b"".join(pieces)


def write_into(serialized: layout.Serialized, view: Any) -> None:
    """Lay the value out at the start of `view`, writable and at least `serialized.size` bytes.

    Padding keeps whatever was there.

    Raises:
        ValueError: the view is too small.
    """
    target = memoryview(view).cast("B")
    if target.nbytes < serialized.size:
        raise ValueError(f"a value of {serialized.size} bytes does not fit into {target.nbytes}")
    copy_bytes(target[: len(serialized.inband)], memoryview(serialized.inband))
    for begin, buffer in layout.placed(serialized):
        copy_bytes(target[begin : begin + buffer.nbytes], buffer)


def deserialize(data: Any) -> Any:
    """Return the value in `data`: bytes, or a read-only 1-d uint8 ndarray, kept alive by arrays in the value.

    Arrays are read-only.  Arrays in bytes, and values of bytes, are copies.

    Raises:
        TaskError, ZrayError: `data` is an error value.
        DeserializationError: the class is missing here, or its own code failed.
    """
    try:
        return _DECODERS[data[0]](data)
    except ZrayError:
        raise
    except (Exception, SystemExit) as error:
        raise _cannot_be_unpickled(data, error) from error


def deserialize_writable(data: Any) -> Any:
    """Deserialize with arrays that belong to the caller, and may be written into."""
    tag = data[0]
    if tag != layout.NDARRAY and tag != layout.PICKLE_BUFFERS:
        return deserialize(data)
    own = bytearray(data)
    try:
        if tag == layout.NDARRAY:
            return decode_array(own, writable=True)
        pickled, buffers = layout.split_pickle(memoryview(own))
        return _loads(pickled, buffers=buffers)
    except (Exception, SystemExit) as error:
        raise _cannot_be_unpickled(data, error) from error


def is_error(data: Any) -> bool:
    """Return whether a value is an error (a task's or the system's), by its first byte."""
    return data[0] in ERROR_TAGS


def _cannot_be_unpickled(data: Any, error: BaseException) -> DeserializationError:
    from .unpickling import cannot_be_unpickled

    return cannot_be_unpickled("value", data, error)


def register_serializer(cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Pickle instances of exactly `cls` as serializer(instance), reversed by deserializer.

    It applies to this process; every other process can read the result.
    """
    _custom[cls] = (serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Forget the serializer of `cls`, if any."""
    _custom.pop(cls, None)


def _needs_care(data: bytes) -> bool:
    """Return whether a finished pickle should rather be cloudpickle's.

    A refusal: user code has swallowed the error of a ref in a pickle.  `__main__`: the pickle mentions names that no
    worker can import.  `_reconstruct`: numpy wrote an array's elements in band, so the array would come out writable.
    Slots of an exception, which pickle loses.  False alarms cost time only.
    """
    global _refusals_seen
    refusals = object_ref.refusals
    if refusals != _refusals_seen:
        _refusals_seen = refusals
        return True
    if _custom or data.find(b"__main__") >= 0 or data.find(b"_reconstruct") >= 0 or mentions_slots(data):
        return True
    for name in libraries.lazy_modules:
        if data.find(name) >= 0:
            return True
    cloudpickle = sys.modules.get("cloudpickle.cloudpickle")
    # By getattr: another thread may be half through the import.
    return bool(getattr(cloudpickle, "_PICKLE_BY_VALUE_MODULES", None))


def _serialize_collecting(value: Any) -> layout.Serialized:
    global _refusals_seen
    _refusals_seen = object_ref.refusals
    buffers: list[PickleBuffer] = []
    with collect_refs() as ids:
        try:
            data = _pickled(value, buffers)
        except Exception:
            data = b""
        if not data or _needs_care(data):
            ids.clear()
            buffers.clear()
            trials = MemberTrials(careful_pickler())
            try:
                data = cloudpickled(value, buffers, trials)
            except SerializationError:
                if not trials.has_met_group:
                    raise
                ids.clear()
                buffers.clear()
                trials.is_on = True
                data = cloudpickled(value, buffers, trials)
    if buffers:
        return layout.pickle_with_buffers(data, [buffer.raw() for buffer in buffers], tuple(ids))
    return layout.Serialized(data, (), tuple(ids), len(data))


def cloudpickled(value: Any, buffers: list[PickleBuffer] | None = None, trials: MemberTrials | None = None) -> bytes:
    """Return the pickle by cloudpickle.  Out-of-band buffers are appended to `buffers`; without `buffers` they go in
    band.

    trials: notes groups of exceptions, or tries their members, when on.

    Raises:
        SerializationError: names the part that cannot be pickled.
    """
    libraries.look_around()
    file = io.BytesIO()
    try:
        pickler = careful_pickler()(file, 5, None if buffers is None else buffers.append, trials)
        pickler.dump(value)
        if pickler.parts is not None and pickler.parts.are_few():
            file, parts = io.BytesIO(), pickler.parts
            if buffers is not None:
                buffers.clear()
            pickler = careful_pickler()(file, 5, None if buffers is None else buffers.append, trials)
            pickler.parts = parts
            pickler.dump(value)
    except Exception as error:
        from .inspect import explain, is_of_users

        error.__context__ = None  # the same error, of the pickler tried first
        raise explain(value, error) from (error if is_of_users(error) else None)
    return file.getvalue()


_pickler: type | None = None


def careful_pickler() -> Any:
    """Return a cloudpickle Pickler that handles registered classes, and keeps arrays' elements out of band."""
    global _pickler
    if _pickler is not None:
        return _pickler
    from .by_value import ByValuePickler
    from .caches import WRAPPERS, taken_apart

    class CarefulPickler(ByValuePickler):
        parts: Any = None

        def __init__(self, file: Any, protocol: int, buffer_callback: Any, trials: MemberTrials | None = None) -> None:
            super().__init__(file, protocol, buffer_callback)
            self.trials = trials  # of members of groups

        def reducer_override(self, value: Any) -> Any:
            kind = type(value)
            if kind in _custom:
                serializer, deserializer = _custom[kind]
                return _apply, (deserializer, serializer(value))
            if kind is _ndarray:
                parts = array_parts(value)
                if parts is not None:
                    return parts
            if kind is libraries.tensor and libraries.make_parts is not None:
                if self.parts is None:
                    self.parts = libraries.make_parts()
                return self.parts.reduce(value)
            if kind in libraries.reducers:
                return libraries.reducers[kind](value)
            if kind in WRAPPERS and (parts := taken_apart(value, kind)) is not None:
                return parts
            if issubclass(kind, BaseException):
                parts = self.trials.taken_apart(value) if self.trials is not None else None
                if parts is not None or (parts := with_slots(value)) is not None:
                    return parts
            if kind is CodeType:
                return _with_its_file(value, self.dispatch_table[CodeType](value))
            return super().reducer_override(value)

    _pickler = CarefulPickler
    return _pickler


def _with_its_file(code: CodeType, reduced: tuple[Any, tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...]]:
    """Restore the file name of code, which cloudpickle 3.1.3 drops, so that tracebacks can show its lines.

    A new string, as cloudpickle makes them: the same bytes, whatever strings this process has interned.
    """
    make, parts = reduced
    return make, tuple("".join(code.co_filename) if part == NAMELESS_FILE else part for part in parts)


def _apply(function: Callable[[Any], Any], argument: Any) -> Any:
    return function(argument)


def _learn_numpy() -> None:
    """Recognize arrays by type from now on; if numpy is half imported, ask again later."""
    global _ndarray
    _ndarray = getattr(sys.modules["numpy"], "ndarray", None) or _NotYet


class _NotYet:
    """A stand-in for ndarray while another thread is importing numpy: no value is of this class."""


def _decode_buffers(data: Any) -> Any:
    """Arrays in bytes are copies, as `decode_array` says."""
    if type(data) is bytes:
        data = bytes(memoryview(data))
    pickled, buffers = layout.split_pickle(memoryview(data).toreadonly())
    return _loads(pickled, buffers=buffers)


def _decode_tuple(data: Any) -> tuple[Any, ...]:
    return _decode_tuple_said(data[1:])


def _decode_dict(data: Any) -> Any:
    return _decode(data[1:])


def _decode_bytes(data: Any) -> bytes:
    return bytes(memoryview(data)[layout.bytes_begin(len(data)) :])


def _raise_error(data: Any) -> Any:
    from .errors import deserialize_error

    raise deserialize_error(data)


def _unknown(data: Any) -> Any:
    raise DeserializationError(f"No value begins with the byte {data[0]:#x}: it was written by another version.")


def _decoders() -> Sequence[Callable[[Any], Any]]:
    table: list[Callable[[Any], Any]] = [_decode] * 256
    for tag in (*range(0x81, 0x90), 0xC1, *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDD, 0xE0)):
        table[tag] = _unknown
    table[layout.PICKLE] = _loads
    table[layout.PICKLE_BUFFERS] = _decode_buffers
    table[TASK_ERROR] = table[SYSTEM_ERROR] = _raise_error
    table[layout.TUPLE] = _decode_tuple
    table[layout.DICT] = _decode_dict
    table[layout.NDARRAY] = decode_array
    table[layout.BYTES] = _decode_bytes
    return table


_DECODERS = _decoders()
