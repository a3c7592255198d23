"""Records of long waits at a node: of tasks, calls and actors that wait, and of values on their way to the node.

A wait is recorded when it ends, if it has lasted LONG_SECONDS or more (docs/design/events.md).  Tasks with consecutive
ids that a worker is sent together have one record.  The host writes the records into the ring of the node's process.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from ....ids import COUNTER_BYTES, PARENT_HASH_BYTES, SALT_BYTES, counter_of
from ....wire.events import LONG_SECONDS, Stage
from ....wire.task_spec import StoredValue
from ...work_effects import RecordFetch, RecordWait
from ..task import Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Actor

# Numbers in place of members: a member takes longer in each operation.
ARGUMENTS, QUEUE, PLACING, ROOM, FITTING_NODE, GROUP, WORKER, PACKAGES = map(int, Stage)
STAGES: dict[int, int] = {
    TaskState.WAITING: ARGUMENTS,
    TaskState.READY: QUEUE,
    TaskState.THROTTLED: PLACING,
    TaskState.RECORDING: PLACING,
    TaskState.SCHEDULER: PLACING,
    TaskState.SEARCHED: PLACING,
    TaskState.DEFERRED: ROOM,
    TaskState.PARKED: FITTING_NODE,
    TaskState.GROUP: GROUP,
}
# States between which a task goes up and comes back: one wait.
ON_ITS_WAY = frozenset(state for state, stage in STAGES.items() if stage in (PLACING, ROOM))
# Ids of one parent, with numbers that follow each other, begin alike.
_ALIKE_BYTES = PARENT_HASH_BYTES + SALT_BYTES


class Stages:
    """The recording of a node's waits."""

    PASSING = {"fetching": "node.fetches.ordered"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_on = False  # the host writes records
        self.fetching: dict[bytes, float] = {}  # objects on their way, and since when
        self.came = (0, 0.0)  # of the last task: one for all of a turn

    # --- tasks, calls, actors ---

    def begins(self, task: Task) -> None:
        """Note that a wait of a task begins."""
        came = self.came
        if came[1] != self.node.now or came[0] != task.depth:
            came = self.came = task.depth, self.node.now
        task.waits_anew(came)

    def wait_ends(self, task: Task, state: TaskState) -> None:
        """Record the wait of a task that enters another state.  Another wait begins."""
        former = task.state
        if not self.is_on or (former in ON_ITS_WAY and state in ON_ITS_WAY):
            return
        stage = STAGES.get(former)
        if stage is not None and self.node.now - task.came[1] >= LONG_SECONDS:
            # One that has gone up more than once has come back for lack of room.
            self._record(ROOM if stage == PLACING and task.trip > 1 else stage, task)
        self.begins(task)

    def arguments_are_here(self, task: Task) -> None:
        """Record the wait of a call, or of an actor, for its arguments.  Another wait begins."""
        if self.is_on and self.node.now - task.came[1] >= LONG_SECONDS:
            self._record(ARGUMENTS, task)
            self.begins(task)

    def actor_lacks_a_worker(self, actor: Actor) -> None:
        """Record the wait of an actor for all but a process.  The wait for a process begins."""
        if self.is_on:
            self.actor_starts(actor)
            self.begins(actor.creation)

    def actor_starts(self, actor: Actor) -> None:
        """Record the last wait of an actor before it starts."""
        if self.is_on and self.node.now - actor.creation.since >= LONG_SECONDS:
            packages = actor.options.environment.packages
            stage = (PACKAGES if packages else WORKER) if actor.has_all_but_a_worker else QUEUE
            self._record(stage, actor.creation, actor.options.class_name)

    def are_sent(self, batch: Collection[Task], last: Task, *, are_alike: bool) -> None:
        """Record the waits of tasks or calls that a worker is sent now.

        A short wait is recorded too of one that runs again: what was before its last wait is none in its process.

        last: of the batch.  are_alike: all come from one queue, in its order.
        """
        if not self.is_on:
            return
        first, long_ago = next(iter(batch)), self.node.now - LONG_SECONDS
        if first.came[1] > long_ago < last.came[1] and not first.attempts and not last.attempts:
            return
        if are_alike and first.attempts == last.attempts == 0 and _follow_each_other(batch, first, last):
            self._record(QUEUE, first, "", last.since, len(batch))
            return
        for together in _runs_of([task for task in batch if task.came[1] <= long_ago or task.attempts]):
            # One that lacks an argument is sent along with the maker of that.
            stage = ARGUMENTS if together[0].missing else QUEUE
            self._record(stage, together[0], "", together[-1].since, len(together))

    def _record(self, stage: int, task: Task, name: str = "", last_since: float = 0.0, count: int = 1) -> None:
        """Record a wait that ends now, of a task and of those behind it, up to one that has waited since then."""
        node, spec, since = self.node, task.spec, task.came[1]
        name = name or task.options.name or node.lifecycle.function_name(spec.function_id)
        node.perform(RecordWait(stage, spec.task_id, since, last_since or since, node.now, count, name, task.attempts))

    # --- values ---

    def fetch_begins(self, object_id: bytes) -> None:
        """Note that a value is ordered from another node, or from the disk."""
        if self.is_on:
            self.fetching[object_id] = self.node.now

    def fetch_ends(self, object_id: bytes, value: bytes | StoredValue | None = None) -> None:
        """Record the way of a value that has come, if it was long; None: it has not come."""
        begin = self.fetching.pop(object_id, None)
        if begin is not None and value is not None and self.node.now - begin >= LONG_SECONDS:
            size = len(value) if isinstance(value, bytes) else value.size
            self.node.perform(RecordFetch(object_id, begin, self.node.now, size))


def _runs_of(tasks: list[Task]) -> list[list[Task]]:
    """Divide tasks that a worker is sent into those that have one record: of one function, with consecutive ids."""
    found: list[list[Task]] = []
    following = b""
    for task in tasks:
        spec, last = task.spec, found[-1][-1] if found else task
        is_like = spec.function_id == last.spec.function_id and bool(task.missing) == bool(last.missing)
        is_like &= task.attempts == last.attempts
        if spec.task_id == following and is_like and task.since >= last.since:
            found[-1].append(task)
        else:
            found.append([task])
        number = (counter_of(spec.task_id) + 1) % (1 << 8 * COUNTER_BYTES)
        following = spec.task_id[:-COUNTER_BYTES] + number.to_bytes(COUNTER_BYTES, "big")
    return found


def _follow_each_other(batch: Collection[Task], first: Task, last: Task) -> bool:
    """Whether the tasks have consecutive ids.  Queues are nearly always in the order of ids: three tasks tell."""
    count = len(batch)
    if count == 1:
        return True
    middle = next(islice(batch, count // 2, None)).spec.task_id
    alike, begin = first.spec.task_id[:_ALIKE_BYTES], counter_of(first.spec.task_id)
    return (
        alike == last.spec.task_id[:_ALIKE_BYTES] == middle[:_ALIKE_BYTES]
        and counter_of(last.spec.task_id) - begin + 1 == count
        and counter_of(middle) - begin == count // 2
    )
