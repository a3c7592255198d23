"""Actors of a node that is to leave (drain): those that can be made again elsewhere do not keep it.

    it may be restarted once more, and somebody guards it    it goes with the node: its guardian has it made again, as
                                                             when a node is lost; that is one of its restarts
    any other one (no max_restarts, or its log nowhere else) the node waits for its end

When nothing but such actors keeps the node they are given no more calls, and other nodes keep theirs; what they run
ends first, for PATIENCE_SECONDS at most, since it may wait for a call that is held back.  Where the node's objects find
no room elsewhere, calls go on for a moment: what those that are held back take may fill the stores.  A call without an
answer is what it is after the death of a node: repeated, where it may be (max_task_retries), else an
ActorUnavailableError.

Where calls elsewhere, tasks or messages keep the node, these actors may make them as fast as they end.  So they are
given no calls then either; but what is to end may wait for one: where nothing ends for PATIENCE_SECONDS, they are for
as long.

A guardian that is to leave says so (GuardianLeaves): its wards' nodes let it go, and find another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....wire.homes import GuardianLeaves, HoldCalls
from ...role import on
from ..tables import Actor, ActorState
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

PATIENCE_SECONDS = 5.0


class Going:
    """Of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.since: float | None = None  # they are given no calls, and nothing has ended since then; None: they are
        self.least = (0, 0)  # the fewest calls that they have run since, and what was unfinished beside those
        self.again_at = 0.0  # they are given calls until then
        self.are_told = False  # other nodes keep their calls
        self.closed: dict[str, None] = {}  # nodes that have told us to do so

    def goes(self, actor: Actor) -> bool:
        """Whether it does not keep the node."""
        node, options = self.node, actor.options
        if not options.may_move or actor.killed or actor.is_going or actor.state == ActorState.DEAD:
            return False
        if 0 <= options.max_restarts <= actor.life.restart_count or not node.moves.is_settled(actor):
            return False
        if actor.shipping is not None and not actor.shipping.is_started:
            return False
        return actor.is_guarded and actor.guardian in node.members.peers

    def is_of_one(self, task: Task) -> bool:
        """Whether it is a call on one that goes, or its making."""
        actor = self.node.calls.actors.get(task.options.actor_id or task.spec.task_id)
        return actor is not None and self.goes(actor)

    def hold_back(self) -> int:
        """They alone keep the node.  Returns how many calls are still to end."""
        now = self.node.now
        if self.since is None:
            self._close()
            self.since = now
        return 0 if now - self.since >= PATIENCE_SECONDS else self._running()

    def _running(self) -> int:
        """How many of their calls have begun, and not ended where others know of it."""
        return sum(
            len(actor.inflight) + (actor.shipping is not None and not actor.shipping.is_safe)
            for actor in self.node.calls.actors.values()
            if self.goes(actor)
        )

    def hold_back_a_while(self, unfinished: int) -> None:
        """So much keeps the node, and they may be who makes it."""
        now, left = self.node.now, (self._running(), unfinished)
        if self.since is None:
            if now >= self.again_at:
                self._close()
                self.since, self.least = now, left
        elif left < self.least:
            self.since, self.least = now, left
        elif now - self.since >= PATIENCE_SECONDS:
            self.let_on()
            self.again_at = now + PATIENCE_SECONDS

    def _close(self) -> None:
        node = self.node
        if not self.are_told and any(map(self.goes, node.calls.actors.values())):
            self.are_told = True
            for peer in node.members.peers:
                node.send(peer, HoldCalls(is_over=False))

    def let_on(self) -> None:
        """There is something else to be done first, which may need them."""
        if self.are_told:
            self.are_told = False
            for peer in self.node.members.peers:
                self.node.send(peer, HoldCalls(is_over=True))
        if self.since is not None:
            self.since = None
            for actor_id in self.node.calls.actors:
                self.node.calls.touch(actor_id)

    def is_held(self, actor: Actor) -> bool:
        """Whether it is given no more calls."""
        return self.since is not None and self.goes(actor)

    @on(HoldCalls)
    def on_hold_calls(self, message: HoldCalls) -> None:
        """HoldCalls."""
        node, home = self.node, self.node.sender
        if message.is_over:
            self.closed.pop(home, None)
            node.routes.touched.update((route.actor_id, None) for route in node.routes.by_actor.values())
        elif home in node.members.peers:
            self.closed[home] = None

    # --- guardians ---

    def leave_wards(self) -> int:
        """We leave: others are to guard them.  Returns how many have not been taken from us."""
        node = self.node
        homes = [guard.home for guard in node.guards.guarded.values() if guard.home in node.members.peers]
        for home in dict.fromkeys(homes):
            node.send(home, GuardianLeaves())
        return len(homes)

    @on(GuardianLeaves)
    def on_guardian_leaves(self, message: GuardianLeaves) -> None:
        """GuardianLeaves.  Where we are done with leaving it is too late for others: it stays until we are gone."""
        node, guardian = self.node, self.node.sender
        if node.drain.is_done or guardian not in node.members.peers:
            return
        node.members.leaving.add(guardian)
        for actor in list(node.calls.actors.values()):
            if actor.guardian == guardian:
                node.guards.dismiss(actor, is_dead=False)
                node.guards.another(actor)
