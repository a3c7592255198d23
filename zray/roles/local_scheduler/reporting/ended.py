"""Tasks and actors that have ended on a node lately, for the lists of programs (ListWork).

A node remembers what it alone knows: the process, the attempts and the kind of error.  Nothing is sent for that.
Memory is bounded, since tasks end by the million: some 200 bytes for each of the last FINISHED_MAX and FAILED_MAX.
Failed tasks have a place of their own: a flood of finished ones does not wash them away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import MsgspecError
from msgspec.msgpack import Decoder

from ....exceptions import FIRST_MARK, PAST_MARKS, TASK_ERROR
from ....wire.listing import ActorFact, TaskFact
from ....wire.task_spec import StoredValue, TaskOptions
from ...latest import Latest

if TYPE_CHECKING:
    from ....wire.tasks import Function
    from ..scheduler import LocalScheduler
    from ..tables import Actor, Process
    from ..task import Task

FINISHED_MAX = 5_000
FAILED_MAX = 1_000
ACTORS_MAX = 1_000
NAMES_MAX = 1_000

# Ray's names of the kinds of errors, where the name of our class in capitals is another one.
RAISED = "TASK_EXECUTION_EXCEPTION"
KINDS = {
    "ActorDiedError": "ACTOR_DIED",
    "ActorPlacementGroupRemoved": "ACTOR_PLACEMENT_GROUP_REMOVED",
    "ActorUnavailableError": "ACTOR_UNAVAILABLE",
    "ActorUnschedulableError": "ACTOR_UNSCHEDULABLE_ERROR",
    "NodeDiedError": "NODE_DIED",
    "ObjectFreedError": "OBJECT_FREED",
    "ObjectLostError": "OBJECT_LOST",
    "ObjectReconstructionFailedError": "OBJECT_UNRECONSTRUCTABLE",
    "OutOfDiskError": "OUT_OF_DISK_ERROR",
    "OutOfMemoryError": "OUT_OF_MEMORY",
    "OwnerDiedError": "OWNER_DIED",
    "RuntimeEnvSetupError": "RUNTIME_ENV_SETUP_FAILED",
    "TaskCancelledError": "TASK_CANCELLED",
    "TaskForceCancelledError": "TASK_CANCELLED",
    "TaskPlacementGroupRemoved": "TASK_PLACEMENT_GROUP_REMOVED",
    "TaskUnschedulableError": "TASK_UNSCHEDULABLE_ERROR",
    "WorkerCrashedError": "WORKER_DIED",
}
_decode = Decoder(tuple[str, str, dict[str, object]]).decode

# Id, options, function, job, pid, attempts: a tuple costs least, and each task of the node makes one.
Finished = tuple[bytes, TaskOptions, bytes, bytes, int, int]


class Ended:
    """The tasks and actors of one node that have ended lately."""

    LASTING = {"finished": "FINISHED_MAX", "failed": "FAILED_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.finished: deque[Finished] = deque(maxlen=FINISHED_MAX)
        self.failed: deque[tuple[Finished, str]] = deque(maxlen=FAILED_MAX)
        self.names: Latest[bytes, str] = Latest(NAMES_MAX)  # of functions whose code the node has forgotten
        self.actors: Latest[bytes, ActorFact] = Latest(ACTORS_MAX)

    def task_ended(self, task: Task, value: bytes | StoredValue, writer: Process | None) -> None:
        """A task ends with this value.  writer: its process, as far as that has said so itself."""
        if task.entry.actor is not None:
            return  # the creation of an actor, which is listed itself
        spec, pid = task.spec, writer.pid if writer is not None else 0
        if type(value) is bytes and FIRST_MARK <= value < PAST_MARKS:
            kind, died = _kind_of(value)
            row = spec.task_id, task.options, spec.function_id, task.job.job_id, pid or died, task.attempts
            self.failed.append((row, kind))
        else:
            self.finished.append((spec.task_id, task.options, spec.function_id, task.job.job_id, pid, task.attempts))

    def forget_code(self, function: Function) -> None:
        """A function leaves the node's table: its name stays."""
        self.names[function.function_id] = function.name

    def actor_ended(self, actor: Actor) -> None:
        """An actor is dead for good."""
        fact = self.node.listings.fact_of(actor)
        self.actors.pop(actor.actor_id, None)  # the youngest of one that was made anew
        self.actors[actor.actor_id] = fact

    def tasks(self) -> Iterator[TaskFact]:
        """Ended tasks, the latest first, failed ones ahead."""
        node = self.node.address
        rows = [*((row, kind) for row, kind in reversed(self.failed)), *((row, "") for row in reversed(self.finished))]
        for (task_id, options, function_id, job_id, pid, attempts), kind in rows:
            called = options.name or options.method or self._name_of(function_id)
            state = "FAILED" if kind else "FINISHED"
            yield TaskFact(task_id, called, state, job_id, node, options.actor_id, pid, attempts, error_type=kind)

    def _name_of(self, function_id: bytes) -> str:
        function = self.node.functions.get(function_id)
        return function.name if function is not None else self.names.get(function_id, "")


def _kind_of(error: bytes) -> tuple[str, int]:
    """Ray's name for the kind of an error value, and the pid that a system error speaks of (0: none)."""
    if error[0] == TASK_ERROR:
        return RAISED, 0
    try:
        class_name, _, details = _decode(memoryview(error)[1:])
    except MsgspecError:
        return "UNKNOWN", 0
    pid = details.get("pid")
    return KINDS.get(class_name, class_name), pid if type(pid) is int and pid > 0 else 0
