"""The faults that a block may have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..object_ref import ObjectRef

__all__ = ["Fault", "delay", "kill_node", "kill_worker", "lose_object"]


@dataclass(frozen=True)
class Fault:
    """A fault, made by `kill_worker`, `delay`, `kill_node` or `lose_object`."""

    kind: str
    of: str = ""
    on_call: int | None = None
    at: str = "begin"
    seconds: float = 0.0
    ref: ObjectRef[Any] | None = None

    @property
    def object_id(self) -> str:
        """Id of the value that the fault is of; "": it is of a function."""
        return self.ref.hex() if self.ref is not None else ""

    def __str__(self) -> str:
        if self.object_id:
            return f"{self.kind}({'holding=' if self.kind == 'kill_node' else ''}{self.object_id})"
        parts = [f"of={self.of!r}"]
        parts += [f"on_call={self.on_call}"] if self.on_call is not None else []
        parts += [f"seconds={self.seconds:g}"] if self.kind == "delay" else []
        parts += [f"at={self.at!r}"] if self.at != "begin" else []
        return f"{self.kind}({', '.join(parts)})"

    def is_due(self, name: str, call: int) -> bool:
        """Return whether it belongs to this begin of a function."""
        return self.of == name and self.on_call in (None, call)


Named = str | Callable[..., Any]


def kill_worker(of: Named, on_call: int = 1, *, at: Literal["begin", "end"] = "begin") -> Fault:
    """Kill the worker process that begins a task or an actor's call, by SIGKILL.

    Args:
        of: function, or method as `"Counter.add"`: its name, or itself.  `"Counter.__init__"` is the constructor.
        on_call: number of the begin in the block, counted over all workers; a retry is a further one.  Default: 1.
        at: `"begin"`: before the function runs; `"end"`: after it has run, and before its result is told.

    Raises:
        TypeError, ValueError: an argument is of another kind, or out of range.
    """
    if at not in ("begin", "end"):
        raise ValueError(f"at={at!r}: kill_worker knows 'begin' and 'end'.")
    return Fault("kill_worker", _name_of(of), _checked(on_call), at)


def delay(of: Named, seconds: float, on_call: int | None = None) -> Fault:
    """Let a task or an actor's call begin later.

    Args:
        of: as of `kill_worker`.
        seconds: how much later.
        on_call: number of the begin; None: each.  Default: None.

    Raises:
        TypeError, ValueError: an argument is of another kind, or out of range.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"seconds must be a number, not {type(seconds).__name__}.")
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"seconds={seconds}: it must be a number of at least 0.")
    return Fault("delay", _name_of(of), None if on_call is None else _checked(on_call), seconds=seconds)


def kill_node(*, holding: ObjectRef[Any]) -> Fault:
    """Kill the nodes of a `zray.cluster_utils.Cluster` that hold a value, as soon as the value is there.

    Args:
        holding: ref on the value, which has more than 100 KiB: smaller ones are on no node.

    Raises:
        TypeError: it is no ref.
    """
    return Fault("kill_node", ref=_checked_ref(holding))


def lose_object(ref: ObjectRef[Any]) -> Fault:
    """Have the object stores of all nodes lose a value, as soon as it is there.  No process dies.

    Its task is executed again; a value of `put` is an ObjectLostError.

    Args:
        ref: as of `kill_node`.

    Raises:
        TypeError: it is no ref.
    """
    return Fault("lose_object", ref=_checked_ref(ref))


def _name_of(of: Named) -> str:
    name = of if isinstance(of, str) else getattr(of, "__qualname__", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"of must be a function or its name, as 'train' or 'Counter.add', not {type(of).__name__}.")
    is_class = inspect.isclass(of) or hasattr(of, "_ActorClass__cls")
    return name.rpartition("<locals>.")[2] + (".__init__" if is_class else "")


def _checked(on_call: int) -> int:
    if isinstance(on_call, bool) or not isinstance(on_call, int):
        raise TypeError(f"on_call must be a whole number, not {type(on_call).__name__}.")
    if on_call < 1:
        raise ValueError(f"on_call={on_call}: the first begin is number 1.")
    return on_call


def _checked_ref(ref: Any) -> ObjectRef[Any]:
    from ..object_ref import ObjectRef

    if not isinstance(ref, ObjectRef):
        raise TypeError(f"A fault of a value needs its ref, not {type(ref).__name__}.")
    return ref
