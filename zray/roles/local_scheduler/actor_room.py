"""Room for actors beside the tasks of other jobs.

A lease is for a while, and an actor holds what it has for life.  So tasks come first: a job's own, and those that would
find no room any more beside the actor.  But a job whose tasks never end would shut the actors of others out.  Therefore
leases that have lasted end for the actor that has waited for the longest time, as they do for other queues, and what it
asks for is not leased again; others would have it before its process is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...wire.message import Local
from .tables import Actor, Job, ReadyQueue, Worker

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# Room that is kept is looked at again after so long: whoever it is for may be gone.
LOOK_AGAIN_SECONDS = 0.02
# Who it is for is found out so often, and among so many: a program may have thousands of actors wait.
LOOK_SECONDS = 0.005
LOOK_COUNT_MAX = 100
# Where several leases must end for one actor, what the first ones leave is idle until the last one has: no longer than
# tasks last that are short.
SHORT_TASK_SECONDS = 1.0


class LookAgainTimeout(Local):
    """Lease what is kept for nobody any more."""


class Next(Struct, gc=False, eq=False):
    """An actor, and what must be free for it to start."""

    actor: Actor
    amounts: Mapping[str, int]


class ActorRoom:
    """Of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.next: Next | None = None
        self.looked_at = float("-inf")
        self.timer_is_set = False

    # --- asked by dispatch, while actors wait ---

    def is_kept_from(self, queue: ReadyQueue) -> bool:
        """Whether one more lease of it would take what an actor is to have."""
        found, free = self._next(), self.node.resources.free
        if found is None or found.actor.job is queue.job or not self._leaves_room(found.amounts, queue):
            return False
        for name, amount in queue.resources.items():
            wanted = found.amounts.get(name, 0)
            if wanted and free.get(name, 0) - amount < wanted:
                if not self.timer_is_set:
                    self.timer_is_set = True
                    self.node.set_timer(LOOK_AGAIN_SECONDS, LookAgainTimeout())
                return True
        return False

    def is_lacking(self, worker: Worker, queue: ReadyQueue) -> bool:
        """Whether an actor lacks what this lease has."""
        found, free = self._next(), self.node.resources.free
        if found is None or found.actor.job is queue.job or not self._leaves_room(found.amounts, queue):
            return False
        has = worker.frames[0].resources
        return any(free.get(name, 0) < amount and has.get(name) for name, amount in found.amounts.items())

    def on_look_again_timeout(self) -> None:
        """LookAgainTimeout."""
        self.timer_is_set = False
        self.node.dispatch.is_dirty = True

    # --- who is next ---

    def _leaves_room(self, amounts: Mapping[str, int], queue: ReadyQueue) -> bool:
        """Whether the queue's tasks could still run here beside all actors and this one."""
        total, held = self.node.resources.total, self.node.resources.held
        for name, amount in queue.resources.items():
            if total.get(name, 0) - held.get(name, 0) - amounts.get(name, 0) < amount:
                return False
        return True

    def _next(self) -> Next | None:
        node = self.node
        if node.now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = node.now
            self.next = self._find()
        if self.next is not None and self.next.actor.actor_id not in node.calls.wanting:
            self.next = self._find()
        return self.next

    def _find(self) -> Next | None:
        """The first that leases of other jobs are to make room for."""
        node = self.node
        queues = [queue for queue in node.dispatch.queues if queue.tasks]
        jobs: list[Job] = []
        for queue in queues:
            if queue.job not in jobs:
                jobs.append(queue.job)
        for actor in islice(node.calls.wanting.values(), LOOK_COUNT_MAX):
            if actor.job in jobs or actor.creation.missing or actor.incoming is not None:
                continue  # tasks of its own job come first; or it lacks more than room
            amounts = self._amounts(actor)
            if amounts and any(self._leaves_room(amounts, queue) for queue in queues) and self._may_come_free(amounts):
                return Next(actor, amounts)
        return None

    def _amounts(self, actor: Actor) -> Mapping[str, int] | None:
        """What must be free for it to start; None: nothing, or it is not to start here."""
        node, options = self.node, actor.options
        ask = node.moves.asks.get(actor.actor_id)
        if actor.actor_id in node.groups.unsettled or (ask is not None and not node.moves.may_stay(ask)):
            return None
        if ask is None:
            return options.resources
        promised = node.calls.promised
        return {name: amount + promised.get(name, 0) for name, amount in options.resources.items()}

    def _may_come_free(self, amounts: Mapping[str, int]) -> bool:
        """Whether it is, or the end of one lease would do, or of several with short tasks."""
        free, now = self.node.resources.free, self.node.now
        lacking = {name: amount for name, amount in amounts.items() if free.get(name, 0) < amount}
        soon: dict[str, int] = {}
        for worker in self.node.dispatch.leased.values() if lacking else ():
            frame = worker.frames[0]
            if len(worker.frames) > 1 or frame.wait is not None:
                continue  # what it holds while it waits it does not give
            if all(frame.resources.get(name, 0) >= amount for name, amount in lacking.items()):
                return True
            if now - worker.progress_at <= SHORT_TASK_SECONDS:
                for name, amount in frame.resources.items():
                    soon[name] = soon.get(name, 0) + amount
        return all(free.get(name, 0) + soon.get(name, 0) >= amount for name, amount in lacking.items())


HANDLERS: dict[type, Any] = {
    LookAgainTimeout: lambda self, message: self.actor_room.on_look_again_timeout(),
}
