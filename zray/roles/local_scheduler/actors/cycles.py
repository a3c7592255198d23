"""Cycles of actor handles: actors that only hold handles of each other end, as actors without a handle do.

A reference count never falls to zero within a cycle.  So when an actor has lost a holder and only processes of actors
are left, the holders are traced back (traces), on this node and on others.  Roots of a trace:

    a holder that is no actor's process       a driver, or the worker of tasks
    a task, an object or a wait that refers to the handle
    a detached or recoverable actor, and one that ends already
    an actor with calls, and one that starts or restarts      for as long as it does

An actor keeps what its process holds, and what its constructor took, which runs again in a restart.  Hosted actors
keep what any of their process holds.  Actors without a root end in order, together.  A name keeps no actor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ....ids import FIRST_RETURN, task_of
from ....wire.handles import HandleFacts
from ..routes.actor_names import NOTHING
from ..tables import Actor, ActorState, Process

if TYPE_CHECKING:
    from ..objects.table import ObjectEntry
    from ..scheduler import LocalScheduler


def led_to(holds: Mapping[bytes, Iterable[bytes]], roots: Iterable[bytes]) -> dict[bytes, None]:
    """Return the roots, and all actors that they hold, directly or by way of others."""
    found: dict[bytes, None] = {}
    left = list(roots)
    while left:
        actor_id = left.pop()
        if actor_id not in found:
            found[actor_id] = None
            left += holds.get(actor_id, ())
    return found


class Cycles:
    """Knowledge of a node about the holders of actors."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    def look(self) -> None:
        """Have actors traced that have lost a holder in this turn."""
        objects, traces = self.node.objects, self.node.traces
        traces.look_for_changes()
        thinned, objects.thinned = objects.thinned, {}
        for object_id in thinned:
            entry = objects.entries.get(object_id)
            is_handle = entry is not None and (entry.actor is not None or entry.value in (None, NOTHING))
            if entry is not None and is_handle and self._actors_that_hold(entry) is not None:
                traces.suspect(task_of(object_id))

    def _actors_that_hold(self, entry: ObjectEntry) -> list[Actor] | None:
        """Return the actors whose processes hold the handle; None: another process does."""
        found: list[Actor] = []
        for process in self.node.objects.processes_that_hold(entry):
            actors = _actors_of(process)
            if not actors:
                return None
            found += actors
        return found

    def facts(self, actor_ids: Collection[bytes]) -> list[HandleFacts]:
        """Return what this node knows of the actors and of the holders of their handles."""
        entries = [self.node.objects.entries.get(actor_id + FIRST_RETURN) for actor_id in actor_ids]
        are_kept = any(entry is not None and entry.count for entry in entries)
        kept = self._kept_for_constructors() if are_kept else {}  # a walk over all actors
        return [self._facts_of(actor_id, kept.get(actor_id + FIRST_RETURN, [])) for actor_id in actor_ids]

    def _facts_of(self, actor_id: bytes, keepers: list[tuple[bytes, str]]) -> HandleFacts:
        """keepers: as in _kept_for_constructors."""
        node = self.node
        entry, actor = node.objects.entries.get(actor_id + FIRST_RETURN), node.calls.actors.get(actor_id)
        holding = self._actors_that_hold(entry) if entry is not None else None
        if entry is not None and holding is not None and entry.count <= len(keepers) and not _stays(actor, entry):
            is_busy = actor is not None and bool(actor.state != ActorState.ALIVE or actor.queue or actor.inflight)
            holders = list({**dict(keepers), **{each.actor_id: node.address for each in holding}}.items())
            return HandleFacts(actor_id, actor is not None, is_reachable=False, is_busy=is_busy, holders=holders)
        return HandleFacts(actor_id, actor is not None, is_reachable=True)

    def _kept_for_constructors(self) -> dict[bytes, list[tuple[bytes, str]]]:
        """Return the references that are kept for runs of constructors: of which actor, and where the actor lives."""
        kept: dict[bytes, list[tuple[bytes, str]]] = {}
        node = self.node
        here = [(actor.creation.spec, node.address) for actor in node.calls.actors.values()]
        for spec, home in (*here, *((guard.spec, guard.home) for guard in node.guards.guarded.values())):
            for object_id in (*spec.deps, *spec.holds):
                kept.setdefault(object_id, []).append((spec.task_id, home))
        return kept


def _actors_of(process: Process) -> list[Actor]:
    """Return the actors of a process: several, if they are hosted."""
    worker = process.worker
    if worker is None:
        return []
    return [each.actor for each in (worker, *(worker.guests or {}).values()) if each.actor is not None]


def _stays(actor: Actor | None, entry: ObjectEntry) -> bool:
    """Whether the actor does not end for lack of holders, or ends already."""
    if actor is None:
        return False
    is_ending = actor.is_going or actor.state == ActorState.DEAD or entry.actor is not actor
    return actor.options.detached or actor.journal is not None or is_ending
