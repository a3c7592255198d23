"""Dialog: tasks between nodes (Ray paper 4.2.2, bottom-up scheduling).

local scheduler     LoadReport     to the global schedulers, regularly, and when no placed task is left
local scheduler     SpillTask      a task that this node cannot run, or not soon
global scheduler    LocateObjects -> LocateObjectsReply    at the GCS shard: places of the arguments
global scheduler    PlaceTask      to the chosen node's local scheduler
global scheduler    TaskPlaced     to the origin: the chosen node
global scheduler    TaskDeferred   to the origin: on every node actors hold the resources; ask again
local scheduler     TaskGivenBack  to the origin: actors here hold the resources, or another node is idle, or the
                                   task is here already, for another origin: ask again.  Or the task was here
global scheduler    StealTasks     to a node with a long queue: other nodes are idle
local scheduler     TaskAccepted   to the origin: the arguments are held here
local scheduler     TaskDone       to the origin: small results, ahead of the news by way of the shard; or
                                   instead of that news (ResultsHeld)
local scheduler     EndTasks       to the nodes of placed tasks: the submitting process has died
local scheduler     FindTasks -> TasksFound    to all others: a global scheduler is gone; where are its tasks?
local scheduler     JobEnded       to all others: the driver of a job has ended
global scheduler    SpillRefused   no known node could ever run the task
driver              PublishCode    code that travels with the job's tasks; a change of module paths and imports
local scheduler     CodeAdded      to all others: the same change
local scheduler     JobNotice      to the job's driver: a text for its user

The origin of a task is the node that spilled the task.
"""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ..ids import ObjectID, TaskID
from .environment import EnvVars
from .limits import Many, Payload, Several, ShortBytes, Table, Text
from .message import Message, Natural, routed
from .task_spec import ItemNumber, TaskSpec

# Tasks for whose arguments a global scheduler asks at a time, some kilobytes each.  Further tasks are placed without
# knowing the places of their arguments.
LOCATING_MAX = 10_000
# Bottom-up: a node keeps the tasks that it can run soon, and spills the rest, each to the node with the earliest start.
# The other policies serve for comparison: all tasks are spilled; spilled tasks are placed at random; the places of
# arguments are ignored.
BOTTOM_UP, CENTRAL, RANDOM, NO_LOCALITY = POLICIES = ("bottom_up", "central", "random", "no_locality")


class LoadReport(Message, tag=routed(80, "local -> global")):
    """A hint about the node's load, which may be late or lost.

    Resources are in RESOURCE_UNITs.  `task_s_mean` is in seconds, 0.0 before the first task.  The free GPUs are those
    that one request may have: the whole GPUs, and the largest part of one GPU.  Most of thousands of resources are
    entirely free.  Such resources are not repeated ten times a second.
    """

    node: Text
    total: Table[Text, int]  # empty: as reported when the node joined
    free: Table[Text, int]  # resources that are not entirely free
    queue_count: int
    task_s_mean: float
    bandwidth_bytes_per_s: float
    held: Table[Text, int] = {}  # resources that actors hold for life
    placed_count: Natural = 0  # tasks ever received from the receiver of this report
    is_draining: bool = False  # the node is about to leave: place nothing more there
    placing_s: float = (
        0.0  # mean seconds from a spill to its placement by the receiver; 0.0: none since the last report
    )


# Contents of a bundle of code: modules to import; or the files of the tasks' working directory, and modules too.
MODULES = "modules"
WORKING_DIR = "working_dir"


class Bundle(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Code of a job that its workers on other nodes need.  The object holds the bytes.  `size` is in bytes."""

    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]  # sha256 of the bytes
    object_id: ObjectID
    size: Natural
    kind: Text = MODULES


class JobFacts(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """The facts about a job that every node with tasks of the job must know."""

    namespace: Text = ""
    sys_path: Several[Text] = ()
    working_dir: Text = ""
    home: Text = ""  # the local scheduler of the driver's node; the job ends with that node
    env_vars: EnvVars = ()
    code: Several[Bundle] = ()  # for nodes other than the home, which has the files
    infeasible: Text = ""  # policy for work that no node can ever hold: "raise", "wait"; "": the cluster's default
    is_heir: bool = False  # facts of a detached actor, which outlives the driver
    log_to_driver: bool = False  # output of workers on other nodes, and notices, are sent to the home
    reloads: Natural = 0  # number of reloads of the program's own modules; workers with such modules are replaced
    given: Text = ""  # the program's runtime_env as JSON, for get_runtime_context(), without its environment
    seed: Natural | None = None  # of the random numbers that tasks draw; None: another one in each run
    revision: Natural = 0  # number of changes of code, sys_path and reloads; the larger of two is the later
    as_ray: bool = False  # `import ray` means zray in workers too
    cancels_unreferenced: bool = False  # tasks to whose returns nothing refers any more are cancelled
    only_looks: bool = False  # a node that drains does not wait for such a program

    def updated(self, told: "JobFacts") -> "JobFacts":
        """Return these facts with the changes of `told`, if `told` has a later revision."""
        if told.revision <= self.revision:
            return self
        changes = {"code": told.code, "sys_path": told.sys_path, "reloads": told.reloads, "revision": told.revision}
        return replace(self, **changes)


class SpillTask(Message, tag=routed(81, "local -> global")):
    """A request to place this task.  `origin` is the sender's address.

    `trip` is the spill count, and `attempts` the number of attempts so far.

    `is_quiet` marks a task whose returns no shard knows, since only the origin knows the returns.  Nothing else leaves
    with such a task.

    `located` lists large arguments that are not at the origin, as in LocateObjectsReply.  The origin may hear of them
    ahead of their shards.
    """

    spec: TaskSpec
    origin: Text
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    trip: Natural = 1
    attempts: Natural = 0
    is_quiet: bool = False
    located: Many[tuple[ObjectID, Natural, Many[Text]]] = []


class SpillRefused(Message, tag=routed(82, "global -> local")):
    """No node can run the task (definite while the nodes stay the same).

    `is_final`: the refusal holds for good.  `leaving` lists nodes that are about to leave, and do not count.
    """

    task_id: TaskID
    reason: Text
    is_final: bool = False
    leaving: Many[Text] = []


class PlaceTask(Message, tag=routed(83, "global, local -> local")):
    """The order to run the task at the receiver.  Fields as in SpillTask.

    A local scheduler sends tasks of placement groups, whose bundles have nodes already.
    """

    spec: TaskSpec
    origin: Text
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    trip: Natural = 1
    attempts: Natural = 0
    is_quiet: bool = False


class TaskAccepted(Message, tag=routed(84, "local -> local")):
    """An answer to the origin: the sender holds the task's refs too."""

    task_id: TaskID
    trip: Natural = 1


class TaskPlaced(Message, tag=routed(88, "global -> local")):
    """The chosen node, for the origin.  After the loss of this node, the task must be spilled again.

    Sent too for an actor, whose creation task has this id.  The node has not accepted the actor yet.
    """

    task_id: TaskID
    node: Text
    trip: Natural = 1


class TaskDeferred(Message, tag=routed(89, "global -> local")):
    """An answer to the origin: actors hold the needed resources on all possible nodes."""

    task_id: TaskID
    trip: Natural


class TaskGivenBack(Message, tag=routed(90, "local -> local")):
    """The task is returned to its origin.

    The reason may be, for example, that actors here hold the needed resources.
    """

    task_id: TaskID
    trip: Natural
    attempts: Natural
    thief: Text = ""  # an idle node; the task would wait long here


class EndTasks(Message, tag=routed(78, "local -> local")):
    """Tasks, as (task, trip), that were placed at the receiver, and whose results nobody wants.

    The process that had submitted the tasks has died.
    """

    tasks: Many[tuple[TaskID, Natural]]


class Thief(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """An idle node, with the number of tasks to take, and the resources held by its actors."""

    node: Text
    count: Natural
    held: Table[Text, int] = {}


class StealTasks(Message, tag=routed(79, "global -> local")):
    """These nodes are idle, and tasks of the receiver wait long.

    Spill some tasks again.
    """

    thieves: Many[Thief]


class TaskDone(Message, tag=routed(91, "local -> local")):
    """All returns of a task, for the origin: small values with no refs inside.

    After a quiet spill, the message also has the sizes in bytes of large returns.  The sender's node holds these until
    ResultsHeld.  After any other spill, large returns come by way of the object directory (Ray paper, figure 7b).

    `attempts` is the number of further runs so far.
    """

    task_id: TaskID
    trip: Natural
    values: Many[Payload | Natural]
    attempts: Natural = 0


class ItemsMade(Message, tag=routed(280, "local -> local")):
    """Items of a generator, from number `first` on, for the origin of its task.

    Small values with no refs inside; of other items the size in bytes.  The sender's node holds these items
    until ResultsHeld.

    A `receipt` other than 0 must be acknowledged once the receiver has all values, or nobody there wants the missing
    ones (AnswersTaken).
    """

    task_id: TaskID
    trip: Natural
    first: ItemNumber
    values: Many[Payload | Natural]
    receipt: Natural = 0


class FindTasks(Message, tag=routed(95, "local -> local")):
    """A question: which of these tasks of the sender, with these spill counts, are at the receiver?

    The named global scheduler had the tasks, and is gone.  The receiver answers when it hears no more from that
    scheduler.
    """

    scheduler: Text
    request: int
    tasks: Many[tuple[TaskID, Natural]]


class TasksFound(Message, tag=routed(96, "local -> local")):
    """The tasks that are here."""

    request: int
    task_ids: Many[TaskID]


class JobEnded(Message, tag=routed(87, "local -> local")):
    """The job's driver, at the sender's node, has ended.  Everything of the job has ended too."""

    job_id: ShortBytes


class JobNotice(Message, tag=routed(97, "local -> local, driver")):
    """A text for the user of the job: to the driver, or to its node.

    is_event: a repaired failure; the driver's node limits the rate of such notices.
    """

    job_id: ShortBytes
    text: Text
    is_event: bool = False


class PublishCode(Message, tag=routed(98, "driver -> local")):
    """Code that the job's workers on other nodes need too.  The driver holds the objects.

    `sys_path` lists the folders in which the driver looks for modules from now on; () means unchanged.

    `has_reloaded`: the driver has imported modules of its own again.  Workers that have imported any of these are then
    replaced.
    """

    bundles: Many[Bundle]
    sys_path: Several[Text] = ()
    has_reloaded: bool = False
    replaced: Many[ObjectID] = []  # earlier bundles whose contents are all in later ones


class CodeAdded(Message, tag=routed(99, "local -> local")):
    """The code of a job has changed.  Tasks of the job may be at the receiver."""

    job_id: ShortBytes
    facts: JobFacts


class LocateObjects(Message, tag=routed(85, "global -> gcs")):
    """A request for the places of objects."""

    request: int
    object_ids: Many[ObjectID]


class LocateObjectsReply(Message, tag=routed(86, "gcs -> global")):
    """The size in bytes of each object, and the local schedulers of the nodes with a copy."""

    request: int
    objects: Many[tuple[ObjectID, int, Many[Text]]]
