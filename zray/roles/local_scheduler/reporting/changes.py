"""Records of changes of state at a node: of actors, workers, programs, placement groups, and of the node itself.

Each place where one of them enters another state says so here, and the host writes a record into the ring of the node's
process (docs/design/events.md).  Tasks have records of their own: none of these places is on their way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....wire.events import State, Thing
from ....wire.where import host_of
from ...work_effects import RecordChange
from ..tables import ActorState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Actor, Job
    from ..worker import Worker

ACTOR_STATES = {
    ActorState.REGISTERING: State.PENDING,
    ActorState.PENDING: State.PENDING,
    ActorState.STARTING: State.STARTING,
    ActorState.ALIVE: State.ALIVE,
    ActorState.RESTARTING: State.RESTARTING,
    ActorState.DEAD: State.DEAD,
}


class Changes:
    """The recording of changes of state."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    def actor(self, actor: Actor, reason: str = "") -> None:
        """Record the state that an actor has entered; of a dead one, also how it has ended."""
        if self.node.stages.is_on:
            pid = actor.pid if actor.state not in (ActorState.PENDING, ActorState.RESTARTING) else 0
            self._record(Thing.ACTOR, actor.actor_id, ACTOR_STATES[actor.state], actor.options.class_name, reason, pid)

    def worker(self, worker: Worker, state: State, reason: str = "", pid: int = 0) -> None:
        """Record the state of a worker process."""
        self._record(Thing.WORKER, worker.worker_id.to_bytes(8, "big"), state, "", reason, pid)

    def job(self, job: Job, state: State) -> None:
        """Record the begin or the end of a program on this node."""
        self._record(Thing.JOB, job.job_id, state, "", "", job.driver.pid if job.driver is not None else 0)

    def group(self, group_id: bytes, state: State, name: str = "", reason: str = "") -> None:
        """Record the state of a placement group, as far as this node is told."""
        self._record(Thing.GROUP, group_id, state, name, reason)

    def node_is(self, state: State, reason: str = "", address: str = "") -> None:
        """Record the state of this node, or of the one with the address."""
        self._record(Thing.NODE, b"", state, host_of(address or self.node.address), reason)

    def _record(self, thing: Thing, number: bytes, state: State, name: str, reason: str, pid: int = 0) -> None:
        node = self.node
        if node.stages.is_on:
            node.perform(RecordChange(thing, number, state, node.now, name, reason, pid))
