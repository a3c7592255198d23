"""Cycles of actor handles: actors that only hold handles of each other end, as actors without a handle do.

A reference count never falls to zero within a cycle.  So when an actor has lost a holder and only processes of actors
are left, all actors of the node are marked from the roots:

    a holder that is no actor's process       a driver, or the worker of tasks
    a task, an object or a wait that refers to the handle
    another node that may know the handle     the shard decides on such an actor
    a detached or recoverable actor, and one that starts or restarts
    an actor with calls                       for as long as it has any

An actor keeps what its process holds, and what its constructor took, which runs again in a restart.  The other actors
end in order, together.  A cycle over several nodes is not collected: its handles are known to other nodes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ....ids import FIRST_RETURN
from ..tables import Actor, ActorState

if TYPE_CHECKING:
    from ..objects.table import ObjectEntry
    from ..scheduler import LocalScheduler

# Actors are marked at most so often: a mark reads all handles of the node.
MARK_SECONDS = 0.5
REASON = "only actors that no program can reach had its handles"


class Cycles:
    """Actors of a node that may be held by a cycle alone."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_due = False  # a timer is set

    def look(self) -> None:
        """Set the timer if an actor has lost a holder."""
        objects = self.node.objects
        if objects.fewer_holders:
            objects.fewer_holders = False
            self._mark_soon()

    def _mark_soon(self) -> None:
        if not self.is_due:
            self.is_due = True
            self.node.after(MARK_SECONDS, self._mark)

    def _mark(self) -> None:
        """End the actors that no root leads to; look again while some of them have calls."""
        self.is_due = False
        node, found = self.node, self.node.calls.actors
        kept_by = _retained_by_constructors(found)
        left = {
            actor_id: actor
            for actor_id, actor in found.items()
            if (entry := node.objects.entries.get(actor_id + FIRST_RETURN)) is not None
            and not self._is_root(actor, entry, kept_by[entry.object_id])
        }
        roots = [actor for actor_id, actor in found.items() if actor_id not in left]
        self._unmark(left, roots)
        busy = [actor for actor in left.values() if actor.queue or actor.inflight]
        if busy:
            self._unmark(left, busy)
            self._mark_soon()
        for actor in left.values():
            node.ends.see_off(actor, REASON)

    def _is_root(self, actor: Actor, entry: ObjectEntry, kept_count: int) -> bool:
        """Whether something other than an actor of this node holds the actor."""
        if actor.options.detached or actor.journal is not None or actor.state != ActorState.ALIVE or actor.is_going:
            return True
        if entry.shared is not None or entry.count > kept_count or entry.actor is not actor:
            return True
        holders = self.node.objects.processes_that_hold(entry)
        return any(process.worker is None or process.worker.actor is None for process in holders)

    def _unmark(self, left: dict[bytes, Actor], roots: list[Actor]) -> None:
        """Take out of `left` the roots, and all actors that they lead to."""
        held = self._held_by_processes(left)
        while roots:
            actor = roots.pop()
            left.pop(actor.actor_id, None)
            spec = actor.creation.spec
            leads_to = {object_id.removesuffix(FIRST_RETURN) for object_id in (*spec.deps, *spec.holds)}
            if actor.worker is not None:
                leads_to |= held.get(actor.worker.address, set())
            roots += [left.pop(actor_id) for actor_id in sorted(leads_to) if actor_id in left]

    def _held_by_processes(self, left: dict[bytes, Actor]) -> dict[str, set[bytes]]:
        """Return the actors among `left` whose handles each process holds."""
        objects = self.node.objects
        held: dict[str, set[bytes]] = {}
        for actor_id in left:
            for process in objects.processes_that_hold(objects.entries[actor_id + FIRST_RETURN]):
                held.setdefault(process.address, set()).add(actor_id)
        return held


def _retained_by_constructors(actors: dict[bytes, Actor]) -> Counter[bytes]:
    """Count the references that actors keep for a run of their constructors."""
    taken: Counter[bytes] = Counter()
    for actor in actors.values():
        taken.update((*actor.creation.spec.deps, *actor.creation.spec.holds))
    return taken
