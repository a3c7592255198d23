"""Journals of recoverable actors (`checkpoint_interval`): the state and calls needed by the next process.

    a call's result comes       the call is noted, in the order in which the actor has run its calls
    ActorSaved                  the state after all noted calls is an object: the calls are noted no more
    the process dies            StartActor takes the state and the later calls along; the worker runs the calls again,
                                in order, without results: results were sent before

Calls that were under way run afterwards, like calls that may be repeated.  A readonly call is noted only for the
answer's sake (`Reads`).  So the state is as without the death, and includes each call's effect once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ....exceptions import is_error_value
from ....ids import ObjectID, children_prefix, is_put, stray_task_id, task_of
from ....wire import task_spec, tasks, wards
from ..tables import Actor
from ..task import Task
from .answers import Reads
from .nested import NESTED_BYTES_MAX, NESTED_CALLS_MAX, NESTED_STORED_MAX, Nested

if TYPE_CHECKING:
    from ....wire.actors import StartActor
    from ..scheduler import LocalScheduler

# What one StartActor can take along: calls, and bytes of their arguments as far as these travel in messages.  Who has
# more loses the ability to recover until its next checkpoint: the node's memory is for others too.
JOURNAL_CALLS_MAX = 100_000
JOURNAL_BYTES_MAX = 16 << 20
# An actor whose process has died so often in a row while it ran calls, or ran them again, and has ended none, dies:
# what it runs kills it.
DEATHS_MAX = 10


class Journal(Struct, eq=False):
    """The journal of one actor."""

    LASTING = {"calls": "JOURNAL_CALLS_MAX", "size": "JOURNAL_BYTES_MAX", "nested": ...}

    node: LocalScheduler
    nested: Nested  # what its calls have made
    reads: Reads  # readonly ones that are run again among the others, for their answers
    checkpoint: bytes = b""  # the object with its state; b"": as constructed
    calls: deque[task_spec.TaskSpec] = field(default_factory=deque)  # since then
    begun: dict[bytes, wards.BegunCall] = {}  # those that its guardian knows to run after them
    failed: set[bytes] = set()  # those of `calls` that returned an error
    cut_short: dict[bytes, int] = {}  # those that were cancelled -> the items of their generators (CallClosed)
    count: int = 0  # calls that it has run, those in the checkpoint included
    size: int = 0  # bytes of what `calls` take
    lacks_calls: bool = False  # some of those since are not there
    deaths: int = 0  # in a row, without a call that ended
    strays: bytes = b""  # what its threads make beyond them begins like that

    @property
    def first(self) -> int:
        """Return the number of calls in the checkpoint."""
        return self.count - len(self.calls)

    @property
    def is_full(self) -> bool:
        """Return whether a replay is impossible: it would lack calls, or items of generators."""
        return self.lacks_calls or self.nested.lacks_items

    def lacks_nothing(self) -> None:
        """Note that a replay is possible again."""
        self.lacks_calls = False
        self.nested.lacks_nothing()

    def note(self, task: Task, result: tasks.TaskResult, closed_at: int | None, *, is_alone: bool) -> None:
        """Note a call that has run.  is_alone: without another node, readonly calls are never run again.

        closed_at: as in CallClosed.
        """
        self.deaths = 0
        self.begun_ended(task.spec.task_id)
        if not task.options.is_readonly:
            has_failed = is_error_value(result.values[0]) if result.values else False
            self.append(task.spec, has_failed=has_failed, closed_at=closed_at)
        elif is_alone:
            self.nested.forget_read(task.spec.task_id)

    def append(self, spec: task_spec.TaskSpec, *, has_failed: bool, closed_at: int | None) -> None:
        """Append the next call."""
        self.count += 1
        if self.is_full:
            return
        for object_id in (*spec.deps, *spec.holds):
            self.node.objects.retain(object_id)
        self.calls.append(spec)
        if has_failed:
            self.failed.add(spec.task_id)
        if closed_at is not None:
            self.cut_short[spec.task_id] = closed_at
        self.size += self.size_of(spec)
        if len(self.calls) > JOURNAL_CALLS_MAX or self.size > JOURNAL_BYTES_MAX:
            self._clear()
            self.lacks_calls = True

    def begin(self, call: wards.BegunCall) -> None:
        """Note a begun call that has made other calls."""
        if call.spec.task_id not in self.begun:
            self.begun[call.spec.task_id] = call
            for object_id in (*call.spec.deps, *call.spec.holds):
                self.node.objects.retain(object_id)

    def begun_ended(self, task_id: bytes) -> None:
        """Forget a begun call that has run, or will not run."""
        call = self.begun.pop(task_id, None)
        if call is not None:
            self.node.objects.drop_all((*call.spec.deps, *call.spec.holds))

    def give_up(self, task_id: bytes) -> None:
        """Give up a begun call: the call is not run again."""
        self.nested.forget(task_id)
        if task_id in self.begun:
            self.nested.is_forgotten(task_id)
        self.begun_ended(task_id)

    def size_of(self, spec: task_spec.TaskSpec) -> int:
        """Return the bytes of a call's arguments in messages."""
        size = len(spec.args)
        for object_id in spec.deps:
            value = self.node.objects.entries[object_id].value
            if type(value) is bytes:
                size += len(value)
        return size

    def stored_by(self, spec: task_spec.TaskSpec) -> int:
        """Return the bytes of a call's arguments in the object store."""
        values = (self.node.objects.entries[object_id].value for object_id in spec.deps)
        return sum(value.size for value in values if type(value) is task_spec.StoredValue)

    def saved(self, object_id: bytes, count: int) -> None:
        """Take a checkpoint of the state after `count` calls: all calls that have run, since results come first."""
        if count != self.count:
            self.node.reject("a checkpoint of calls that nobody knows")
            return
        self.goes_on_from(object_id, count)
        self.lacks_nothing()

    def goes_on_from(self, object_id: bytes, count: int) -> None:
        """Make an object the checkpoint after `count` calls, and drop the covered calls."""
        objects = self.node.objects
        objects.retain(object_id)
        if self.checkpoint:
            objects.drop(self.checkpoint)
        self.checkpoint = object_id
        while self.calls and self.first < count:
            spec = self.calls.popleft()
            self.failed.discard(spec.task_id)
            self.cut_short.pop(spec.task_id, None)
            self.size -= self.size_of(spec)
            objects.drop_all((*spec.deps, *spec.holds))
        self.reads.begin_at(count)

    def read_is_over(self, task_id: bytes) -> None:
        """Forget a call whose answer is not requested again; a readonly call is not replayed either."""
        prefix = children_prefix(task_id)
        if self.reads.drop(task_id) and prefix in self.nested.by_parent and not self.nested.are_under_way((prefix,)):
            self.nested.forget_all((prefix,))

    def to_run_again(self, again: Collection[ObjectID]) -> list[task_spec.TaskSpec]:
        """Return the calls since the checkpoint in order, with the readonly calls that return objects in `again`."""
        wanted = {task_of(object_id) for object_id in again}
        return [
            spec
            for spec in self.reads.among(self.calls, self.first)
            if spec.task_id not in self.reads.by_id or spec.task_id in wanted
        ]

    @property
    def lacking(self) -> str:
        """Return the words on what is too much."""
        if self.nested.lacks_items:
            sizes = f"{NESTED_BYTES_MAX >> 20} MiB of small items, or {NESTED_STORED_MAX >> 20} MiB of large ones"
            return f"more than {NESTED_CALLS_MAX:,} items, {sizes}, of generators that its calls have called"
        return f"more than {JOURNAL_CALLS_MAX:,} calls or {JOURNAL_BYTES_MAX >> 20} MiB of their arguments"

    def died(self, *, was_busy: bool) -> str:
        """Return why a dead process gets no successor; "" if a successor follows."""
        self.deaths += was_busy
        if self.is_full:
            return (
                f"it cannot recover, as {self.lacking} came since its last checkpoint; a smaller checkpoint_interval "
                "avoids that"
            )
        if self.deaths >= DEATHS_MAX:
            return (
                f"its process has died {self.deaths} times in a row before it finished a call: one of the "
                f"{len(self.calls)} calls since its last checkpoint, or the next one, kills it"
            )
        return ""

    def _clear(self) -> None:
        while self.calls:
            spec = self.calls.popleft()
            self.node.objects.drop_all((*spec.deps, *spec.holds))
        self.reads.clear()
        self.failed.clear()
        self.cut_short.clear()
        self.size = 0

    def refs(self) -> list[bytes]:
        """Return all refs that a replay needs."""
        specs = (*self.calls, *self.reads.specs(), *(call.spec for call in self.begun.values()))
        refs = [object_id for spec in specs for object_id in (*spec.deps, *spec.holds)]
        refs += self.nested.refs()
        return [*refs, self.checkpoint] if self.checkpoint else refs

    def logged(self, spec: task_spec.TaskSpec, answer: wards.Answer | None = None) -> wards.LoggedCall:
        """Return a call that has run, as its backup node is told."""
        has_failed, closed_at = spec.task_id in self.failed, self.cut_short.get(spec.task_id)
        if not spec.deps and not spec.holds:
            return wards.LoggedCall(spec, answer=answer, has_failed=has_failed, closed_at=closed_at)
        beside = self.beside(spec.deps, spec.holds)
        return wards.LoggedCall(spec, self.is_void(spec), answer, beside, has_failed, closed_at)

    def beside(self, values: Iterable[ObjectID], refs: Iterable[ObjectID] = ()) -> list[ObjectID]:
        """Return the put objects behind the given values and refs that may have no other copy.

        No task could make the objects again, and a replay would find the objects lost.
        """
        entries, found = self.node.objects.entries, dict[bytes, None]()
        to_see = [*refs, *(inside for object_id in values for inside in entries[object_id].contained)]
        while to_see:
            object_id = to_see.pop()
            if object_id not in found and is_put(object_id) and self._is_only_here(object_id):
                found[object_id] = None
                to_see.extend(entries[object_id].contained)
        return list(found)

    def _is_only_here(self, object_id: ObjectID) -> bool:
        entry = self.node.objects.entries.get(object_id)
        return entry is not None and entry.value is not None and not entry.is_lost and not entry.is_elsewhere

    def done_with(self, actor: Actor) -> list[bytes]:
        """Return the prefixes of nested calls made by calls in the checkpoint, which are not run again.

        Calls outside of the checkpoint may have begun in a dead process, or on a lost node.
        """
        if not self.nested.by_parent:
            return []
        others = [task.spec for task in (*actor.inflight.values(), *actor.queue)]
        others += [*self.reads.specs(), *(call.spec for call in self.begun.values())]
        needed = {children_prefix(spec.task_id) for spec in (*self.calls, *others)}
        if not self.checkpoint:
            needed.add(children_prefix(actor.actor_id))  # its constructor
        return [prefix for prefix in self.nested.by_parent if prefix not in needed]

    def is_void(self, spec: task_spec.TaskSpec) -> bool:
        """Return whether a call that has run on this node changed nothing, because an argument was lost."""
        entries = self.node.objects.entries
        return any(entries[object_id].is_lost for object_id in spec.deps)

    def starts(self, order: StartActor, actor: Actor, worker_id: int) -> StartActor:
        """Return the order to a new process, which goes on from the checkpoint and runs the later calls again."""
        self.nested.settled()
        self.strays = children_prefix(stray_task_id(self.node.node_id, worker_id))
        again, items = list[ObjectID](), []
        if actor.shipping is not None:
            again = actor.shipping.answers.to_be_made_again((*self.calls, *self.reads.specs()))
            items = actor.items.wanted(self.calls)
        return replace(
            order,
            checkpoint=self.checkpoint,
            call_count=self.first,
            failed=sorted(self.failed),
            again=again,
            items=items,
            calls=self.to_run_again(again),
            closed=list(self.cut_short.items()),
        )

    def close(self) -> None:
        """Drop everything: the actor is dead."""
        self._clear()
        for task_id in list(self.begun):
            self.begun_ended(task_id)
        self.nested.close()
        if self.checkpoint:
            self.node.objects.drop(self.checkpoint)
            self.checkpoint = b""


def new_journal(node: LocalScheduler) -> Journal:
    """Return an empty log."""
    return Journal(node, Nested(node), Reads(node))
