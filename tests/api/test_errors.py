"""Errors: the user's class and ours at once, the remote traceback, the cause of a death, the path of what
cannot be pickled.  Nothing that a task raises makes a `get` hang or hides the real error."""

import os
import pickle
import signal
import socket
import sys
import threading

import pytest

import zray
from tests.gates import Tally

pytestmark = pytest.mark.usefixtures("session")

TaskError = zray.exceptions.RayTaskError


class NeedsTwo(Exception):
    """Cannot be made from its args alone."""

    def __init__(self, code, *, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code


class TakesNothing(Exception):
    def __init__(self):
        super().__init__("always the same")


class Locked(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class BreaksOnArrival(Exception):
    def __reduce__(self):
        return (os.fspath, (1,))


class BreaksOnLeaving(Exception):
    def __reduce__(self):
        raise RuntimeError("not today")


class PassesOn(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


class Frozen(Exception):
    def __setattr__(self, name, value):
        raise AttributeError(f"{name} is frozen")


@zray.remote
def identity(value):
    return value


@zray.remote
def fail(make):
    raise make()


def error_of(ref):
    with pytest.raises(zray.exceptions.RayError) as caught:
        zray.get(ref, timeout=30)
    return caught.value


def test_the_class_of_the_user_and_ours():
    error = error_of(fail.remote(lambda: KeyError("missing")))
    assert isinstance(error, KeyError) and isinstance(error, TaskError)
    assert isinstance(error.cause, KeyError) and error.cause.args == ("missing",)


def test_a_class_of_ones_own_keeps_its_attributes():
    class Coded(Exception):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    error = error_of(fail.remote(lambda: Coded(7)))
    assert isinstance(error, Coded)
    assert error.cause.code == 7


def test_the_message_has_the_remote_traceback():
    @zray.remote
    def outer_frame():
        def inner_frame():
            raise ZeroDivisionError("the remote reason")

        inner_frame()

    text = str(error_of(outer_frame.remote()))
    for part in ("outer_frame", "inner_frame", "test_errors.py", "ZeroDivisionError", "the remote reason"):
        assert part in text


def test_the_chain_of_causes_is_in_the_message():
    @zray.remote
    def chained():
        try:
            raise KeyError("the first reason")
        except KeyError as error:
            raise ValueError("the second") from error

    error = error_of(chained.remote())
    assert isinstance(error, ValueError)
    assert "the first reason" in str(error) and "the second" in str(error)


def test_what_depends_on_a_failure_fails_the_same_way_without_running(tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote
    def count(value):
        tally.visit()
        return value

    error = error_of(count.remote(count.remote(fail.remote(lambda: KeyError("root")))))
    assert isinstance(error, KeyError) and "root" in str(error)
    assert tally.count() == 0


def test_a_nested_get_passes_the_error_on():
    @zray.remote
    def parent():
        return zray.get(fail.remote(lambda: KeyError("deep down")))

    error = error_of(parent.remote())
    assert isinstance(error, KeyError) and "deep down" in str(error)


def test_get_of_a_list_fails_fast(gate):
    @zray.remote
    def wait_at():
        gate.wait()

    slow = wait_at.remote()
    with pytest.raises(KeyError):
        zray.get([slow, fail.remote(lambda: KeyError("soon"))], timeout=20)
    gate.open()
    zray.get(slow)


def test_an_error_is_raised_anew_at_every_get():
    ref = fail.remote(lambda: KeyError("again"))
    assert error_of(ref) is not error_of(ref)


def test_an_exception_as_a_value_is_a_value():
    back = zray.get(identity.remote(ValueError("just a value")))
    assert type(back) is ValueError


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: NeedsTwo(3, reason="keyword"), "keyword"),
        (TakesNothing, "always the same"),
        (lambda: Locked("has a lock"), "has a lock"),
        (lambda: BreaksOnArrival("lost on the way"), "lost on the way"),
        (lambda: BreaksOnLeaving("does not leave"), "does not leave"),
    ],
    ids=["keywords", "no arguments", "lock inside", "breaks on arrival", "breaks on leaving"],
)
def test_exceptions_that_do_not_pickle_are_told_all_the_same(make, words):
    error = error_of(fail.remote(make))
    assert isinstance(error, TaskError)
    assert words in str(error)
    assert type(make()).__name__ in str(error)


def test_an_exception_whose_class_is_missing_here():
    """The class lives in a module that only the worker has."""

    @zray.remote
    def raise_strange():
        import types

        module = types.ModuleType("module_of_the_worker")
        exec("class Strange(Exception): pass", module.__dict__)
        module.Strange.__module__ = "module_of_the_worker"
        sys.modules["module_of_the_worker"] = module
        raise module.Strange("from afar")

    error = error_of(raise_strange.remote())
    assert "Strange" in str(error) and "from afar" in str(error)


def test_a_very_long_message_is_cut():
    """The first 64 KiB of the message are kept."""
    error = error_of(fail.remote(lambda: ValueError("x" * 20_000_000)))
    assert isinstance(error, ValueError)
    assert len(str(error)) < 1_000_000


def test_a_circle_of_causes():
    @zray.remote
    def circle():
        one, two = ValueError("one"), KeyError("two")
        one.__cause__, two.__cause__ = two, one
        raise one

    assert isinstance(error_of(circle.remote()), ValueError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_an_exception_group():
    error = error_of(fail.remote(lambda: ExceptionGroup("several", [KeyError("a"), ValueError("b")])))  # noqa: F821
    assert "several" in str(error)
    assert len(error.cause.exceptions) == 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_a_group_of_exceptions_that_take_more_than_they_pass_on():
    error = error_of(fail.remote(lambda: ExceptionGroup("g", [ExceptionGroup("h", [PassesOn(1, 2)])])))  # noqa: F821
    assert isinstance(error, ExceptionGroup)  # noqa: F821
    inner = error.exceptions[0].exceptions[0]
    assert type(inner) is PassesOn and (inner.args, inner.two) == ((1,), 2)


def test_a_class_that_lets_nothing_be_set():
    error = error_of(fail.remote(lambda: Frozen("cold")))
    assert isinstance(error, Frozen) and error.args == ("cold",)


@pytest.mark.parametrize("make", [lambda: SystemExit(3), KeyboardInterrupt, GeneratorExit], ids=["exit", "int", "gen"])
def test_exceptions_that_end_programs_end_only_the_task(make):
    error_of(fail.options(max_retries=0).remote(make))
    assert zray.get(identity.remote(1)) == 1


def test_a_class_that_cannot_be_subclassed():
    @zray.remote
    def raise_final():
        class Final(Exception):
            def __init_subclass__(cls):
                raise TypeError("final")

        raise Final("cannot be mixed")

    error = error_of(raise_final.remote())
    assert "cannot be mixed" in str(error) and isinstance(error, type(error.cause))


def test_a_stop_iteration_in_a_task():
    assert "StopIteration" in str(error_of(fail.remote(StopIteration)))


def test_a_result_that_cannot_be_pickled_is_an_error_that_names_it():
    """The worker pickles the result, so the worker names what it cannot pickle."""

    @zray.remote
    def return_lock():
        return {"guard": threading.Lock()}

    text = str(error_of(return_lock.remote()))
    assert "guard" in text and "lock" in text


class Connection:
    def __init__(self):
        self.log = {"handlers": [threading.Lock()]}


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Connection(), ["log", "handlers", "lock"]),
        (lambda: {"a": [Connection()]}, ["log", "lock"]),
        (lambda: threading.Lock(), ["lock"]),
        (lambda: (i for i in range(3)), ["generator"]),
        (socket.socket, ["socket"]),
    ],
    ids=["attribute", "nested", "bare", "generator", "socket"],
)
def test_an_argument_that_cannot_be_pickled_is_named_at_the_call(make, words):
    """The error at `.remote()` has the path to the part that cannot be pickled."""
    value = make()
    with pytest.raises(TypeError) as caught:
        identity.remote(value)
    for word in words:
        assert word in str(caught.value)
    getattr(value, "close", lambda: None)()


def test_a_closure_that_cannot_be_pickled_is_named_at_the_call():
    connection = Connection()

    @zray.remote
    def use():
        return connection.log

    with pytest.raises(TypeError) as caught:
        use.remote()
    for word in ("connection", "log", "lock"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "end, words",
    [
        (lambda: os._exit(3), ["3"]),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), ["SIGKILL"]),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), ["SIGSEGV"]),
    ],
    ids=["exit code", "killed", "segmentation fault"],
)
def test_a_dead_worker_says_how_it_died(end, words):
    @zray.remote(max_retries=0)
    def die():
        print("last words", file=sys.stderr, flush=True)
        end()

    error = error_of(die.remote())
    assert isinstance(error, zray.exceptions.WorkerCrashedError)
    for word in [*words, "last words"]:
        assert word in str(error)


def test_a_dead_actor_says_how_it_died():
    @zray.remote
    class Mortal:
        def die(self):
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    error = error_of(Mortal.remote().die.remote())
    assert isinstance(error, zray.exceptions.RayActorError)
    for word in ("Mortal", "SIGKILL", "last words"):
        assert word in str(error)


@pytest.mark.parametrize(
    "details, text",
    [
        ({}, "It died."),
        ({"pid": 7}, "It died. (pid=7: exit code unknown)"),
        ({"exit_text": "exited with code 3"}, "It died. (exited with code 3)"),
        ({"pid": 7, "exit_text": "exited with code 3"}, "It died. (pid=7: exited with code 3)"),
        ({"pid": 7, "node": "9f31", "exit_text": "killed"}, "It died. (pid=7, node=9f31: killed)"),
    ],
    ids=["nothing", "pid", "how", "both", "where"],
)
def test_a_death_says_what_is_known_of_it(details, text):
    assert str(zray.exceptions.WorkerCrashedError("It died.", **details)) == text


def test_the_errors_of_a_named_actor_name_it():
    @zray.remote(max_restarts=1)
    class Mortal:
        def die(self):
            os._exit(7)

    name = "actor Mortal named 'joe'"
    mortal = Mortal.options(name="joe").remote()
    error = error_of(mortal.die.remote())
    assert isinstance(error, zray.exceptions.ActorUnavailableError)
    assert f"The {name} died while it ran " in str(error) and "Mortal.die; it is restarted." in str(error)
    assert f"node={zray.get_runtime_context().get_node_id()[:8]}: exited with code 7" in str(error)
    zray.kill(mortal)
    assert f"The {name} was killed by kill()." in str(error_of(mortal.die.remote()))


def test_a_timeout_says_what_is_awaited(gate):
    ref = zray.remote(gate.wait).options(name="slow one").remote()
    with pytest.raises(zray.exceptions.GetTimeoutError, match=rf"{ref.hex()}\): task slow one "):
        zray.get(ref, timeout=0.05)
    with pytest.raises(zray.exceptions.GetTimeoutError, match=rf"{ref.hex()}\): task slow one "):
        list(zray.as_completed([ref], timeout=0.05))
    gate.open()


def test_another_number_of_values_than_asked_for_is_said_without_a_traceback():
    error = error_of(zray.remote(num_returns=2)(one).remote()[0])
    assert isinstance(error, ValueError)
    said = "one was called with num_returns=2, but returned one value of type int, and no tuple or list."
    assert error.traceback_str == f"ValueError: {said}\n"
    error = error_of(zray.remote(num_returns=3)(two).remote()[0])
    assert error.traceback_str == "ValueError: two was called with num_returns=3, but returned 2 values.\n"


def one():
    return 1


def two():
    return 1, 2


def test_what_is_said_is_plain_language(gate):
    """No article before a type's name, which may begin with any letter; no terms of the specification."""
    with pytest.raises(ValueError, match="one item is of type int"):
        zray.get([1])
    with pytest.raises(TypeError, match="one item is of type int"):
        zray.wait([1])
    with pytest.raises(TypeError, match="of type _thread.lock"):
        zray.put(threading.Lock())
    assert "one value of type int" in str(error_of(zray.remote(num_returns=2)(lambda: 1).remote()[0]))
    ref = zray.remote(gate.wait).remote()
    with pytest.raises(zray.exceptions.GetTimeoutError, match=r"A later get\(\) may find them\.$"):
        zray.get(ref, timeout=0)
    gate.open()


def test_the_tree_of_exceptions():
    known = zray.exceptions
    for name in (
        "RayTaskError RayActorError ActorDiedError ActorUnavailableError WorkerCrashedError GetTimeoutError "
        "TaskCancelledError ObjectLostError ObjectReconstructionFailedError OwnerDiedError "
        "ObjectStoreFullError OutOfMemoryError AsyncioActorExit TaskPlacementGroupRemoved "
        "TaskUnschedulableError ActorUnschedulableError PendingCallsLimitExceeded RuntimeEnvSetupError "
        "OufOfBandObjectRefSerializationException AuthenticationError"
    ).split():
        assert issubclass(getattr(known, name), known.RayError), name
    assert issubclass(known.GetTimeoutError, TimeoutError)
    assert issubclass(known.ActorDiedError, known.RayActorError)
    assert issubclass(known.ActorUnavailableError, known.RayActorError)
    assert issubclass(known.ObjectReconstructionFailedError, known.ObjectLostError)


def test_errors_of_tasks_can_be_pickled():
    error = error_of(fail.remote(lambda: KeyError("kept")))
    back = pickle.loads(pickle.dumps(error))
    assert isinstance(back, KeyError) and isinstance(back, TaskError)
    assert "kept" in str(back)
