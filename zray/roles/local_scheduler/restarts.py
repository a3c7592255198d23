"""Actors whose process has died and that are restarted: which calls wait for that, and for how long.

Calls that may be repeated wait (`max_task_retries`).  Those that may not wait for RESTART_SECONDS, where they have not
begun, and raise ActorUnavailableError then: a constructor may take as long as it likes.  Actors that recover
(`checkpoint_interval`) lose no state: all calls wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...exceptions import encode_system_error
from ...wire.message import Local
from .names import in_words, name_of_call
from .tables import Actor, Task

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# A caller without retries is to hear of it within half a second; most constructors are done sooner.
RESTART_SECONDS = 0.35
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6


class RestartTimeout(Local):
    """An actor has not been restarted in time, or it has died again since."""

    actor_id: bytes


class Restarts:
    """Of the actors of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    def begin(self, actor: Actor) -> None:
        """Its process has died.  The time counts from the first death on: a constructor may die again and again."""
        if actor.down_since is None and actor.journal is None:
            actor.down_since = self.node.now
            self.node.set_timer(RESTART_SECONDS, RestartTimeout(actor.actor_id))

    def refuses(self, actor: Actor, call: Task) -> bool:
        """Whether the call has failed because the actor is not there and it cannot wait."""
        if call.options.max_retries or not self._is_late(actor):
            return False
        call.missing = 0
        text = (
            f"{name_of_call(call)} has not begun: the {in_words(actor.options)} died, and is being restarted, which "
            f"takes more than {RESTART_SECONDS:g} s.  Calls with max_task_retries wait for it."
        )
        self.node.lifecycle.fail_with(call, encode_system_error("ActorUnavailableError", text))
        return True

    def on_timeout(self, message: RestartTimeout) -> None:
        """RestartTimeout."""
        actor = self.node.calls.actors.get(message.actor_id)
        if actor is None or not self._is_late(actor):
            return
        for call in list(actor.queue):
            if not call.options.max_retries and actor.queue.take_out(call):
                self.refuses(actor, call)
        self.node.calls.touch(actor.actor_id)

    def _is_late(self, actor: Actor) -> bool:
        return actor.down_since is not None and self.node.now >= actor.down_since + RESTART_SECONDS - CLOCK_SECONDS


HANDLERS: dict[type, Any] = {
    RestartTimeout: lambda self, message: self.ends.restarts.on_timeout(message),
}
