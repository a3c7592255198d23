"""Classes with __slots__ of every kind: their instances travel to another process and back."""

from __future__ import annotations

import pytest

from tests.store.peer import Peer, program


@pytest.fixture(scope="module")
def peer():
    with Peer() as peer:
        yield peer


def identity(value):
    return value


SLOTS = """
import dataclasses, weakref
from typing import Generic, TypeVar

T = TypeVar("T")

class Text:
    __slots__ = "p"

class Tuple:
    __slots__ = ("a", "b")

class Private:
    __slots__ = ("__x", "_y")

    def __init__(self):
        self.__x, self._y = 1, 2

    def both(self):
        return self.__x, self._y

class PrivateText:
    __slots__ = "__x"

    def __init__(self):
        self.__x = 1

    def both(self):
        return self.__x

class Derived(Private):
    __slots__ = ("z",)

class Open(Tuple):
    pass

class WithDict:
    __slots__ = ("a", "__dict__")

class Weak:
    __slots__ = ("a", "__weakref__")

class Described:
    __slots__ = {"a": "the first"}

class Once:
    __slots__ = iter(["a", "b"])

class Listed:
    __slots__ = ["a"]

class Empty:
    __slots__ = ()

class Of(Generic[T]):
    __slots__ = ("a",)

@dataclasses.dataclass(slots=True)
class Point:
    x: int
    y: float = 0.5
    tags: list = dataclasses.field(default_factory=list)

    def norm(self):
        return self.x * self.x + self.y * self.y

@dataclasses.dataclass(slots=True)
class Point3(Point):
    z: int = 3

@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    x: int
    y: int = 2
"""


def filled(value, **attributes):
    for name, part in attributes.items():
        setattr(value, name, part)
    return value


def slotted_values(main):
    new = {name: lambda part=part, **filled_in: filled(part(), **filled_in) for name, part in main.items()
           if isinstance(part, type)}  # fmt: skip
    return [
        new["Text"](p=1), new["Tuple"](a=1), new["Private"](), new["PrivateText"](), new["Derived"](z=3),
        new["Open"](a=1, b=2, c=3), new["WithDict"](a=1, other=2), new["Weak"](a=1), new["Described"](a=1),
        main["Point"](1), main["Point3"](1, tags=[1]), main["Fixed"](1),
    ]  # fmt: skip


def state_of(value):
    """Everything that an instance holds, and how it can be reached."""
    names = [name for cls in type(value).__mro__ for name in vars(cls) if hasattr(vars(cls)[name], "__objclass__")]
    slots = {name: getattr(value, name) for name in names if name[:2] != "__" and hasattr(value, name)}
    return slots, getattr(value, "__dict__", None), value.both() if hasattr(value, "both") else None


def is_closed(value):
    try:
        value.no_such_attribute = 1
    except (AttributeError, TypeError):  # the latter from a frozen dataclass, whose __setattr__ has the class before
        return True
    del value.no_such_attribute
    return False


def test_instances_with_slots_travel_both_ways(peer):
    values = slotted_values(program(SLOTS))
    for _ in range(2):
        for value in values:
            back = peer.run(identity, value)
            assert type(back) is type(value) and state_of(back) == state_of(value), type(value)
            assert peer.run(is_closed, value) == is_closed(value), type(value)
            state, attributes, both = peer.run(state_of, value)
            assert (state, attributes, both) == state_of(value), type(value)


def test_instances_with_slots_that_are_made_elsewhere_come_back(peer):
    main = program(SLOTS)
    exec("def make(text):\n    text.p = 5\n    return Point(3), Point3(1, z=9), Fixed(7), Private(), text", main)
    point, point3, fixed, private, text = peer.run(main["make"], main["Text"]())
    assert (point, point3, fixed) == (main["Point"](3), main["Point3"](1, z=9), main["Fixed"](7))
    assert private.both() == (1, 2) and text.p == 5 and point.norm() == 9.25
    with pytest.raises(AttributeError):
        point.other = 1


class InModule:
    __slots__ = ("__hidden", "shown")

    def __init__(self):
        self.__hidden, self.shown = 1, 2


def test_instances_with_slots_of_a_modules_class_travel(peer):
    back = peer.run(identity, InModule())
    assert type(back) is InModule and state_of(back) == state_of(InModule())
    assert state_of(peer.run(identity, [InModule(), lambda: 0])[0]) == state_of(InModule())


def test_class_whose_slots_were_an_iterator_has_them_elsewhere(peer):
    """Python itself pickles no instance of such a class."""
    main = program(SLOTS)
    assert peer.run(lambda cls: filled(cls(), a=1).a, main["Once"]) == 1
    assert peer.run(lambda cls: is_closed(cls()), main["Once"])
