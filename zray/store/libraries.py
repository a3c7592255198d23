"""Values of other libraries whose own pickle would copy their elements: torch, JAX, TensorFlow, Arrow.

A library is known once the program has imported it: this module imports none.  `reducers` maps its types to functions
that pickle an instance with the elements out of band.  pandas and scipy need none of these: they hold numpy arrays.
"""

from __future__ import annotations

import copyreg
import io
import sys
import threading
from collections.abc import Callable
from pickle import PickleBuffer, Pickler
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensors import Parts

# TensorFlow copies smaller elements, and elements with another alignment.
IN_PLACE_MIN_BYTES = 64 * 1024
ALIGNMENT = 64

# The pickler of a larger value is not used again.
USED_AGAIN_MAX_BYTES = 64 * 1024

# Exact type -> a function with the result of an instance's __reduce_ex__.
Reducers = dict[type, Callable[[Any], Any]]

reducers: Reducers = {}
# torch.Tensor, and the finder of used parts of a value's storages; None before torch is imported.
tensor: type | None = None
make_parts: Callable[[], Parts] | None = None
# Names of classes of lazy modules, as a pickle mentions them.
lazy_modules: tuple[bytes, ...] = ()
_known: set[str] = set()
_looked_at = 0
_last_name = ""  # the last module at that look
_module_kinds: set[type] = set()
_table: Reducers = {}
_copyreg_seen: dict[Any, Any] = {}


def look_around() -> None:
    """Learn the types of libraries imported since the last look."""
    global _looked_at, _last_name, lazy_modules
    modules = sys.modules
    count = len(modules)
    if count == _looked_at:
        return
    found = dict(reducers)
    for name, (part, learn) in _LIBRARIES.items():
        if name not in _known and getattr(modules.get(name), part, None) is not None:
            _known.add(name)
            found.update(learn())
    if len(found) > len(reducers):
        _copyreg_seen.clear()
        reducers.update(found)
    latest = next(reversed(modules), "")
    kinds = set(map(type, _modules_since(_last_name)))
    if not kinds <= _module_kinds:
        _module_kinds.update(kinds)
        names = {
            kind.__name__.encode() for kind in _module_kinds if kind is not ModuleType and issubclass(kind, ModuleType)
        }
        # Behind the opcode of a short text.
        lazy_modules = tuple(b"\x8c" + bytes((len(name),)) + name for name in names if len(name) < 256)
    _looked_at, _last_name = count, latest


def _modules_since(name: str) -> list[Any]:
    """Return modules imported after this one; all modules, if it is absent.

    A worker that touched all modules would copy a hundred pages of memory shared with the fork server.
    """
    found: list[Any] = []
    try:
        for other in reversed(sys.modules):
            if other == name:
                return found
            found.append(sys.modules.get(other))
    except RuntimeError:  # another thread imports
        pass
    return list(sys.modules.values())


def is_unseen() -> bool:
    """Whether modules have been imported since the last look."""
    return len(sys.modules) != _looked_at


def table() -> Reducers:
    """Return the reducers, and those of copyreg: a `dispatch_table` of a pickler, not to be changed by the caller."""
    global _table
    if copyreg.dispatch_table != _copyreg_seen or not _copyreg_seen:
        _copyreg_seen.clear()
        _copyreg_seen.update(copyreg.dispatch_table)
        _table = {**_copyreg_seen, **reducers}
    return _table


def pickled(value: Any, buffers: list[PickleBuffer]) -> bytes:
    """The pickle in C with the reducers; buffers are appended."""
    outer = _current.writer
    # A value pickled in the middle of another has a separate writer.
    writer = _Writer() if outer is None or outer.is_busy else outer
    _current.writer = writer
    try:
        return writer.write(value, buffers)
    finally:
        _current.writer = writer if outer is None or not outer.is_busy else outer


class _Writer:
    """A pickler for repeated use: making a new one takes as long as pickling a small value."""

    __slots__ = ("buffers", "file", "is_busy", "parts", "pickler", "table")

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.buffers: list[PickleBuffer] = []
        self.pickler = Pickler(self.file, 5, buffer_callback=self.buffers.append)
        self.table: Reducers | None = None
        self.parts: Parts | None = None  # of the value in hand
        self.is_busy = False

    def write(self, value: Any, buffers: list[PickleBuffer]) -> bytes:
        """The pickle of a value."""
        self.is_busy = True
        try:
            data = self._dump(value)
            if self.parts is not None and self.parts.are_few():
                self.buffers.clear()
                data = self._dump(value)
            buffers += self.buffers
            return data
        finally:
            self.buffers.clear()
            self.parts = None
            self.is_busy = False

    def _dump(self, value: Any) -> bytes:
        file, reduce = self.file, table()
        if self.table is not reduce:
            self.pickler.dispatch_table = self.table = reduce
        try:
            self.pickler.dump(value)
            return file.getvalue()
        finally:
            if file.tell() > USED_AGAIN_MAX_BYTES:
                # Its memo is as large as for this value, and would be emptied as a whole each time.
                self.pickler = Pickler(file, 5, buffer_callback=self.buffers.append)
                self.table = None
            else:
                self.pickler.clear_memo()
            file.seek(0)
            file.truncate()


def _tensor_parts(value: Any) -> Any:
    """A tensor, while `pickled` is at work."""
    writer = _current.writer
    assert writer is not None and make_parts is not None
    if writer.parts is None:
        writer.parts = make_parts()
    return writer.parts.reduce(value)


class _Current(threading.local):
    """The writer of this thread."""

    writer: _Writer | None = None


_current = _Current()


def module_parts(module: Any) -> Any:
    """Return how to pickle an instance of a subclass of ModuleType: by name; NotImplemented: no name leads to it."""
    try:
        name = object.__getattribute__(module, "__name__")
    except AttributeError:
        return NotImplemented
    if sys.modules.get(name) is not module:
        import importlib.util

        try:
            if name in sys.modules or importlib.util.find_spec(name) is None:
                return NotImplemented
        except (ImportError, ValueError):
            return NotImplemented
    return import_module, (name,)


def import_module(name: str) -> Any:
    """Return the module of that name."""
    import importlib

    return importlib.import_module(name)


def _learn_torch() -> Reducers:
    global tensor, make_parts
    from . import tensors

    found = tensors.learn()
    tensor, make_parts = sys.modules["torch"].Tensor, tensors.Parts
    return {**found, tensor: _tensor_parts}  # type: ignore[dict-item]


def _learn_arrow() -> Reducers:
    from . import arrow

    return arrow.learn()


def _learn_jax() -> Reducers:
    return {sys.modules["jaxlib"]._jax.ArrayImpl: _jax_parts}


def _learn_tensorflow() -> Reducers:
    return {type(sys.modules["tensorflow"].constant(0)): _tensorflow_parts}


def _jax_parts(array: Any) -> Any:
    """Return a numpy array in place of a JAX array: a view of the same elements, if on one CPU."""
    import numpy

    if array.weak_type or len(array.devices()) != 1:
        return array.__reduce_ex__(5)
    return restore_jax, (numpy.asarray(array),)


def restore_jax(elements: Any) -> Any:
    """Return a JAX array; on a CPU it shares the numpy array's memory."""
    import jax

    return jax.device_put(elements, may_alias=True)


def _tensorflow_parts(tensor: Any) -> Any:
    """A numpy array in the place of an eager tensor: a view of the same elements, where numpy knows their type."""
    import numpy

    try:
        elements = numpy.asarray(memoryview(tensor))
    except (BufferError, TypeError, ValueError):
        return tensor.__reduce_ex__(5)
    return restore_tensorflow, (elements,)


def restore_tensorflow(elements: Any) -> Any:
    """Return an eager tensor; a large one shares the numpy array's memory."""
    import tensorflow

    if elements.nbytes >= IN_PLACE_MIN_BYTES and elements.__array_interface__["data"][0] % ALIGNMENT == 0:
        try:
            return tensorflow.experimental.dlpack.from_dlpack(unprotected(elements).__dlpack__())
        except Exception:  # a type without an exchange format
            pass
    return tensorflow.convert_to_tensor(elements)


class _Memory:
    """The memory of an array, as reported to numpy."""

    def __init__(self, array: Any) -> None:
        self.array = array  # alive while its memory is in use
        said = array.__array_interface__
        self.__array_interface__ = {**said, "data": (said["data"][0], False)}


def unprotected(array: Any) -> Any:
    """Return a view of an array that numpy takes for writable, for libraries without read-only values.

    Its pages may be read-only all the same.
    """
    import numpy

    return numpy.asarray(_Memory(array))


_LIBRARIES: dict[str, tuple[str, Callable[[], Reducers]]] = {
    "torch": ("UntypedStorage", _learn_torch),
    "pyarrow.lib": ("Table", _learn_arrow),
    "jax": ("Array", _learn_jax),
    "tensorflow": ("constant", _learn_tensorflow),
}
