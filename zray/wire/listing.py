"""Dialog: lists of tasks, actors, processes and objects, for programs that look at the state of the cluster.

driver, worker     ListWork -> WorkListed    to its local scheduler
local scheduler    ListWork -> WorkListed    to each other local scheduler, on behalf of the process
"""

from typing import Annotated

from msgspec import Meta, Struct

from .limits import ShortBytes, Text
from .message import Message, Natural, routed

# Rows of each kind in an answer: some 1.5 MB, of small values 3 MB, less than a second's work for anybody on the way.
ROWS_MAX = 10_000
# Tasks in an answer to a process that asks for all: 100 bytes each, half a second's work for its node.
TASKS_MAX = 100_000
# Processes that are named for an object.
HOLDERS_MAX = 20
# States of a task that has ended.
TASK_ENDED = frozenset(("FINISHED", "FAILED"))


class ActorFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One actor.  `state` is Ray's name of the state.

    `pid` is 0 while no process runs the actor.  A dead actor has the pid of its last process.
    `death` says how a dead actor has ended.
    """

    actor_id: ShortBytes
    class_name: Text
    name: Text
    namespace: Text
    state: Text
    job_id: ShortBytes
    node: Text
    pid: Natural = 0
    death: Text = ""

    @property
    def has_ended(self) -> bool:
        """Whether the actor is dead."""
        return self.state == "DEAD"


class TaskFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One task or call.  `state` is Ray's name of the state.  `actor_id` is empty for a task.

    `is_away` marks a task that another node may list too, with a later state.
    `error_type` is Ray's name for the kind of error of a failed task, and `error` says what the error says.
    `run_ms` says for how long a running task has run; 0: not known, as of further calls in an actor.
    """

    task_id: ShortBytes
    name: Text
    state: Text
    job_id: ShortBytes
    node: Text
    actor_id: ShortBytes = b""
    pid: Natural = 0
    attempts: Natural = 0
    is_away: bool = False
    error_type: Text = ""
    run_ms: Natural = 0
    error: Text = ""

    @property
    def has_ended(self) -> bool:
        """Whether the task has finished or failed."""
        return self.state in TASK_ENDED


class WorkerFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One living worker or driver process.  `job_id` is empty before the process has had work."""

    name: Text
    kind: Text
    pid: Natural
    node: Text
    job_id: ShortBytes = b""
    actor_id: ShortBytes = b""


# First bytes of a value, enough for the name of its class.
HEAD_BYTES = 128


class ObjectFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A value on a node.  `size` is in bytes.

    `state`: MEMORY, DISK, MESSAGE (small, in the node's tables), COMING or PENDING.
    `made` says where it was put, or by which task it is made; empty on other nodes, and for small values.
    `holders` are processes with refs, `readers` those that know the place of the value, and may read there.
    `uses` counts tasks, values and waits that refer to it.
    `head` has its first bytes, which tell its type; empty where they are not in memory.
    """

    object_id: ShortBytes
    size: Natural
    state: Text
    node: Text
    made: Text = ""
    holders: Annotated[list[Natural], Meta(max_length=HOLDERS_MAX)] = []
    readers: Annotated[list[Natural], Meta(max_length=HOLDERS_MAX)] = []
    uses: Natural = 0
    head: ShortBytes = b""

    def begins_with(self, head: bytes) -> None:
        """Set the first bytes."""
        self.head = head


class ListWork(Message, tag=routed(290, "driver, worker, local -> local")):
    """A look-up of at most `most` tasks, actors and processes; or, with `are_objects`, of the largest objects.

    `most` is up to TASKS_MAX for tasks, and up to ROWS_MAX for the others.
    """

    request: int
    most: Natural = ROWS_MAX
    are_objects: bool = False


class WorkListed(Message, tag=routed(291, "local -> driver, worker, local")):
    """The tasks, actors and processes, or the objects.

    `silent` lists nodes that have not answered in time.
    `left_out` counts tasks that have not ended and are not in the list.
    """

    request: int
    actors: Annotated[list[ActorFact], Meta(max_length=ROWS_MAX)]
    tasks: Annotated[list[TaskFact], Meta(max_length=TASKS_MAX)]
    silent: Annotated[list[Text], Meta(max_length=ROWS_MAX)] = []
    workers: Annotated[list[WorkerFact], Meta(max_length=ROWS_MAX)] = []
    objects: Annotated[list[ObjectFact], Meta(max_length=ROWS_MAX)] = []
    left_out: Natural = 0
