"""What scripts say: a simulated task or driver is a generator that yields these, and is sent the answers.

    def tree(depth):                       a function: plain, or a generator
        refs = []
        for _ in range(2):
            refs.append((yield Submit(tree, (depth - 1,))))
        return sum((yield Get(refs)))

An argument that is a Ref is a dependency: the function gets its value.  A Ref inside a list is passed on as
it is.  Functions and actor classes are registered by name (`@remote`), as pickling them would do.
What a constructor says stands in `begin`, if its class has one.
Errors: `Get` raises RemoteError; a script raises UserError; anything else is a bug and ends the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..wire.where import Where
from .values import Handle, Ref

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def remote(function: Any) -> Any:
    """Register a function or an actor class under its name."""
    assert FUNCTIONS.setdefault(function.__name__, function) is function, "two functions of one name"
    return function


class Submit(Struct):
    """Answer: a Ref, a list of them, or None, by num_returns."""

    function: Any
    args: tuple[Any, ...] = ()
    num_returns: int = 1
    max_retries: int = 3
    retry_exceptions: bool = False
    resources: dict[str, int] | None = None
    env: str = ""  # an environment variable of its worker
    where: Where | None = None


class Put(Struct):
    """Answer: a Ref."""

    value: Any


class Get(Struct):
    """Answer: the value of a Ref, or a list of values."""

    refs: Any


class Wait(Struct):
    """Answer: (ready, not ready), as lists of Refs.  timeout in seconds."""

    refs: list[Ref]
    count: int = 1
    timeout: float | None = None
    fetch: bool = True


class Sleep(Struct):
    """Work, or rest: the process is busy for so many seconds."""

    seconds: float


class Compute(Struct):
    """Work that takes one of the node's cores for so many seconds."""

    seconds: float


class Create(Struct):
    """Answer: a Handle.  resources: none unless given."""

    cls: Any
    args: tuple[Any, ...] = ()
    max_restarts: int = 0
    resources: dict[str, int] | None = None
    where: Where | None = None
    name: str = ""
    detached: bool = False
    checkpoint_interval: int = -1


class Call(Struct):
    """Answer: a Ref on what the actor's method returns.  max_retries -1: without end."""

    actor: Handle
    method: str
    args: tuple[Any, ...] = ()
    max_retries: int = 0
    readonly: bool = False


class Find(Struct):
    """Answer: the Handle of the actor with that name, or None."""

    name: str


class FindNames(Struct):
    """Answer: the names of all actors that have one, in order."""


class Kill(Struct):
    """Kill an actor at once."""

    actor: Handle
    no_restart: bool = True


class Drop(Struct):
    """Let go of refs or handles before the script's end."""

    refs: list[Any]


class Keep(Struct):
    """An actor's method keeps a Ref beyond the call."""

    ref: Any


class Publish(Struct):
    """By a driver: its tasks need this value wherever they run.  It stays until the driver's end."""

    value: Any


class Runs(Struct):
    """Answer: how often this task had begun to run before, as nobody but the simulator can know."""


class MayNotStart(Struct):
    """Answer: whether too many workers could not be started, or a node had no room for what this actor's constructor
    takes, as nobody but the simulator can know."""

    actor: Handle


class View(Struct):
    """Read a value in place and keep the array.  Answer: a View token for `Look` and `Close`."""

    ref: Ref


class Look(Struct):
    """Answer: the value as it lies there now."""

    view: Any


class Close(Struct):
    """The array dies."""

    view: Any


class ExitActor(Struct):
    """The actor leaves, after this call's end."""


class IsHere(Struct):
    """Answer: whether it runs on one of these nodes; none: anywhere."""

    names: tuple[str, ...]


class MakeGroup(Struct):
    """Answer: the id of a placement group."""

    bundles: list[dict[str, int]]
    strategy: str = "PACK"
    name: str = ""
    is_detached: bool = False


class FindGroup(Struct):
    """Answer: the id of the placement group of that name, or None."""

    name: str


class RemoveGroup(Struct):
    """No answer."""

    group: bytes
