"""Moves of actors without room on the creator's node.

    no room now -> the arguments and the handle are shared -> SpillActor -> (global scheduler) -> PlaceActor ->
    the other node has room and holds the arguments -> ActorAccepted -> handed over: from now on calls are
    forwarded, and the other node claims the actor at its shard (guards).  ActorDeferred: no node had room; the actor
    starts locally when room is free, or asks again, also for CPUs lent by tasks, which may depend on the actor.

Until the handover the actor belongs to the creator's node, so two nodes never have the same actor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....exceptions import encode_system_error
from ....ids import FIRST_RETURN
from ....wire import actors, homes, scheduling
from ....wire.task_spec import ActorOptions, TaskSpec
from ....wire.where import nobody_can
from ...role import on
from ..actor_logs.copies import Copy
from ..routes.route import Route
from ..tables import Actor, ActorState, Job, died, in_words, name_of_call

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# An actor that nobody has room for asks again after so long.
ASK_AGAIN_SECONDS = 0.2


class Ask(Struct, gc=False, eq=False):
    """A local actor in search of another node."""

    actor: Actor
    is_shared: bool = False  # the shards know that we hold what leaves with it
    is_deferred: bool = False  # nobody had room; it waits for the timer, or for room here
    times_deferred: int = 0  # nobody had room that no task has lent out


class ActorMoves:
    """Actors on their way to the local node, or away."""

    PASSING = {"asks offers": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asks: dict[bytes, Ask] = {}
        # Actors that are here, but not ours before their origin says so; "": it has, and the shard is asked.
        self.offers: dict[bytes, str] = {}
        self.timer_is_set = False

    def ask(self, actor: Actor) -> None:
        """Share the refs of an actor without room here, and then ask a global scheduler."""
        node, spec = self.node, actor.creation.spec
        ask = self.asks[actor.actor_id] = Ask(actor)
        self.tell_home(actor, is_settled=False)
        self.seeks_home(actor)
        actor.entry.share().holds()  # held until it has left, also where only others have handles
        node.lineage.flush()
        request = node.acks.next_request()
        shared = [actor.entry.object_id, *spec.deps, *spec.holds, *node.code.leaving(actor.job)]
        if actor.journal is not None:
            shared += actor.journal.refs()
        expected = node.remote._share(shared, request, moves=actor.actor_id)
        node.acks.expect(request, expected, lambda: self._may_leave(ask))

    def seeks_home(self, actor: Actor) -> None:
        """Have the handle of a recoverable actor stay here until the actor has a home, and the shard knows."""
        if actor.shipping is not None and not self.node.guards.ends_with_driver(actor):
            self.node.logs.unheard.seeks_home(actor.actor_id)

    def tell_home(self, actor: Actor, *, is_settled: bool = True) -> None:
        """Register the local node as home at the actor's shard, together with the guardian."""
        node = self.node
        if not node.is_embedded:
            guardian = actor.guardian if actor.is_guarded else ""
            if actor.life.term or guardian or actor.awaits_former:
                actor.claims()
            place = actor.actor_id, node.address
            message = homes.ActorAt(*place, actor.life, is_settled, guardian, actor.awaits_former)
            node.send(node.addresses.shard_of(actor.actor_id), message)

    def settled_here(self, actor: Actor) -> None:
        """Settle an actor created locally, which stays."""
        self.tell_home(actor)
        self.node.guards.choose(actor)
        self.node.logs.unheard.has_home(actor.actor_id)

    def is_settled(self, actor: Actor) -> bool:
        """Whether the actor's home is this node for good."""
        is_to_go = actor.actor_id in self.asks or actor.actor_id in self.node.groups.unsettled
        return actor.state != ActorState.REGISTERING and not is_to_go

    def settle_later(self, actor: Actor) -> None:
        """Announce an actor still waiting for a name; processes that find the name rely on the object at the shard."""
        if not self.node.is_embedded:
            self.tell_home(actor, is_settled=False)
            actor.entry.share()
            self.node.remote._hold_at_shards([actor.entry.object_id], 0)

    def _may_leave(self, ask: Ask) -> None:
        """Send the actor up, after the shards have acknowledged its refs."""
        ask.is_shared = True
        if self.asks.get(ask.actor.actor_id) is ask:
            self._send_up(ask)

    def _send_up(self, ask: Ask) -> None:
        node, actor = self.node, ask.actor
        spec, job = actor.creation.spec, actor.job
        if actor.options.where is not None and actor.options.where.group:
            if not node.groups.send_actor(actor, ask.times_deferred):
                self._ask_again_later(ask)
            return
        if actor.options.where is not None and actor.options.where.is_spread:
            node.load.says_if_busy()
        schedulers = node.addresses.global_schedulers
        of_job = (job.job_id, job.facts)
        message = actors.SpillActor(spec, actor.options, node.address, actor.life, *of_job, ask.times_deferred > 0)
        node.send(schedulers[spec.task_id[-1] % len(schedulers)], message)

    @on(actors.PlaceActor)
    def on_place_actor(self, message: actors.PlaceActor) -> None:
        """PlaceActor: accepted if this node has room."""
        node, spec = self.node, message.spec
        if self._had(message):
            return
        options = node.groups.options_here(message)
        known = node.calls.actors.get(spec.task_id)
        is_lost = message.origin not in node.members.peers
        has_ended = message.job.home in node.recovery.lost or node.has_ended(message.job_id, message.job)
        is_over = has_ended and not message.options.detached  # it was on its way when we were told
        has_room = options is not None and node.calls.has_room_for(options, may_borrow=message.may_borrow)
        is_wanted = options is not None and known is None and not is_lost and not is_over
        if options is None or not is_wanted or not has_room:
            if options is not None and is_wanted and not (options.where is not None and options.where.group):
                node.actor_room.wish(spec.task_id, message.job_id, options)
            node.send(message.origin, actors.ActorDeferred(spec.task_id))
            return
        node.actor_room.wishes.pop(spec.task_id, None)
        job = node.code.job_of(message.job_id, message.job, is_detached=options.detached)
        self.offers[spec.task_id] = message.origin
        accepted = actors.ActorAccepted(spec.task_id, message.life.birth)
        node.remote_calls.join_holders((*spec.deps, *spec.holds), message.origin, accepted)
        node.calls.promise(options)
        actor = self.receive(spec, options, replace(message.life, term=message.life.term + 1), job)
        if actor.life.restart_count:
            node.ends.restarts.begin(actor)
        if actor.journal is not None:
            actor.comes_with(Copy(node, lambda: actor.job, lambda _: node.logs.has_come(actor)))

    def _had(self, message: actors.PlaceActor) -> bool:
        """Whether the actor was local and is dead already: the origin offers an actor more than once."""
        entry = self.node.objects.entries.get(message.spec.task_id + FIRST_RETURN)
        dead = entry.actor if entry is not None else None
        return (
            type(dead) is Actor
            and dead.state == ActorState.DEAD
            and dead.life.birth == message.life.birth
            and dead.life.term > message.life.term
        )

    def receive(self, spec: TaskSpec, options: ActorOptions, life: homes.ActorLife, job: Job) -> Actor:
        """Receive an actor created elsewhere, with locally waiting calls."""
        node = self.node
        entry = node.objects.require(spec.task_id + FIRST_RETURN)
        entry.share_unheld()
        route = node.routes.by_actor.get(spec.task_id)
        if route is not None:
            entry.leads_to(None)
        actor = node.calls.make(spec, options, life, job, entry)
        node.names.is_here(spec.task_id)
        if route is not None:
            node.routes.come_here(route)
        return actor

    @on(actors.ActorAccepted)
    def on_actor_accepted(self, message: actors.ActorAccepted) -> None:
        """ActorAccepted: the actor is handed over, unless it no longer needs to leave."""
        node, home = self.node, self.node.sender
        ask = self.asks.get(message.actor_id)
        if node.members.comes_early(message) or home not in node.members.peers:
            return
        if ask is None or ask.actor.life.birth != message.birth:
            node.send(home, homes.ActorRefused(message.actor_id, message.birth))
            return
        del self.asks[message.actor_id]
        if ask.actor.shipping is not None:
            ask.actor.shipping.send_all_to(home)
        life = replace(ask.actor.life, term=ask.actor.life.term + 1)
        node.send(home, actors.ActorHandedOver(message.actor_id, life))
        node.code.moved(ask.actor.job, home)
        is_guarded = node.guards.hand_over(ask.actor, home)
        if message.actor_id in node.logs.unheard.by_actor:
            # The answer says that the shard knows the new home and its backup node too.
            request, handle = node.acks.next_request(), ask.actor.entry.object_id
            expected = node.remote._hold_at_shards([handle], request)
            node.acks.expect(request, expected, lambda: node.logs.unheard.has_home(message.actor_id))
        if ask.actor.options.name:
            # Should that node die before it can say so itself, the name must not be said to be ours.
            node.names.register(ask.actor, home, node.address if is_guarded else "")
            node.names.has_left(ask.actor.actor_id, home)
        node.routes.settle(self._leaves(ask.actor), home)
        spec = ask.actor.creation.spec
        if is_guarded:
            for object_id in (*spec.deps, *spec.holds):
                node.objects.retain(object_id)
        self._has_left(ask.actor)

    def _leaves(self, actor: Actor) -> Route:
        """Make the actor another node's, and return the route for calls queued here."""
        node, task, entry = self.node, actor.creation, actor.entry
        node.calls.take_out(actor)
        node.calls.wanting.pop(actor.actor_id, None)
        node.take_task(actor.actor_id)
        task.ended()
        entry.made_by(None)
        entry.leads_to(None)
        node.functions.forget_waiters()
        route = node.routes.begin(actor.actor_id)
        for call in actor.queue.take_all():
            if call.origin:
                what = f"The {in_words(actor.options)} was restarted, or moved to another node"
                text = f"{what}, before {name_of_call(call)} began."
                node.lifecycle.fail_with(call, encode_system_error("ActorUnavailableError", text))
            else:
                node.routes.queue(route, call)
        if actor.down_since is not None:
            node.ends.restarts.home_lost(route, actor.down_since)
        return node.routes.attach(route)

    def _has_left(self, actor: Actor) -> None:
        """Release everything kept for a departed actor."""
        node, entry, spec = self.node, actor.entry, actor.creation.spec
        arguments = (*spec.deps, *spec.holds)
        node.objects.drop_all((*arguments, *arguments))  # for the constructor now, and for another one
        if entry.waiting or entry.watchers:
            node.remote.want(entry)
        node.objects.free_if_unreferenced(entry)
        if actor.shipping is not None:
            actor.shipping.close()
        route = node.routes.by_actor.get(actor.actor_id)
        if route is not None:
            node.routes.calls_ended(route)

    @on(actors.ActorHandedOver)
    def on_handed_over(self, message: actors.ActorHandedOver) -> None:
        """ActorHandedOver: the actor is this node's, if the shard agrees."""
        actor, origin = self.node.calls.actors.get(message.actor_id), self.node.sender
        if actor is None:  # it has ended here before it was ours
            if origin in self.node.members.peers:
                is_dead = message.actor_id in self.node.ends.graves
                self.node.send(origin, homes.UnguardActor(message.actor_id, message.life.birth, is_dead))
            return
        if self.offers.get(message.actor_id) != origin or actor.life.birth != message.life.birth:
            return
        self.offers[message.actor_id] = ""
        actor.is_handed_over(message.life, origin)
        if actor.options.may_move and actor.shipping is not None:
            actor.shipping.goes_on()
        self.tell_home(actor)
        self.node.logs.has_come(actor)

    def claimed(self, actor: Actor, claim: homes.ActorClaimed) -> None:
        """Start an actor after the shard has confirmed the claim, unless killed or without a handle."""
        node = self.node
        if claim.is_killed or not (claim.is_held or actor.options.detached):
            how = "was killed by kill()" if claim.is_killed else "has ended: its last handle was dropped"
            node.ends.bury(actor, died(actor.options, how))
            return
        del self.offers[actor.actor_id]
        node.calls.promise(actor.options, -1)
        node.logs.has_come(actor)
        if node.calls.actors.get(actor.actor_id) is not actor:
            return
        node.calls.want_worker(actor, may_leave=False)
        node.traces.suspect(actor.actor_id)
        node.guards.choose(actor)

    def give_up(self, actor: Actor) -> None:
        """Give up an actor offered to the local node."""
        node = self.node
        del self.offers[actor.actor_id]
        node.calls.promise(actor.options, -1)
        node.guards.dismiss(actor, is_dead=False)
        if actor.incoming is not None:
            actor.incoming.close()
        route, entry = self._leaves(actor), actor.entry
        self._has_left(actor)
        if entry.is_released and entry.object_id not in node.objects.freed_shared:
            node.objects.forget_released(entry)  # the shard's word on it goes to its home
        node.ends.handles_gone()
        if node.routes.by_actor.get(actor.actor_id) is route:
            node.routes.locate(route, wait=False)

    def withdrawn(self, actor: Actor) -> bool:
        """Withdraw the offers and requests of an actor at its end.  Returns whether the actor was to start locally."""
        is_asking = self.asks.pop(actor.actor_id, None) is not None
        is_asking = self.node.groups.unsettled.pop(actor.actor_id, None) is not None or is_asking
        if self.offers.pop(actor.actor_id, None) is not None:
            self.node.calls.promise(actor.options, -1)
        elif is_asking or actor.state == ActorState.REGISTERING:
            self.tell_home(actor)
        self.node.logs.unheard.has_home(actor.actor_id)
        return not is_asking

    @on(actors.ActorDeferred)
    def deferred(self, message: actors.ActorDeferred) -> None:
        """ActorDeferred: no node had room."""
        ask = self.asks.get(message.actor_id)
        if ask is not None:
            ask.times_deferred += 1
            self._ask_again_later(ask)

    def placed(self, actor_id: bytes, *, is_lost: bool) -> None:
        """TaskPlaced: the actor is offered to a node; if that node was lost already, the request is repeated later."""
        ask = self.asks[actor_id]
        if is_lost and not ask.is_deferred:
            self._ask_again_later(ask)

    def _ask_again_later(self, ask: Ask) -> None:
        ask.is_deferred = True
        self.node.calls.touch(ask.actor.actor_id)
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.after(ASK_AGAIN_SECONDS, self.ask_in_time)

    def stays(self, actor: Actor) -> bool:
        """Whether the actor may start locally, because no other node may be about to accept it."""
        ask = self.asks.get(actor.actor_id)
        if ask is None:
            return True
        if not self.may_stay(ask) or not self.node.calls.has_room_for(actor.options, may_borrow=True):
            return False
        del self.asks[actor.actor_id]
        self.settled_here(actor)
        self.node.calls.promise(actor.options)
        return True

    def may_stay(self, ask: Ask) -> bool:
        """Whether the actor would start locally, given room."""
        where, request = ask.actor.options.where, ask.actor.options.resources
        if where is not None and (where.group or not self.node.strategies.may_run_here(where, request)):
            return False
        return ask.is_deferred and not self.node.calls.is_barred(ask.actor.options)

    def ask_in_time(self) -> None:
        """Ask again for actors that no node had room for."""
        self.timer_is_set = False
        for ask in list(self.asks.values()):
            if ask.is_deferred:
                ask.is_deferred = False
                self._send_up(ask)

    def group_located(self, group_id: bytes) -> None:
        """Ask again at once for actors of a placed group."""
        for ask in list(self.asks.values()):
            where = ask.actor.options.where
            if ask.is_deferred and where is not None and where.group == group_id:
                ask.is_deferred = False
                self._send_up(ask)

    @on(scheduling.SpillRefused)
    def on_spill_refused(self, message: scheduling.SpillRefused) -> None:
        """SpillRefused: of an actor, or of a task."""
        node, ask = self.node, self.asks.get(message.task_id)
        node.members.are_leaving(message.leaving)
        if ask is None:
            node.remote.on_spill_refused(message)
            return
        actor, options = ask.actor, ask.actor.options
        is_met = node.strategies.is_met(options.where, options.resources)
        if not message.is_final and (is_met or node.infeasible.is_patient(actor.job)):
            node.infeasible.note_actor(actor)
            self._ask_again_later(ask)
        else:
            error = nobody_can("hold this actor", message.reason)
            if not message.is_final:
                error = node.infeasible.text("hold this actor", message.reason, options.resources)
            node.ends.bury(actor, encode_system_error("ActorUnschedulableError", error))

    def forget(self, actor_id: bytes) -> None:
        """Tell the shard to forget a dead actor without handles."""
        if not self.node.is_embedded:
            self.node.send(self.node.addresses.shard_of(actor_id), homes.ActorForgotten(actor_id, self.node.address))

    def node_lost(self, lost: str) -> None:
        """Claim actors offered by the lost node, and repeat all pending requests, which the lost node may have had."""
        for actor_id, origin in list(self.offers.items()):
            if origin == lost:
                self.offers[actor_id] = ""
                actor = self.node.calls.actors.get(actor_id)
                if actor is None:  # an offer whose bytes were refused
                    continue
                self.tell_home(actor)
                if actor.incoming is not None:
                    actor.incoming.sender_lost(lost, was_made=actor.life.restart_count > 0)
        self.ask_again()

    def ask_again(self) -> None:
        """Repeat possibly lost requests.  A node that accepts second is told that the actor is gone."""
        for ask in list(self.asks.values()):
            if ask.is_shared and not ask.is_deferred:
                self._send_up(ask)
