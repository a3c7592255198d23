"""Common base of all roles: state machines that take a message and return effects.

    effects = role.handle(sender, message, now)     for each message that arrived
    effects = role.first_words(now)                 then, if its host likes
    effects = role.end_turn(now)                    when all that arrived has been handled

A host has these duties, in order: handle every message of a turn, performing the effects of each; end the turn, perform
the effects; then send the messages, in a frame per destination.  `now` is in seconds of a monotonic clock.  A role
never reads a clock, a socket, a file or a random source; handlers reject, then change, then send.  A message without a
handler is counted and dropped.  `@on(TaskPlaced)` marks a handler method, in the role itself or in a component.
`after(0.2, self.ask_again)` sets a timer.
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
    """A marked method; when its class is created, the class notes the method in HANDLERS (message type -> method
    name)."""

    def __init__(self, types: tuple[type, ...], method: Callable[..., None]) -> None:
        self.types = types
        self.method = method

    def __set_name__(self, owner: Any, name: str) -> None:
        setattr(owner, name, self.method)
        if "HANDLERS" not in vars(owner):
            owner.HANDLERS = dict(getattr(owner, "HANDLERS", {}))
        owner.HANDLERS.update(dict.fromkeys(self.types, name))


def on(*types: type) -> Callable[[Method], Method]:
    """Mark a method of a class as the handler of these message types."""

    def mark(method: Method) -> Any:
        return _Handler(types, method)

    return mark


def handlers_of(component: Any) -> Handlers:
    """Return the marked methods of an object, by message type; for a class, its functions."""
    marked: dict[type, str] = getattr(component, "HANDLERS", {})
    return {kind: getattr(component, name) for kind, name in marked.items()}


class Later(Local, gc=True):
    """Message of a timer: an action is due. gc=True: the action is a method, in a reference cycle with the role."""

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
        """Handle `message` and return the effects."""
        self.now = now
        self.sender = sender
        handler = self.handlers.get(type(message))
        if handler is None:
            self.reject(f"no handler for {type(message).__name__}")
        else:
            handler(message)
        return self.take_effects()

    def handle_with(self, *components: Any) -> None:
        """Register the marked methods of these components as handlers."""
        for component in components:
            self.handlers.update(handlers_of(component))

    def end_turn(self, now: float) -> list[Effect]:
        """End the turn and return the effects; batching roles send messages now."""
        self.now = now
        return self.take_effects()

    def first_words(self, now: float) -> list[Effect]:
        """Return urgent effects of end_turn, for a host that performs them before the end of the turn."""
        return []

    def take_effects(self) -> list[Effect]:
        """Return the effects collected since the last call."""
        effects = self._effects
        if not effects:
            return []  # never the outbox itself: it fills again
        self._effects = []
        return effects

    def send(self, destination: str, message: Message | Local) -> None:
        """Collect a Send effect."""
        self._effects.append(Send(destination, message))

    def after(self, seconds: float, action: Callable[[Unpack[Arguments]], None], *arguments: Unpack[Arguments]) -> None:
        """Call a method of this role, or of a component, after `seconds`, once."""
        self._effects.append(SetTimer(seconds, Later(action, arguments)))

    @on(Later)
    def on_later(self, message: Later) -> None:
        """Later: a timer has expired."""
        message.action(*message.arguments)

    def perform(self, effect: Effect) -> None:
        """Collect any other effect."""
        self._effects.append(effect)

    def reject(self, reason: str) -> None:
        """Count a rejected message, which changes nothing."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1

    def check_everything(self) -> None:
        """Assert every invariant of the role's state; called by tests and the simulator."""

    def bounds(self) -> Iterable[tuple[str, int, int]]:
        """Yield (name, size, limit) of each table and queue that other processes can make grow."""
        return bounds_of(self)

    def statistics(self) -> dict[str, Any]:
        """Return counts for status and load reports."""
        return {}


def acts_at_end_of_turn(role: Any) -> bool:
    """Whether the role overrides end_turn; a host's table may also hold objects that are no roles."""
    return getattr(type(role), "end_turn", Role.end_turn) is not Role.end_turn
