"""Actors whose classes have `__ray_shutdown__` or `__del__`: both run before their processes end in order.

An actor that leaves, or whose last handle is gone, sees to that by itself.  Where its job or its node ends, it is told
to stop in place of being killed, and is killed after SHUTDOWN_SECONDS.  A serial actor in the middle of a call stops
when that call has ended in time.  Nothing waits for other actors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...wire.actors import SHUTDOWN_SECONDS
from ...wire.tasks import StopWorker
from ..role import on
from ..work_effects import ActorsHaveStopped, SessionEnds
from .tables import Actor, ActorState, Worker

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# A worker ends its methods itself; this much later it is taken for stuck.
GRACE_SECONDS = 0.5


class Shutdowns:
    """Of the actors of this node."""

    LASTING = {"stopping": "node.pool.workers"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.stopping: dict[str, float] = {}  # worker -> when it is killed, at the latest; all of them are in the pool
        self.timer_is_set = False
        self.session_ends = False

    def can_stop(self, actor: Actor) -> bool:
        """True if it has something to run first."""
        return actor.has_shutdown and actor.state == ActorState.ALIVE and actor.worker is not None

    def are_due(self) -> bool:
        """Whether the end of the session has to wait for any."""
        if self.node.members.is_fenced and not self.node.drain.is_done:
            return False  # others run it again already
        return bool(self.stopping) or any(map(self.can_stop, self.node.calls.actors.values()))

    def spared(self) -> set[str]:
        """Workers that are told to stop, where others are killed since the node has left its cluster in order."""
        if not self.node.drain.is_done:
            return set()
        stoppable = (actor.worker for actor in self.node.calls.actors.values() if self.can_stop(actor))
        return {*self.stopping, *(worker.address for worker in stoppable if worker is not None)}

    def stop(self, actor: Actor, worker: Worker) -> None:
        """Tell it to stop; nobody waits for that yet."""
        if actor.has_shutdown:
            self.stopping[worker.address] = math.inf
        self.node.send(worker.address, StopWorker())

    def end(self, actor: Actor, worker: Worker) -> None:
        """Its job or session is over: tell it to stop and wait for that, or kill it."""
        if self.can_stop(actor):
            self.stop(actor, worker)
        if not self.waits_for(worker):
            self.node.pool.kill(worker)

    def waits_for(self, worker: Worker) -> bool:
        """Whether it was told to stop.  From now on its time is limited."""
        if worker.address not in self.stopping:
            return False
        deadline = self.node.now + SHUTDOWN_SECONDS + GRACE_SECONDS
        self.stopping[worker.address] = min(self.stopping[worker.address], deadline)
        self._set_timer()
        return True

    @on(SessionEnds)
    def on_session_ends(self, message: SessionEnds) -> None:
        """SessionEnds: no call begins on those that stop."""
        self.session_ends = True
        for actor in self.node.calls.actors.values():
            if actor.worker is not None and self.can_stop(actor):
                self.stop(actor, actor.worker)
                actor.killed = "its session has ended"
                actor.state = ActorState.DEAD
        for address in list(self.stopping):
            self.waits_for(self.node.pool.workers[address])
        self._look()

    def worker_exited(self, address: str) -> None:
        """It has stopped, or was killed."""
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
        """Kill what has not stopped in time."""
        self.timer_is_set = False
        for address in [address for address, deadline in self.stopping.items() if deadline <= self.node.now]:
            del self.stopping[address]
            if (worker := self.node.pool.workers.get(address)) is not None:
                self.node.pool.kill(worker)
        self._look()
        self._set_timer()
