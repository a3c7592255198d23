"""Actors that find no room where they were made.

    no room here now -> the arguments and the handle are shared -> SpillActor -> (global scheduler) -> PlaceActor ->
    the other node has room and holds the arguments -> ActorAccepted -> handed over: from here on its calls are
    forwarded.  ActorDeferred: nobody had room; it starts here when there is, or asks again.

Until it is handed over it is this node's, so that two nodes never have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...exceptions import encode_system_error
from ...ids import FIRST_RETURN
from ...wire.actors import (
    ActorAccepted,
    ActorAt,
    ActorDeferred,
    ActorForgotten,
    ActorHandedOver,
    KillActor,
    PlaceActor,
    RegisterActor,
    SpillActor,
)
from ...wire.message import Local
from ...wire.scheduling import SpillRefused
from .actor_names import name_key
from .routes import Route
from .tables import Actor, ActorState, TaskState

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# An actor that nobody has room for asks again after so long.
ASK_AGAIN_SECONDS = 0.2


class AskAgainTimeout(Local):
    """Ask again for the actors that nobody had room for."""


class Ask(Struct, gc=False, eq=False):
    """An actor of ours that would rather be elsewhere."""

    actor: Actor
    is_shared: bool = False  # the shards know that we hold what leaves with it
    is_deferred: bool = False  # nobody had room; it waits for the timer, or for room here


class ActorMoves:
    """Actors on their way to this node, or from it."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asks: dict[bytes, Ask] = {}
        self.offers: dict[bytes, str] = {}  # actors that are here, but not ours before their origin says so
        self.timer_is_set = False

    def ask(self, actor: Actor) -> None:
        """There is no room for it here: its refs are shared, and then a global scheduler asked."""
        node, spec = self.node, actor.creation.spec
        ask = self.asks[actor.actor_id] = Ask(actor)
        self._tell_home(actor.actor_id, is_settled=False)
        node.lineage.flush()
        request = node.acks.next_request()
        shared = [actor.entry.object_id, *spec.deps, *spec.holds, *node.code.leaving(actor.job)]
        node.acks.expect(request, node.remote._share(shared, request), lambda: self._may_leave(ask))

    def _tell_home(self, actor_id: bytes, home: str = "", *, is_settled: bool = True) -> None:
        node = self.node
        if not node.is_embedded:
            node.send(node.addresses.shard_of(actor_id), ActorAt(actor_id, home or node.address, is_settled))

    def settled_here(self, actor: Actor) -> None:
        """It was made here, and stays."""
        self._tell_home(actor.actor_id)

    def settle_later(self, actor: Actor) -> None:
        """It was made here, and waits for its name.  Who finds it by that counts on its object at the shard."""
        if not self.node.is_embedded:
            self._tell_home(actor.actor_id, is_settled=False)
            actor.entry.share()
            self.node.remote._hold_at_shards([actor.entry.object_id], 0)

    def _may_leave(self, ask: Ask) -> None:
        """The shards have acknowledged what leaves with it."""
        ask.is_shared = True
        if self.asks.get(ask.actor.actor_id) is ask:
            self._send_up(ask.actor)

    def _send_up(self, actor: Actor) -> None:
        node, spec, job = self.node, actor.creation.spec, actor.job
        schedulers = node.addresses.global_schedulers
        message = SpillActor(spec, actor.options, node.address, job.job_id, job.facts)
        node.send(schedulers[spec.task_id[-1] % len(schedulers)], message)

    def on_place_actor(self, message: PlaceActor) -> None:
        """PlaceActor: if there is room."""
        node, spec, options = self.node, message.spec, message.options
        known = node.calls.actors.get(spec.task_id)
        is_lost = message.origin not in node.members.peers or message.job.home in node.recovery.lost
        if not node.calls.has_room_for(options) or known is not None or is_lost:
            node.send(message.origin, ActorDeferred(spec.task_id))
            return
        job = node.code.job_of(message.job_id, message.job)
        entry = node.objects.require(spec.task_id + FIRST_RETURN)
        shared = entry.share()
        shared.is_released = shared.is_released or (entry.holders is None and not entry.count)
        route = node.routes.by_actor.get(spec.task_id)
        if route is not None:
            entry.actor = None
        self.offers[spec.task_id] = message.origin
        node.remote_calls.join_holders((*spec.deps, *spec.holds), message.origin, ActorAccepted(spec.task_id))
        actor = node.calls.make(spec, options, job, entry)
        node.calls.promise(options)
        if route is not None:
            node.routes.come_here(route, actor)

    def on_actor_accepted(self, message: ActorAccepted) -> None:
        """ActorAccepted: it goes, if it is still to go."""
        node, home = self.node, self.node.sender
        ask = self.asks.pop(message.actor_id, None)
        if ask is None or node.calls.actors.get(message.actor_id) is not ask.actor or home not in node.members.peers:
            node.send(home, KillActor(message.actor_id))
            return
        actor, task, entry = ask.actor, ask.actor.creation, ask.actor.entry
        node.send(home, ActorHandedOver(actor.actor_id))
        node.code.moved(actor.job, home)
        self._tell_home(actor.actor_id, home)
        node.calls.actors.pop(actor.actor_id)
        node.calls.wanting.pop(actor.actor_id)
        node.tasks.pop(actor.actor_id, None)
        task.state = TaskState.DONE
        entry.task = entry.actor = None
        route = node.routes.by_actor[actor.actor_id] = Route(actor.actor_id)
        route.is_forgotten = True
        for call in actor.queue:
            node.routes.queue(route, call)
        actor.queue.clear()
        node.routes.route(actor.actor_id)
        node.routes.settle(route, home)
        arguments = (*task.spec.deps, *task.spec.holds)
        node.objects.drop_all((*arguments, *arguments))  # for the constructor now, and for another one
        if entry.waiting or entry.watchers:
            node.remote.want(entry)
        node.objects.free_if_unreferenced(entry)
        node.routes.calls_ended(route)

    def on_handed_over(self, message: ActorHandedOver) -> None:
        """ActorHandedOver: it is ours."""
        actor = self.node.calls.actors.get(message.actor_id)
        if self.offers.get(message.actor_id) != self.node.sender or actor is None:
            return
        del self.offers[message.actor_id]
        options = actor.options
        self.node.calls.promise(options, -1)
        if options.name:
            shard = self.node.addresses.shard_of(name_key(options.namespace, options.name))
            self.node.send(shard, RegisterActor(actor.actor_id, options, self.node.address))
        self.node.calls.want_worker(actor, ActorState.PENDING, may_leave=False)

    def withdrawn(self, actor: Actor) -> bool:
        """It is being buried, perhaps while it asks, or before it is handed over.  Whether it was to start here."""
        is_asking = self.asks.pop(actor.actor_id, None) is not None
        if self.offers.pop(actor.actor_id, None) is not None:
            self.node.calls.promise(actor.options, -1)
        elif is_asking or actor.state == ActorState.REGISTERING:
            self._tell_home(actor.actor_id)
        return not is_asking

    def deferred(self, message: ActorDeferred) -> None:
        """ActorDeferred: nobody had room."""
        ask = self.asks.get(message.actor_id)
        if ask is not None:
            self._ask_again_later(ask)

    def _ask_again_later(self, ask: Ask) -> None:
        ask.is_deferred = True
        self.node.calls.touch(ask.actor.actor_id)
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.set_timer(ASK_AGAIN_SECONDS, AskAgainTimeout())

    def stays(self, actor: Actor) -> bool:
        """Whether it may start here: nobody else may be about to have it."""
        ask = self.asks.get(actor.actor_id)
        if ask is None:
            return True
        if not ask.is_deferred or not self.node.calls.has_room_for(actor.options, may_borrow=True):
            return False
        if not self.node.strategies.may_run_here(actor.options.where):
            return False
        del self.asks[actor.actor_id]
        self.settled_here(actor)
        self.node.calls.promise(actor.options)
        return True

    def on_ask_again_timeout(self) -> None:
        """AskAgainTimeout."""
        self.timer_is_set = False
        for ask in self.asks.values():
            if ask.is_deferred:
                ask.is_deferred = False
                self._send_up(ask.actor)

    def on_spill_refused(self, message: SpillRefused) -> None:
        """SpillRefused: of an actor, or of a task."""
        ask = self.asks.get(message.task_id)
        if ask is None:
            self.node.remote.on_spill_refused(message)
        elif not message.is_final and self.node.infeasible.is_patient(ask.actor.job):
            self.node.infeasible.note_actor(ask.actor)
            self._ask_again_later(ask)
        else:
            error = self.node.infeasible.text("hold this actor", message.reason, ask.actor.options.resources)
            self.node.ends.bury(ask.actor, encode_system_error("ActorUnschedulableError", error))

    def forget(self, actor_id: bytes) -> None:
        """It was ours, is dead, and nobody holds a handle."""
        if not self.node.is_embedded:
            self.node.send(self.node.addresses.shard_of(actor_id), ActorForgotten(actor_id, self.node.address))

    def node_lost(self, lost: str, error: bytes) -> None:
        """What it offered is not to be had; what asks may have been offered to it."""
        calls = self.node.calls
        for actor_id, origin in list(self.offers.items()):
            if origin == lost:
                self.node.ends.bury(calls.actors[actor_id], error)
        self.ask_again()

    def ask_again(self) -> None:
        """What was asked may have been lost.  Who accepts second is told that it is gone."""
        for ask in self.asks.values():
            if ask.is_shared and not ask.is_deferred:
                self._send_up(ask.actor)


HANDLERS: dict[type, Any] = {
    PlaceActor: lambda self, message: self.moves.on_place_actor(message),
    ActorAccepted: lambda self, message: self.moves.on_actor_accepted(message),
    ActorHandedOver: lambda self, message: self.moves.on_handed_over(message),
    ActorDeferred: lambda self, message: self.moves.deferred(message),
    AskAgainTimeout: lambda self, message: self.moves.on_ask_again_timeout(),
    SpillRefused: lambda self, message: self.moves.on_spill_refused(message),
}
