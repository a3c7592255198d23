"""Classes and functions sent by value: from a program's `__main__`, or made inside functions.

cloudpickle sends such a class with all of its attributes, and sets them again at each arrival.  This module builds an
unknown class, and leaves a known class as it is:

    at home       the process that defined the class never takes anything back: its own class counts
    elsewhere     the first arrival builds the class; a later one sets only attributes changed at home since

"Changed at home" is a version per attribute, counted when the class is pickled there (marks.py).  Values pickled
earlier carry earlier versions, and so set nothing.  A class defined again, as by a notebook's cell, is another class
with another id.

A function is built at each arrival, with separate globals: the globals at the time of pickling.  In the process that
defined it, a function of a module's top level stays the same function.
"""

from __future__ import annotations

import abc
import copyreg
import enum
import importlib
import sys
import types
import typing
import uuid
import weakref
from typing import Any

import cloudpickle.cloudpickle as source
from msgspec import Struct

from ..exceptions.parts import HEAP_TYPE
from .libraries import module_parts
from .marks import Marks

# Made by the metaclass; cloudpickle's own list, too.
ENUM_PARTS = ("_generate_next_value_", "_member_names_", "_member_map_", "_member_type_", "_value2member_map_")
# Types in C without a module that has their names.
NAMED_OTHERWISE = {type(None), type(...), type(NotImplemented), *source._BUILTIN_TYPE_NAMES}
# Set by the metaclass on each member.
MEMBER_PARTS = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"))
# Made by Python, or cached in a class.
MADE_ANEW = ("__dict__", "__weakref__", "__slotnames__", "__annotate_func__")
ABC_CACHES = ("_abc_impl", "_abc_registry", "_abc_cache", "_abc_negative_cache", "_abc_negative_cache_version")
OWN_MODULES = "zray."
# Version of a newly arrived class, before its attributes are set.
NOT_SET = -1


class Known(Struct, eq=False):
    """A class that this process has pickled or received.

    version: number of changes at home when the class was last set or pickled here.

    changed: attribute -> the version of its last change.

    marks: for a class at home here, its state when last pickled; None for a received class.
    """

    version: int
    marks: Marks | None
    changed: dict[str, int] = {}


_known: weakref.WeakKeyDictionary[type, Known] = weakref.WeakKeyDictionary()
# Ids of top-level functions; and the functions at home here, by id.
_function_ids: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_functions: weakref.WeakValueDictionary[str, types.FunctionType] = weakref.WeakValueDictionary()
# Reducers of other types, and the two tables of their origin.
_table: dict[Any, Any] = {}
_sources: list[dict[Any, Any]] = []


class ByValuePickler(source.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, with known classes left as they are."""

    def __init__(self, file: Any, protocol: int | None = None, buffer_callback: Any = None) -> None:
        global _table
        tables = [copyreg.dispatch_table, self._dispatch_table]
        if tables != _sources:
            _sources[:] = [table.copy() for table in tables]
            _table = {**tables[0], **tables[1]}
        # A dict: for an object without an entry, cloudpickle's ChainMap takes longer than the pickling.
        self.dispatch_table = _table
        super().__init__(file, protocol, buffer_callback)

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, type):
            return class_parts(value)
        if kind is types.FunctionType:
            return _function_parts(value, self._function_reduce(value))
        if kind is types.MethodType:
            return make_method, (value.__func__, value.__self__)
        if issubclass(kind, types.ModuleType) and kind is not types.ModuleType:
            return module_parts(value)
        return NotImplemented


# --- classes ---


def class_parts(cls: Any) -> Any:
    """Return the pickled parts of a class; NotImplemented: pickle it by name."""
    if not cls.__flags__ & HEAP_TYPE:
        return source._class_reduce(cls) if cls in NAMED_OTHERWISE else NotImplemented
    if cls in source._BUILTIN_TYPE_NAMES:
        return source._class_reduce(cls)
    if (module := str(cls.__module__)).startswith(OWN_MODULES) and module not in sys.modules:
        importlib.import_module(module)  # the public name of a class: cloudpickle looks among imported modules alone
    if source._should_pickle_by_reference(cls):
        return NotImplemented
    attributes = _attributes(cls)
    extras: dict[str, dict[str, Any]] = {}
    if issubclass(cls, enum.Enum):
        make, parts = make_enum, _enum_parts(cls, attributes, extras)
    else:
        make, parts = make_class, _class_parts(cls)
    known = _version_of(cls, attributes)
    parts = (f"{cls.__module__}:{cls.__qualname__}", *parts)  # for errors (unpickling.py)
    return make, parts, (attributes, extras, max(known.version, 0), known.changed), None, None, set_class


def _attributes(cls: Any) -> dict[str, Any]:
    """Return the attributes that a class adds to its bases, without those that Python makes."""
    attributes: dict[str, Any] = source._extract_class_dict(cls)
    if isinstance(cls, abc.ABCMeta):
        for name in ABC_CACHES:
            attributes.pop(name, None)
        attributes["_abc_impl"] = [found for ref in abc._get_dump(cls)[0] if (found := ref()) is not None]  # type: ignore[attr-defined]
    for name in MADE_ANEW:
        attributes.pop(name, None)
    if "__slots__" in attributes:
        # By type: a private slot has another name here than in __slots__, and a slot may have been replaced.
        for name in [name for name, value in attributes.items() if type(value) is types.MemberDescriptorType]:
            if attributes[name].__objclass__ is cls:
                del attributes[name]
    return attributes


def _class_parts(cls: Any) -> tuple[Any, ...]:
    parts = source._class_getnewargs(cls)
    slots = vars(cls).get("__slots__")
    if slots is not None and typing.NamedTuple not in parts[2]:  # which sets slots itself, and accepts none
        # Without slots, instances would have a __dict__ there, and none here.  A former iterator of slots is used up.
        if not isinstance(slots, (str, tuple, list, dict, set, frozenset)):
            slots = tuple(name for name, part in vars(cls).items() if type(part) is types.MemberDescriptorType)
        parts[3]["__slots__"] = slots
    return parts  # type: ignore[no-any-return]


def _enum_parts(cls: Any, attributes: dict[str, Any], extras: dict[str, dict[str, Any]]) -> tuple[Any, ...]:
    """Remove the metaclass's entries from `attributes`, and collect attributes of members."""
    parts = list(source._enum_getnewargs(cls))
    parts[3] = {name: member.value for name, member in cls.__members__.items()}  # with aliases
    for name in (*ENUM_PARTS, *cls.__members__):
        attributes.pop(name, None)
    for name, member in cls.__members__.items():
        extra = {key: part for key, part in vars(member).items() if key not in MEMBER_PARTS}
        if extra:
            extras[name] = extra
    return tuple(parts)


def _version_of(cls: type, attributes: dict[str, Any]) -> Known:
    """Return the record of a class about to be pickled; at home its version rises after a change."""
    known = _known.get(cls)
    if known is None:
        known = _known[cls] = Known(0, Marks(attributes, cls.__module__))
    elif known.marks is not None and not known.marks.hold(attributes):
        marks = Marks(attributes, cls.__module__)
        names = known.marks.changed_names(marks)
        if names:
            known.version += 1
            # A new dict: a pickle of the former may be under way.
            known.changed = known.changed | dict.fromkeys(names, known.version)
        known.marks = marks
    return known


def make_class(name: str, *parts: Any) -> Any:
    """Return the class of that id; an unknown class is made without attributes."""
    return _known_or_made(source._make_skeleton_class, parts)


def make_enum(name: str, *parts: Any) -> Any:
    """Return the enum of that id, with its members."""
    return _known_or_made(source._make_skeleton_enum, parts)


def _known_or_made(make: Any, parts: tuple[Any, ...]) -> Any:
    cls = source._DYNAMIC_CLASS_TRACKER_BY_ID.get(parts[-2])
    if cls is None:
        cls = make(*parts)
        _known.setdefault(cls, Known(NOT_SET, None))
    return cls


def set_class(cls: Any, state: tuple[dict[str, Any], dict[str, dict[str, Any]], int, dict[str, int]]) -> None:
    """Set the attributes of a class made for this pickle, or those changed at home since the last time."""
    attributes, extras, version, changed = state
    known = _known.get(cls)
    if known is None or known.marks is not None or version <= known.version:
        return
    # Not set by its maker: another thread, still at work, or one that has failed.
    is_new = known.version == NOT_SET
    for name in attributes if is_new else changed:
        if not is_new and changed[name] <= known.version:
            continue
        if name not in attributes:
            if name in vars(cls):
                type.__delattr__(cls, name)
        elif name == "_abc_impl":
            for subclass in attributes[name]:
                cls.register(subclass)
        else:
            _set(cls, name, attributes[name])
    if "__firstlineno__" in attributes:  # Python 3.13 drops it when __module__ is set
        _set(cls, "__firstlineno__", attributes["__firstlineno__"])
    if is_new:
        for name, extra in extras.items():
            vars(cls.__members__[name]).update(extra)
    known.version, known.changed = version, changed


def _set(cls: Any, name: str, value: Any) -> None:
    try:
        setattr(cls, name, value)
    except Exception:
        type.__setattr__(cls, name, value)  # The metaclass lets nothing be set.


# --- functions ---


def _function_parts(function: types.FunctionType, parts: Any) -> Any:
    """Return cloudpickle's parts, with the id if the function is known by one at home."""
    if parts is NotImplemented:
        return parts
    name = function.__name__
    if name != function.__qualname__ or function.__closure__ is not None:
        return parts
    function_id = _function_ids.get(function)
    if function_id is None:
        if function.__globals__.get(name) is not function:
            return parts
        function_id = _function_ids[function] = uuid.uuid4().hex
        _functions[function_id] = function
    make, arguments, state, *_ = parts
    return make_function, (function_id, make, arguments), state, None, None, set_function


def make_function(function_id: str, make: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the function of that id at home; elsewhere a function without globals."""
    function = _functions.get(function_id)
    if function is None:
        function = make(*arguments)
        _function_ids[function] = function_id
    return function


def set_function(function: types.FunctionType, state: Any) -> None:
    """Set the globals and attributes of a function made for this pickle."""
    if function is not _functions.get(_function_ids[function]):
        source._function_setstate(function, state)


def make_method(function: Any, owner: Any) -> Any:
    """Return a bound method: of the class known here, not of the copy in the pickle."""
    if type(function) is types.FunctionType:
        for base in owner.__mro__ if isinstance(owner, type) else type(owner).__mro__:
            known = vars(base).get(function.__name__)
            known = getattr(known, "__func__", known)  # of a class method
            if type(known) is types.FunctionType and known.__qualname__ == function.__qualname__:
                return types.MethodType(known, owner)
    return types.MethodType(function, owner)
