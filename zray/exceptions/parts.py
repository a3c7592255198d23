"""Exceptions taken apart and put together again without their `__init__`, which rarely takes the contents of `args`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MemberDescriptorType
from typing import Any

HEAP_TYPE = 1 << 9  # CPython's Py_TPFLAGS_HEAPTYPE: a class made by Python code.


def builtin_base(cls: type) -> Any:
    """Return the nearest class of `cls` written in C, which alone can make its part of an instance."""
    # By __base__, which is where the layout comes from, not by the method resolution order.
    while cls.__flags__ & HEAP_TYPE:
        cls = cls.__base__  # type: ignore[assignment]
    return cls


def has_own_reduce(cls: type) -> bool:
    """Whether Python code defines the pickling of an exception: then only that code can make one anew."""
    own = {"__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"}
    return any(own & vars(base).keys() for base in cls.__mro__ if base.__flags__ & HEAP_TYPE)


def exception_parts(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Take an exception apart: the arguments of its C part, and its attributes, also those in __slots__."""
    base = builtin_base(type(error))
    reduced = base.__reduce__(error)
    state: dict[str, Any] = {}
    if len(reduced) > 2 and isinstance(reduced[2], dict):
        state.update(reduced[2])
    state.update(getattr(error, "__dict__", {}))
    for name, slot in slots_of(type(error)):
        if name not in state:
            try:
                state[name] = slot.__get__(error)
            except AttributeError:
                continue  # it was never set
    arguments = reduced[1]
    if is_group(base):
        arguments = (error.message, error.exceptions)  # type: ignore[attr-defined]
    return arguments, state


def slots_of(cls: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    """Slots of instances that Python code has given them, with the names that the class knows them by.

    By their types: `__slots__` may be an iterator that is used up, and has other names for private ones.
    """
    for base in cls.__mro__:
        if base.__flags__ & HEAP_TYPE:
            for name, part in vars(base).items():
                if type(part) is MemberDescriptorType:
                    yield name, part


def is_group(cls: type) -> bool:
    """Whether exceptions of this class hold others (Python 3.11)."""
    return builtin_base(cls).__name__ in ("BaseExceptionGroup", "ExceptionGroup")


def exception_from_parts(cls: type, arguments: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """The reverse of `exception_parts`, for cls or a subclass of it."""
    base = builtin_base(cls)
    try:
        error = base.__new__(cls, *arguments)
    except TypeError:
        if not is_group(cls):
            raise
        error = _group_of_any(cls, arguments)
    base.__init__(error, *arguments)
    set_state(error, state)
    return error


def set_state(error: Any, state: dict[str, Any]) -> None:
    """Set attributes and slots of an exception, whose own __setstate__ knows no slots."""
    for name, value in state.items():
        try:
            object.__setattr__(error, name, value)
        except (AttributeError, TypeError):
            error.__dict__[name] = value  # A property without a setter stands in the way.


def _group_of_any(cls: type, arguments: tuple[Any, ...]) -> Any:
    """A group with members that are no Exceptions, of a class that is an Exception: Python itself makes none."""
    plain: Any = type(cls.__name__, (builtin_base(cls),), {})
    error = plain.__new__(plain, *arguments)
    error.__class__ = cls
    return error


def with_members(group: BaseException, replaced: Callable[[BaseException], BaseException]) -> tuple[BaseException, ...]:
    """Members of a group, with those at any depth that are no groups passed through `replaced`."""
    members = []
    for member in exception_parts(group)[0][1]:
        if is_group(type(member)):
            (message, before), state = exception_parts(member)
            inside = with_members(member, replaced)
            is_same = all(one is other for one, other in zip(before, inside, strict=True))
            members.append(member if is_same else exception_from_parts(type(member), (message, inside), state))
        else:
            members.append(replaced(member))
    return tuple(members)


class ExceptionInParts:
    """Pickles as a call of `exception_from_parts`, in place of the exception's own way."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return exception_from_parts, self.parts


def in_parts(value: Any, memo: dict[int, Any]) -> Any:
    """An exception, or what is in one's arguments: those in there (a group's) are as hard to make anew as any."""
    if type(value) is tuple:
        return tuple(in_parts(part, memo) for part in value)
    if not isinstance(value, BaseException) or has_own_reduce(type(value)):
        return value
    if id(value) not in memo:
        memo[id(value)] = value  # for a ring
        arguments, state = exception_parts(value)
        memo[id(value)] = ExceptionInParts(type(value), tuple(in_parts(part, memo) for part in arguments), state)
    return memo[id(value)]
