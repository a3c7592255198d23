"""The language of scripts: a simulated task or driver is a generator that yields these requests, and is sent the
answers.

    def tree(depth):                       a function: plain, or a generator
        refs = []
        for _ in range(2):
            refs.append((yield Submit(tree, (depth - 1,))))
        return sum((yield Get(refs)))

An argument that is a Ref is a dependency: the function gets its value.  A Ref inside a list is passed on unchanged.
Functions and actor classes are registered by name (`@remote`), as pickles would refer to them.  Requests of a
constructor are in `begin`, if its class has that method.  Errors: `Get` raises RemoteError; a script raises UserError;
anything else is a bug and ends the run.
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
    """Answer: a Ref, a list of Refs, or None, by num_returns."""

    function: Any
    args: tuple[Any, ...] = ()
    num_returns: int = 1
    max_retries: int = 3
    retry_exceptions: bool = False
    resources: dict[str, int] | None = None
    env: str = ""  # an environment variable of the worker
    where: Where | None = None
    timeout: float = 0.0
    priority: int = 0


class Generate(Submit):
    """Submit a generator task.  Answer: a Stream.  The task yields `Item`s and returns their number."""

    max_buffered: int = 0


class CallGenerator(Struct):
    """Call a generator method.  Answer: a Stream."""

    actor: Handle
    method: str
    args: tuple[Any, ...] = ()
    max_retries: int = 0
    max_buffered: int = 0


class Stream(Struct):
    """A generator of this script: how many of its items were drawn."""

    task_id: bytes
    drawn: int = 0
    is_limited: bool = False


class Item(Struct):
    """A generator task makes an item."""

    value: Any


class Closed(Exception):
    """Raised at an item of a generator that is closed."""


class Draw(Struct):
    """Answer: a Ref on the next item; None: there is none.  Raises RemoteError where the task has failed."""

    stream: Stream


class LeaveStream(Struct):
    """Draw no more: the task is cancelled."""

    stream: Stream


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
    """Work on one of the node's cores for so many seconds."""

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
    hosted: bool = False


class Call(Struct):
    """Answer: a Ref on the result of the actor's method.  max_retries -1: without end."""

    actor: Handle
    method: str
    args: tuple[Any, ...] = ()
    max_retries: int = 0
    readonly: bool = False


class Find(Struct):
    """Answer: the Handle of the actor with that name, or None."""

    name: str


class FindNames(Struct):
    """Answer: the names of all named actors, in order."""


class Cancel(Struct):
    """Cancel a task, or a call.  Answer, with only_waiting: whether it is cancelled, since it has not begun."""

    ref: Any
    force: bool = False
    recursive: bool = True
    only_waiting: bool = False


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
    """Publish a value that the driver's tasks need wherever they run.  The value stays until the driver's end."""

    value: Any


class Runs(Struct):
    """Answer: how often this task had begun to run before, as only the simulator knows."""


class MayNotStart(Struct):
    """Answer: whether too many workers could not be started, or a node had no space for the arguments of this actor's
    constructor, as only the simulator knows.
    """

    actor: Handle


class View(Struct):
    """Read a value in place and keep the array.  Answer: a View token for `Look` and `Close`."""

    ref: Ref


class Look(Struct):
    """Answer: the value in its present state."""

    view: Any


class Close(Struct):
    """The array dies."""

    view: Any


class ExitActor(Struct):
    """End the actor after this call."""


class Surroundings(Struct):
    """Answer: the process of the script, as only the simulator knows."""


class IsHere(Struct):
    """Answer: whether the script runs on one of these nodes; none: anywhere."""

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
