"""Dialog: what an actor recovers from when its node is lost (`checkpoint_interval`), kept by its guardian.

local scheduler    LogStart          to the guardian: the log begins anew, from this checkpoint on
local scheduler    LogCalls          calls that the actor has run since, in order, and what they were answered
local scheduler    LogCheckpoint     the state after so many calls is this object: pull it
local scheduler    CallsLogged       back: so far I have all that it takes to run them again
local scheduler    AnswersTaken      the caller's node, to the actor's: I have these results; you need not keep them

No result of such an actor leaves its node before its guardian could bring about the state that it was seen in.  Whoever
hands an actor over sends the new home the log likewise, ahead of ActorHandedOver.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..ids import OBJECT_ID_BYTES, PARENT_HASH_BYTES, ActorID, ObjectID, TaskID, return_id
from .limits import Many, Million, Payload, Text
from .message import Message, Natural
from .task_spec import TaskSpec


class Answer(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What a call of another node has come to: it is not run once more for a caller that sends it again."""

    task_id: TaskID
    origin: Text  # the caller's local scheduler
    values: Many[Payload | Natural]  # as in CallResult: what lay at the actor's node is lost with that
    is_nested: bool = False  # a call of an actor has made it, and may be run again elsewhere if its node is lost

    @property
    def large(self) -> list[ObjectID]:
        """The returns that are not told, but lie somewhere."""
        return _large(self.task_id, self.values)


class LoggedCall(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A call that an actor has run.  Of a readonly one only the answer counts; it is run again where that is large."""

    spec: TaskSpec
    is_void: bool = False  # one of its arguments was lost, so it changed nothing
    answer: Answer | None = None  # None: nobody on another node waits for it
    beside: Million[ObjectID] = []  # what the refs that it takes refer to, was put, and may be nowhere else: pull it
    has_failed: bool = False  # it returned an error


class BegunCall(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A call that has made others, and has not ended: it is the first to run where the actor is made again."""

    spec: TaskSpec
    origin: Text  # the caller's local scheduler
    beside: Million[ObjectID] = []  # as above


class NestedAnswer(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What a call has come to that a call of the actor has made: it is not made once more when that runs again.

    Or an actor that was made: both ids are its own.  Without values, its maker's process has a handle on it.
    """

    task_id: TaskID
    actor_id: ActorID  # on whom
    values: Many[Payload | Natural]  # as above
    is_beside: bool = False  # it was on the actor's own node: what is large lies there

    @property
    def is_made(self) -> bool:
        """Whether it is an actor."""
        return self.task_id == self.actor_id

    @property
    def large(self) -> list[ObjectID]:
        """The returns that are not told, but lie somewhere."""
        return [] if self.is_made else _large(self.task_id, self.values)


def _large(task_id: TaskID, values: list[bytes | Natural]) -> list[ObjectID]:
    return [return_id(task_id, index) for index, value in enumerate(values, 1) if type(value) is int]


class LogStart(Message, tag=204):
    """local scheduler -> local scheduler.  What you have of its log is void; it begins here.

    epoch: which of the logs of this home; the answers name it.
    seen: calls that somebody may have seen the effects of, those before the log with them: without the last of these it
        leads to a state that the actor is not in any more.
    """

    actor_id: ActorID
    epoch: Natural
    count: Natural  # calls before the first one of the log
    checkpoint: Annotated[bytes, Meta(max_length=OBJECT_ID_BYTES)] = b""  # b"": as its constructor leaves it
    beside: Million[ObjectID] = []  # what refs in the checkpoint refer to, was put, and may be nowhere else: pull it
    seen: Natural = 0


class LogCalls(Message, tag=205):
    """local scheduler -> local scheduler.  What follows in its log.

    taken: results that their callers have.
    nested: of calls that the actor's own have made.
    forgotten: calls, and actors, of those before that are made anew, or by nobody: what they came to is void.
    begun: calls that have not ended, behind all these; or are forgotten as well.
    """

    actor_id: ActorID
    epoch: Natural
    calls: Many[LoggedCall]
    answers: Many[Answer] = []  # of calls before the log
    taken: Many[TaskID] = []
    nested: Many[NestedAnswer] = []
    forgotten: Million[TaskID] = []
    begun: Many[BegunCall] = []


class LogCheckpoint(Message, tag=206):
    """local scheduler -> local scheduler.  The state after so many calls, all of which were sent before.

    all_of: what begins like that was made by calls that are in it: its answers are not needed any more.
    """

    actor_id: ActorID
    epoch: Natural
    object_id: ObjectID
    count: Natural
    all_of: Million[Annotated[bytes, Meta(max_length=PARENT_HASH_BYTES)]] = []
    beside: Million[ObjectID] = []  # as in LogStart


class CallsLogged(Message, tag=207):
    """local scheduler -> local scheduler.  The state after so many calls could be brought about here.

    offered: the last checkpoint that needs to be offered no more, by its count of calls.
    broken: why it could not be, after what came last; only a new log helps.
    nested: so many answers to calls that its calls have made are here, calls that have begun, and readonly ones whose
    answers are large.
    """

    actor_id: ActorID
    epoch: Natural
    count: Natural
    offered: Natural = 0
    broken: Text = ""
    nested: Natural = 0


class AnswersTaken(Message, tag=208):
    """local scheduler -> local scheduler.  The results of the CallsFinished with that receipt are held here."""

    receipt: Natural
