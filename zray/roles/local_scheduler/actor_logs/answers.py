"""What calls on an actor that recovers have come to, until nobody asks for it again (dialog of wards).

    given        by this node: the caller's node may not have it yet
    inherited    of the actor's former home, or for a caller whose node is lost and that may be run again elsewhere: who
                 sends such a call again gets that

A call that an actor's call has made (`nested`) is asked for again by its next process: the answer is kept until
that actor's guardian has it, too.  What is large of it is held as long, where it was made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....ids import ObjectID, return_id
from ....wire import task_spec, tasks, wards
from ..names import LOST_WITH_ACTOR
from ..tables import Actor
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# So many results that callers have are told with the next calls; more of them at once, and so are large ones, which
# the next process would make again.
TAKEN_COUNT_MAX = 64
# Answers to calls of actors whose node is lost: nobody says whether these actors are run again, and the last are kept.
ORPHANS_MAX = 10_000
# So many bytes of what these have returned that lies in the store; the last one in any case.
ORPHANS_BYTES_MAX = 64 << 20


class Answers(Struct, eq=False):
    """Of one actor."""

    node: LocalScheduler
    actor: Actor
    given: dict[bytes, wards.Answer] = {}
    inherited: dict[bytes, wards.Answer] = {}
    asked: set[bytes] = set()  # calls that come again for their answers, and are not run
    unasked: dict[bytes, str] = {}  # calls that run ahead of their callers' asking again, and their nodes
    reads: dict[bytes, wards.LoggedCall] = {}  # readonly ones that no log has: none that it has was run since
    taken: list[bytes] = []  # those that the guardian need not keep
    is_due: bool = False  # it is to be told of these without more calls
    held: dict[bytes, list[bytes]] = {}  # by call of an actor: its large returns, which are here

    def all(self) -> dict[bytes, wards.Answer]:
        """By call."""
        return {**self.inherited, **self.given}

    def give(self, task: Task, result: tasks.TaskResult) -> wards.Answer | None:
        """A call has come to this.  None: nobody would ask for it again."""
        spec = task.spec
        is_nested = bool(spec.caller) and spec.caller != self.actor.actor_id
        unasked = self.unasked.pop(spec.task_id, "") if not task.origin else ""
        if not task.origin and not unasked and not (is_nested and self._recovers(spec.caller)):
            return None
        answer = wards.Answer(spec.task_id, task.origin or unasked or self.node.address, _as_told(result), is_nested)
        if unasked:
            if not is_nested and (unasked == self.node.address or unasked in self.node.recovery.lost):
                return None
            self.inherited[answer.task_id] = answer
        elif answer.origin not in self.node.recovery.lost:
            self.given[answer.task_id] = answer
        elif is_nested:
            self.inherited[answer.task_id] = answer
        if (is_nested or unasked) and answer.large:
            self._hold(answer)
        if answer.task_id in self.inherited:
            self._drop_oldest()
        return answer

    def asked_for(self, task_id: bytes, origin: str) -> None:
        """From there, before it was seen."""
        self.unasked.pop(task_id, None)
        answer = self.inherited.pop(task_id, None)
        if answer is not None:
            self.given[task_id] = replace(answer, origin=origin)

    def _hold(self, answer: wards.Answer) -> None:
        self._let_go(answer.task_id)  # it has run twice
        self.held[answer.task_id] = answer.large
        for object_id in answer.large:
            self.node.objects.retain(object_id)

    def _let_go(self, task_id: bytes) -> None:
        self.node.objects.drop_all(self.held.pop(task_id, ()))

    def _recovers(self, caller: bytes) -> bool:
        actor = self.node.calls.actors.get(caller)
        return actor is not None and actor.shipping is not None

    def large_given(self) -> set[bytes]:
        """Calls whose large answers their callers may not have yet."""
        return {task_id for task_id, answer in self.given.items() if answer.large}

    def inherit(self, answers: dict[bytes, wards.Answer]) -> None:
        """Calls that are sent again get these."""
        self.inherited = {
            task_id: answer
            for task_id, answer in answers.items()
            if answer.is_nested or answer.origin != self.node.address or task_id in self.node.tasks
        }

    @property
    def are_known(self) -> bool:
        """Of some calls that may come."""
        return bool(self.inherited or self.asked)

    def again(self, batch: dict[bytes, Task]) -> dict[bytes, Task]:
        """Of these calls, those that are to be run; the others were."""
        left = {}
        for task_id, task in batch.items():
            answer = self.inherited.pop(task_id, None)
            if answer is None and task_id not in self.asked:
                left[task_id] = task
                continue
            self.asked.discard(task_id)
            if answer is None:
                if not self.node.routes.unpulled.give_up(task):
                    self.node.lifecycle.fail_with(task, LOST_WITH_ACTOR)
                continue
            self.node.small_values.forget_task(task_id)
            if task.origin or answer.is_nested:
                self.given[task_id] = replace(answer, origin=task.origin or self.node.address)
            else:
                self.taken.append(task_id)
            self._finish_again(task, answer)
            if task_id not in self.given:
                self._let_go(task_id)
        return left

    def _finish_again(self, task: Task, answer: wards.Answer) -> None:
        values: list[bytes | task_spec.StoredValue] = []
        contained: list[tuple[bytes, ...]] = []
        for index, value in enumerate(answer.values, 1):
            entry = self.node.objects.entries.get(return_id(answer.task_id, index))
            if type(value) is bytes:
                values.append(value)
                contained.append(())
            elif entry is None or entry.value is None or entry.is_lost:
                values.append(LOST_WITH_ACTOR)
                contained.append(())
            else:  # it lies here
                values.append(entry.value)
                contained.append(entry.contained)
        if LOST_WITH_ACTOR not in values or not self.node.routes.unpulled.give_up(task):
            self.node.lifecycle.finish(task, values, tuple(contained) if any(contained) else ())

    def to_be_made_again(self, calls: Iterable[task_spec.TaskSpec]) -> list[ObjectID]:
        """What these have returned that was large and is lost, and may be asked for: they run again, and return it."""
        entries, lost = self.node.objects.entries, []
        for spec in calls if self.inherited else ():
            answer = self.inherited.get(spec.task_id)
            for object_id in answer.large if answer is not None else ():
                entry = entries.get(object_id)
                if entry is None or entry.value is None or entry.is_lost:
                    lost.append(object_id)
        return lost

    def made_again(self, calls: Iterable[task_spec.TaskSpec]) -> None:
        """They have run again: what is here of it stays until it is asked for."""
        for spec in calls if self.inherited else ():
            answer = self.inherited.get(spec.task_id)
            if answer is not None and answer.large and spec.task_id not in self.held:
                if not self.to_be_made_again([spec]):
                    self._hold(answer)

    def caller_goes_on(self, origin: str) -> None:
        """What its node sends again went ahead: it has all the other answers."""
        for task_id in [task_id for task_id, asker in self.unasked.items() if asker == origin]:
            del self.unasked[task_id]
        for task_id in [task_id for task_id, answer in self.inherited.items() if answer.origin == origin]:
            if task_id not in self.node.tasks:
                del self.inherited[task_id]
                self._let_go(task_id)
                self.actor.journal.read_is_over(task_id)
                self.taken.append(task_id)

    def has(self, task_id: bytes) -> None:
        """Who asked for it has it, for good."""
        shipping = self.actor.shipping
        self._let_go(task_id)
        self.actor.journal.read_is_over(task_id)
        is_logged = self.reads.pop(task_id, None) is None
        answer = self.given.pop(task_id, None)
        if answer is None or not shipping.is_started:
            return
        if is_logged:
            self.taken.append(task_id)
            if answer.large or len(self.taken) >= TAKEN_COUNT_MAX:
                self.is_due = True
                self.node.logs.touched[self.actor.actor_id] = shipping
        if answer.large:
            shipping.say_offer()

    def node_lost(self, lost: str) -> None:
        """Nobody there sends a call again; but actors that were there may do so from another node."""
        for answers in (self.given, self.inherited):
            for task_id in [task_id for task_id, answer in answers.items() if answer.origin == lost]:
                answer = answers.pop(task_id)
                if answer.is_nested:
                    self.inherited[task_id] = answer
                else:
                    self.reads.pop(task_id, None)
                    self.actor.journal.read_is_over(task_id)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        drop_orphans(self.inherited, self.node)
        size = 0
        for task_id in [task_id for task_id in reversed(self.held) if task_id not in self.given]:
            answer = self.inherited.get(task_id)
            if answer is None or size > ORPHANS_BYTES_MAX:
                self._let_go(task_id)
            else:
                size += sum(value for value in answer.values if type(value) is int)

    def close(self) -> None:
        """The actor is dead, or lives elsewhere."""
        self.given.clear()
        self.inherited.clear()
        self.reads.clear()
        self.asked.clear()
        self.unasked.clear()
        for task_id in list(self.held):
            self._let_go(task_id)


def drop_orphans(answers: dict[bytes, wards.Answer], node: LocalScheduler) -> None:
    """The oldest of those whose callers' nodes are lost, beyond a bound."""
    if len(answers) > ORPHANS_MAX:
        orphans = [task_id for task_id, answer in answers.items() if answer.origin in node.recovery.lost]
        for task_id in orphans[: max(0, len(orphans) - ORPHANS_MAX)]:
            del answers[task_id]


def _as_told(result: tasks.TaskResult) -> list[bytes | int]:
    """What has refs inside lies at the actor's node, and so do large values: of these, the size."""
    values: list[bytes | int] = []
    for index, value in enumerate(result.values or [b""]):
        has_refs = index < len(result.contained) and bool(result.contained[index])
        if type(value) is task_spec.StoredValue:
            values.append(value.size)
        else:
            values.append(len(value) if has_refs else value)  # type: ignore[arg-type]
    return values
