"""Dialog: tasks on one node.

driver, worker     PublishFunction   before the first task of a function
driver, worker     SubmitTasks       queue these
local scheduler    StartTasks        run these, in this order, as long as the claim window lets you
worker             TasksFinished     values (or error values) of tasks
worker             TasksReturned     ordered but not run: taken back, or an argument did not come about
local scheduler    ObjectsReady      values, to whoever submitted or asked
driver, worker     WaitObjects       tell me when so many of these are there; I stop until then
local scheduler    WaitReply
driver, worker     CancelWait        I no longer wait
worker             AwaitRoom         I wait for room in a full store, until CancelWait
"""

from __future__ import annotations

from msgspec import Struct

from ..ids import FunctionID, ObjectID, TaskID
from .limits import Many, Payload, Plenty, Refs, Several, ShortBytes, Text
from .message import Message, Natural
from .scheduling import JobFacts
from .task_spec import EnvVars, StoredValue, TaskSpec, Value

# What the processes of a node may publish for a job: it stays as long as the job.  A program has hundreds of functions,
# not hundreds of thousands; the bytes are ten of the largest.
FUNCTIONS_COUNT_MAX = 100_000
FUNCTIONS_BYTES_MAX = 1 << 30


def why_too_many() -> str:
    """For the user."""
    return (
        f"has published as much code as it may from one node ({FUNCTIONS_COUNT_MAX:,} functions and classes, and "
        f"{FUNCTIONS_BYTES_MAX >> 20:,} MiB).  Is a remote function or an actor class defined in a loop, or in a task "
        "that runs often?  Each definition is a new one: define it once, outside, and pass what differs as an argument."
    )


class Function(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A pickled function or class, named by the hash of its bytes; opaque to control processes."""

    function_id: FunctionID
    name: Text
    code: Payload


class PublishFunction(Message, tag=10):
    """driver, worker -> local scheduler -> GCS shard.  Into the function table (Ray paper 4.3).

    To a shard it says whose it is: `node` will say when the job has ended (ReleaseFunctions).
    """

    function: Function
    node: Text = ""
    job_id: ShortBytes = b""


class SubmitTasks(Message, tag=11):
    """driver, worker -> local scheduler.  Tasks and actor calls in the order of submission.

    The sender holds a ref on every return value of every spec from now on.
    """

    specs: Plenty[TaskSpec]


class Argument(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The value of a ref that a task takes."""

    object_id: ObjectID
    value: Value


# Of the code that it was sent, a worker keeps the latest so much, and what its queue needs: older code is sent again.
LEARNED_COUNT_MAX = 4_096
LEARNED_BYTES_MAX = 256 << 20


class StartTasks(Message, tag=12):
    """local scheduler -> worker.  Run in this order.

    A dep that is not among the arguments is made by a task ahead in the same worker's queue.
    """

    specs: Plenty[TaskSpec]
    functions: Plenty[Function] = []  # those that this worker has not been sent of late
    arguments: Plenty[Argument] = []
    # Run it now, inside the wait that this worker is blocked in, without a claim.
    nested: bool = False
    # Those that the tasks have, as CUDA_VISIBLE_DEVICES names them; None: as before, or the node has none.
    gpus: Many[Text] | None = None


class TaskResult(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What became of one task.  One value per return; an error value stands in each of them."""

    task_id: TaskID
    values: Many[Payload | StoredValue]
    # The refs inside each value, where there are any: one tuple per value.
    contained: Several[Refs] = ()
    # The user's function raised, and its options allow another attempt.
    wants_retry: bool = False


# A mean of so many microseconds is said after each run, so that the node's own one is no worker's chance; of shorter
# ones it is told when they have moved.
STEADY_US = 1_000


class Timing(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Mean run time of a function, as its worker sees it, in microseconds."""

    function_id: FunctionID
    mean_us: int


class TasksFinished(Message, tag=13):
    """worker -> local scheduler.  In the order in which they ran."""

    results: Plenty[TaskResult]
    timings: Plenty[Timing] = []  # of functions whose mean has moved


class TasksReturned(Message, tag=14):
    """worker -> local scheduler.  Not run, in queue order; `drained`: the claim window was found empty."""

    task_ids: Plenty[TaskID]
    drained: bool = False


class ObjectsReady(Message, tag=15):
    """local scheduler -> driver, worker.  Values; a StoredValue is pinned for the receiver until unpinned."""

    objects: Plenty[tuple[ObjectID, Payload | StoredValue]]


class WaitObjects(Message, tag=16):
    """driver, worker -> local scheduler.  Answer when `count` of the objects are there.

    fetch: send the values too, of those that are there.  block: this worker's only thread stops: it gives its
    CPU back, and the reply grants it anew.  aside: with block, of threads beside that one, which waits for them or for
    something else: it can run nothing meanwhile, and goes on when it likes.  limited: with block, the wait has a
    timeout: a task that ran inside it would hold that up.
    """

    request: int
    object_ids: Plenty[ObjectID]
    count: Natural
    fetch: bool = True
    block: bool = False
    aside: bool = False
    limited: bool = False


class WaitReply(Message, tag=17):
    """local scheduler -> driver, worker.  Which of them are there.  Values went ahead in ObjectsReady.

    request 0 answers nothing: these large results of the receiver's tasks lie on other nodes, and come when asked for.
    """

    request: int
    ready: Plenty[ObjectID]


class CancelWait(Message, tag=18):
    """driver, worker -> local scheduler.  Answer WaitObjects `request` now, with what is there.

    goes_on: this worker's only thread does not wait for its CPU: its time is over, or a signal's handler has raised.
    The worker owes that CPU: nothing new starts on it before the worker has it back.  Nested tasks that were sent into
    the wait are taken back, and the worker throws out those that come ahead of the reply.
    """

    request: int
    goes_on: bool = False


class AwaitRoom(Message, tag=25):
    """worker -> local scheduler.  This worker's only thread has asked for room in the object store, and waits for it.

    Its CPU may go to what makes some.  When it has its answer it says CancelWait `request`; the reply grants the CPU
    anew.
    """

    request: int


class JobStarted(Message, tag=19):
    """local scheduler -> worker.  Before its first task: whose worker it is.

    env_vars: those of its tasks, beyond the job's; their children have them too.
    """

    job_id: ShortBytes
    facts: JobFacts
    env_vars: EnvVars = ()


class StopWorker(Message, tag=20):
    """local scheduler -> worker.  Leave after what is queued."""
