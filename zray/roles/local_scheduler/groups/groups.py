"""Placement of tasks and actors in placement groups.

    a task in a group -> LocateGroup -> GroupLocated -> local, or straight to the node of the bundle (PlaceTask)
    an actor likewise (PlaceActor)

The shard knows the bundles' nodes, so no global scheduler is asked.  A task of a group goes to the bundle's node,
whatever the load.  Until the group is placed, its tasks wait locally, as spilled tasks; actors wait in `unsettled`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....exceptions import encode_system_error
from ....wire import actors, groups, scheduling, task_spec
from ....wire import bundles as bundles_wire
from ....wire.amounts import in_words, is_enough
from ....wire.where import Where
from ...role import on
from ..tables import Actor, ReadyQueue
from ..task import Event, Task, TaskState
from .bundles import leaves_gpus_idle

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class View(Struct, eq=False):
    """The known state of a group with local tasks or actors."""

    fact: groups.GroupFact | None = None  # None: asked for
    turn: int = 0  # of its bundles, for tasks that may run in any


class Groups:
    """The placement groups used by a node's tasks and actors."""

    PASSING = {"unsettled": None}
    OF_JOBS = {"views": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.views: dict[bytes, View] = {}
        self.unsettled: dict[bytes, Actor] = {}  # not promised any room yet

    # --- where it is ---

    def _view(self, group_id: bytes) -> View:
        view = self.views.get(group_id)
        if view is None:
            view = self.views[group_id] = View()
            self.node.send(self.node.addresses.shard_of(group_id), groups.LocateGroup(group_id, self.node.address))
        return view

    @on(groups.GroupLocated)
    def located(self, message: groups.GroupLocated) -> None:
        """GroupLocated."""
        fact, group_id = message.fact, message.fact.group_id
        self.node.keeping.located(fact)
        view = self.views.get(group_id)
        if view is None:
            return
        view.fact = fact
        if fact.state in (groups.REMOVED, groups.UNSCHEDULABLE):
            self._end(group_id, view, fact)
            return
        for task in self._waiting(group_id):
            self._go(task)
        for actor in list(self.unsettled.values()):
            if _group_of(actor) == group_id:
                self._settle(actor)
        self.node.moves.group_located(group_id)

    def _end(self, group_id: bytes, view: View, fact: groups.GroupFact) -> None:
        """Fail all tasks and actors of a group in which nothing can run any more."""
        node = self.node
        if fact.state == groups.REMOVED:
            del self.views[group_id]
            text = f"The placement group {group_id.hex()} was removed{': ' + fact.reason if fact.reason else ''}."
            names = ("TaskPlacementGroupRemoved", "ActorPlacementGroupRemoved")
        else:
            text, names = fact.reason, ("TaskUnschedulableError", "ActorUnschedulableError")
        for task in self._waiting(group_id):
            node.lifecycle.fail(task, names[0], text)
        error = encode_system_error(names[1], text)
        for actor in [*self.unsettled.values(), *(ask.actor for ask in node.moves.asks.values())]:
            if _group_of(actor) == group_id:
                node.ends.bury(actor, error)

    def _target(self, where: Where, request: dict[str, int], full: str = "", *, spares_gpus: bool = False) -> str:
        """Return the node for the request, or "" while unknown.

        If any bundle will do, bundles take turns (`_take_turn`), and bundles without unneeded GPUs come first.  A full
        node is avoided if there is another.  spares_gpus: use bundles with such GPUs only if there is no other.
        """
        sparing, others = self._places(where, request)
        every = sparing + others
        placed = sparing if sparing and spares_gpus else every
        placed = [place for place in placed if place != full] or [place for place in every if place != full] or placed
        return placed[self._view(where.group).turn % len(placed)] if placed else ""

    def _places(self, where: Where, request: dict[str, int]) -> tuple[list[str], list[str]]:
        """Return the nodes of suitable bundles: first bundles where no GPU is left idle, then the others."""
        fact = self._view(where.group).fact
        found: tuple[list[str], list[str]] = ([], [])
        if fact is None:
            return found
        for index, amounts in enumerate(fact.spec.bundles):
            if fact.places[index] and where.bundle in (-1, index) and is_enough(amounts, request):
                found[leaves_gpus_idle(amounts, request)].append(fact.places[index])
        return found

    def _take_turn(self, where: Where) -> None:
        """Advance the turn after a placement by `_target`.  (Asking alone takes no turn, or repeated questions would
        skip places.)"""
        self.views[where.group].turn += 1

    def state_in_words(self, group_id: bytes) -> str:
        """Explain to the user why nothing runs in the group."""
        view = self.views.get(group_id)
        name = f"placement group {group_id.hex()}"
        if view is None or view.fact is None:
            return f"{name}, whose nodes the GCS has not named yet"
        if "" in view.fact.places:
            asked = in_words(bundles_wire.sum_of(view.fact.spec.bundles))
            return f"{name}: too few resources are free for all its bundles ({view.fact.spec.strategy}, {asked} in all)"
        return f"a bundle of {name}, all of which are in use"

    def _why_never(self, view: View, where: Where, request: dict[str, int]) -> str:
        """Explain to the user why the request can never be placed; "" if it may be."""
        fact = view.fact
        if fact is None:
            return ""
        if fact.state == groups.UNSCHEDULABLE:
            return fact.reason
        bundles = [bundle for index, bundle in enumerate(fact.spec.bundles) if where.bundle in (-1, index)]
        if any(is_enough(bundle, request) for bundle in bundles):
            return ""
        said = f"bundle {where.bundle}" if where.bundle >= 0 else "no bundle"
        has = f"has {in_words(bundles[0])}" if where.bundle >= 0 and bundles else "has that much"
        return (
            f"It asks for {in_words(request)}, but {said} of the placement group {fact.group_id.hex()} "
            f"{has if bundles else 'is there'}."
        )

    # --- tasks ---

    def enqueue(self, task: Task, queue: ReadyQueue) -> None:
        """Enqueue a task that is ready except for a bundle."""
        node, where = self.node, task.options.where
        assert where is not None
        if not task.origin:
            self._go(task)
        elif node.bundles.is_here(where, task.options.resources):
            node.dispatch.append(task, queue)
        elif task.origin != node.address and task.origin not in node.recovery.lost:
            node.trips.give_back(task)
        else:
            node.task_states.comes_from(task, "")
            self._go(task)

    def _go(self, task: Task) -> None:
        """Send the task to the bundle's node, or let the task wait for the group."""
        node, where = self.node, task.options.where
        assert where is not None
        view = self._view(where.group)
        target = self._target(where, task.options.resources)
        if not target and (reason := self._why_never(view, where, task.options.resources)):
            node.lifecycle.fail(task, "TaskUnschedulableError", reason)
        elif target == node.address:
            self._take_turn(where)
            if task.trip:
                node.remote.comes_back(task)
            else:
                if task.state == TaskState.GROUP:
                    node.task_states.happened(task, Event.ENQUEUED)
                node.dispatch.append(task, node.dispatch.queue_of(task))
        elif target:
            node.departures.spill(task)
        else:
            self.wait(task)

    def wait(self, task: Task) -> None:
        """Wait until the bundle's node is known."""
        where = task.options.where
        assert where is not None
        self._view(where.group)  # asks for it
        self.node.task_states.happened(task, Event.HAS_NO_PLACE)

    def _waiting(self, group_id: bytes) -> list[Task]:
        waiting = self.node.task_states.index[TaskState.GROUP].values()
        return [task for task in waiting if _group_of(task) == group_id]

    @staticmethod
    def is_for(task: Task) -> bool:
        """Whether the task is to run in a group."""
        where = task.options.where
        return where is not None and bool(where.group)

    def is_elsewhere(self, task: Task) -> bool:
        """Whether the task's bundle is on another node or unknown, and so the arguments need not be fetched."""
        where = task.options.where
        return where is not None and bool(where.group) and not self.node.bundles.is_here(where, task.options.resources)

    def depart(self, task: Task, *, is_quiet: bool) -> None:
        """Send a task to the bundle's node, after the shards have acknowledged the task's records."""
        node, where, job = self.node, task.options.where, task.job
        assert where is not None
        target = self._target(where, task.options.resources)
        if target:
            self._take_turn(where)
        if target == node.address:
            node.remote.comes_back(task)
        elif not target or target in node.recovery.lost:  # one that we have not been told of yet has its mail later
            self.wait(task)
        else:
            node.task_states.happened(task, Event.ADDRESSED, peer=target)
            of_job = (job.job_id, job.facts)
            node.send(
                target, scheduling.PlaceTask(task.spec, node.address, *of_job, task.trip, task.attempts, is_quiet)
            )

    # --- actors ---

    def settle(self, actor: Actor) -> None:
        """Place an actor on its bundle's node."""
        self.unsettled[actor.actor_id] = actor
        self.node.moves.seeks_home(actor)
        self._settle(actor)

    def _settle(self, actor: Actor) -> None:
        where = actor.options.where
        assert where is not None
        view = self._view(where.group)
        if reason := self._why_never(view, where, actor.options.resources):
            self.node.ends.bury(actor, encode_system_error("ActorUnschedulableError", reason))
            return
        if self.stays(actor):
            self.node.calls.wanting_worker_changed()
            return
        target = self._target(where, actor.options.resources, full=self.node.address, spares_gpus=True)
        if target and target != self.node.address:
            del self.unsettled[actor.actor_id]
            self.node.moves.ask(actor)

    def stays(self, actor: Actor, *, may_take_gpus: bool = False) -> bool:
        """Whether a local bundle has room for the actor, which then starts locally.

        may_take_gpus: accept a bundle with GPUs even if remote bundles have none, because those are full.
        """
        node, where = self.node, actor.options.where
        if actor.actor_id not in self.unsettled:
            return True
        assert where is not None
        sparing, _ = self._places(where, actor.options.resources)
        spares_gpus = not may_take_gpus and any(place != node.address for place in sparing)
        named = node.bundles.with_room(actor.options, spares_gpus=spares_gpus)
        if named is None:
            return False
        del self.unsettled[actor.actor_id]
        actor.lies_in(named)
        node.moves.settled_here(actor)
        node.calls.promise(named)
        return True

    def options_here(self, message: actors.PlaceActor) -> task_spec.ActorOptions | None:
        """Return an offered actor's options, with the names of a local bundle if in a group; None: no room."""
        options, bundles = message.options, self.node.bundles
        if options.where is None or not options.where.group:
            return options
        spares_gpus = not message.may_borrow and bundles.has_without_gpus(options.where, options.resources)
        return bundles.with_room(options, spares_gpus=spares_gpus)

    def send_actor(self, actor: Actor, times_deferred: int) -> bool:
        """Offer the actor to its bundle's node; False: ask again later."""
        node, where, job = self.node, actor.options.where, actor.job
        assert where is not None
        sparing, others = self._places(where, actor.options.resources)
        spares_gpus = bool(others) and times_deferred < len(set(sparing))
        target = self._target(where, actor.options.resources, spares_gpus=spares_gpus)
        if target:
            self._take_turn(where)
        if not target or (target != node.address and target not in node.members.peers):
            return False
        if target == node.address:
            self.unsettled[actor.actor_id] = actor
            if not self.stays(actor, may_take_gpus=not spares_gpus):
                del self.unsettled[actor.actor_id]
                return False
            del node.moves.asks[actor.actor_id]
            node.calls.wanting_worker_changed()
            return True
        of_job = (job.job_id, job.facts)
        may_borrow = times_deferred > 0 and not spares_gpus
        message = actors.PlaceActor(actor.creation.spec, actor.options, node.address, actor.life, *of_job, may_borrow)
        node.send(target, message)
        return True


def _group_of(thing: Task | Actor) -> bytes:
    where: Where | None = thing.options.where
    return where.group if where is not None else b""
