"""Processes for hosted actors: one process has many actors of one job and environment.

Such a process is a worker of the pool for life, with a record (`Worker`) for itself and one for each of its actors.  An
actor's record has the address and the process of its host, and is not in the pool.  So messages, references and pins
are those of the process, and calls are those of the actor.

The process is not told apart from others when it starts: its first StartActor says so.  It ends HOST_IDLE_SECONDS
after its last actor.  A hosted actor ends by EndActor, or by itself, and the process confirms each end (ActorEnded).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ids import return_id
from ....wire.actors import ActorEnded, EndActor
from ....wire.task_spec import StoredValue
from ....wire.tasks import TaskResult
from ...effects import WorkerExited
from ...kept import Latest
from ...role import on
from ..tables import Actor, ActorState, Job, Process
from ..worker import Worker, WorkerState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .pool import WorkerPool

# Actors of one process; more get another process.
GUESTS_MAX = 10_000
# A program that makes actors again and again need not wait for a process each time.
HOST_IDLE_SECONDS = 5.0
# Remembered, the last so many.
HAUNTED_MAX = 10_000
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6


class Hosts:
    """The processes of a node that have hosted actors."""

    LASTING = {"workers": "pool.workers"}

    def __init__(self, node: LocalScheduler, pool: WorkerPool) -> None:
        self.node = node
        self.pool = pool
        self.workers: dict[str, Worker] = {}  # by address
        self.timer_is_set = False
        # Processes in which methods of a killed actor run on -> the actor, which is made again in another one.
        self.haunted: Latest[tuple[str, bytes], None] = Latest(HAUNTED_MAX)

    def find(self, actor: Actor) -> Worker | None:
        """Return a process that may take the actor."""
        for worker in self.workers.values():
            is_open = worker.state is WorkerState.ACTOR and len(worker.guests or ()) < GUESTS_MAX
            is_own = worker.job is actor.job and worker.environment == actor.options.environment
            if is_open and is_own and (worker.address, actor.actor_id) not in self.haunted:
                return worker
        return None

    def take_in(self, actor: Actor, fresh: Worker | None) -> Worker | None:
        """Return a record for the actor, in a process for hosted actors; `fresh` becomes one if there is none.

        None: there is no process, or the actor's former run has not ended yet there.
        """
        host = self.find(actor) or self._become(actor, fresh)
        guest = host.takes_in(actor, self.node.now) if host is not None else None
        if guest is not None and host is not None and not host.frames:
            self.node.dispatch.lending.begin(host, {}, 0)  # its tasks are children of a running call
        return guest

    def _become(self, actor: Actor, worker: Worker | None) -> Worker | None:
        if worker is not None:
            self.pool.becomes_host(worker, actor)
            self.workers[worker.address] = worker
        return worker

    def free_unwanted(self, process: Process, result: TaskResult) -> None:
        """Free the large values of a killed actor's call: its process goes on, and keeps the room otherwise."""
        objects = self.node.objects
        for index, value in enumerate(result.values, 1):
            object_id = return_id(result.task_id, index)
            entry = objects.entries.get(object_id)
            if type(value) is StoredValue:
                objects.pin(object_id, process)  # its writer knows the place
                if entry is None or type(entry.value) is not StoredValue:
                    objects.free_place(object_id, value)

    # --- ends ---

    def end(self, guest: Worker, *, is_killed: bool) -> None:
        """End a hosted actor; ActorEnded settles the rest."""
        assert guest.actor is not None
        self.node.send(guest.address, EndActor(guest.actor.actor_id, is_killed))

    @on(ActorEnded)
    def on_actor_ended(self, message: ActorEnded) -> None:
        """ActorEnded: the actor may be made again, in the same process."""
        process = self.node.processes.get(self.node.sender)
        host = process.worker if process is not None else None
        guest = host.lets_go(message.actor_id) if host is not None else None
        if guest is None or host is None or process is None:
            self.node.reject("the end of an actor that is not hosted there")
            return
        if message.runs_on:
            self.haunted[host.address, message.actor_id] = None
        self._ended(guest, WorkerExited(host.address, message.cause, message.unclaimed, process.pid))
        self.node.calls.touch(message.actor_id)
        if host.address in self.node.ends.stopping and not self.has_stopping(host):
            self.node.ends.has_stopped(host.address)
            if process.job.is_over and host.guests:
                self.pool.kill(host)
        if not host.guests:
            self._is_empty(host, process.job)

    def _is_empty(self, host: Worker, job: Job) -> None:
        """Note the end of the last actor of a process."""
        self.node.dispatch.lending.end(host)
        if job.facts.is_heir or job.is_over:
            self.pool.retire(host)  # nobody is there to make another one
        else:
            host.moves(self.node.now)
            self._look_later(HOST_IDLE_SECONDS)

    def _ended(self, guest: Worker, end: WorkerExited) -> None:
        assert guest.actor is not None
        self.pool.happened(guest, "exits")
        self.node.dispatch.lending.end_all(guest)
        self.node.ends.worker_exited(guest.actor, end)

    @staticmethod
    def has_stopping(host: Worker) -> bool:
        """Whether an actor of the process was told to end, and has not."""
        guests = (host.guests or {}).values()
        return any(guest.actor is not None and guest.actor.state == ActorState.DEAD for guest in guests)

    def kill_overdue(self, host: Worker) -> None:
        """End the actors that have not stopped in time: with their process, unless others go on there."""
        if host.job is None or host.job.is_over or self.node.ends.session_ends:
            self.pool.kill(host)
            return
        for guest in (host.guests or {}).values():
            if guest.actor is not None and guest.actor.state == ActorState.DEAD:
                self.end(guest, is_killed=True)

    def exited(self, host: Worker, message: WorkerExited) -> None:
        """End all actors of a dead process: any of their calls may have begun."""
        self.workers.pop(host.address, None)
        for actor_id in list(host.guests or ()):
            if (guest := host.lets_go(actor_id)) is not None:
                self._ended(guest, message)

    def _look_later(self, seconds: float) -> None:
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.after(seconds, self.end_idle)

    def end_idle(self) -> None:
        """End processes without actors for some seconds."""
        self.timer_is_set = False
        left = []
        for host in list(self.workers.values()):
            if not host.guests and host.state is WorkerState.ACTOR:
                seconds = host.progress_at + HOST_IDLE_SECONDS - self.node.now
                if seconds <= CLOCK_SECONDS:
                    self.pool.retire(host)
                else:
                    left.append(seconds)
        if left:
            self._look_later(min(left))
