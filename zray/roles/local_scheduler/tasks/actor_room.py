"""Room for actors beside the tasks of other jobs.

A lease is temporary, but an actor holds its resources for life.  So tasks come first: tasks of its job that were ready
before the actor, and all tasks without room beside it.  But endless tasks would lock the actor out.  Therefore old
leases end for the actor with the longest wait, as for other queues.  The freed resources are not leased again, or other
tasks would take them before the actor's process has started.

Actors of other nodes have the same right: a global scheduler offers an actor without room anywhere to a node that could
make room (PlaceActor).  The node refuses, and keeps freed resources until the actor is offered again.

An actor with room does not overtake tasks of its own job, if they were ready before, could begin now, and would find no
room beside the actor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.task_spec import ActorOptions
from ..tables import Actor, ReadyQueue
from ..task import Task, TaskState
from ..worker import Worker

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Room that is kept is looked at again after so long: whoever it is for may be gone.
LOOK_AGAIN_SECONDS = 0.02
# The interval of the search for the next actor, and its length: a program may have thousands of waiting actors.
LOOK_SECONDS = 0.005
LOOK_COUNT_MAX = 100
# Where several leases must end for one actor, what the first ones leave is idle until the last one has: no longer than
# tasks last that are short.
SHORT_TASK_SECONDS = 1.0
# The time for an actor of another node, which asks again after 0.2 s; by then its global scheduler has our report.
WISH_SECONDS = 0.5
WISHES_MAX = 100


class Wish(Struct, gc=False, eq=False):
    """An actor of another node, offered when there was no room."""

    job_id: bytes
    options: ActorOptions
    until: float


class Next(Struct, gc=False, eq=False):
    """An actor, and the free resources required for its start."""

    actor_id: bytes
    job_id: bytes
    amounts: Mapping[str, int]
    is_here: bool  # else it is offered to this node, and all tasks of its job come first


class ActorRoom:
    """Room for actors on a node."""

    LASTING = {"wishes": "WISHES_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.next: Next | None = None
        self.looked_at = float("-inf")
        self.timer_is_set = False
        self.wishes: dict[bytes, Wish] = {}  # by actor

    def wish(self, actor_id: bytes, job_id: bytes, options: ActorOptions) -> None:
        """Keep room for an actor that finds none now, and will be offered again."""
        self.wishes.pop(actor_id, None)
        if len(self.wishes) < WISHES_MAX and not self.node.calls.is_barred(options):
            self.wishes[actor_id] = Wish(job_id, options, self.node.now + WISH_SECONDS)

    # --- asked by dispatch, while actors wait (`calls.wanting`, `wishes`) ---

    def is_kept_from(self, queue: ReadyQueue) -> bool:
        """Whether another lease of the queue would take resources kept for an actor."""
        found, free = self._next_beside(queue), self.node.resources.free
        if found is None:
            return False
        for name, amount in queue.resources.items():
            wanted = found.amounts.get(name, 0)
            if wanted and free.get(name, 0) - amount < wanted:
                self.look_again_soon()
                return True
        return False

    def look_again_soon(self) -> None:
        """Schedule a check whether kept resources are still needed."""
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.after(LOOK_AGAIN_SECONDS, self.look_again)

    def is_lacking(self, worker: Worker, queue: ReadyQueue) -> bool:
        """Whether an actor lacks resources of this lease."""
        found = self._next_beside(queue)
        if found is None:
            return False
        has = worker.frames[0].resources
        return any(has.get(name) for name in self.node.resources.lacking(found.amounts))

    def look_again(self) -> None:
        """Release resources that are no longer kept for an actor."""
        self.timer_is_set = False
        self.node.dispatch.is_dirty = True
        self.node.calls.wanting_worker_changed()

    # --- who was asked for before an actor ---

    def ahead_of(self, actor: Actor) -> list[tuple[ReadyQueue, Task]]:
        """Return ready tasks of the actor's job that compete for resources: the last of each queue."""
        wanted = actor.options.resources.keys()
        queues = (queue for queue in self.node.dispatch.queues if queue.tasks and queue.job is actor.job)
        return [(queue, queue.tasks[-1]) for queue in queues if not wanted.isdisjoint(queue.resources)]

    @staticmethod
    def _still_ahead_of(actor: Actor) -> list[tuple[ReadyQueue, Task]]:
        actor.stands_behind([(queue, task) for queue, task in actor.behind if task.state == TaskState.READY])
        return actor.behind

    def overtakes(self, actor: Actor) -> bool:
        """Whether a task of its job, ready before, could begin now but not beside the actor."""
        node, free = self.node, self.node.resources.free
        for queue, _ in self._still_ahead_of(actor):
            if queue.tasks and node.dispatch.fits(queue) and node.pool.may_have(queue):
                wanted = actor.options.resources
                if any(free.get(name, 0) - wanted.get(name, 0) < amount for name, amount in queue.resources.items()):
                    self.look_again_soon()
                    return True
        return False

    # --- who is next ---

    def _leaves_room(self, amounts: Mapping[str, int], queue: ReadyQueue) -> bool:
        """Whether the queue's tasks could still run locally beside all actors and the given amounts."""
        total, held = self.node.resources.total, self.node.resources.held
        for name, amount in queue.resources.items():
            if total.get(name, 0) - held.get(name, 0) - amounts.get(name, 0) < amount:
                return False
        return True

    def _next_beside(self, queue: ReadyQueue) -> Next | None:
        """Return the next actor, if leases of the queue should make room for it."""
        found = self._next()
        if found is None or not self._leaves_room(found.amounts, queue):
            return None
        return found if found.is_here or found.job_id != queue.job.job_id else None

    def _next(self) -> Next | None:
        node, found = self.node, self.next
        if node.now - self.looked_at >= LOOK_SECONDS or (found is not None and not self._still_waits(found.actor_id)):
            self.looked_at = node.now
            self.next = self._find()
        return self.next

    def _still_waits(self, actor_id: bytes) -> bool:
        return actor_id in self.node.calls.wanting or actor_id in self.wishes

    def _find(self) -> Next | None:
        """Find the first actor for which leases should make room."""
        node = self.node
        queues = [queue for queue in node.dispatch.queues if queue.tasks]
        busy = {queue.job.job_id for queue in queues}
        for actor_id, job_id, amounts in self._waiting():
            actor = node.calls.wanting.get(actor_id)
            has_tasks_ahead = job_id in busy if actor is None else bool(self._still_ahead_of(actor))
            if not has_tasks_ahead and any(self._leaves_room(amounts, queue) for queue in queues):
                if self._may_come_free(amounts):
                    return Next(actor_id, job_id, amounts, actor is not None)
        return None

    def _waiting(self) -> Iterator[tuple[bytes, bytes, Mapping[str, int]]]:
        """Yield actors that lack only room, with job and required free amounts."""
        node, now = self.node, self.node.now
        for actor in islice(node.calls.wanting.values(), LOOK_COUNT_MAX):
            if not actor.creation.missing and actor.incoming is None and actor.actor_id not in node.groups.unsettled:
                ask = node.moves.asks.get(actor.actor_id)
                if ask is None:
                    yield actor.actor_id, actor.job.job_id, actor.options.resources
                elif node.moves.may_stay(ask):
                    yield actor.actor_id, actor.job.job_id, self._beside_promises(actor.options)
        for actor_id, wish in list(self.wishes.items()):
            if wish.until < now:
                del self.wishes[actor_id]
            else:
                yield actor_id, wish.job_id, self._beside_promises(wish.options)

    def _beside_promises(self, options: ActorOptions) -> Mapping[str, int]:
        """Add the amounts promised to starting actors, which need room too."""
        promised = self.node.calls.promised
        return {name: amount + promised.get(name, 0) for name, amount in options.resources.items()}

    def _may_come_free(self, amounts: Mapping[str, int]) -> bool:
        """Whether the amounts are free, or would be after the end of a lease, or of several with short tasks."""
        free, now = self.node.resources.free, self.node.now
        lacking = {name: amount for name, amount in amounts.items() if free.get(name, 0) < amount}
        soon: dict[str, int] = {}
        for worker in self.node.pool.leased.values() if lacking else ():
            frame = worker.frames[0]
            if len(worker.frames) > 1 or frame.wait is not None:
                continue  # what it holds while it waits it does not give
            if all(frame.resources.get(name, 0) >= amount for name, amount in lacking.items()):
                return True
            if now - worker.progress_at <= SHORT_TASK_SECONDS:
                for name, amount in frame.resources.items():
                    soon[name] = soon.get(name, 0) + amount
        return all(free.get(name, 0) + soon.get(name, 0) >= amount for name, amount in lacking.items())
