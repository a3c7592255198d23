"""Where tasks and actors in placement groups go.

    a task in a group -> LocateGroup -> GroupLocated -> here, or straight to the node of its bundle (PlaceTask)
    an actor likewise (PlaceActor)

The shard says where bundles are, and no global scheduler is asked: a task of a group goes where its bundle is, whatever
there is to do.  Until the group has its place, its tasks wait here, for others spilled; its actors in `unsettled`.
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
    """What is known of a group that tasks or actors here are to run in."""

    fact: groups.GroupFact | None = None  # None: asked for
    turn: int = 0  # of its bundles, for tasks that may run in any


class Groups:
    """Of one node."""

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
        """Nothing will ever run in it again."""
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
        """The node to run it on; "": nobody knows yet.  Where any bundle will do, they have it in turn (`_take_turn`),
        those without GPUs that it does not ask for first; not there where it is full, if there is another one.

        spares_gpus: those with such GPUs only if there is no other.
        """
        sparing, others = self._places(where, request)
        every = sparing + others
        placed = sparing if sparing and spares_gpus else every
        placed = [place for place in placed if place != full] or [place for place in every if place != full] or placed
        return placed[self._view(where.group).turn % len(placed)] if placed else ""

    def _places(self, where: Where, request: dict[str, int]) -> tuple[list[str], list[str]]:
        """The nodes of the bundles in which it could run: of those where it leaves no GPU idle, and of the others."""
        fact = self._view(where.group).fact
        found: tuple[list[str], list[str]] = ([], [])
        if fact is None:
            return found
        for index, amounts in enumerate(fact.spec.bundles):
            if fact.places[index] and where.bundle in (-1, index) and is_enough(amounts, request):
                found[leaves_gpus_idle(amounts, request)].append(fact.places[index])
        return found

    def _take_turn(self, where: Where) -> None:
        """Something goes where `_target` has said.  (To ask alone takes no turn: who asks twice would skip places.)"""
        self.views[where.group].turn += 1

    def state_in_words(self, group_id: bytes) -> str:
        """For the user: why nothing runs in it."""
        view = self.views.get(group_id)
        name = f"placement group {group_id.hex()}"
        if view is None or view.fact is None:
            return f"{name}, whose nodes the GCS has not named yet"
        if "" in view.fact.places:
            asked = in_words(bundles_wire.sum_of(view.fact.spec.bundles))
            return f"{name}: too few resources are free for all its bundles ({view.fact.spec.strategy}, {asked} in all)"
        return f"a bundle of {name}, all of which are in use"

    def _why_never(self, view: View, where: Where, request: dict[str, int]) -> str:
        """For the user; "": it may have its place some day."""
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
        """It is ready, but for its bundle."""
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
        """To where its bundle is, or to wait for that."""
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
        """Nobody knows where its bundle is."""
        where = task.options.where
        assert where is not None
        self._view(where.group)  # asks for it
        self.node.task_states.happened(task, Event.HAS_NO_PLACE)

    def _waiting(self, group_id: bytes) -> list[Task]:
        waiting = self.node.task_states.index[TaskState.GROUP].values()
        return [task for task in waiting if _group_of(task) == group_id]

    @staticmethod
    def is_for(task: Task) -> bool:
        """Whether it is to run in one."""
        where = task.options.where
        return where is not None and bool(where.group)

    def is_elsewhere(self, task: Task) -> bool:
        """Whether its bundle is on another node, or not known to be anywhere: what it takes need not come here."""
        where = task.options.where
        return where is not None and bool(where.group) and not self.node.bundles.is_here(where, task.options.resources)

    def depart(self, task: Task, *, is_quiet: bool) -> None:
        """The shards have acknowledged what leaves with it, or need not hear of it."""
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
        """It is to start where its bundle is."""
        self.unsettled[actor.actor_id] = actor
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
        """Whether a bundle here has room for it: then it is to start here.

        may_take_gpus: a bundle with GPUs will do, though others elsewhere have none; these are full.
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
        actor.options = named
        node.moves.settled_here(actor)
        node.calls.promise(named)
        return True

    def options_here(self, message: actors.PlaceActor) -> task_spec.ActorOptions | None:
        """Of an actor that another node offers: as it takes of a bundle here, where it is of a group; None: no room."""
        options, bundles = message.options, self.node.bundles
        if options.where is None or not options.where.group:
            return options
        spares_gpus = not message.may_borrow and bundles.has_without_gpus(options.where, options.resources)
        return bundles.with_room(options, spares_gpus=spares_gpus)

    def send_actor(self, actor: Actor, times_deferred: int) -> bool:
        """Offer it to the node of its bundle; False: that is to be asked again later."""
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
