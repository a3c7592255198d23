"""Copies of the journals of other nodes' actors (dialog of wards): at the backup node, or at the next home during a
handover.

A call counts as copied when the shards know that this node holds the arguments, and the values have come; then all
earlier calls are copied too.  A checkpoint counts when the object has come, and all calls covered by the checkpoint:
the answers came with the calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

from msgspec import Struct
from msgspec.structs import replace

from ....ids import FIRST_RETURN
from ....wire.task_spec import GivenItems, TaskSpec, parse_options
from ....wire.wards import Answer, BegunCall, CallsLogged, LogCalls, LogCheckpoint, LoggedCall, LogStart, NestedAnswer
from ....wire.where import host_of
from ..tables import Job
from ..task import FORWARDED
from .answers import drop_orphans, is_kept
from .journals import Journal, new_journal

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


@final
class Step(Struct, gc=False, eq=False):
    """A call or a checkpoint that has not come completely. missing: values, and the word of the shards.

    spec: its deps are all objects to wait for; for a call, the arguments and the objects to come beside the arguments.
    """

    spec: TaskSpec
    copy: Copy
    job: Job  # for which what it takes is made again, should it be lost
    missing: int = 0
    is_over: bool = False  # nobody waits for it any more
    is_void: bool = False
    call: LoggedCall | None = None
    nested: NestedAnswer | None = None  # or what one of its calls has made
    begun: BegunCall | None = None  # or one that has not ended
    count: int = 0  # calls in the checkpoint; or which one of those, or of readonly ones, it is
    all_of: Sequence[bytes] = ()  # what was made by calls in it
    beside: Sequence[bytes] = ()  # those of its deps that lie at the actor's home, and maybe nowhere else


class Copy:
    """A copy of the journal of one actor."""

    def __init__(self, node: LocalScheduler, job_of: Callable[[], Job], changed: Callable[[Copy], None]) -> None:
        self.node = node
        self.job_of = job_of  # for whom what it takes is made again, should it be lost
        self.changed = changed  # told when there is more of it, or it is broken
        self.journal = new_journal(node)
        self.answers: dict[bytes, Answer] = {}
        self.epoch = 0
        self.may_hear = False  # its home lives: shards may yet hear of what it makes
        self.is_based = False  # what the log begins with is here
        self.seen = 0  # without so many calls it is another state than somebody has seen (LogStart)
        self.broken = ""  # why nothing can be had of it
        self.lost = "its node was lost"
        self.steps: deque[Step] = deque()
        self.offered: Step | None = None
        self.pulls: list[Step] = []  # what is to come here, and nobody waits for
        self.nested_count = 0
        self.answered = 0  # the last checkpoint that was offered and need not be any more, by its count

    @classmethod
    def of(
        cls,
        journal: Journal,
        answers: dict[bytes, Answer],
        job_of: Callable[[], Job],
        changed: Callable[[Copy], None],
    ) -> Copy:
        """Return the complete copy of an actor that leaves this node."""
        copy = cls(journal.node, job_of, changed)
        copy.is_made_of(journal, answers)
        return copy

    def is_made_of(self, journal: Journal, answers: dict[bytes, Answer]) -> None:
        """Take a whole journal."""
        self.journal, self.answers, self.is_based = journal, answers, True

    @property
    def is_whole(self) -> bool:
        """Return whether every step has been taken."""
        return self.is_based and not self.steps and self.offered is None

    def why_not(self) -> str:
        """Return why the actor cannot be recovered from this copy; "" if recovery is possible."""
        if self.broken:
            return self.broken
        if not self.is_based or self.journal.count < self.seen:
            return "its checkpoint and calls had not yet been copied to another node"
        return ""

    # --- what comes ---

    def start(self, message: LogStart) -> None:
        """LogStart."""
        self.close()
        self.epoch, self.answered, self.nested_count, self.broken = message.epoch, 0, 0, ""
        self.journal.count, self.seen = message.count, message.seen
        self.journal.lacks_nothing()
        self.is_based = not message.checkpoint
        if message.checkpoint:
            self._offer(message.checkpoint, message.count, beside=message.beside)
        self.changed(self)

    def calls(self, message: LogCalls) -> None:
        """LogCalls."""
        if message.epoch != self.epoch or self.broken:
            return
        for answer in message.answers:
            self.answers[answer.task_id] = answer
        if message.forgotten:
            self._forget(dict.fromkeys(message.forgotten))
        for nested in message.nested:
            self.nested_count += 1
            if nested.is_made:
                self._nested(nested, () if nested.values else (nested.actor_id + FIRST_RETURN,))
            elif nested.large and nested.is_beside and nested.actor_id != message.actor_id:
                self._nested(nested, (), nested.large)
            elif nested.large or self._comes_behind(nested):
                self._nested(nested, nested.large)
            else:
                self.journal.nested.answered(nested)
        for call in message.calls:
            self._call(call)
        for begun in message.begun:
            self.nested_count += 1
            spec = _with(begun.spec, begun.beside)
            step = Step(spec, self, self.job_of(), begun=begun, count=self.nested_count)
            step.beside = begun.beside
            self._put(step)
        for task_id in message.taken:
            self.answers.pop(task_id, None)
            self.journal.read_is_over(task_id)
        self._advance()
        for task_id, items in message.items:
            self._has_items(task_id, items)

    def _comes_behind(self, nested: NestedAnswer) -> bool:
        """Return whether items of the same generator call are still to come."""
        return any(step.nested is not None and step.nested.task_id == nested.task_id for step in self.steps)

    def _has_items(self, task_id: bytes, items: GivenItems) -> None:
        """Note the items of a generator call that the caller's node has."""
        begun = [self.journal.begun.get(task_id), *(step.begun for step in self.steps)]
        answers = [self.answers.get(task_id), *(step.call.answer for step in self.steps if step.call is not None)]
        for call in begun:
            if call is not None and call.spec.task_id == task_id:
                call.items = items
        for answer in answers:
            if answer is not None and answer.task_id == task_id:
                answer.items = items

    def _forget(self, made: dict[bytes, None]) -> None:
        """Forget nested and begun calls, also calls still to come."""
        for step in self.steps:
            if (step.nested is not None or step.begun is not None) and step.spec.task_id in made:
                step.is_void = True
        for task_id in made:
            self.journal.nested.forget_one(task_id)
            self.journal.begun_ended(task_id)

    def _call(self, call: LoggedCall) -> None:
        spec, count = call.spec, 0
        if is_kept(call):
            count = self.nested_count = self.nested_count + 1
        if not self.steps and not spec.deps and not spec.holds:
            self._apply(call)
            return
        whole = _with(spec, call.beside)
        step = Step(whole, self, self.job_of(), call=call, is_void=call.is_void, count=count)
        step.beside = call.beside
        self._put(step)

    def _nested(self, nested: NestedAnswer, holds: Sequence[bytes], deps: Sequence[bytes] = ()) -> None:
        spec = TaskSpec(nested.task_id, b"", deps=tuple(deps), holds=tuple(holds))
        self._put(Step(spec, self, self.job_of(), nested=nested, count=self.nested_count))

    def _put(self, step: Step) -> None:
        self.steps.append(step)
        self._await(step)

    def checkpoint(self, message: LogCheckpoint) -> None:
        """LogCheckpoint."""
        if message.epoch == self.epoch and not self.broken and self.offered is None:
            self._offer(message.object_id, message.count, message.all_of, message.beside)

    def _offer(self, object_id: bytes, count: int, all_of: Sequence[bytes] = (), beside: Sequence[bytes] = ()) -> None:
        spec = TaskSpec(object_id[:16], b"", deps=(object_id, *beside))
        self.offered = Step(spec, self, self.job_of(), count=count)
        self.offered.all_of, self.offered.beside = all_of, beside
        self._await(self.offered)
        self._advance()

    def _await(self, step: Step) -> None:
        node, spec = self.node, step.spec
        step.missing = 1
        wanted = []
        for object_id in (*spec.deps, *spec.holds):
            entry = node.objects.retain(object_id)
            if entry.value is None and entry.task is None:
                entry.share()
        for object_id in step.beside:
            # Lost with the actor's former node, it may have been put again at this one.
            node.recovery.made_after_all(node.objects.entries[object_id])
        for object_id in dict.fromkeys(spec.deps):
            entry = node.objects.entries[object_id]
            if entry.value is None:
                entry.waits(step)
                step.missing += 1
                if entry.task is None or entry.task.state >= FORWARDED:
                    wanted.append(entry)
        request = node.acks.next_request()
        object_ids = list(dict.fromkeys((*spec.deps, *spec.holds)))
        expected = node.remote._hold_at_shards(object_ids, request)
        node.acks.expect(request, expected, lambda: self.argument_is_here(step))
        for entry in wanted:
            node.remote.want(entry)

    # --- what is here ---

    def argument_is_here(self, step: Step) -> None:
        """Note the arrival of one value, or of the shards' word, that a step waits for."""
        if step.is_over:
            return
        step.missing -= 1
        if step.missing:
            return
        if step in self.pulls:
            self.pulls.remove(step)
            self._let_go(step)
            return
        self._advance()

    def _advance(self) -> None:
        """Take the complete steps, in order."""
        while not self.broken and self.steps and not self.steps[0].missing:
            step = self.steps.popleft()
            if step.nested is not None:
                if not step.is_void:
                    self._apply_nested(step.nested, (*step.spec.deps, *step.spec.holds))
                self._let_go(step)
                continue
            if step.begun is not None:
                if not step.is_void:
                    self.journal.begin(step.begun)
                self._let_go(step)
                continue
            assert step.call is not None
            if not step.is_void and self.journal.is_void(step.call.spec) and not is_kept(step.call):
                self.broken = "the arguments of a call to replay are lost with it"
            self._apply(step.call)
            self._let_go(step)
        offered = self.offered
        if self.journal.is_full and not self.broken:
            self.broken = f"{self.journal.lacking} came since its last checkpoint"
        if not self.broken and offered is not None and not offered.missing:
            if not self.is_based or self.journal.count >= offered.count:
                self._take_checkpoint(offered)
        if self.broken:
            self.close()
        self.changed(self)

    def _apply(self, call: LoggedCall) -> None:
        spec, answer = call.spec, call.answer
        self.journal.begun_ended(spec.task_id)
        is_wanted = answer is not None and (answer.is_nested or answer.origin not in self.node.recovery.lost)
        if not parse_options(spec.options).is_readonly:
            self.journal.append(spec, has_failed=call.has_failed, closed_at=call.closed_at)
        elif is_wanted and is_kept(call) and not self.journal.is_void(spec):
            self.journal.reads.keep(spec, self.journal.count)
        else:
            self.journal.nested.forget_read(spec.task_id)
        if answer is not None and is_wanted:
            self.answers[answer.task_id] = answer

    def _apply_nested(self, nested: NestedAnswer, holds: Sequence[bytes]) -> None:
        node = self.node
        self.journal.nested.answered(nested, holds)
        for object_id in holds:
            if nested.is_made:
                node.routes.follow(nested.actor_id, wait=self.may_hear)
            elif nested.is_beside:
                continue
            elif node.objects.entries[object_id].value is None:
                node.remote.subscribe(node.objects.entries[object_id])
        if nested.is_beside and any(node.objects.entries[object_id].value is None for object_id in nested.large):
            # The actor's own: it lies nowhere before the call that it answers is here.
            spec = TaskSpec(nested.task_id, b"", deps=tuple(nested.large))
            self.pulls.append(Step(spec, self, self.job_of()))
            self._await(self.pulls[-1])

    def _take_checkpoint(self, step: Step) -> None:
        entries = self.node.objects.entries
        if not any(entries[object_id].is_lost for object_id in step.spec.deps):
            self.journal.goes_on_from(step.spec.deps[0], step.count)
            self.is_based = True
            self.journal.nested.forget_all(step.all_of)
        elif not self.is_based:
            self.broken = "its checkpoint could not be copied to another node"
        self.answered = step.count
        self.offered = None
        self._let_go(step)

    def _let_go(self, step: Step) -> None:
        """Release a step's refs, and stop waiting for the step."""
        entries = self.node.objects.entries
        step.is_over = True
        for object_id in dict.fromkeys(step.spec.deps):
            entries[object_id].wait_no_more((id(step),))
        self.node.objects.drop_all((*step.spec.deps, *step.spec.holds))

    # --- ends ---

    def sender_lost(self, sender: str, *, was_made: bool) -> None:
        """Handle the loss of the sender before the handover: the actor is ours. was_made: the actor had run
        elsewhere.
        """
        self.lost = f"its node {host_of(sender)} is lost ({self.node.recovery.lost.get(sender)})"
        if not self.is_based and self.offered is None:
            self.is_based, self.broken = True, self.why_not() if was_made else ""
        self.changed(self)

    def home_lost(self) -> None:
        """Handle the loss of the actor's own node."""
        self.may_hear = False
        self.journal.nested.ask_again()

    def node_lost(self, lost: str) -> None:
        """Drop answers for callers of a lost node, except for actors, which may be created again."""
        kept = (answer for answer in self.answers.values() if answer.is_nested or answer.origin != lost)
        self.answers = {answer.task_id: answer for answer in kept}
        drop_orphans(self.answers, self.node)
        self.journal.reads.only(self.answers)

    def cut(self) -> None:
        """Drop incomplete steps: no caller has seen an effect of such a step."""
        while self.steps:
            self._let_go(self.steps.pop())
        while self.pulls:
            self._let_go(self.pulls.pop())
        if self.offered is not None:
            step, self.offered = self.offered, None
            self._let_go(step)

    def close(self) -> None:
        """Drop the copy, which is not needed any more."""
        self.cut()
        self.journal.close()
        self.answers = {}

    def acknowledgement(self, actor_id: bytes) -> CallsLogged | None:
        """Return the acknowledgement for the actor's home; None if the copy is neither based nor broken."""
        if not self.is_based and not self.broken:
            return None
        missing = next((step.count for step in self.steps if step.count), self.nested_count + 1)
        return CallsLogged(actor_id, self.epoch, self.journal.count, self.answered, self.broken, missing - 1)


def _with(spec: TaskSpec, beside: Sequence[bytes]) -> TaskSpec:
    """Return the spec with further objects to wait for."""
    return replace(spec, deps=(*spec.deps, *beside)) if beside else spec
