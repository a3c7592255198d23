"""What a task raised, to bytes and back."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading

import pytest

from zray import exceptions
from zray.exceptions import (
    ActorDiedError,
    DeserializationError,
    GetTimeoutError,
    TaskError,
    WorkerCrashedError,
    ZrayError,
    decode_system_error,
    encode_system_error,
)
from zray.object_ref import ObjectRef
from zray.store.errors import deserialize_error, serialize_error, serialize_system_error
from zray.store.values import deserialize, is_error, serialize, to_bytes


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


class PassesOn(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def come_back(error):
    data = serialize_error(raised(error), "f", node="n1").inband
    assert is_error(data)
    back = deserialize_error(data)
    assert isinstance(back, TaskError)
    assert str(back) and repr(back)
    again = deserialize(to_bytes(serialize(back)))
    assert type(again) is type(back)
    assert str(again) == str(back)
    with pytest.raises(TaskError):
        raise back
    return back


class KeywordOnly(ValueError):
    def __init__(self, *, code):
        super().__init__(f"code {code}")
        self.code = code


class NoArguments(Exception):
    def __init__(self):
        super().__init__("fixed", "text")


class Slotted(Exception):
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Final(Exception):
    def __init_subclass__(cls):
        raise TypeError("final")


class ReadOnly(Exception):
    @property
    def cause(self):
        return "mine"


class Many(LookupError, OSError):
    pass


def test_an_error_is_of_the_users_class_too():
    for error in [
        ValueError("x"), KeyError("k"), KeywordOnly(code=3), NoArguments(), Slotted(5), ZeroDivisionError(),
        FileNotFoundError(2, "none", "file"), UnicodeDecodeError("utf8", b"x", 0, 1, "r"), Many("m"),
        ReadOnly(), SyntaxError("s"), ImportError("i", name="n"), GetTimeoutError("late"),
        ActorDiedError("dead"), AssertionError(), Final("f"),
    ]:  # fmt: skip
        back = come_back(error)
        assert isinstance(back, type(error)), error
        assert back.args == error.args
        assert type(back.__dict__["cause"]) is type(error)
        assert back.function_name == "f" and back.node == back.ip == "n1" and back.pid
        assert type(error).__name__ in str(back) and "test_errors.py" in str(back)
    assert come_back(KeywordOnly(code=3)).code == 3
    assert come_back(Slotted(5)).value == 5
    assert come_back(FileNotFoundError(2, "none", "file")).filename == "file"
    assert come_back(UnicodeDecodeError("utf8", b"x", 0, 1, "r")).object == b"x"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups before 3.11")
def test_groups_can_be_split():
    back = come_back(ExceptionGroup("g", [ValueError(1), KeyError(2)]))  # noqa: F821
    assert isinstance(back, ExceptionGroup)  # noqa: F821
    assert back.subgroup(KeyError).exceptions[0].args == (2,)


class Alarm(BaseException):
    """Of a program that does not want `except Exception` to catch it."""

    def __init__(self, code, *, where):
        super().__init__(code)
        self.where = where


def test_class_derived_from_base_exception_only_is_raised_as_that_class_too():
    back = come_back(Alarm(3, where="here"))
    assert isinstance(back, Alarm) and (back.args, back.where) == ((3,), "here")


class Stopped(KeyboardInterrupt):
    pass


class Cancelled(asyncio.CancelledError):
    pass


def unpicklable():
    """A class that takes a lock along, wherever it is pickled."""
    lock = threading.Lock()

    class Locked(Exception):
        def locked(self):
            return lock

    return Locked


needs_groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups before 3.11")


def is_stand_in(error, *words):
    return type(error) is ZrayError and all(word in str(error) for word in words)


@needs_groups
def test_group_keeps_its_members_beside_one_that_does_not_pickle():
    locked = unpicklable()
    inner = ExceptionGroup("inner", [KeyError("k"), locked("in there")])  # noqa: F821
    back = come_back(ExceptionGroup("outer", [ValueError(1), locked("of lock"), inner, PassesOn(1, 2)]))  # noqa: F821
    assert isinstance(back, ExceptionGroup) and back.message == "outer"  # noqa: F821
    value, stand_in, inner, passes = back.exceptions
    assert (type(value), value.args) == (ValueError, (1,)) and (type(passes), passes.two) == (PassesOn, 2)
    assert is_stand_in(stand_in, "isn't serializable", "Locked: of lock", "lock")
    assert type(inner) is ExceptionGroup and inner.exceptions[0].args == ("k",)  # noqa: F821
    assert is_stand_in(inner.exceptions[1], "Locked: in there")
    assert back.subgroup(KeyError) and "of lock" in str(back)


@needs_groups
def test_group_keeps_its_members_beside_one_that_breaks_on_arrival():
    back = come_back(BaseExceptionGroup("g", [BreaksOnLoad("b"), KeyboardInterrupt(), HostileState()]))  # noqa: F821
    broken, interrupt, state = back.cause.exceptions
    assert is_stand_in(broken, "BreaksOnLoad: b", "MemoryError") and type(interrupt) is KeyboardInterrupt
    assert type(state) is HostileState and state.fine == 7


@needs_groups
def test_group_of_a_users_class_keeps_its_attributes_and_refs():
    ref = ObjectRef(b"r" * 20)

    class Several(ExceptionGroup):  # noqa: F821
        def __new__(cls, errors, code):
            made = super().__new__(cls, f"code {code}", errors)
            made.code = code
            return made

        def derive(self, errors):
            return Several(errors, self.code)

    first = ValueError("has a ref")
    first.ref = ref
    error = raised(Several([first, unpicklable()("l")], 5))
    error.lock = threading.Lock()
    data = serialize_error(error)
    back = deserialize_error(data.inband)
    assert isinstance(back, Several) and back.code == 5 and back.exceptions[0].ref == ref
    assert data.contained == (ref.id,) and is_stand_in(back.exceptions[1]) and not hasattr(back, "lock")


@needs_groups
def test_group_that_is_nested_without_end_is_told():
    error = ValueError("deepest")
    for _ in range(2_000):
        error = ExceptionGroup("g", [error])  # noqa: F821
    assert isinstance(deserialize_error(serialize_error(error).inband), TaskError)


def test_exception_that_cannot_be_pickled_is_stood_for_by_an_error_that_says_so():
    back = come_back(unpicklable()("holds a lock"))
    assert type(back) is TaskError and "holds a lock" in str(back)
    assert is_stand_in(back.cause, "isn't serializable", "Locked: holds a lock", "lock")
    assert back.as_instanceof_cause() is back and not isinstance(back, TypeError)
    again = deserialize_error(serialize_error(raised(back), "outer").inband)
    assert type(again) is TaskError and str(again.cause) == str(back.cause)


def test_exception_that_breaks_on_arrival_leaves_an_error_that_says_so():
    back = come_back(BreaksOnLoad("x"))
    assert type(back) is TaskError and isinstance(back.cause, DeserializationError) and "no" in str(back.cause)


def test_parts_of_an_exception_that_do_not_pickle_leave_the_rest():
    error = ValueError("text", threading.Lock())
    error.__cause__, error.__context__ = unpicklable()("cause"), unpicklable()("context")
    error.lock, error.fine = threading.Lock(), 7
    error.__notes__ = ["a note", threading.Lock()]
    back = come_back(error)
    assert isinstance(back, ValueError) and back.args[0] == "text" and "lock" in back.args[1]
    assert back.fine == 7 and not hasattr(back, "lock")
    assert back.__notes__[0] == "a note" and "lock" in back.__notes__[1] and "Locked: cause" in str(back)


def test_what_would_mislead_the_caller_is_a_plain_task_error():
    """Control flow of the interpreter and of asyncio: StopIteration ends a loop, CancelledError the awaiting task."""
    for error in [
        SystemExit(3), KeyboardInterrupt(), Stopped(), GeneratorExit(), StopIteration(1), StopAsyncIteration(),
        asyncio.CancelledError(), Cancelled(),
    ]:  # fmt: skip
        back = come_back(error)
        assert type(back) is TaskError
        assert type(back.cause) is type(error)


class Hostile(Exception):
    def __reduce__(self):
        raise SystemExit(1)

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


class HostileState(Exception):
    def __init__(self):
        super().__init__(threading.Lock())
        self.lock = threading.Lock()
        self.fine = 7


class BreaksOnLoad(Exception):
    def __reduce__(self):
        return _break, ()


def _break():
    raise MemoryError("no")


def test_serialize_error_always_works():
    for error in [BreaksOnLoad("x"), ValueError("\ud800"), ValueError(lambda: threading.Lock())]:
        assert type(error).__name__ in str(come_back(error))
    back = deserialize_error(serialize_error(raised(Hostile()), "f").inband)
    assert isinstance(back, Hostile) and "Hostile" in str(back)
    back = come_back(HostileState())
    assert isinstance(back, HostileState) and back.fine == 7 and not hasattr(back, "lock")

    class Local(Exception):
        pass

    assert type(come_back(Local("l"))).__name__ == "TaskError(Local)"


def test_hundred_megabytes_are_cut():
    error = raised(ValueError("x" * 100_000_000))
    error.blob = b"y" * 10_000_000
    data = serialize_error(error).inband
    assert len(data) < 400_000
    assert isinstance(deserialize_error(data), ValueError)


def test_cyclic_causes_end():
    one, two = ValueError(1), KeyError(2)
    one.__cause__, two.__cause__ = two, one
    assert "KeyError" in str(come_back(one))


def test_an_error_passed_on_stays_the_first_one():
    """Dependent tasks fail with the same error, not in ten layers."""
    data = serialize_error(raised(KeyError("first")), "a", node="n1").inband
    for name in "bcdefghijklmnop":
        data = serialize_error(raised(deserialize_error(data)), name, node="n2").inband
    back = deserialize_error(data)
    assert isinstance(back, KeyError) and back.function_name == "a" and back.node == "n1"
    assert "passed on by b" in str(back)
    assert len(data) < 4000


def test_error_that_the_same_task_passes_on_again_and_again_says_so_once():
    data = serialize_error(raised(KeyError("first")), "a").inband
    for name in "bbbbc":
        data = serialize_error(raised(deserialize_error(data)), name).inband
    text = str(deserialize_error(data))
    assert text.count("passed on by b") == text.count("passed on by c") == 1


def test_line_of_the_outer_task_that_called_get_is_in_the_text():
    error = deserialize_error(serialize_error(raised(KeyError("first")), "inner").inband)

    def helper():
        raise error  # the line of get()

    def outer():
        helper()  # the line of its caller

    with pytest.raises(KeyError) as caught:
        outer()
    text = deserialize_error(serialize_error(caught.value, "outer").inband).traceback_str
    before, after = text.split("(passed on by outer)\n")
    assert "KeyError: 'first'" in before and "helper" not in before
    lines = [line.strip() for line in after.splitlines()]
    assert lines.index("helper()  # the line of its caller") < lines.index("raise error  # the line of get()")


def test_refs_in_an_exception_are_named_also_when_it_is_passed_on():
    ref = ObjectRef(b"r" * 20)
    error = raised(ValueError("has a ref"))
    error.ref = ref
    assert serialize_error(error).contained == (ref.id,)
    assert serialize_error(raised(TaskError("f", "text", error))).contained == (ref.id,)


def test_skipped_frames_are_not_shown():
    def user():
        raise ValueError("here")

    def runtime():
        user()

    try:
        runtime()
    except ValueError as error:
        text = deserialize_error(serialize_error(error, skip_frames=2).inband).traceback_str
    assert "in user" in text and "in runtime" not in text


def test_system_errors_come_as_themselves():
    error = WorkerCrashedError("task f died", pid=12, exit_text="SIGKILL", log_tail=("a", "b"))
    data = serialize_system_error(error)
    assert is_error(data)
    for back in (deserialize_error(data), pickle.loads(pickle.dumps(error))):
        assert type(back) is WorkerCrashedError
        assert (back.pid, back.exit_text, back.log_tail) == (12, "SIGKILL", ("a", "b"))
        assert "SIGKILL" in str(back) and "| b" in str(back)
    with pytest.raises(WorkerCrashedError):
        deserialize(data)


def test_every_system_error_has_a_name_on_the_wire_and_says_what_it_means():
    for name, cls in exceptions.SYSTEM_ERRORS.items():
        back = decode_system_error(encode_system_error(name, "why"))
        assert type(back) is cls and "why" in str(back)
        pickle.loads(pickle.dumps(back))
        if cls is not ZrayError and name != "RayActorError":
            assert "definite" in cls.__doc__, name
    unknown = decode_system_error(encode_system_error("FutureError", "why"))
    assert type(unknown) is ZrayError and "FutureError: why" in str(unknown)
    assert isinstance(decode_system_error(b"\x83\xff"), ZrayError)


def test_deserialize_raises_an_error_value():
    with pytest.raises(ValueError):
        deserialize(serialize_error(ValueError("v")).inband)


def test_exceptions_in_exceptions_that_take_more_than_they_pass_on():
    inner = PassesOn(1, 2)
    back = come_back(ValueError("outer", inner, (inner, 3)))
    assert isinstance(back, ValueError)
    text, one, (again, three) = back.args
    assert (type(one), one.args, one.two, text, three) == (PassesOn, (1,), 2, "outer", 3) and again is one


def test_an_exception_that_holds_itself_is_told_all_the_same():
    ring = ValueError("ring")
    ring.args = (ring, PassesOn(1, 2))
    data = serialize_error(raised(ring), "f").inband
    assert isinstance(deserialize_error(data), ValueError)
