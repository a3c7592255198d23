"""Dialog: tasks on one node.

driver, worker     PublishFunction   sent before the first task of a function
driver, worker     SubmitTasks       tasks and calls to queue
local scheduler    StartTasks        tasks to run in this order, as long as the claim window permits
worker             TasksFinished     values (or error values) of tasks
worker             TasksReturned     tasks that were ordered and not run: taken back, or an argument failed
local scheduler    ObjectsReady      values, for the process that submitted or asked
driver, worker     WaitObjects       request for a reply when so many objects are there; the process blocks
local scheduler    WaitReply
driver, worker     CancelWait        end of a wait
driver, worker     CancelTask -> CancelTaskReply     end of a task that nobody needs any more
local scheduler    InterruptTask     the same, for the worker that has the task
worker             TaskOverdue       a task has run for its time limit
worker             ItemsYielded      items of a generator
driver, worker     ItemsDrawn        items that were drawn; to the worker
driver, worker     LeaveGenerator    end of the interest in a generator
worker             AwaitRoom         start of a wait for space in a full store, until CancelWait
"""

from msgspec import Struct

from ..ids import FunctionID, ObjectID, TaskID
from .environment import NO_ENVIRONMENT, Environment
from .limits import Many, Payload, Plenty, Refs, Several, ShortBytes, Text
from .message import Message, Natural, routed
from .scheduling import JobFacts
from .task_spec import GivenItems, ItemNumber, StoredValue, TaskSpec, Value

# Code that the processes of a node may publish for a job, kept as long as the job.  A program has hundreds of
# functions, not hundreds of thousands.  The bytes are enough for ten of the largest.
FUNCTIONS_COUNT_MAX = 100_000
FUNCTIONS_BYTES_MAX = 1 << 30


def why_too_many() -> str:
    """Error text for a user whose job publishes too much code."""
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


class PublishFunction(Message, tag=routed(10, "driver, worker -> local -> gcs")):
    """An entry for the function table (Ray paper 4.3).

    A message to a shard names the owner: `node` reports the end of job `job_id` with ReleaseFunctions.
    """

    function: Function
    node: Text = ""
    job_id: ShortBytes = b""


class SubmitTasks(Message, tag=routed(11, "driver, worker -> local")):
    """Tasks and actor calls in the order of submission.

    From now on the sender holds a ref on every return value of every spec.
    """

    specs: Plenty[TaskSpec]


class Argument(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The value of a ref that a task takes."""

    object_id: ObjectID
    value: Value


# A worker keeps this much of the latest code, and the code that its queue needs.  Older code is sent again.
LEARNED_COUNT_MAX = 4_096
LEARNED_BYTES_MAX = 256 << 20


class StartTasks(Message, tag=routed(12, "local -> worker")):
    """Tasks to run in this order.

    A dep that is missing from the arguments is made by a task ahead in the same worker's queue.
    """

    specs: Plenty[TaskSpec]
    functions: Plenty[Function] = []  # functions not sent to this worker lately
    arguments: Plenty[Argument] = []
    # Run the task now, inside the wait in which this worker is blocked, without a claim.
    nested: bool = False
    # GPUs of the tasks, as CUDA_VISIBLE_DEVICES names them; None: unchanged, or a node without GPUs.
    gpus: Many[Text] | None = None
    # Generators of recoverable actors that run again: items that are not made again, and the number of drawn items.
    again: Many[tuple[TaskID, GivenItems, ItemNumber]] = []


class TaskResult(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The result of one task: one value per return.  An error value stands in each of them."""

    task_id: TaskID
    values: Many[Payload | StoredValue]
    # Refs inside each value, one tuple per value; empty if no value has refs.
    contained: Several[Refs] = ()
    # The user's function raised, and its options allow another attempt.
    wants_retry: bool = False


# A mean of at least so many microseconds is reported after each run, so that the node's mean depends on no single
# worker.  A shorter mean is reported when it has moved.
STEADY_US = 1_000


class Timing(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Mean run time of a function in microseconds, as measured by its worker."""

    function_id: FunctionID
    mean_us: int


class TasksFinished(Message, tag=routed(13, "worker -> local")):
    """Results in the order in which the tasks ran."""

    results: Plenty[TaskResult]
    timings: Plenty[Timing] = []  # of functions whose mean has moved


class TasksReturned(Message, tag=routed(14, "worker -> local")):
    """Tasks that were not run, in queue order.  `drained`: the claim window was found empty."""

    task_ids: Plenty[TaskID]
    drained: bool = False


class ObjectsReady(Message, tag=routed(15, "local -> driver, worker")):
    """Values of objects.  A StoredValue is pinned for the receiver until unpinned."""

    objects: Plenty[tuple[ObjectID, Payload | StoredValue]]


class WaitObjects(Message, tag=routed(16, "driver, worker -> local")):
    """A request for a reply when `count` of the objects are there.

    `fetch` asks for the values of ready objects too.

    `block`: this worker's only thread stops.  The thread gives its CPU back, and the reply grants the CPU again.

    `aside`, with `block`, says that other threads wait.  The main thread waits for these threads or for something else.
    Meanwhile the main thread can run nothing, and resumes at any time.

    `limited`, with `block`: the wait has a timeout.  A task run inside the wait would delay this timeout.
    """

    request: int
    object_ids: Plenty[ObjectID]
    count: Natural
    fetch: bool = True
    block: bool = False
    aside: bool = False
    limited: bool = False


class WaitReply(Message, tag=routed(17, "local -> driver, worker")):
    """The objects that are ready.  Values went ahead in ObjectsReady.

    Request 0 answers no wait.  The objects are then large results of the receiver's tasks on other nodes, sent on
    request.
    """

    request: int
    ready: Plenty[ObjectID]


class CancelWait(Message, tag=routed(18, "driver, worker -> local")):
    """A request to answer WaitObjects `request` now, with the objects that are ready.

    `goes_on`: this worker's only thread does not wait for its CPU.  The timeout has passed, or a signal handler has
    raised.  The worker owes the CPU: nothing new starts on that CPU before the worker has it back.  Nested tasks sent
    into the wait are taken back.  The worker discards nested tasks that arrive ahead of the reply.
    """

    request: int
    goes_on: bool = False


class AwaitRoom(Message, tag=routed(25, "worker -> local")):
    """This worker's only thread waits for requested space in the object store.

    The CPU may go to work that frees space.  After its answer the worker sends CancelWait `request`.  The reply to
    CancelWait grants the CPU again.
    """

    request: int


class CancelTask(Message, tag=routed(276, "driver, worker -> local -> local")):
    """A request to end a task: with the worker that runs the task, where `force` says so; with its children.

    `trip`: the sender had placed the task at the receiver, on that attempt.  0: the sender does not know where the task
    is.  `request`: a process wants CancelTaskReply; 0: it does not.  `only_waiting`: a task that has begun, or that
    another node has, goes on, and the reply says so.  `items`: the program has had so many items of a generator, which
    ends no earlier.
    """

    task_id: TaskID
    force: bool = False
    recursive: bool = True
    trip: Natural = 0
    request: Natural = 0
    only_waiting: bool = False
    items: ItemNumber = 0


class CancelTaskReply(Message, tag=routed(278, "local -> driver, worker")):
    """The answer to CancelTask `request`; `error`: why the task cannot be cancelled in that way."""

    request: int
    error: Text = ""


class InterruptTask(Message, tag=routed(277, "local -> worker")):
    """An order to end a task that the worker has; the effect InterruptWorker follows.  `items`: as in CancelTask."""

    task_id: TaskID
    items: ItemNumber = 0


class TaskOverdue(Message, tag=routed(295, "worker -> local")):
    """A task runs longer than its time limit: its worker interrupts it."""

    task_id: TaskID


class TaskCleansUp(Message, tag=routed(305, "worker -> local")):
    """The code of a cancelled task knows that it is cancelled: tasks that it submits from now on run."""

    task_id: TaskID


class ItemsYielded(Message, tag=routed(279, "worker -> local")):
    """Items of a generator, from number `first` on, as they are made.

    `contained`: the refs inside each value, one tuple per value; empty if no value has refs.
    """

    task_id: TaskID
    first: ItemNumber
    values: Many[Payload | StoredValue]
    contained: Several[Refs] = ()


class LeaveGenerator(Message, tag=routed(281, "driver, worker -> local")):
    """The sender draws no more items of its generator, and has heard of `count` of them.

    The others go.  `ends`: nobody waits for the end of the task either: it is cancelled if it still runs.
    """

    task_id: TaskID
    count: ItemNumber
    ends: bool = True


class ItemsDrawn(Message, tag=routed(282, "driver, worker -> local -> local -> worker")):
    """The number of items drawn from a generator with `max_buffered`: its worker may make as many more."""

    task_id: TaskID
    count: ItemNumber


class JobStarted(Message, tag=routed(19, "local -> worker")):
    """The job to which the worker belongs; sent before the first task.

    `environment` is what the worker's tasks have beyond the job's.  Child tasks have it too.
    """

    job_id: ShortBytes
    facts: JobFacts
    environment: Environment = NO_ENVIRONMENT


class StopWorker(Message, tag=routed(20, "local -> worker")):
    """The order to leave after the queued tasks."""
