"""Ends of actors: by the last handle, by kill(), by themselves, with their job or process; and restarts.

Actors' classes may have `__ray_shutdown__` or `__del__`: both run before the process ends in order.

An exiting actor, or an actor without a handle, runs both by itself.  At the end of its job or node, the actor is told
to stop instead of being killed, and is killed after SHUTDOWN_SECONDS. A serial actor in the middle of a call stops
after the call, given enough time.  Other actors are not awaited.

Restarts of actors after a loss of process or node: which calls wait, and for how long.

Repeatable calls wait (`max_task_retries`).  Other calls, if not begun, wait for RESTART_SECONDS, and then raise
ActorUnavailableError, because a constructor may take arbitrarily long.  Recoverable actors (`checkpoint_interval`) lose
no state, so all calls wait for them.

After the loss of a node the time is measured twice: at the callers' node, until the actor has a new home; and at the
new home, until its constructor is done.  Actors of a drained node have a new home at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ....exceptions import encode_system_error
from ....ids import FIRST_RETURN, name_key
from ....wire.actors import SHUTDOWN_SECONDS, ActorExited, ActorRemoved, KillActor
from ....wire.amounts import name_of
from ....wire.tasks import StopWorker
from ...effects import WorkerExited
from ...kept import Latest
from ...role import on
from ...work_effects import ActorsHaveStopped, SessionEnds
from ..routes.route import Route
from ..routes.unpulled import Asked
from ..tables import Actor, ActorState, Job, died, in_words, name_of_call
from ..task import Task
from ..worker import Worker

if TYPE_CHECKING:
    from ..routes.route import Route
    from ..scheduler import LocalScheduler

# A caller without retries is to hear of it within half a second; most constructors are done sooner.
RESTART_SECONDS = 0.35
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6


class Restarts:
    """The restarts of a node's actors."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    def begin(self, actor: Actor) -> None:
        """Start the time without a process, which runs from the first death: a constructor may die repeatedly."""
        if actor.down_since is None and actor.journal is None:
            actor.is_down(self.node.now)
            self.node.after(RESTART_SECONDS, self.refuse_waiting, actor.actor_id)

    def refuses(self, actor: Actor, call: Task) -> bool:
        """Whether the call has failed because it cannot wait for the actor's restart."""
        if call.options.max_retries or not self._is_late(actor):
            return False
        text = (
            f"{name_of_call(call)} has not begun: the {in_words(actor.options)} died, and is being restarted, which "
            f"takes more than {RESTART_SECONDS:g} s.  Calls with max_task_retries wait for it."
        )
        self.node.lifecycle.fail_with(call, encode_system_error("ActorUnavailableError", text))
        return True

    def refuse_waiting(self, actor_id: bytes) -> None:
        """Fail calls that cannot wait: the actor's restart takes too long, or the actor has died again."""
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
        """Start the time without a home; the shard reports a new home or the actor's death."""
        if route.waits_since(since):
            self.node.after(max(0.0, since + RESTART_SECONDS - self.node.now), self.give_up_home, route.actor_id)

    def has_no_home(self, route: Route, call: Task) -> bool:
        """Whether the call has failed because it cannot wait for the actor's new home."""
        if route.lost_at is None or not self._is_past(route.lost_at) or not _gives_up(call):
            return False
        text = (
            f"{name_of_call(call)} has not begun: the actor's node is lost, and the actor is being made again "
            f"elsewhere, which takes more than {RESTART_SECONDS:g} s.  Calls with max_task_retries wait for it."
        )
        self.node.lifecycle.fail_with(call, encode_system_error("ActorUnavailableError", text))
        return True

    def give_up_home(self, actor_id: bytes) -> None:
        """Fail calls that cannot wait: the actor has no new home in time, or has lost the new home too."""
        route = self.node.routes.by_actor.get(actor_id)
        if route is not None and route.lost_at is not None and self._is_past(route.lost_at):
            self.node.routes.give_up_waiting(route)

    def _is_past(self, since: float) -> bool:
        return self.node.now >= since + RESTART_SECONDS - CLOCK_SECONDS


def _gives_up(call: Task) -> bool:
    """Whether the call does not wait for a new home; calls of recoverable actors always wait."""
    return not call.options.max_retries and not call.options.is_logged and type(call) is not Asked


# Errors of dead actors are remembered while somebody has a handle, up to so many.
GRAVES_MAX = 10_000
# A worker ends its methods itself; this much later it is taken for stuck.
GRACE_SECONDS = 0.5


class ActorEnds:
    """The ends of a node's actors."""

    LASTING = {"stopping": "node.pool.workers"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.restarts = Restarts(node)
        # Worker -> when it is killed, at the latest; all of them are in the pool.
        self.stopping: dict[str, float] = {}
        self.timer_is_set = False
        self.session_ends = False
        self.graves: Latest[bytes, bytes] = Latest(GRAVES_MAX)  # actor -> the error value that its calls get

    def handles_gone(self) -> None:
        """End actors without handles after all pending calls, or at once if the last holder was a dead process."""
        objects = self.node.objects
        while objects.bereft_actors:
            self.node.fates.has_no_handle(objects.bereft_actors.pop(0))
        actors, objects.freed_actors = objects.freed_actors, []
        for actor in actors:
            if type(actor) is Route:
                self.node.routes.calls_ended(actor)
                continue
            entry = self.node.objects.entries.get(actor.actor_id + FIRST_RETURN)
            if entry is not None and entry.actor is actor:
                continue  # it was found by its name since, while it had calls to end
            self.graves.pop(actor.actor_id, None)
            if actor.actor_id not in self.node.calls.actors:
                self.node.moves.forget(actor.actor_id)
            elif not actor.options.detached:
                actor.has_no_handle()
                if not actor.queue and not actor.inflight:
                    self.see_off(actor)

    def is_ending(self, actor: Actor) -> bool:
        """Whether the actor ends with this turn at the latest: no handle is left, and no work."""
        if actor.state == ActorState.DEAD:
            return True
        if actor.queue or actor.inflight or actor.state == ActorState.STARTING or actor.options.detached:
            return False
        return actor.is_going or actor in self.node.objects.freed_actors

    def see_off(self, actor: Actor, reason: str = "its last handle was dropped") -> None:
        """End an idle actor in order.  The name is free at once, even while shutdown code runs."""
        if actor.worker is not None and actor.state == ActorState.ALIVE:
            self._free_name(actor)
            self.node.pool.happened(actor.worker, "stops")
            self.stop(actor, actor.worker)
            actor.stops(reason)
            self.node.changes.actor(actor, reason)
        elif actor.state not in (ActorState.DEAD, ActorState.STARTING):
            self.bury(actor, died(actor.options, f"has ended: {reason}"))

    @on(KillActor)
    def kill(self, message: KillActor) -> None:
        """KillActor: kill -9; may be restarted only if asked for and allowed."""
        actor = self.node.calls.actors.get(message.actor_id)
        if actor is None:
            if self.node.sender in self.node.processes and message.actor_id not in self.graves:
                self.node.routes.kill(message)
            return
        if message.no_restart:
            if actor.worker is not None:
                self.node.pool.kill(actor.worker)
            self.bury(actor, died(actor.options, "was killed by kill()"))
        elif actor.worker is not None:
            self.node.pool.kill(actor.worker)

    @on(ActorExited)
    def exited(self, message: ActorExited) -> None:
        """ActorExited: the actor ends by itself, and is not restarted."""
        actor = self.node.calls.actors.get(message.actor_id)
        if actor is not None and actor.worker is not None and actor.worker.address == self.node.sender:
            self.node.pool.happened(actor.worker, "stops")
            self.bury(actor, encode_system_error("ActorDiedError", message.reason))

    def end_job(self, job: Job) -> None:
        """End the actors of a job without a driver, except detached actors."""
        for actor in list(self.node.calls.actors.values()):
            if actor.job is job and actor.options.detached and actor.worker is None:
                self.node.pool.outlive([actor], job)
            elif actor.job is job and not actor.options.detached:
                if actor.worker is not None:
                    self.end(actor, actor.worker)
                self.bury(actor, died(actor.options, "has ended with the driver that made it"))

    def worker_exited(self, actor: Actor, message: WorkerExited) -> None:
        """Restart an actor after the death of its process, or bury the actor.  Begun calls are lost, unless
        repeatable."""
        self.node.resources.hold_no_more(actor.options.resources)
        if self.node.calls.actors.get(actor.actor_id) is not actor:
            return  # buried before
        node = self.node
        actor.has_no_worker()
        inflight = list(actor.inflight.values())
        begun_count = max(0, len(inflight) - message.unclaimed)
        may_restart = actor.options.max_restarts < 0 or actor.life.restart_count < actor.options.max_restarts
        if actor.journal is not None and may_restart and not actor.killed:
            was_busy = begun_count > 0 or actor.state == ActorState.STARTING
            actor.may_not_restart(actor.journal.died(was_busy=was_busy))
        if actor.state == ActorState.DEAD or actor.killed or not may_restart:
            text = f"The {in_words(actor.options)} died"
            if (count := actor.life.restart_count) and not actor.killed:
                text += f" after {count} restart{'s' * (count > 1)} (max_restarts={actor.options.max_restarts})"
            text += f": {actor.killed}." if actor.killed else "."
            error = "OutOfMemoryError" if message.freed and not actor.killed else "ActorDiedError"
            self.bury(actor, encode_system_error(error, text, message.details(name_of(node.address))))
            return
        actor.restarts()
        node.guards.restarted(actor)
        place = f"pid={message.pid}, node={name_of(node.address)}"
        how = "it has ended" if message.worker in node.pool.workers else "its process died"  # else others go on there
        node.notices.restarted(actor, f"{how} ({place}: {message.cause})")
        for position, task in reversed(list(enumerate(inflight))):
            begun = position < begun_count
            limit = task.options.max_retries
            if not begun or limit < 0 or task.attempts < limit:
                task.tried(task.attempts + begun)
                self.node.calls.requeue(task, has_begun=begun and actor.journal is not None)
            else:
                actor.has_back(task.spec.task_id)
                if actor.journal is not None:
                    actor.journal.give_up(task.spec.task_id)
                    actor.items.ended(task.spec.task_id)
                text = f"The {in_words(actor.options)} died while it ran {name_of_call(task)}; it is restarted."
                details = message.details(name_of(node.address))
                node.lifecycle.fail_with(task, encode_system_error("ActorUnavailableError", text, details))
        self.restarts.begin(actor)
        node.calls.want_worker(actor)

    def bury(self, actor: Actor, error: bytes, *, was_named: bool = True) -> None:
        """Record an actor as dead for good: all its calls get the error."""
        node = self.node
        if not self.node.calls.take_out(actor):
            return
        is_placed_here = node.moves.withdrawn(actor)
        node.keeping.actor_ended(actor.actor_id)
        if self.node.calls.wanting.pop(actor.actor_id, None) is not None and is_placed_here:
            self.node.calls.promise(actor.options, -1)
        is_new = was_named and actor.state != ActorState.DEAD
        actor.ends(error)
        if was_named:
            fact = node.ended.actor_ended(actor)
            if is_new:
                node.changes.actor(actor, fact.death)
        node.calls.creation_done(actor, error)
        spec = actor.creation.spec
        node.objects.drop_all((*spec.deps, *spec.holds))
        if actor.shipping is not None:
            actor.shipping.close()
        if actor.incoming is not None:
            actor.incoming.close()
        if actor.journal is not None:
            actor.journal.close()
        for task in [*actor.inflight.values(), *actor.queue]:
            node.lifecycle.fail_with(task, error)
        actor.forget_calls()
        node.functions.forget_waiters()
        node.guards.dismiss(actor, is_dead=was_named)
        node.functions.actor_ended(actor)
        if was_named:
            self._free_name(actor)
        actor.has_no_worker()
        entry = node.objects.entries.get(actor.actor_id + FIRST_RETURN)
        if entry is not None and entry.actor is actor:
            self.graves[actor.actor_id] = error
        else:
            if actor.options.name:
                node.names.weak.died(actor.actor_id, error)
            node.moves.forget(actor.actor_id)  # a handle that comes later is one of another, made anew

    def _free_name(self, actor: Actor) -> None:
        options = actor.options
        if options.name:
            key = name_key(options.namespace, options.name)
            self.node.send(self.node.addresses.shard_of(key), ActorRemoved(actor.actor_id, key))

    def grave(self, call: Task) -> bytes:
        """Return the error value of a call on a dead actor."""
        grave = self.graves.get(call.options.actor_id) or self.node.names.weak.deaths.get(call.options.actor_id)
        if grave is None:
            text = f"{name_of_call(call)} finds no actor: the actor has ended, or never existed."
            grave = encode_system_error("ActorDiedError", text)
        return grave

    # --- methods that run first ---

    def can_stop(self, actor: Actor) -> bool:
        """Whether the actor has shutdown code to run first."""
        return actor.has_shutdown and actor.state == ActorState.ALIVE and actor.worker is not None

    def are_due(self) -> bool:
        """Whether the end of the session has to wait for any."""
        if self.node.members.is_fenced and not self.node.drain.is_done:
            return False  # others run it again already
        return bool(self.stopping) or any(map(self.can_stop, self.node.calls.actors.values()))

    def spared(self) -> set[str]:
        """Return workers told to stop rather than killed, because the node has left the cluster in order."""
        if not self.node.drain.is_done:
            return set()
        stoppable = (actor.worker for actor in self.node.calls.actors.values() if self.can_stop(actor))
        return {*self.stopping, *(worker.address for worker in stoppable if worker is not None)}

    def stop(self, actor: Actor, worker: Worker) -> None:
        """Tell the actor to stop, without a deadline yet."""
        if actor.has_shutdown:
            self.stopping[worker.address] = math.inf
        if worker.host is not None:
            self.node.pool.hosts.end(worker, is_killed=False)
        else:
            self.node.send(worker.address, StopWorker())

    def end(self, actor: Actor, worker: Worker) -> None:
        """Stop the actor of an ended job or session, with a deadline, or kill the actor."""
        can_stop = self.can_stop(actor)
        if can_stop:
            self.stop(actor, worker)
        if (worker.host is not None and not can_stop) or not self.waits_for(worker):
            self.node.pool.kill(worker)

    def waits_for(self, worker: Worker) -> bool:
        """Whether the worker was told to stop; if so, the deadline starts."""
        if worker.address not in self.stopping:
            return False
        deadline = self.node.now + SHUTDOWN_SECONDS + GRACE_SECONDS
        self.stopping[worker.address] = min(self.stopping[worker.address], deadline)
        self._set_timer()
        return True

    @on(SessionEnds)
    def on_session_ends(self, message: SessionEnds) -> None:
        """SessionEnds: actors with shutdown code are told to stop, and begin no more calls."""
        self.session_ends = True
        for actor in self.node.calls.actors.values():
            if actor.worker is not None and self.can_stop(actor):
                self.stop(actor, actor.worker)
                actor.stops("its session has ended")
                self.node.changes.actor(actor, actor.killed)
        for address in list(self.stopping):
            self.waits_for(self.node.pool.workers[address])
        self._look()

    def has_stopped(self, address: str) -> None:
        """Note a worker that has stopped, or was killed."""
        if self.stopping.pop(address, None) is not None:
            self._look()

    def _look(self) -> None:
        if self.session_ends and not self.stopping:
            self.node.perform(ActorsHaveStopped())

    def _set_timer(self) -> None:
        deadline = min(self.stopping.values(), default=math.inf)
        if not self.timer_is_set and deadline < math.inf:
            self.timer_is_set = True
            self.node.after(max(0.0, deadline - self.node.now), self.kill_overdue)

    def kill_overdue(self) -> None:
        """Kill workers that have not stopped in time."""
        self.timer_is_set = False
        for address in [address for address, deadline in self.stopping.items() if deadline <= self.node.now]:
            del self.stopping[address]
            if (worker := self.node.pool.workers.get(address)) is not None:
                if worker.guests is not None:
                    self.node.pool.hosts.kill_overdue(worker)
                else:
                    self.node.pool.kill(worker)
        self._look()
        self._set_timer()
