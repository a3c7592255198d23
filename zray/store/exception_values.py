"""Exceptions inside values: Python's own pickle loses their slots, and a group's member can spoil the whole value.

An error that a task *raises* is a separate kind of value, in errors.py.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..exceptions.parts import exception_from_parts, exception_parts, has_own_reduce, is_group, set_state, slots_of
from ..object_ref import collect_refs

# The end of an object's construction in C's pickle: a tuple of arguments, REDUCE, MEMOIZE.  Every exception has it.
REDUCES = (b"\x94R\x94", b")R\x94")
CLASS_MENTIONED = b"\x94\x93"  # a memoized name, then STACK_GLOBAL
SHORT_TEXT = b"\x8c"  # then its length, the text, MEMOIZE
NAME_BYTES_MAX = 257
HARMLESS_MAX = 1_000

SHORT_BYTES = 1024
FRAME_BYTES = 11  # protocol and length, ahead of the content

# Modules and names of other types, and heads of pickles without exceptions: they never change.
_harmless: set[tuple[bytes, bytes]] = set()
_harmless_heads: set[bytes] = set()


def has_slots(cls: type) -> bool:
    """Return whether instances of an exception class have slots defined by Python code."""
    return next(slots_of(cls), None) is not None


def mentions_slots(pickled: bytes) -> bool:
    """Return whether a pickle may hold an exception that has lost its slots.

    The names in the pickle tell: no object is looked at again.
    """
    if pickled.find(REDUCES[0]) < 0 and pickled.find(REDUCES[1]) < 0:
        return False
    if len(pickled) > SHORT_BYTES:
        return any(map(has_slots, _exceptions_in(pickled)))
    # Values of one type begin alike: a head without exceptions is recognized at once.
    head = pickled[FRAME_BYTES : pickled.rfind(CLASS_MENTIONED)]
    if head in _harmless_heads:
        return False
    found = list(_exceptions_in(pickled))
    if not found:
        if len(_harmless_heads) >= HARMLESS_MAX:
            _harmless_heads.clear()
        _harmless_heads.add(head)
    return any(map(has_slots, found))


def _exceptions_in(pickled: bytes) -> Iterator[type]:
    """Yield classes of exceptions that a pickle mentions, looked up each time: a name may get another class."""
    modules: list[bytes] = []  # a module is spelled out at its first mention
    at = pickled.find(CLASS_MENTIONED)
    while at >= 0:
        begin = pickled.rfind(SHORT_TEXT, max(0, at - NAME_BYTES_MAX), at)
        name = pickled[begin + 2 : at]
        before = pickled.rfind(SHORT_TEXT, max(0, begin - NAME_BYTES_MAX), begin - 1)
        if before + 3 + pickled[before + 1] == begin:
            modules.insert(0, pickled[before + 2 : begin - 1])
            candidates = modules[:1]
        else:
            candidates = modules
        for module in candidates:
            if (module, name) not in _harmless and (cls := _exception_class(module, name)) is not None:
                yield cls
        at = pickled.find(CLASS_MENTIONED, at + 2)


def _exception_class(module: bytes, name: bytes) -> type | None:
    found: Any = sys.modules.get(module.decode("utf-8", "replace"))
    for part in name.decode("utf-8", "replace").split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    if len(_harmless) >= HARMLESS_MAX:
        _harmless.clear()
    _harmless.add((module, name))
    return None


def with_slots(error: BaseException) -> Any:
    """Return the pickled parts of an exception with slots; None: as Python does."""
    cls = type(error)
    if has_own_reduce(cls) or not has_slots(cls):
        return None
    arguments, state = exception_parts(error)
    return exception_from_parts, (cls, arguments, {}), state, None, None, set_state


class MemberTrials:
    """Members of groups that do not pickle, and their replacements, while a value is pickled.

    has_met_group: the value has a group.  is_on: members are tried; before that, groups are pickled as Python does.
    """

    def __init__(self, make_pickler: Callable[..., Any]) -> None:
        self.make_pickler = make_pickler
        self.has_met_group = self.is_on = False
        self.members: dict[int, tuple[BaseException, BaseException]] = {}  # by id; the member is kept, so its id stays

    def taken_apart(self, group: BaseException) -> Any:
        """Return the pickled parts of a group whose members are tried one by one; None: as Python does."""
        cls = type(group)
        if not is_group(cls) or has_own_reduce(cls):
            return None
        self.has_met_group = True
        if not self.is_on:
            return None
        (message, members), state = exception_parts(group)
        arguments = (message, [self._or_other(member) for member in members])
        return exception_from_parts, (cls, arguments, {}), state, None, None, set_state

    def _or_other(self, member: BaseException) -> BaseException:
        """Return the member, or the error in its place.  Each is tried once, however deep groups are nested."""
        if id(member) not in self.members:
            self.members[id(member)] = member, member  # for a ring
            error = self._why_not(member)
            if error is not None:
                from .errors import stand_in_for

                self.members[id(member)] = member, stand_in_for(member, error)
        return self.members[id(member)][1]

    def _why_not(self, member: BaseException) -> BaseException | None:
        with collect_refs():
            try:
                self.make_pickler(io.BytesIO(), 5, [].append, self).dump(member)
            except Exception as error:
                return error
        return None
