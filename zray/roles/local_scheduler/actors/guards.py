"""Actors that outlive their node, and their backup nodes ("guardians"; dialog of homes).

    local, and may ever be restarted    a node guards the actor: the maker after a handover; else the first peer
    local, and the guardian is lost     another node guards the actor
    guarded, and the home is lost       the shard is asked for the actor (ActorAt, of the next term); ActorClaimed:
                                        restarted locally, or on a node with room, unless restarted too often already

A guardian holds the constructor's arguments, and copies of them if the actor is detached.  No guardian restarts an
actor before the shard has confirmed the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....exceptions import encode_system_error
from ....ids import name_key
from ....wire import actors, scheduling, task_spec, where
from ....wire import homes as wire
from ...role import on
from ..actor_logs.copies import Copy
from ..groups.bundles import as_asked
from ..tables import MADE_ANEW, Actor, Job, died, in_words

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Guard(Struct, gc=False, eq=False):
    """An actor to be restarted locally if the home is lost."""

    LASTING = {"copy": ...}

    spec: task_spec.TaskSpec
    options: task_spec.ActorOptions
    life: wire.ActorLife
    job_id: bytes
    job: scheduling.JobFacts
    home: str
    is_over: bool = False  # its job has ended
    is_dead: bool = False  # it had ended before its home did
    is_drained: bool = False  # its home has left, and was not lost
    copy: Copy | None = None  # what it recovers from, if it does


class Guards:
    """The actors guarded by a node, and the guardians of local actors."""

    PASSING = {"guarded": ..., "wanted": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.guarded: dict[bytes, Guard] = {}
        self.wanted: dict[bytes, None] = {}  # objects of which we are to have copies, for detached actors
        self.birth_count = 0

    def new_life(self) -> wire.ActorLife:
        """Return a new life for an actor created here."""
        self.birth_count += 1
        return wire.ActorLife(f"{self.node.address}#{self.birth_count}")

    # --- actors that live here ---

    def choose(self, actor: Actor) -> None:
        """Choose a guardian for the actor, if useful."""
        node = self.node
        if actor.guardian or not actor.options.may_move or node.calls.actors.get(actor.actor_id) is not actor:
            return
        members = node.members
        others = (peer for peer in members.peers if peer not in members.outside and peer not in members.leaving)
        guardian = next(others, "")
        if not guardian:
            return
        if actor.shipping is not None:
            if self.ends_with_driver(actor):
                return
            actor.shipping.begin()
        actor.asks(guardian)
        spec = actor.creation.spec
        node.lineage.flush()
        request = node.acks.next_request()
        expected = node.remote._share([*spec.deps, *spec.holds, *node.code.leaving(actor.job)], request)
        node.acks.expect(request, expected, lambda: self._ask(actor, guardian))

    def ends_with_driver(self, actor: Actor) -> bool:
        """Whether the actor ends with this node in any case, because its driver is here."""
        return not actor.options.detached and bool(actor.job.home == self.node.address)

    def _ask(self, actor: Actor, guardian: str) -> None:
        """Ask the guardian, after the shards have recorded the local node as holder of the arguments."""
        node = self.node
        if actor.guardian == guardian and node.calls.actors.get(actor.actor_id) is actor:
            job = actor.job
            options = as_asked(actor.options)
            shipping = actor.shipping
            is_unseen = shipping is not None and shipping.is_unseen
            message = wire.GuardActor(actor.creation.spec, options, actor.life, job.job_id, job.facts, is_unseen)
            node.send(guardian, message)
            if shipping is not None:
                shipping.start()

    @on(wire.ActorGuarded)
    def on_actor_guarded(self, message: wire.ActorGuarded) -> None:
        """ActorGuarded: the actor now outlives this node."""
        node = self.node
        actor = node.calls.actors.get(message.actor_id)
        if actor is None or actor.life.birth != message.birth or actor.guardian != node.sender:
            return
        actor.has_guardian()
        node.moves.tell_home(actor)

    def restarted(self, actor: Actor) -> None:
        """Tell the guardian of a restart on this node."""
        if actor.guardian:
            self.node.send(actor.guardian, wire.ActorRestarted(actor.actor_id, actor.life))

    def dismiss(self, actor: Actor, *, is_dead: bool) -> None:
        """Dismiss the guardian of an actor that needs none any more."""
        if actor.guardian:
            self.node.send(actor.guardian, wire.UnguardActor(actor.actor_id, actor.life.birth, is_dead))
            actor.asks("")
            if actor.shipping is not None:
                actor.shipping.stop()

    def another(self, actor: Actor) -> None:
        """Choose another guardian, because the former is gone."""
        actor.asks("")
        if actor.shipping is not None:
            actor.shipping.stop()
        if self.node.moves.is_settled(actor):
            self.choose(actor)
        if actor.shipping is not None and not actor.shipping.is_on:
            actor.shipping.release()

    def node_joined(self) -> None:
        """Choose guardians for actors that had no candidate before the new node."""
        for actor in list(self.node.calls.actors.values()):
            if not actor.guardian and self.node.moves.is_settled(actor):
                self.choose(actor)

    # --- actors that live elsewhere ---

    def hand_over(self, actor: Actor, home: str) -> bool:
        """Hand over an actor to the new home.  Returns whether the local node guards the actor from now on."""
        node, actor_id, options, job = self.node, actor.actor_id, actor.options, actor.job
        life = replace(actor.life, term=actor.life.term + 1)
        guardian = node.address if options.may_move else ""
        # Should that node die before it can say so itself, it must not be looked for here.
        message = wire.ActorAt(actor_id, home, life, is_settled=False, guardian=guardian)
        node.send(node.addresses.shard_of(actor_id), message)
        self._let_go(actor_id)
        if guardian:
            guard = Guard(actor.creation.spec, options, life, job.job_id, job.facts, home)
            self.guarded[actor_id] = guard
            if actor.shipping is not None:
                answers = actor.shipping.answers.all()
                actor.journal.nested.leave()
                guard.copy = Copy.of(actor.journal, answers, self._job_of(guard), self._changed(actor_id))
            if options.detached:
                self._have_copies(actor.creation.spec.deps)
        return bool(guardian)

    @on(wire.GuardActor)
    def on_guard_actor(self, message: wire.GuardActor) -> None:
        """GuardActor."""
        node, spec = self.node, message.spec
        home = node.sender
        if node.members.comes_early(message):
            return
        if home not in node.members.peers:
            node.reject("an actor of a lost node to guard")
            return
        if node.drain.is_on:
            node.send(home, wire.GuardianLeaves())
            return
        arguments = (*spec.deps, *spec.holds)
        node.remote_calls.join_holders(arguments, home, wire.ActorGuarded(spec.task_id, message.life.birth))
        for object_id in arguments:
            node.objects.retain(object_id)
        self._let_go(spec.task_id)
        guard = Guard(spec, message.options, message.life, message.job_id, message.job, home)
        self.guarded[spec.task_id] = guard
        if guard.options.checkpoint_interval >= 0:
            guard.copy = Copy(node, self._job_of(guard), self._changed(spec.task_id))
            guard.copy.is_based = message.is_unseen
            guard.copy.may_hear = True
        if message.options.detached:
            self._have_copies(spec.deps)

    def _have_copies(self, object_ids: tuple[bytes, ...]) -> None:
        """Fetch copies of arguments, because the owner and the actor's node may be lost by the time of a restart."""
        node = self.node
        for object_id in object_ids:
            self.wanted[object_id] = None
            entry = node.objects.require(object_id)
            if entry.value is None and entry.task is None:
                node.remote.want(entry)

    def _changed(self, actor_id: bytes) -> Callable[[Copy], None]:
        """Return a function that notes a changed copy, to be acknowledged at the end of the turn."""

        def changed(copy: Copy) -> None:
            self.node.logs.changed(actor_id, copy)

        return changed

    def _job_of(self, guard: Guard) -> Callable[[], Job]:
        """Return the job of a guarded actor; a job without a local driver if the job's end would never be announced."""

        def job_of() -> Job:
            node, job_id, facts = self.node, guard.job_id, guard.job
            job = node.jobs.get(job_id)
            if job is None:
                is_over = guard.is_over or facts.home in node.recovery.lost or node.ended_jobs.get(job_id) == facts.home
                job = node.code.job_of(job_id, facts, is_detached=guard.options.detached or is_over)
                if is_over and not guard.options.detached:
                    job.ends()
            return job

        return job_of

    @on(wire.ActorRestarted)
    def on_actor_restarted(self, message: wire.ActorRestarted) -> None:
        """ActorRestarted."""
        guard = self.guarded.get(message.actor_id)
        if guard is not None and guard.home == self.node.sender and guard.life.birth == message.life.birth:
            guard.life = message.life

    @on(wire.UnguardActor)
    def on_unguard_actor(self, message: wire.UnguardActor) -> None:
        """UnguardActor."""
        node, guard = self.node, self.guarded.get(message.actor_id)
        if guard is None or guard.life.birth != message.birth or guard.home != node.sender:
            return
        if guard.home in node.recovery.lost:
            guard.is_dead = guard.is_dead or message.is_dead
            return  # we have claimed it since, and bury it when it is ours
        self._let_go(message.actor_id)
        self._say_unguarded(message.actor_id, message.birth, guard.life.term)
        if message.is_dead:
            self._free_name(guard)

    def _say_unguarded(self, actor_id: bytes, birth: str, term: int) -> None:
        self.node.send(self.node.addresses.shard_of(actor_id), wire.ActorUnguarded(actor_id, birth, term))

    @on(wire.ActorOrphaned)
    def on_actor_orphaned(self, message: wire.ActorOrphaned) -> None:
        """ActorOrphaned: the actor is claimed once the loss of its node is known."""
        guard = self.guarded.get(message.actor_id)
        if guard is None or guard.life.birth != message.birth:
            self._say_unguarded(message.actor_id, message.birth, message.term)

    def _free_name(self, guard: Guard) -> None:
        """Free the actor's name again; a lost node's own message may never have arrived."""
        options = guard.options
        if options.name:
            key = name_key(options.namespace, options.name)
            self.node.send(self.node.addresses.shard_of(key), actors.ActorRemoved(guard.spec.task_id, key))

    def _let_go(self, actor_id: bytes) -> None:
        guard = self.guarded.pop(actor_id, None)
        if guard is not None:
            if self.wanted and guard.options.detached:
                kept = (other.spec.deps for other in self.guarded.values() if other.options.detached)
                self.wanted = dict.fromkeys(object_id for deps in kept for object_id in deps)
            self.node.objects.drop_all((*guard.spec.deps, *guard.spec.holds))
            if guard.copy is not None:
                guard.copy.close()

    def end_job(self, job_id: bytes, home: str) -> None:
        """Note the end of a job whose driver was on node `home`."""
        for guard in self.guarded.values():
            if guard.job_id == job_id and guard.job.home == home:
                guard.is_over = True

    def code_added(self, message: scheduling.CodeAdded) -> None:
        """CodeAdded: code that guarded actors may need for a restart."""
        for guard in self.guarded.values():
            if guard.job_id == message.job_id and guard.job.home == self.node.sender:
                guard.job = guard.job.updated(message.facts)

    def made_anew(self, actor: Actor) -> None:
        """Stop guarding an actor made anew by a re-executed local creator; the shard confirms no earlier life."""
        self._let_go(actor.actor_id)

    # --- losses ---

    def node_lost(self, lost: str, *, is_drained: bool) -> None:
        """Claim the actors of a lost node, and choose other guardians for the actors guarded by it."""
        node = self.node
        for actor_id, guard in self.guarded.items():
            if guard.home == lost:
                guard.is_drained = is_drained
                if guard.copy is not None:
                    guard.copy.home_lost()
                guard.life = replace(guard.life, term=guard.life.term + 1)
                message = wire.ActorAt(actor_id, node.address, guard.life, is_settled=False)
                node.send(node.addresses.shard_of(actor_id), message)
        for actor in list(node.calls.actors.values()):
            if actor.guardian == lost:
                self.another(actor)

    @on(wire.ActorClaimed)
    def on_actor_claimed(self, message: wire.ActorClaimed) -> None:
        """ActorClaimed, for a guarded or received actor; or the shard has recorded the guardian."""
        node, actor_id = self.node, message.actor_id
        guard = self.guarded.get(actor_id)
        if guard is not None and guard.life == message.life and guard.home not in node.members.peers:
            self._adopt(guard, message)
            return
        actor = node.calls.actors.get(actor_id)
        if actor is None or (actor.life.birth, actor.life.term) != (message.life.birth, message.life.term):
            return
        if actor.awaits_former:
            node.calls.touch(actor_id)
        actor.claim_is_answered()
        was_offered = actor_id in node.moves.offers
        if was_offered:
            node.moves.claimed(actor, message)
        if actor.shipping is not None and actor.is_guarded and not actor.unclaimed:
            actor.shipping.shard_knows()
        if not was_offered and actor.options.name and actor.is_guarded:
            node.names.register(actor)

    @on(wire.ActorRefused)
    def on_actor_refused(self, message: wire.ActorRefused) -> None:
        """ActorRefused: the actor was made anew, or belongs to another node.

        Its home refuses an offer that this node has accepted; as its backup the node stays.
        """
        self._refused(message)
        if message.is_awaited:
            self._say_unguarded(message.actor_id, message.birth, 0)

    def _refused(self, message: wire.ActorRefused) -> None:
        node, actor_id = self.node, message.actor_id
        guard = self.guarded.get(actor_id)
        if guard is not None and guard.life.birth == message.birth and guard.home != node.sender:
            self._let_go(actor_id)
            node.logs.made_is_gone(actor_id)
            if message.is_gone:
                self._free_name(guard)
        actor = node.calls.actors.get(actor_id)
        if actor is None or actor.life.birth != message.birth:
            return
        if actor_id in node.moves.offers:
            node.moves.give_up(actor)
            return
        if actor.worker is not None:
            node.pool.kill(actor.worker)
        node.ends.bury(actor, died(actor.options, MADE_ANEW), was_named=False)

    def _adopt(self, guard: Guard, claim: wire.ActorClaimed) -> None:
        """Adopt a claimed actor: restart it, or record the death."""
        node, spec, options = self.node, guard.spec, guard.options
        facts = guard.job
        known = node.jobs.get(guard.job_id)
        is_over = not options.detached and (guard.is_over or (known is None and facts.home in node.recovery.lost))
        job = node.code.job_of(guard.job_id, facts, is_detached=options.detached or is_over)
        actor = node.moves.receive(spec, options, guard.life, job)
        lost = f"its node {where.host_of(guard.home)} is lost ({node.recovery.lost.get(guard.home)})"
        copy, guard.copy = guard.copy, None
        why_not = copy.why_not() if copy is not None else ""
        if copy is not None and why_not:
            copy.close()
        elif copy is not None:
            node.logs.install(actor, copy)
        self._let_go(spec.task_id)
        count = actor.life.restart_count
        if is_over:
            text = f"The driver that made the {in_words(options)} has ended."
        elif guard.is_dead:
            text = f"The {in_words(options)} has ended."
        elif claim.is_killed:
            text = f"The {in_words(options)} was killed by kill()."
        elif not claim.is_held and not options.detached:
            text = f"The {in_words(options)} has ended: its last handle was dropped."
        elif 0 <= options.max_restarts <= count:
            often = f" after {count} restart{'s' * (count > 1)} (max_restarts={options.max_restarts})"
            text = f"The {in_words(options)} died{often}: {lost}."
        elif why_not:
            text = f"The {in_words(options)} died: {lost}, and {why_not}."
        else:
            text = ""
        refusal = "" if text else node.infeasible.why_not_ever(actor)
        if text or refusal:
            kind = "ActorDiedError" if text else "ActorUnschedulableError"
            node.ends.bury(actor, encode_system_error(kind, text or refusal))
            return
        actor.restarts()
        node.notices.restarted(actor, str(lost))
        node.traces.suspect(actor.actor_id)
        if not guard.is_drained:
            node.ends.restarts.begin(actor)
        if options.name:
            node.names.register(actor)
        else:
            node.calls.want_worker(actor)
