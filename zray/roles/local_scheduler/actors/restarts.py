"""Actors whose process or node has died and that are restarted: which calls wait for that, and for how long.

Calls that may be repeated wait (`max_task_retries`).  Those that may not wait for RESTART_SECONDS, where they have not
begun, and raise ActorUnavailableError then: a constructor may take as long as it likes.  Actors that recover
(`checkpoint_interval`) lose no state: all calls wait for them.

After the loss of a node the time counts twice: where the calls come from, until the actor has a new home; and there,
until its constructor is done.  Actors of a node that was drained have a new home at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import encode_system_error
from ..names import in_words, name_of_call
from ..routes.unpulled import Asked
from ..tables import Actor
from ..task import Task

if TYPE_CHECKING:
    from ..routes.route import Route
    from ..scheduler import LocalScheduler

# A caller without retries is to hear of it within half a second; most constructors are done sooner.
RESTART_SECONDS = 0.35
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6


class Restarts:
    """Of the actors of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    def begin(self, actor: Actor) -> None:
        """Its process has died.  The time counts from the first death on: a constructor may die again and again."""
        if actor.down_since is None and actor.journal is None:
            actor.down_since = self.node.now
            self.node.after(RESTART_SECONDS, self.refuse_waiting, actor.actor_id)

    def refuses(self, actor: Actor, call: Task) -> bool:
        """Whether the call has failed because the actor is not there and it cannot wait."""
        if call.options.max_retries or not self._is_late(actor):
            return False
        text = (
            f"{name_of_call(call)} has not begun: the {in_words(actor.options)} died, and is being restarted, which "
            f"takes more than {RESTART_SECONDS:g} s.  Calls with max_task_retries wait for it."
        )
        self.node.lifecycle.fail_with(call, encode_system_error("ActorUnavailableError", text))
        return True

    def refuse_waiting(self, actor_id: bytes) -> None:
        """Fail calls that cannot wait: the actor has not been restarted in time, or it has died again since."""
        actor = self.node.calls.actors.get(actor_id)
        if actor is None or not self._is_late(actor):
            return
        for call in list(actor.queue):
            if not call.options.max_retries and actor.queue.take_out(call):
                self.refuses(actor, call)
        self.node.calls.touch(actor.actor_id)

    def _is_late(self, actor: Actor) -> bool:
        return actor.down_since is not None and self._is_past(actor.down_since)

    # --- actors whose node is lost ---

    def home_lost(self, route: Route, since: float) -> None:
        """It is made again elsewhere, or is dead: its shard will say."""
        if route.waits_since(since):
            self.node.after(max(0.0, since + RESTART_SECONDS - self.node.now), self.give_up_home, route.actor_id)

    def has_no_home(self, route: Route, call: Task) -> bool:
        """Whether the call has failed because the actor has no home and it cannot wait."""
        if route.lost_at is None or not self._is_past(route.lost_at) or not _gives_up(call):
            return False
        text = (
            f"{name_of_call(call)} has not begun: the actor's node is lost, and the actor is being made again "
            f"elsewhere, which takes more than {RESTART_SECONDS:g} s.  Calls with max_task_retries wait for it."
        )
        self.node.lifecycle.fail_with(call, encode_system_error("ActorUnavailableError", text))
        return True

    def give_up_home(self, actor_id: bytes) -> None:
        """Fail calls that cannot wait: the actor has no new home in time, or it has lost that too."""
        route = self.node.routes.by_actor.get(actor_id)
        if route is not None and route.lost_at is not None and self._is_past(route.lost_at):
            self.node.routes.give_up_waiting(route)

    def _is_past(self, since: float) -> bool:
        return self.node.now >= since + RESTART_SECONDS - CLOCK_SECONDS


def _gives_up(call: Task) -> bool:
    """Whether it does not wait for a new home: not what an actor that recovers is asked."""
    return not call.options.max_retries and not call.options.is_logged and type(call) is not Asked
