"""Every error that zray raises.

    ZrayError (RayError)
    ├── TaskError (RayTaskError)        the user's code raised; also an instance of the user's class
    ├── RayActorError
    │   ├── ActorDiedError
    │   └── ActorUnavailableError
    ├── WorkerCrashedError, NodeDiedError
    ├── TaskCancelledError
    │   └── TaskForceCancelledError     also a WorkerCrashedError
    ├── GetTimeoutError                 also a TimeoutError
    ├── ObjectLostError
    │   ├── ObjectReconstructionFailedError
    │   ├── ObjectFreedError
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

*Definite*: what was asked for has not happened and never will. *Indefinite*: it may have happened, or may
yet.

Imported by control processes: neither pickle nor traceback at import.
"""

from __future__ import annotations

from typing import Any

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from .exception_parts import exception_from_parts, exception_parts, in_parts
from .printable import escaped

# The first byte of a value that is an error: bytes that begin no msgpack scalar and no pickle (0x80).
TASK_ERROR = 0x82
SYSTEM_ERROR = 0x83
_ERROR_MARKS = (bytes((TASK_ERROR,)), bytes((SYSTEM_ERROR,)))
# A dynamic class per class of the user's that was raised: bounded, since notebooks redefine theirs for ever.
DUAL_CLASSES_MAX = 256

_encode = Encoder().encode
_decode = Decoder().decode


class ZrayError(Exception):
    """The base of all errors of zray's own."""

    def __str__(self) -> str:
        """What they say names functions and actors, and what these have said: words of somebody, for a terminal."""
        return escaped(super().__str__())


RayError = ZrayError


class TaskError(ZrayError):
    """The task raised (definite).  `raise task_error.as_instanceof_cause()` is also the user's class.

    function_name: the task, or Class.method.  traceback_str: the remote traceback as text.
    cause: the user's exception, None where it could not be carried.  pid, node: where it ran.
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
        """This error as an instance of the cause's class too, where Python allows it; else itself."""
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
        error: Any = exception_from_parts(dual, *exception_parts(cause))
        # Not through setattr: the user's class may have made these names read-only properties.
        error.__dict__.update(self.__dict__)
        # `raise ... from` shows the cause; the remote traceback is in the text already.
        object.__setattr__(error, "__cause__", None)
        object.__setattr__(error, "__suppress_context__", True)
        return error  # type: ignore[no-any-return]


RayTaskError = TaskError


class _Dual(TaskError):
    """The first base of those that are a user's class too.  What that does to its subclasses is not for these: it may
    count them, ask for more, or refuse to have any."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Nobody else's."""


_dual_classes: dict[type, type[TaskError] | None] = {}
# The interpreter and its loops act upon these: in a caller they would end more than the failed task, some in silence.
CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)


def _is_cancellation(cause_class: type[BaseException]) -> bool:
    """Whether asyncio, which is not imported for the question, would take such an error for the awaiting task's end."""
    return ("asyncio.exceptions", "CancelledError") in [(cls.__module__, cls.__name__) for cls in cause_class.__mro__]


def _dual_class(cause_class: type[BaseException]) -> type[TaskError] | None:
    """A class that is both TaskError and cause_class; None where raising such a thing would mislead."""
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
    """The death of a process.  pid: 0 where unknown.  node: how the id of its node begins.
    exit_text: signal or exit code in words.  log_tail: the last lines it wrote.
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
            parts.append(f"({where}: {self.exit_text or 'exit code unknown'})")
        elif self.exit_text:
            parts.append(f"({self.exit_text})")
        text = " ".join(part for part in parts if part)
        return escaped("\n  | ".join([text, *self.log_tail]) if self.log_tail else text)


class RayActorError(_ProcessDeath):
    """A call on an actor failed for the actor's sake: see its two kinds for definite or indefinite."""


class ActorDiedError(RayActorError):
    """The actor is dead and stays so (definite for calls not begun; a call that ran may have had effects)."""


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached just now (indefinite: the call may have run; try again)."""


class WorkerCrashedError(_ProcessDeath):
    """The process that ran the task died (indefinite: the task may have had effects)."""


class NodeDiedError(_ProcessDeath):
    """The node that ran the task is dead by the monitor's verdict (indefinite: it may have had effects)."""


class TaskCancelledError(ZrayError):
    """The task was cancelled (definite if it had not begun; what had run may have had effects)."""


class TaskForceCancelledError(TaskCancelledError, WorkerCrashedError):
    """The task was cancelled by ending its worker (indefinite: what had run may have had effects)."""


class GetTimeoutError(ZrayError, TimeoutError):
    """The value was not here in time (indefinite: it may still come)."""


class ObjectLostError(ZrayError):
    """All copies of the value are gone and it cannot be made again (definite)."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The task that made the value cannot make it again: it may run no more, or its record is gone too (definite)."""


class ObjectFreedError(ObjectLostError):
    """The value was freed by the program itself (definite)."""


class OwnerDiedError(ObjectLostError):
    """The value went with the driver that owned it (definite)."""


class ObjectStoreFullError(ZrayError):
    """There is no room for the value after evicting and spilling (definite: nothing was stored)."""


class OutOfDiskError(ZrayError):
    """There is no room left where values are spilled (definite: nothing was stored)."""


class OutOfMemoryError(ZrayError):
    """The task was ended before the machine ran out of memory (indefinite: it may have had effects)."""


class PlasmaObjectNotAvailable(ZrayError):
    """The value is not in this node's store (indefinite: it may come)."""


class AsyncioActorExit(ZrayError):
    """Raised by exit_actor() inside an async actor, to leave it (definite)."""


class TaskPlacementGroupRemoved(ZrayError):
    """The task's placement group was removed (definite for what had not begun)."""


class ActorPlacementGroupRemoved(ZrayError):
    """The actor's placement group was removed (definite for calls not begun)."""


class TaskUnschedulableError(ZrayError):
    """No node can ever run the task as it asks (definite: it never ran)."""


class ActorUnschedulableError(ZrayError):
    """No node can ever hold the actor as it asks (definite: it never started)."""


class PendingCallsLimitExceeded(ZrayError):
    """The actor has max_pending_calls waiting (definite: the call was not sent)."""


class RuntimeEnvSetupError(ZrayError):
    """The environment that the task asked for could not be made (definite: it never ran)."""


class OufOfBandObjectRefSerializationException(ZrayError):
    """A ref was pickled where zray cannot count it (definite).  Spelled as in Ray."""


class SerializationError(ZrayError, TypeError):
    """The value cannot be pickled, and the message says which part of it (definite: nothing was sent)."""


class RaySystemError(ZrayError):
    """What has failed is neither the task nor the machine that ran it (definite or not: its two kinds say which)."""


class DeserializationError(RaySystemError):
    """The bytes are here but the value cannot be made of them in this process (definite here)."""


class CrossLanguageError(ZrayError):
    """The error of a task in another language (definite)."""


class ActorAlreadyExistsError(ZrayError, ValueError):
    """The name is taken in this namespace (definite: no actor was made)."""


class ActorClassInheritanceException(TypeError):
    """An actor class has no subclasses: a plain class has, and is decorated then (definite)."""


class AuthenticationError(ZrayError, ConnectionError):
    """The peer does not accept our key or token, or we not theirs (definite: nothing was said)."""


class ClusterLostError(RaySystemError, ConnectionError):
    """The connection to the cluster is gone for good (indefinite: what was under way may have run)."""


class ProtocolError(ZrayError, ValueError):
    """Bytes from a peer that are no message of ours (definite: they were dropped)."""


class DeadlockError(ZrayError, RuntimeError):
    """Tasks or actors wait for each other in a ring (definite: none of them can go on)."""


def is_error_value(value: object) -> bool:
    """Whether that stands in the place of a value as a message has it; of what lies in a store, nobody looks: False."""
    return type(value) is bytes and value[:1] in _ERROR_MARKS


def encode_system_error(class_name: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """A system error as a value, by one of the class names above.

    details: keyword arguments of the class (pid, node, exit_text, log_tail), of plain types.
    """
    return bytes((SYSTEM_ERROR,)) + _encode((class_name, message, details or {}))


def system_error_of(error: ZrayError) -> bytes:
    """An error of this module as `encode_system_error` writes it; a subclass goes by its nearest name."""
    names = (cls.__name__ for cls in type(error).__mro__)
    name = next((name for name in names if name in SYSTEM_ERRORS), "ZrayError")
    details = {key: getattr(error, key) for key in ("pid", "node", "exit_text", "log_tail") if hasattr(error, key)}
    message = str(error.args[0]) if error.args else ""
    return encode_system_error(name, message, details)


def decode_system_error(data: Any) -> ZrayError:
    """The error that `encode_system_error` wrote; of a name unknown here, a ZrayError that says the name."""
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
