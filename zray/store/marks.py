"""Marks that show whether a class has changed since it was last pickled: of its attributes, and of their dependencies.

Plain values are compared directly, containers by a digest of their pickle, everything else by identity.  Dependencies
of functions (globals, closures, defaults, functions of the same module) have a common mark: after a change, every
attribute other than plain values counts as changed.

A mark holds no strong reference to anything that could lead back to the class.
"""

from __future__ import annotations

import pickle
import weakref
import zlib
from collections.abc import Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle.cloudpickle as source

from ..object_ref import collect_refs

PLAIN = frozenset((int, float, str, bytes, bool, type(None), complex))
CONTAINERS = frozenset((list, dict, set, frozenset, tuple, bytearray))
# Limit of examined objects; further dependencies are ignored.
LOOKED_INTO_MAX = 10_000


class Marks:
    """The marks of a class: its attributes; the names of attributes with code; the dependencies of these."""

    __slots__ = ("around", "code", "own", "quick")

    def __init__(self, attributes: dict[str, Any], module: str) -> None:
        look = _Look(module)
        self.own: dict[str, Any] = {}
        code = []
        for name, value in attributes.items():
            before = len(look.pending)
            self.own[name] = _identity(value) if _is_written_by_python(name, value) else look.mark(value)
            if len(look.pending) > before:
                code.append(name)
        self.code = frozenset(code)
        self.around = look.around()
        self.quick = None if look.has_state else _Quick(look, attributes)

    def changed_names(self, new: Marks) -> list[str]:
        """Return the attributes changed, added or removed."""
        old = self.own
        names = dict.fromkeys(name for name in (*old, *new.own) if old.get(name) != new.own.get(name))
        if self.around != new.around:
            names.update(dict.fromkeys(name for name in new.own if name in new.code))
        return list(names)

    def hold(self, attributes: dict[str, Any]) -> bool:
        """Return whether nothing has changed, if this can be told at once."""
        return self.quick is not None and self.quick.holds(attributes)


class _Look:
    """A walk over the dependencies of a class's attributes."""

    def __init__(self, module: str) -> None:
        self.modules = (module, "__main__", "functools")
        self.pending: list[Any] = []
        self.seen: set[int] = set()
        self.marks: list[Any] = []
        self.functions: list[weakref.ref[FunctionType]] = []
        # By the id of a namespace: a function of it, and the examined names in it.
        self.namespaces: dict[int, tuple[weakref.ref[FunctionType], dict[str, None]]] = {}
        self.has_state = False  # an object with attributes of its own was examined

    def mark(self, value: Any) -> Any:
        """Return a value's own mark; its content is examined later, unless covered by a digest."""
        kind = type(value)
        if kind in PLAIN:
            return kind, value
        if kind is not FunctionType:
            if _has_content(kind):
                digest = _digest(value)
                if digest is not None:
                    return digest
            if kind in CONTAINERS:
                self.has_state = True
                self.pending.append(value)
                return kind, len(value)
            if isinstance(value, (type, ModuleType)):
                return _identity(value)
        self.pending.append(value)
        return _identity(value)

    def around(self) -> list[Any]:
        """Return the marks of all pending objects, and of their dependencies."""
        for value in self.pending:  # grows meanwhile
            if id(value) not in self.seen and len(self.seen) < LOOKED_INTO_MAX:
                self.seen.add(id(value))
                if type(value) is FunctionType:
                    self.look_at_function(value)
                else:
                    self.marks.extend(map(self.mark, self.parts(value)))
        return self.marks

    def look_at_function(self, function: FunctionType) -> None:
        if function.__module__ not in self.modules and "<locals>" not in function.__qualname__:
            return
        self.functions.append(weakref.ref(function))
        namespace = function.__globals__
        _, names = self.namespaces.setdefault(id(namespace), (weakref.ref(function), {}))
        for name in source._extract_code_globals(function.__code__):
            if name not in names:
                names[name] = None
                self.marks.append(self.mark(namespace.get(name)))
        self.marks.extend(map(self.mark, _function_parts(function)))
        self.marks.extend(map(self.mark, function.__dict__.values()))

    def parts(self, value: Any) -> Iterable[Any]:
        kind = type(value)
        if kind in (classmethod, staticmethod, MethodType):
            return (value.__func__,)
        if kind is property:
            return value.fget, value.fset, value.fdel
        if kind is dict:
            return tuple(value.values())
        if kind in CONTAINERS:
            return tuple(value)
        state = _state_of(value)
        if kind.__module__ == "functools":
            return state
        self.has_state = self.has_state or bool(state)
        return state if kind.__module__ in self.modules else [part for part in state if type(part) in PLAIN]


class _Quick:
    """The objects met by a walk, by their ids: if these are the same, the walk need not be repeated."""

    def __init__(self, look: _Look, attributes: dict[str, Any]) -> None:
        self.functions = look.functions
        self.namespaces = [(function, tuple(names)) for function, names in look.namespaces.values()]
        self.names = tuple(attributes)
        self.digests: dict[int, Any] = {}
        # Objects that cannot lead back to the class are held, so that nothing else gets their ids; the rest is watched.
        self.held: list[Any] = []
        self.alive: list[weakref.ref[Any]] = []
        values = self.values(attributes) or []
        names = (*self.names, *[""] * len(values))
        for index, (name, value) in enumerate(zip(names, values, strict=False)):
            kind = type(value)
            if kind in PLAIN or (kind is tuple and all(type(part) in PLAIN for part in value)):
                self.held.append(value)
            elif _has_content(kind) and not _is_written_by_python(name, value):
                self.digests[index] = _digest(value)
            elif (ref := _identity(value)[1]) is not None:
                self.alive.append(ref)
        self.ids = self.ids_of(values)

    def holds(self, attributes: dict[str, Any]) -> bool:
        values = self.values(attributes)
        return (
            values is not None
            and self.ids_of(values) == self.ids
            and tuple(attributes) == self.names
            and all([ref() is not None for ref in self.alive])
            and all(_digest(values[index]) == digest for index, digest in self.digests.items())
        )

    def values(self, attributes: dict[str, Any]) -> list[Any] | None:
        """Return all objects, in a stable order; None: a function is gone."""
        values = list(attributes.values())
        for ref, names in self.namespaces:
            function = ref()
            if function is None:
                return None
            values += map(function.__globals__.get, names)
        for ref in self.functions:
            function = ref()
            if function is None:
                return None
            values += _function_parts(function)
        return values

    def ids_of(self, values: list[Any]) -> list[int]:
        ids = list(map(id, values))
        for index in self.digests:
            ids[index] = 0  # compared by content
        return ids


def _function_parts(function: FunctionType) -> list[Any]:
    """Return a function's parts besides its globals and attributes."""
    parts = [function.__code__, function.__defaults__, function.__kwdefaults__]
    if function.__closure__:
        for cell in function.__closure__:
            try:
                parts.append(cell.cell_contents)
            except ValueError:
                parts.append(None)  # not bound yet
    return parts


def _is_written_by_python(name: str, value: Any) -> bool:
    """Return whether Python wrote the value, such as __dataclass_fields__, never changed in place."""
    return type(value) in CONTAINERS and name[:2] == "__" and name[-2:] == "__"


def _has_content(kind: type) -> bool:
    return kind in CONTAINERS or kind.__name__ == "ndarray"


def _state_of(value: Any) -> tuple[Any, ...]:
    try:
        return tuple(object.__getattribute__(value, "__dict__").values())
    except Exception:
        return ()


def _identity(value: Any) -> tuple[int, Any]:
    """Return a mark equal only for the same object.  The number comes first, so that objects are never compared."""
    try:
        return id(value), weakref.ref(value)
    except TypeError:
        return id(value), None


def _digest(value: Any) -> Any:
    """Return a digest of a container's content; None if C's pickle fails."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        with collect_refs():
            data = pickle.dumps(value, 5, buffer_callback=buffers.append)
        return (hash(data), *(zlib.crc32(buffer.raw()) for buffer in buffers))
    except Exception:
        return None
