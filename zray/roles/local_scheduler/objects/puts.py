"""Objects put by local processes: only the task that put an object could make it again.

So arguments of tasks on other nodes, and of repeatable calls, are kept until the returns have arrived.  A large return
stays on the maker's node until wanted locally.  After the loss of that node the task is re-executed from lineage with
the same arguments.  Arguments may need reconstruction too, down to a put.  So for each missing argument, the objects
needed for reconstruction are kept, a few steps back.  All kept objects are dropped when a writer or a pull finds no
room.

    the task is done elsewhere     keep the arguments (Trips.landed, Routes.finished)
    a return has arrived           let go; also when no local process holds the return any more
    no room (MakingRoom)           let go of all

The progress of each running task is also recorded, because a put lost everywhere is not repeated:

    RebuildObject, of a put        to the node of the task, which reports the outcome
    PutMissing                     the same, to the node where the task runs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ids import ObjectID, TaskID, index_of, is_put, task_of
from ....wire.gcs import CannotRebuild
from ....wire.objects import PutMissing
from ....wire.task_spec import StoredValue
from ...role import on
from ..task import FORWARDED, Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..worker import Worker
    from .table import ObjectEntry

# The limits of objects, and bytes, kept to reconstruct a task's arguments; beyond them, only the arguments themselves
# are kept.  (A program may pass a value from task to task without end, each time with something new.)
KEPT_MAX = 100
KEPT_BYTES_MAX = 256 << 20
# The number of tasks with recorded progress before finished tasks are dropped.
TASKS_MIN = 1_000


class Puts:
    """Arguments kept by a node."""

    PASSING = {"by_result": "node.objects.entries"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        # A missing return -> objects kept for its task.  Bounded by the missing returns that local processes hold.
        self.by_result: dict[ObjectID, tuple[ObjectID, ...]] = {}
        # Task -> the worker and the attempt that have put something, and the index of the last.
        self.last: dict[TaskID, tuple[str, int, int]] = {}
        self.count_max = TASKS_MIN

    # --- kept ---

    def keep(self, task: Task) -> None:
        """Keep the arguments of a task run by another node, while they are still retained."""
        kept: tuple[ObjectID, ...] | None = None
        for entry in self.node.lifecycle.returns_of(task):
            is_wanted = entry.holders is not None or entry.count
            if is_wanted and entry.value is None and entry.object_id not in self.by_result:
                kept = self._made_of(task) if kept is None else kept
                for object_id in kept:
                    self.node.objects.retain(object_id)
                if kept:
                    self.by_result[entry.object_id] = kept

    def _made_of(self, task: Task) -> tuple[ObjectID, ...]:
        """Return the task's local or put arguments, and the objects needed to reconstruct the rest."""
        entries: dict[ObjectID, ObjectEntry] = self.node.objects.entries
        took: dict[ObjectID, None] = {}
        before: dict[ObjectID, None] = {}
        ahead, seen = [task], {task.spec.task_id}
        while ahead and len(seen) <= KEPT_MAX:
            spec = ahead.pop().spec
            for object_id in (*spec.deps, *spec.holds):
                entry = entries.get(object_id)
                if entry is None:
                    continue  # of a task that has begun elsewhere, and may run once only
                if is_put(object_id) or (entry.value is not None and not entry.is_lost and entry.actor is None):
                    (took if spec is task.spec else before)[object_id] = None
                elif object_id in self.by_result:
                    before.update(dict.fromkeys(self.by_result[object_id]))
                elif entry.task is not None and entry.task.spec.task_id not in seen:
                    seen.add(entry.task.spec.task_id)
                    ahead.append(entry.task)
        is_little = len(before) <= KEPT_MAX and sum(self._size_of(entries[item]) for item in before) <= KEPT_BYTES_MAX
        return tuple(took | before if is_little else took)

    @staticmethod
    def _size_of(entry: ObjectEntry) -> int:
        value = entry.value
        if value is None:
            return max(0, entry.shared.size) if entry.shared is not None else 0
        return value.size if isinstance(value, StoredValue) else len(value)

    def let_go(self, object_id: ObjectID) -> None:
        """Let go of arguments kept for a return that has arrived, or is no longer held."""
        kept = self.by_result.pop(object_id, None)
        if kept is not None:
            self.node.objects.drop_all(kept)

    def let_go_of_unheld(self) -> None:
        """Let go of arguments kept for locally unheld returns, even if the tasks run for other nodes."""
        objects = self.node.objects
        while objects.unheld:
            entry = objects.entries.get(objects.unheld.pop())
            if entry is not None and entry.holders is None and not entry.count:
                self.let_go(entry.object_id)

    def let_go_of_all(self) -> None:
        """Let go of all kept arguments, for lack of room."""
        for object_id in list(self.by_result):
            self.let_go(object_id)

    # --- missing ---

    def note(self, worker: Worker, object_id: ObjectID) -> None:
        """Record that a task of the worker has put an object."""
        task_id = task_of(object_id)
        task = self.node.tasks.get(task_id)
        if task is None or (task.worker is not worker and not worker.has(task)):
            return  # a thread's that has outlived its task
        self.last[task_id] = (worker.address, task.attempts, index_of(object_id))
        if len(self.last) > self.count_max:
            self.last = {task_id: last for task_id, last in self.last.items() if task_id in self.node.tasks}
            self.count_max = max(TASKS_MIN, 2 * len(self.last))

    def is_missing(self, task: Task, object_id: ObjectID) -> None:
        """Handle a request for a put without any copy, while the task is in hand: the task may still put the object."""
        if task.state >= FORWARDED:
            if task.forward.peer:
                self.node.send(task.forward.peer, PutMissing(object_id))
        elif self._has_put(task, object_id):
            self.node.send(self.node.addresses.shard_of(object_id), CannotRebuild(self.node.address, object_id))

    @on(PutMissing)
    def on_put_missing(self, message: PutMissing) -> None:
        """PutMissing: ignored if the task is over, or has not arrived yet."""
        task = self.node.tasks.get(task_of(message.object_id))
        entry = self.node.objects.entries.get(message.object_id)
        if task is not None and task.state < FORWARDED and (entry is None or entry.value is None):
            self.is_missing(task, message.object_id)

    def _has_put(self, task: Task, object_id: ObjectID) -> bool:
        """Whether the task's current attempt has already put the object, and will not repeat the put."""
        if task.worker is None:
            return False
        address, attempts, index = self.last.get(task.spec.task_id, ("", 0, 0))
        return (address, attempts) == (task.worker.address, task.attempts) and index >= index_of(object_id)

    def check_everything(self) -> None:
        """Assert that all kept arguments exist and may be needed."""
        entries: dict[ObjectID, ObjectEntry] = self.node.objects.entries
        for object_id, kept in self.by_result.items():
            entry = entries.get(object_id)
            assert entry is not None and entry.value is None, "puts kept for a result that is here, or gone"
            assert entry.holders is not None or entry.count, "puts kept for a result that nobody holds"
            assert all(item in entries for item in kept), "something that is kept, and gone"
