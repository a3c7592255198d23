"""Errors that zray raises.

    ZrayError (RayError)
    ├── TaskError (RayTaskError)        the user's code raised; also an instance of the user's class
    ├── RayActorError
    │   ├── ActorDiedError
    │   └── ActorUnavailableError
    ├── WorkerCrashedError, NodeDiedError
    ├── TaskTimeoutError, GeneratorRetryError
    ├── TaskCancelledError
    │   └── TaskForceCancelledError     also a WorkerCrashedError
    ├── GetTimeoutError                 also a TimeoutError
    ├── ObjectLostError
    │   ├── ObjectReconstructionFailedError
    │   ├── ObjectFreedError, ObjectFetchTimedOutError, ReferenceCountingAssertionError
    │   └── OwnerDiedError
    ├── ObjectStoreFullError, OutOfDiskError, OutOfMemoryError, PlasmaObjectNotAvailable
    ├── TaskPlacementGroupRemoved, ActorPlacementGroupRemoved, TaskUnschedulableError, ActorUnschedulableError
    ├── PendingCallsLimitExceeded, RuntimeEnvSetupError, OufOfBandObjectRefSerializationException
    ├── RaySystemError
    │   ├── ClusterLostError            also a ConnectionError
    │   └── DeserializationError
    ├── SerializationError              also a TypeError
    ├── CrossLanguageError
    ├── AuthenticationError             also a ConnectionError
    ├── ActorAlreadyExistsError, ProtocolError      also a ValueError
    ├── AsyncioActorExit                how an async actor leaves
    └── DeadlockError                   also a RuntimeError
    ActorClassInheritanceException      a TypeError alone, as in Ray

*Definite*: the request has not happened and never will.  *Indefinite*: the request may have happened, or may yet.

Control processes import this module: neither pickle nor traceback at import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from .parts import exception_from_parts, exception_parts, in_parts, is_group, with_members
from .printable import escaped

# The first byte of a value that is an error: bytes that begin no msgpack scalar and no pickle (0x80).
TASK_ERROR = 0x82
SYSTEM_ERROR = 0x83
_ERROR_MARKS = (bytes((TASK_ERROR,)), bytes((SYSTEM_ERROR,)))
# The one behind the other: error values are those from the first one on, and below the second one.
FIRST_MARK, PAST_MARKS = _ERROR_MARKS[0], bytes((SYSTEM_ERROR + 1,))
# A dynamic class per class of the user's that was raised: bounded, since notebooks redefine theirs for ever.
DUAL_CLASSES_MAX = 256

_encode = Encoder().encode
_decode = Decoder().decode


class ZrayError(Exception):
    """Base of all errors of zray."""

    # The traceback for IPython, which asks an exception for it, and else always shows the last frame (uncaught.py).
    _render_traceback_: ClassVar[Callable[[ZrayError], list[str]]]

    def __str__(self) -> str:
        """The message, safe for a terminal: names and output of user code may hold escape sequences."""
        return escaped(super().__str__())


RayError = ZrayError


class TaskError(ZrayError):
    """The task raised (definite).  get() raises an error that is an instance of the user's class, too.

    Attributes: function_name (the task, or Class.method), traceback_str (the remote traceback as text), cause (the
    user's exception; None where it could not be carried), pid and node (where the task ran).
    """

    def __init__(
        self,
        function_name: str = "",
        traceback_str: str = "",
        cause: BaseException | None = None,
        *,
        pid: int = 0,
        node: str = "",
    ) -> None:
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.pid = pid
        self.node = node
        self.args = (function_name, traceback_str)

    @property
    def ip(self) -> str:
        """Ray's name for `node`."""
        return self.node

    def __str__(self) -> str:
        where = f" (pid={self.pid}, node={self.node})" if self.node else f" (pid={self.pid})"
        return escaped(f"task {self.function_name or '?'}{where} raised:\n{self.traceback_str.rstrip()}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function_name!r}, cause={type(self.cause).__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        cause = in_parts(self.__dict__["cause"], {})
        fields = (self.function_name, self.traceback_str, cause, self.pid, self.node)
        return _restore_task_error, (*fields, type(self) is not TaskError)

    def as_instanceof_cause(self) -> TaskError:
        """Return this error as an instance of the cause's class too, where Python allows that; else itself."""
        cause = self.cause
        if cause is None or isinstance(cause, TaskError) or type(self) is not TaskError or type(cause) is ZrayError:
            return self
        try:
            dual = _dual_class(type(cause))
            return self if dual is None else self._copied_into(dual)
        except Exception:
            # A class that cannot be subclassed, or made without its constructor: the text remains.
            return self

    def _copied_into(self, dual: type[TaskError]) -> TaskError:
        cause = self.cause
        assert cause is not None
        arguments, state = exception_parts(cause)
        if is_group(type(cause)):
            arguments = (arguments[0], with_members(cause, _without_interrupt))
        error: Any = exception_from_parts(dual, arguments, state)
        # Not through setattr: the user's class may have made these names read-only properties.
        error.__dict__.update(self.__dict__)
        # `raise ... from` shows the cause; the remote traceback is in the text already.
        object.__setattr__(error, "__cause__", None)
        object.__setattr__(error, "__suppress_context__", True)
        return error  # type: ignore[no-any-return]


RayTaskError = TaskError


def _without_interrupt(member: BaseException) -> BaseException:
    """A KeyboardInterrupt counts as a cancellation, in a group as alone: in a caller it would mean the caller's own."""
    if not isinstance(member, KeyboardInterrupt):
        return member
    said = f": {member}" if member.args else ""
    return TaskCancelledError(f"The task raised {type(member).__name__} in a group, so it counts as cancelled{said}")


class _Dual(TaskError):
    """First base of errors that are instances of a user's class too: a user's __init_subclass__ is not for them."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Keep the user's __init_subclass__ from being called: it may count subclasses, or refuse them."""


_dual_classes: dict[type, type[TaskError] | None] = {}
# The interpreter and its loops act upon these: in a caller they would end more than the failed task, some in silence.
CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)


def _is_cancellation(cause_class: type[BaseException]) -> bool:
    """Whether asyncio would take such an error for the end of the awaiting task.  asyncio is not imported here."""
    return ("asyncio.exceptions", "CancelledError") in [(cls.__module__, cls.__name__) for cls in cause_class.__mro__]


def _dual_class(cause_class: type[BaseException]) -> type[TaskError] | None:
    """Make a class that is both TaskError and cause_class; None where raising that would mislead."""
    if cause_class in _dual_classes:
        return _dual_classes[cause_class]
    if len(_dual_classes) >= DUAL_CLASSES_MAX:
        _dual_classes.clear()
    dual: type[TaskError] | None = None
    if not issubclass(cause_class, CONTROL_FLOW) and not _is_cancellation(cause_class):
        names = {
            "__module__": TaskError.__module__,
            "__qualname__": f"TaskError({cause_class.__qualname__})",
            "__reduce_ex__": lambda self, protocol: TaskError.__reduce__(self),
            "__hash__": object.__hash__,
        }
        metaclass: Any = type(cause_class)
        try:
            dual = metaclass(f"TaskError({cause_class.__name__})", (_Dual, cause_class), names)
        except Exception:
            dual = None  # Clashing layouts, or a metaclass with a mind of its own.
    _dual_classes[cause_class] = dual
    return dual


def _restore_task_error(
    function_name: str, traceback_str: str, cause: Any, pid: int, node: str, is_dual: bool
) -> TaskError:
    error = TaskError(function_name, traceback_str, cause, pid=pid, node=node)
    return error.as_instanceof_cause() if is_dual else error


class _ProcessDeath(ZrayError):
    """Death of a process: pid (0: unknown), node (the begin of its id), exit_text (signal or exit code in words) and
    log_tail (the last lines of its output).
    """

    def __init__(
        self, message: str = "", *, pid: int = 0, node: str = "", exit_text: str = "", log_tail: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.pid = pid
        self.node = node
        self.exit_text = exit_text
        self.log_tail = tuple(log_tail)

    def __str__(self) -> str:
        parts = [str(self.args[0]) if self.args else ""]
        if self.pid:
            where = f"pid={self.pid}, node={self.node}" if self.node else f"pid={self.pid}"
            output = f"; output: zray logs {self.pid}" if self.log_tail else ""
            parts.append(f"({where}: {self.exit_text or 'exit code unknown'}{output})")
        elif self.exit_text:
            parts.append(f"({self.exit_text})")
        text = " ".join(part for part in parts if part)
        return escaped("\n  | ".join([text, *self.log_tail]) if self.log_tail else text)


class RayActorError(_ProcessDeath):
    """The actor could not finish a call: ActorDiedError is definite, ActorUnavailableError indefinite."""


class ActorDiedError(RayActorError):
    """The actor is dead for good (definite for calls that had not begun; a call that ran may have had effects)."""


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached just now (indefinite: the call may have run; try again)."""


class WorkerCrashedError(_ProcessDeath):
    """The process that ran the task died (indefinite: the task may have had effects)."""


class NodeDiedError(_ProcessDeath):
    """The node that ran the task was declared dead (indefinite: the task may have had effects)."""


class TaskCancelledError(ZrayError):
    """The task was cancelled (definite if it had not begun; a task that ran may have had effects)."""


class TaskForceCancelledError(TaskCancelledError, WorkerCrashedError):
    """The task was cancelled by ending its worker (indefinite: the task may have had effects)."""


class GeneratorRetryError(ZrayError):
    """A generator was run again, and has yielded other items, or fewer (indefinite: items are of several attempts)."""


class TaskTimeoutError(ZrayError):
    """The task ran longer than its `timeout=` (indefinite: it may have had effects)."""


class GetTimeoutError(ZrayError, TimeoutError):
    """The value was not ready in time (indefinite: the task may still finish)."""


class ObjectLostError(ZrayError):
    """All copies of the value are lost, and it cannot be reconstructed (definite)."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The value cannot be reconstructed: its task may not run again, or its lineage is lost too (definite)."""


class ObjectFreedError(ObjectLostError):
    """The value was freed by the program itself (definite)."""


class OwnerDiedError(ObjectLostError):
    """The value was lost with the driver that owned it (definite)."""


class ObjectFetchTimedOutError(ObjectLostError):
    """The transfer took too long (indefinite).  For `except` clauses alone: zray repeats transfers."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The value was freed too early (definite).  For `except` clauses alone: zray does not raise this error."""


class ObjectStoreFullError(ZrayError):
    """The object store is full after evicting and spilling (definite: nothing was stored)."""


class OutOfDiskError(ZrayError):
    """The disk for spilled values is full (definite: nothing was stored)."""


class OutOfMemoryError(_ProcessDeath):
    """The task or actor was ended before the machine ran out of memory, or above its `memory=` (indefinite: it may have
    had effects).
    """


class PlasmaObjectNotAvailable(ZrayError):
    """The value is not in this node's store (indefinite: it may arrive)."""


class AsyncioActorExit(ZrayError):
    """The exception by which exit_actor() leaves an async actor (definite)."""


class TaskPlacementGroupRemoved(ZrayError):
    """The task's placement group was removed (definite for a task that had not begun)."""


class ActorPlacementGroupRemoved(ZrayError):
    """The actor's placement group was removed (definite for calls not begun)."""


class TaskUnschedulableError(ZrayError):
    """No node can ever meet the task's request (definite: the task never ran)."""


class ActorUnschedulableError(ZrayError):
    """No node can ever meet the actor's request (definite: the actor never started)."""


class PendingCallsLimitExceeded(ZrayError):
    """The actor has max_pending_calls waiting (definite: the call was not sent)."""


class RuntimeEnvSetupError(ZrayError):
    """The task's runtime_env could not be set up (definite: the task never ran)."""


class OufOfBandObjectRefSerializationException(ZrayError):
    """A ref was pickled where zray cannot count it (definite).  The name is spelled as in Ray."""


class SerializationError(ZrayError, TypeError):
    """The value cannot be pickled; the message names the part (definite: nothing was sent)."""


class RaySystemError(ZrayError):
    """The system failed, not the task: ClusterLostError is indefinite, DeserializationError definite."""


class DeserializationError(RaySystemError):
    """The value arrived, and cannot be unpickled in this process (definite here)."""


class CrossLanguageError(ZrayError):
    """The error of a task in another language (definite)."""


class ActorAlreadyExistsError(ZrayError, ValueError):
    """The name is taken in this namespace (definite: no actor was created)."""


class ActorClassInheritanceException(TypeError):
    """A class inherits from an actor class: inherit from a plain class, and decorate the subclass (definite)."""


class AuthenticationError(ZrayError, ConnectionError):
    """A key or token was refused, by the peer or by this process (definite: nothing was sent)."""


class ClusterLostError(RaySystemError, ConnectionError):
    """The connection to the cluster is lost for good (indefinite: submitted tasks may have run)."""


class ProtocolError(ZrayError, ValueError):
    """A peer sent bytes that are no message of zray (definite: they were dropped)."""


class DeadlockError(ZrayError, RuntimeError):
    """Tasks or actors wait for each other in a circle (definite: none can go on)."""


# Ray's other names of the same errors.
LocalRayletDiedError = NodeDiedError
RayWorkerError = WorkerCrashedError
UnreconstructableError = ObjectReconstructionFailedError


def is_error_value(value: object) -> bool:
    """Whether an encoded value in a message is an error.  Values in the store are not looked at: False."""
    return type(value) is bytes and value[:1] in _ERROR_MARKS


def encode_system_error(class_name: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """Encode a system error.  details: keyword arguments of the class (pid, node, exit_text, log_tail)."""
    return bytes((SYSTEM_ERROR,)) + _encode((class_name, message, details or {}))


def encode_retry_error(name: str, what: str) -> bytes:
    """Encode the error of a generator that was run again.  what: how its items differ."""
    text = f"Generator {name} was run again, and {what}.  deterministic=False accepts items of several attempts."
    return encode_system_error("GeneratorRetryError", text)


def system_error_of(error: ZrayError) -> bytes:
    """Encode an error of this module; a subclass goes by the name of its nearest base here."""
    names = (cls.__name__ for cls in type(error).__mro__)
    name = next((name for name in names if name in SYSTEM_ERRORS), "ZrayError")
    details = {key: getattr(error, key) for key in ("pid", "node", "exit_text", "log_tail") if hasattr(error, key)}
    message = str(error.args[0]) if error.args else ""
    return encode_system_error(name, message, details)


def decode_system_error(data: Any) -> ZrayError:
    """Decode a system error; an unknown class name becomes a ZrayError with that name in its text."""
    try:
        name, message, details = _decode(memoryview(data)[1:])
        cls = SYSTEM_ERRORS.get(name)
        if cls is None:
            return ZrayError(f"{name}: {message}")
        return cls(message, **details) if issubclass(cls, _ProcessDeath) else cls(message)
    except (MsgspecError, TypeError, ValueError) as error:
        return ZrayError(f"an error came whose description cannot be read ({error})")


SYSTEM_ERRORS: dict[str, type[ZrayError]] = {
    name: cls
    for name, cls in list(globals().items())
    if isinstance(cls, type) and issubclass(cls, ZrayError) and name[0] != "_" and cls is not TaskError
}

if not TYPE_CHECKING:  # type checkers are to go on looking at names

    def __getattr__(name):
        from importlib import import_module

        raise import_module("zray.ray_names.absent").attribute_error(__name__, name)
