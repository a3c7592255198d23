"""Readonly calls of an actor that recovers whose answers are large, or have refs inside: these lie on its node alone.

    such a call ends     it goes into the log with what it takes, at its place: behind the calls that it has seen
    CallsLogged          its answer leaves
    AnswersTaken         nobody asks for that again: the call is forgotten, here and there
    the node is lost     it is run once more, at its place among the calls that are run again, and so returns the same;
                         where the answer may still be asked for

One that the checkpoint is behind is not run again, as with other calls.  Small answers stand in the log (`shipping`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.task_spec import TaskSpec, parse_options
from ....wire.wards import Answer, LoggedCall
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .shipping import Shipping

# So many are kept whose answers nobody has taken yet, and bytes that they take in messages; the last one in any case.
READS_MAX = 1000
READS_BYTES_MAX = 1 << 20


class Read(Struct, gc=False, eq=False):
    """One of them."""

    spec: TaskSpec
    place: int  # calls that it has seen


class Reads:
    """Of one journal."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_id: dict[bytes, Read] = {}  # in the order of their places
        self.size = 0

    def keep(self, spec: TaskSpec, place: int) -> None:
        """That call has ended."""
        self.drop(spec.task_id)  # it has run twice
        self.by_id[spec.task_id] = Read(spec, place)
        self.size += len(spec.args)
        for object_id in (*spec.deps, *spec.holds):
            self.node.objects.retain(object_id)
        while len(self.by_id) > READS_MAX or (self.size > READS_BYTES_MAX and len(self.by_id) > 1):
            self.drop(next(iter(self.by_id)))

    def drop(self, task_id: bytes) -> bool:
        """It is not run again.  Whether it would have been."""
        read = self.by_id.pop(task_id, None)
        if read is None:
            return False
        self.size -= len(read.spec.args)
        self.node.objects.drop_all((*read.spec.deps, *read.spec.holds))
        return True

    def begin_at(self, place: int) -> None:
        """There is no state before that many calls any more."""
        for task_id in [task_id for task_id, read in self.by_id.items() if read.place < place]:
            self.drop(task_id)

    def only(self, answers: Mapping[bytes, Answer]) -> None:
        """No others are asked for."""
        for task_id in self.by_id.keys() - answers.keys():
            self.drop(task_id)

    def clear(self) -> None:
        """The actor is dead, or has no other state than the one that it is in."""
        self.only({})

    def specs(self) -> list[TaskSpec]:
        """Of all."""
        return [read.spec for read in self.by_id.values()]

    def among(self, calls: Iterable[TaskSpec], first: int) -> Iterable[TaskSpec]:
        """These calls, of which the first one has seen so many others, and the reads between them."""
        reads = deque(self.by_id.values())
        for place, spec in enumerate(calls, first):
            while reads and reads[0].place <= place:
                yield reads.popleft().spec
            yield spec
        yield from (read.spec for read in reads)


def is_kept(call: LoggedCall) -> bool:
    """Whether that stands for a readonly call which may be run again."""
    return call.answer is not None and bool(call.answer.large) and parse_options(call.spec.options).is_readonly


def read_ended(shipping: Shipping, task: Task, answer: Answer | None) -> int:
    """A readonly call has.  Which of the log's words its answer waits for; 0: none.

    One that has made others is in the log, if it is not run again: it made them once.
    """
    spec, journal = task.spec, shipping.actor.journal
    if answer is not None and answer.large:
        journal.reads.keep(spec, journal.count)
        return shipping.says(journal.logged(spec, answer)) if shipping.is_started else 0
    call = LoggedCall(TaskSpec(spec.task_id, b"", options=spec.options), answer=answer)
    if journal.nested.forget_read(spec.task_id) and shipping.is_started:
        shipping.log_reads(call)
    elif answer is not None:
        shipping.answers.reads[spec.task_id] = call
    return 0
