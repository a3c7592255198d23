"""What all roles are: state machines that take a message and give back effects.

    effects = role.handle(sender, message, now)     for each message that arrived
    effects = role.first_words(now)                 then, if its host likes
    effects = role.end_turn(now)                    when all that arrived has been handled

A host's duties, in this order: handle every message of a turn, perform the effects of each; end the turn,
perform; then let the messages out, one frame per destination.  `now` is in seconds of a clock that never goes
back.  A role never looks at a clock, a socket, a file or a random source; handlers reject, then change, then
send.  A message that no method handles is counted and dropped.  `@on(TaskPlaced)` marks the method that handles one,
in the role itself or in one of its components.  `after(0.2, self.ask_again)` sets a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ..wire.message import Local, Message
from .effects import Effect, Send, SetTimer
from .kept import bounds_of

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Arguments = TypeVarTuple("Arguments")

Method = TypeVar("Method", bound=Callable[..., None])
Handlers = dict[type, Callable[..., None]]


class _Handler:
    """A marked method, until its class is there: then the class notes it in HANDLERS (message type -> method name)."""

    def __init__(self, types: tuple[type, ...], method: Callable[..., None]) -> None:
        self.types = types
        self.method = method

    def __set_name__(self, owner: Any, name: str) -> None:
        setattr(owner, name, self.method)
        if "HANDLERS" not in vars(owner):
            owner.HANDLERS = dict(getattr(owner, "HANDLERS", {}))
        owner.HANDLERS.update(dict.fromkeys(self.types, name))


def on(*types: type) -> Callable[[Method], Method]:
    """Mark the method of a class that handles messages of these types."""

    def mark(method: Method) -> Any:
        return _Handler(types, method)

    return mark


def handlers_of(component: Any) -> Handlers:
    """The marked methods of an object, by the types of messages that they handle; of a class, its functions."""
    marked: dict[type, str] = getattr(component, "HANDLERS", {})
    return {kind: getattr(component, name) for kind, name in marked.items()}


class Later(Local, gc=True):
    """Message of a timer: this action is due.  gc=True: it is a method of an object that leads back to its role."""

    action: Callable[..., None]
    arguments: tuple[Any, ...]


class Role:
    """Base of all roles: an address, an outbox, a table of handlers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.now = 0.0
        self.sender = ""  # of the message in hand
        self.handlers = handlers_of(self)  # those that hold now
        self.rejected: dict[str, int] = {}  # reason -> count; reasons are constants of the code
        self._effects: list[Effect] = []

    def handle(self, sender: str, message: Message | Local, now: float) -> list[Effect]:
        """What follows from `message`."""
        self.now = now
        self.sender = sender
        handler = self.handlers.get(type(message))
        if handler is None:
            self.reject(f"no handler for {type(message).__name__}")
        else:
            handler(message)
        return self.take_effects()

    def handle_with(self, *components: Any) -> None:
        """Take the marked methods of these parts of the role for handlers."""
        for component in components:
            self.handlers.update(handlers_of(component))

    def end_turn(self, now: float) -> list[Effect]:
        """What follows from the turn as a whole.  Roles that batch do it here."""
        self.now = now
        return self.take_effects()

    def first_words(self, now: float) -> list[Effect]:
        """Of what end_turn would say first: what somebody waits for.  A host may let it out, and then end the turn."""
        return []

    def take_effects(self) -> list[Effect]:
        """The effects collected since the last call."""
        effects = self._effects
        if not effects:
            return []  # never the outbox itself: it fills again
        self._effects = []
        return effects

    def send(self, destination: str, message: Message | Local) -> None:
        """Collect a Send."""
        self._effects.append(Send(destination, message))

    def after(self, seconds: float, action: Callable[[Unpack[Arguments]], None], *arguments: Unpack[Arguments]) -> None:
        """Have a method of this role, or of a part of it, called once, in so many seconds."""
        self._effects.append(SetTimer(seconds, Later(action, arguments)))

    @on(Later)
    def on_later(self, message: Later) -> None:
        """Later: a timer of ours."""
        message.action(*message.arguments)

    def perform(self, effect: Effect) -> None:
        """Collect any other effect."""
        self._effects.append(effect)

    def reject(self, reason: str) -> None:
        """Count a message that changes nothing."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1

    def check_everything(self) -> None:
        """Assert every invariant of this role's state; tests and the simulator call it."""

    def bounds(self) -> Iterable[tuple[str, int, int]]:
        """(what, how much there is, how much there may be) of each table and queue that others can make grow."""
        return bounds_of(self)

    def statistics(self) -> dict[str, Any]:
        """Counts for status and load reports."""
        return {}


def acts_at_end_of_turn(role: Any) -> bool:
    """Whether it has anything to do there; others than roles may sit at a host's table."""
    return getattr(type(role), "end_turn", Role.end_turn) is not Role.end_turn
