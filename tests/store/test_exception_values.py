"""Exceptions inside of values, which a task returns or a program puts: their slots, and groups with odd members."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

import pytest

from tests.store.peer import Peer, program
from zray.exceptions import SerializationError, TaskCancelledError, TaskError, ZrayError
from zray.object_ref import ObjectRef
from zray.store.errors import deserialize_error, serialize_error
from zray.store.values import deserialize, serialize, to_bytes

needs_groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups before 3.11")


class Text(Exception):
    __slots__ = "code"


class Tuple(ValueError):
    __slots__ = ("code", "unset")


class Private(Exception):
    __slots__ = ("__code", "_other")

    @property
    def code(self):
        return self.__code

    @code.setter
    def code(self, value):
        self.__code, self._other = value, 1


class Derived(Private):
    __slots__ = ("more",)


class Described(OSError):
    __slots__ = {"code": "of the service"}  # noqa: RUF012


class Once(Exception):
    __slots__ = iter(["code"])


class Listed(BaseException):
    __slots__ = ["code"]


class Open(Text):
    """Has attributes too."""


class Needy(Exception):
    __slots__ = ("code",)

    def __init__(self, code, *, where):
        super().__init__(where)
        self.code = code


class ReducesItself(Exception):
    __slots__ = ("code",)

    def __reduce__(self):
        return made, (self.code + 1,)


def made(code):
    error = ReducesItself()
    error.code = code
    return error


@dataclass
class Outcome:
    error: BaseException


def come_back(value):
    return deserialize(to_bytes(serialize(value)))


@pytest.mark.parametrize("cls", [Text, Tuple, Private, Derived, Described, Once, Listed, Open])
@pytest.mark.parametrize(
    "wrap, unwrap", [(lambda e: e, lambda v: v), (lambda e: {"a": [Outcome(e)]}, lambda v: v["a"][0].error)]
)
def test_slots_of_an_exception_in_a_value_arrive(cls, wrap, unwrap):
    error = cls("text", 2)
    error.code = ["code"]
    back = unwrap(come_back(wrap(error)))
    assert type(back) is cls and back.args == ("text", 2) and back.code == ["code"]
    assert not hasattr(back, "unset") and not hasattr(back, "more")


def test_attributes_and_notes_arrive_beside_slots():
    error = Open("text")
    error.code, error.own, error.__notes__ = 1, 2, ["note"]
    back = come_back(error)
    assert (back.code, back.own, back.__notes__, back.args) == (1, 2, ["note"], ("text",))


def test_exception_with_slots_is_made_without_its_constructor():
    back = come_back([Needy(3, where="here")])[0]
    assert (back.code, back.args) == (3, ("here",))


def test_exception_in_its_own_slot_stays_itself():
    error = Text("text")
    error.code = [error]
    back = come_back(error)
    assert back.code[0] is back


def test_exception_that_pickles_itself_decides():
    assert come_back(made(1)).code == 2


def test_refs_in_slots_count():
    error = Text("text")
    error.code = ObjectRef(b"r" * 20)
    assert serialize(error).contained == (b"r" * 20,)
    assert come_back(error).code == error.code


OF_MAIN = """
class Slotted(Exception):
    __slots__ = ("code", "__private")

    def __init__(self, code):
        super().__init__("text")
        self.code, self.__private = code, -code

    def both(self):
        return self.code, self.__private, self.args
"""


def test_slots_of_an_exception_of_main_arrive():
    with Peer() as peer:
        error = program(OF_MAIN)["Slotted"](3)
        assert peer.run(lambda error: error.both(), error) == (3, -3, ("text",))


def locked(text):
    lock = threading.Lock()
    error = LookupError(text)
    error.lock = lock
    return error


@needs_groups
def test_member_that_does_not_pickle_is_replaced_in_a_group_in_a_value():
    ref = ObjectRef(b"r" * 20)
    kept = Tuple(1)
    kept.code = ref
    inner = ExceptionGroup("inner", [KeyError("k"), locked("inside")])  # noqa: F821
    serialized = serialize([ExceptionGroup("outer", [kept, locked("outside"), inner])])  # noqa: F821
    assert serialized.contained == (ref.id,)
    (back,) = deserialize(to_bytes(serialized))
    assert type(back) is ExceptionGroup and back.message == "outer"  # noqa: F821
    first, second, inner = back.exceptions
    assert type(first) is Tuple and first.code == ref
    assert type(second) is ZrayError and "isn't serializable" in str(second) and "LookupError: outside" in str(second)
    assert inner.message == "inner" and inner.exceptions[0].args == ("k",)
    assert type(inner.exceptions[1]) is ZrayError and "inside" in str(inner.exceptions[1])


@needs_groups
def test_value_that_does_not_pickle_beside_a_group_is_refused():
    with pytest.raises(SerializationError, match="lock"):
        serialize([ExceptionGroup("outer", [locked("outside")]), threading.Lock()])  # noqa: F821


@needs_groups
def test_group_that_pickles_is_left_alone():
    back = come_back(BaseExceptionGroup("g", [KeyboardInterrupt(1), ValueError(2)]))  # noqa: F821
    assert [type(member) for member in back.exceptions] == [KeyboardInterrupt, ValueError]


class Alarm(BaseException):
    pass


def raised_elsewhere(error):
    back = deserialize_error(serialize_error(error, "f").inband)
    assert isinstance(back, TaskError)
    again = deserialize_error(serialize_error(deserialize(to_bytes(serialize(back)))).inband)
    assert type(again) is type(back)
    return back


@needs_groups
def test_group_of_base_exceptions_is_raised_as_a_group_too():
    class Several(BaseExceptionGroup):  # noqa: F821
        def derive(self, errors):
            return Several(self.message, errors)

    for cls in (BaseExceptionGroup, Several):  # noqa: F821
        back = raised_elsewhere(cls("g", [Alarm(1), ValueError(2)]))
        assert isinstance(back, cls) and back.message == "g"
        assert [(type(member), member.args) for member in back.exceptions] == [(Alarm, (1,)), (ValueError, (2,))]
        alarms, others = back.split(Alarm)
        assert isinstance(alarms, cls) and len(alarms.exceptions) == len(others.exceptions) == 1


@needs_groups
def test_keyboard_interrupt_in_a_raised_group_counts_as_cancellation():
    inner = BaseExceptionGroup("inner", [KeyboardInterrupt("now"), Alarm(1)])  # noqa: F821
    back = raised_elsewhere(BaseExceptionGroup("g", [KeyboardInterrupt(), inner, ValueError(2)]))  # noqa: F821
    assert isinstance(back, BaseExceptionGroup)  # noqa: F821
    first, inner, last = back.exceptions
    assert type(first) is TaskCancelledError and "raised KeyboardInterrupt" in str(first)
    assert type(inner.exceptions[0]) is TaskCancelledError and "now" in str(inner.exceptions[0])
    assert type(inner.exceptions[1]) is Alarm and type(last) is ValueError
    assert back.subgroup(KeyboardInterrupt) is None
    assert type(back.cause.exceptions[0]) is KeyboardInterrupt
