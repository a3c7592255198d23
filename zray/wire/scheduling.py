"""Dialog: tasks between nodes (Ray paper 4.2.2, bottom-up scheduling).

local scheduler     LoadReport     to the global schedulers, regularly, and when nothing is left of what they placed
local scheduler     SpillTask      a task that this node cannot run, or not soon
global scheduler    LocateObjects -> LocateObjectsReply    at the GCS shard: where its arguments are
global scheduler    PlaceTask      to the chosen node's local scheduler
global scheduler    TaskPlaced     to the one that spilled it: who was chosen
global scheduler    TaskDeferred   to the one that spilled it: actors hold what it needs, on every node; ask again
local scheduler     TaskGivenBack  to the one that spilled it: actors hold here what it needs, or another node has
                                   nothing to do, or it is here already, for another one; ask again.  Or it was here
global scheduler    StealTasks     to a node with a long queue: others have nothing to do
local scheduler     TaskAccepted   to the one that spilled it: I hold what it needs
local scheduler     TaskDone       to the one that spilled it: small results, ahead of the news by way of the shard; or
                                   instead of that (ResultsHeld)
local scheduler     FindTasks -> TasksFound    among each other: a global scheduler is gone; who has what it had?
local scheduler     JobEnded       to all others: the driver of a job has ended
global scheduler    SpillRefused   no node that is known could ever run it
driver              PublishCode    code that travels with its tasks; a change of where and what it imports
local scheduler     CodeAdded      to all others: likewise
local scheduler     JobNotice      to the job's driver: words for its user
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ..ids import ObjectID, TaskID
from .limits import Many, Payload, Several, ShortBytes, Table, Text
from .message import Message, Natural
from .task_spec import EnvVars, TaskSpec

# Tasks whose arguments a global scheduler asks for, some kilobytes each; further ones are placed without knowing where
# these are.
LOCATING_MAX = 10_000
# Bottom-up: a node keeps what it can run soon, and passes up the rest, which goes to where it would start soonest.
# The others are there to be compared with: all tasks go up; those that do are placed at random; nobody asks where
# arguments are.
BOTTOM_UP, CENTRAL, RANDOM, NO_LOCALITY = POLICIES = ("bottom_up", "central", "random", "no_locality")


class LoadReport(Message, tag=80):
    """local scheduler -> global scheduler.  A hint: may be late or lost.

    Resources in RESOURCE_UNITs, task_s_mean in seconds (0.0 before the first task).  Of GPUs, as many count as free as
    one request may have: whole ones, and the largest part of one.  Of thousands of resources most are all free: those
    are not repeated ten times a second.
    """

    node: Text
    total: Table[Text, int]  # empty: as said when the node joined
    free: Table[Text, int]  # of what is not all free
    queue_count: int
    task_s_mean: float
    bandwidth_bytes_per_s: float
    held: Table[Text, int] = {}  # what actors have, for as long as they live
    placed_count: Natural = 0  # tasks that have come from the receiver, ever
    is_draining: bool = False  # it is to leave: nothing more is to be placed there


# What is in a bundle of code: modules to import; or the files of the folder that tasks run in, and modules too.
MODULES = "modules"
WORKING_DIR = "working_dir"


class Bundle(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Code of a job that its workers on other nodes need.  The object holds the bytes; size in bytes."""

    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]  # sha256 of them
    object_id: ObjectID
    size: Natural
    kind: Text = MODULES


class JobFacts(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """What every node must know of a job whose tasks it runs."""

    namespace: Text = ""
    sys_path: Several[Text] = ()
    working_dir: Text = ""
    home: Text = ""  # the local scheduler of its driver's node: with that, the job ends
    env_vars: EnvVars = ()
    code: Several[Bundle] = ()  # for nodes other than its home, which has the files themselves
    infeasible: Text = ""  # what becomes of what no node can ever hold: "raise", "wait"; "": as the cluster has it
    is_heir: bool = False  # of a detached actor: it goes on when the driver has ended
    log_to_driver: bool = False  # what its workers print elsewhere is sent to its home
    reloads: Natural = 0  # how often it has imported modules of its own anew: workers that have them are replaced
    revision: Natural = 0  # how often code, sys_path and reloads have changed: of two, the larger is the later one

    def updated(self, told: JobFacts) -> JobFacts:
        """These facts with what has changed, if `told` are later ones."""
        if told.revision <= self.revision:
            return self
        changes = {"code": told.code, "sys_path": told.sys_path, "reloads": told.reloads, "revision": told.revision}
        return replace(self, **changes)


class SpillTask(Message, tag=81):
    """local scheduler -> global scheduler.  Place this task; origin is the sender's address.

    trip: how often it has gone up.  attempts: that it has had.  is_quiet: the shards know nothing of what it returns,
    for nobody but the origin does; and nothing else leaves with it.  located: of large arguments that are not at the
    origin, as in LocateObjectsReply: it may hear of them ahead of their shards.
    """

    spec: TaskSpec
    origin: Text
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    trip: Natural = 1
    attempts: Natural = 0
    is_quiet: bool = False
    located: Many[tuple[ObjectID, Natural, Many[Text]]] = []


class SpillRefused(Message, tag=82):
    """global scheduler -> local scheduler.  Definite as long as the nodes are what they are; is_final: for good.

    leaving: nodes that are to leave, and do not count.
    """

    task_id: TaskID
    reason: Text
    is_final: bool = False
    leaving: Many[Text] = []


class PlaceTask(Message, tag=83):
    """global scheduler -> local scheduler.  Run it here; as in SpillTask."""

    spec: TaskSpec
    origin: Text
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    trip: Natural = 1
    attempts: Natural = 0
    is_quiet: bool = False


class TaskAccepted(Message, tag=84):
    """local scheduler -> local scheduler of the origin.  The refs that the task takes are held here too."""

    task_id: TaskID
    trip: Natural = 1


class TaskPlaced(Message, tag=88):
    """global scheduler -> local scheduler of the origin.  If that node is lost, the task is to be passed up again.

    Of an actor, whose creation task this is, too: it has not accepted it yet.
    """

    task_id: TaskID
    node: Text
    trip: Natural = 1


class TaskDeferred(Message, tag=89):
    """global scheduler -> local scheduler of the origin.  On all nodes that could run it actors hold what it needs."""

    task_id: TaskID
    trip: Natural


class TaskGivenBack(Message, tag=90):
    """local scheduler -> local scheduler of the origin.  It is yours again: actors here hold what it needs, say."""

    task_id: TaskID
    trip: Natural
    attempts: Natural
    thief: Text = ""  # it would wait long here, and that node has nothing to do


class Thief(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """A node that has nothing to do, would take so many tasks, and what its actors hold."""

    node: Text
    count: Natural
    held: Table[Text, int] = {}


class StealTasks(Message, tag=79):
    """global scheduler -> local scheduler.  These nodes have nothing to do, and yours wait long: pass some up again."""

    thieves: Many[Thief]


class TaskDone(Message, tag=91):
    """local scheduler -> local scheduler of the origin.  All that it returns: small values with no refs inside; after a
    quiet trip also the sizes in bytes of what lies at the sender's node, which holds it until ResultsHeld.

    After another one what is large comes by way of the object directory (Ray paper, figure 7b).
    """

    task_id: TaskID
    trip: Natural
    values: Many[Payload | Natural]


class FindTasks(Message, tag=95):
    """local scheduler -> local scheduler.  Which of these tasks of mine, on these trips, are with you?  That scheduler
    had them, and is gone: answer when you hear nothing from it any more.
    """

    scheduler: Text
    request: int
    tasks: Many[tuple[TaskID, Natural]]


class TasksFound(Message, tag=96):
    """local scheduler -> local scheduler.  These are."""

    request: int
    task_ids: Many[TaskID]


class JobEnded(Message, tag=87):
    """local scheduler -> local scheduler.  The job's driver, which was the sender's, has ended: so has all of it."""

    job_id: ShortBytes


class JobNotice(Message, tag=97):
    """local scheduler -> driver, or the local scheduler of its node.  Something that its user should hear of."""

    job_id: ShortBytes
    text: Text


class PublishCode(Message, tag=98):
    """driver -> local scheduler.  Its job's workers on other nodes need these too; the driver holds the objects.

    sys_path: where it looks for modules from now on; (): where it did.  has_reloaded: it has imported modules of its
    own anew, so that workers which have imported any are to be replaced.
    """

    bundles: Many[Bundle]
    sys_path: Several[Text] = ()
    has_reloaded: bool = False


class CodeAdded(Message, tag=99):
    """local scheduler -> local scheduler.  The code of a job has changed, of which tasks may be there."""

    job_id: ShortBytes
    facts: JobFacts


class LocateObjects(Message, tag=85):
    """global scheduler -> GCS shard."""

    request: int
    object_ids: Many[ObjectID]


class LocateObjectsReply(Message, tag=86):
    """GCS shard -> global scheduler.  For each: size in bytes and the local schedulers of the nodes that have it."""

    request: int
    objects: Many[tuple[ObjectID, int, Many[Text]]]
