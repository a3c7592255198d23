"""Dialog: lists of tasks, actors and processes, for programs that look at the state of the cluster.

driver, worker     ListWork -> WorkListed    to its local scheduler
local scheduler    ListWork -> WorkListed    to each other local scheduler, on behalf of the process
"""

from typing import Annotated

from msgspec import Meta, Struct

from .limits import ShortBytes, Text
from .message import Message, Natural, routed

# Rows of each kind in an answer: some 1.5 MB, less than a second's work for anybody on the way.
ROWS_MAX = 10_000


class ActorFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One actor.  `state` is Ray's name of the state.

    `pid` is 0 while no process runs the actor.  A dead actor has the pid of its last process.
    """

    actor_id: ShortBytes
    class_name: Text
    name: Text
    namespace: Text
    state: Text
    job_id: ShortBytes
    node: Text
    pid: Natural = 0


class TaskFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One task or call.  `state` is Ray's name of the state.  `actor_id` is empty for a task.

    `is_away` marks a task that another node may list too, with a later state.
    `error_type` is Ray's name for the kind of error of a failed task.
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


class WorkerFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One living worker or driver process.  `job_id` is empty before the process has had work."""

    name: Text
    kind: Text
    pid: Natural
    node: Text
    job_id: ShortBytes = b""
    actor_id: ShortBytes = b""


class ListWork(Message, tag=routed(290, "driver, worker, local -> local")):
    """A look-up of at most `most` tasks, actors and processes."""

    request: int
    most: Natural = ROWS_MAX


class WorkListed(Message, tag=routed(291, "local -> driver, worker, local")):
    """The tasks, actors and processes.

    `silent` lists nodes that have not answered in time.
    """

    request: int
    actors: Annotated[list[ActorFact], Meta(max_length=ROWS_MAX)]
    tasks: Annotated[list[TaskFact], Meta(max_length=ROWS_MAX)]
    silent: Annotated[list[Text], Meta(max_length=ROWS_MAX)] = []
    workers: Annotated[list[WorkerFact], Meta(max_length=ROWS_MAX)] = []
