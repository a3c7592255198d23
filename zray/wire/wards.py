"""Dialog: recovery of actors with a checkpoint interval; the data is kept by the backup node.

local scheduler    LogStart          to the backup node: the call log begins again, from this checkpoint on
local scheduler    LogCalls          calls that the actor has run since, in order, and their answers
local scheduler    LogCheckpoint     the state after so many calls is this object: pull it
local scheduler    CallsLogged       back: everything needed to replay the calls is here, up to this count
local scheduler    AnswersTaken      the caller's node, to the actor's: these results arrived, and need not be kept

No result of such an actor leaves its node before the backup node could restore the state that produced the result.  The
former home of an actor sends the log to the new home likewise, ahead of ActorHandedOver.
"""

from typing import Annotated

from msgspec import Meta, Struct

from ..ids import OBJECT_ID_BYTES, PARENT_HASH_BYTES, ActorID, ObjectID, TaskID, return_id
from .limits import Many, Million, Payload, Text
from .message import Message, Natural, routed
from .task_spec import ITEMS_OF_GENERATOR_MAX, GivenItems, ItemNumber, TaskSpec


class Answer(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The answer to a call from another node.

    The call is not run again for a caller that sends it again.
    """

    task_id: TaskID
    origin: Text  # the caller's local scheduler
    values: Many[Payload | Natural]  # as in CallResult; large returns at the actor's node are lost with that node
    is_nested: bool = False  # made by a call of an actor, which may run again elsewhere after a loss of its node
    items: GivenItems | None = None  # of a generator: those that the caller's node has

    @property
    def large(self) -> list[ObjectID]:
        """The returns whose values lie in a store, and stand in no message."""
        return _large(self.task_id, self.values)


class LoggedCall(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A call that an actor has run.

    A readonly call is logged for its answer alone, and is run again if the answer is large.
    """

    spec: TaskSpec
    is_void: bool = False  # an argument was lost, so the call changed nothing
    answer: Answer | None = None  # None: no other node waits for the answer
    beside: Million[ObjectID] = []  # put objects behind the call's refs, perhaps without another copy: pull them
    has_failed: bool = False  # the call returned an error
    closed_at: ItemNumber | None = None  # as in CallClosed


class BegunCall(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A call that has made other calls, or items of a generator, and has not ended.

    The call runs first when the actor is re-created.
    """

    spec: TaskSpec
    origin: Text  # the caller's local scheduler
    beside: Million[ObjectID] = []  # as in LoggedCall
    items: GivenItems | None = None  # as in Answer


class NestedAnswer(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The result of a nested call: a call made by a call of the actor.

    When the outer call is replayed, the nested call is not made again.  A generator call has several records: one or
    more for its items, in order, and one for its end.

    The record may also describe an actor created by a call.  Both ids are then those of the created actor.  Without
    values, the creator's process has a handle on the created actor.
    """

    task_id: TaskID
    actor_id: ActorID  # the called actor
    values: Many[Payload | Natural]  # as in Answer
    is_beside: bool = False  # the call ran on the actor's own node, where its large returns lie
    first: Annotated[int, Meta(ge=1, le=ITEMS_OF_GENERATOR_MAX + 2)] = 1  # the return that the first value is of

    @property
    def is_made(self) -> bool:
        """True if the record describes a created actor."""
        return self.task_id == self.actor_id

    @property
    def large(self) -> list[ObjectID]:
        """The returns whose values lie in a store, and stand in no message."""
        return [] if self.is_made else _large(self.task_id, self.values, self.first)

    @property
    def stored(self) -> int:
        """The bytes of these."""
        return sum(value for value in self.values if type(value) is int)

    @property
    def returns(self) -> list[ObjectID]:
        """The returns that the values are of."""
        return [return_id(self.task_id, index) for index in range(self.first, self.first + len(self.values))]


def _large(task_id: TaskID, values: list[bytes | Natural], first: int = 1) -> list[ObjectID]:
    return [return_id(task_id, index) for index, value in enumerate(values, first) if type(value) is int]


class LogStart(Message, tag=routed(204, "local -> local")):
    """The start of a new call log.  The receiver's former log of the actor is void.

    `epoch` numbers the logs of this home.  Acknowledgements name the epoch.

    `seen` counts the calls whose effects may have been seen, including calls before the log.  Without the last of these
    calls the log leads to a state that the actor has left.
    """

    actor_id: ActorID
    epoch: Natural
    count: Natural  # calls before the first one of the log
    checkpoint: Annotated[bytes, Meta(max_length=OBJECT_ID_BYTES)] = b""  # b"": the state after the constructor
    beside: Million[ObjectID] = []  # put objects behind the checkpoint's refs, perhaps without another copy: pull them
    seen: Natural = 0


class LogCalls(Message, tag=routed(205, "local -> local")):
    """The next entries of the call log.

    `taken` lists calls whose results their callers have.

    `nested` holds results of calls that the actor's calls have made.

    `forgotten` lists earlier nested calls and actors that are made again, or by no call.  Their results are void.

    `begun` holds calls that have not ended, behind all of these.  Begun calls may be forgotten as well.

    `items` holds news of earlier generator calls, ended or begun: the items that the callers' nodes have.
    """

    actor_id: ActorID
    epoch: Natural
    calls: Many[LoggedCall]
    answers: Many[Answer] = []  # answers to calls before the log
    taken: Many[TaskID] = []
    nested: Many[NestedAnswer] = []
    forgotten: Million[TaskID] = []
    begun: Many[BegunCall] = []
    items: Many[tuple[TaskID, GivenItems]] = []


class LogCheckpoint(Message, tag=routed(206, "local -> local")):
    """A checkpoint: the state after `count` calls, all of which were sent before.

    `all_of` lists prefixes of task ids.  Such tasks were made by calls in the checkpoint.  Their answers are no longer
    needed.
    """

    actor_id: ActorID
    epoch: Natural
    object_id: ObjectID
    count: Natural
    all_of: Million[Annotated[bytes, Meta(max_length=PARENT_HASH_BYTES)]] = []
    beside: Million[ObjectID] = []  # as in LogStart


class CallsLogged(Message, tag=routed(207, "local -> local")):
    """An acknowledgement: the state after `count` calls could be restored here.

    `offered` is the last checkpoint that need not be offered again, by its count of calls.

    `broken` says why the latest state could not be restored.  Only a new log helps.

    `nested` counts entries of three kinds that are here: answers to nested calls, begun calls, and readonly calls with
    large answers.
    """

    actor_id: ActorID
    epoch: Natural
    count: Natural
    offered: Natural = 0
    broken: Text = ""
    nested: Natural = 0


class AnswersTaken(Message, tag=routed(208, "local -> local")):
    """The results of the CallsFinished, or the items of the ItemsMade, with this receipt are held here."""

    receipt: Natural
