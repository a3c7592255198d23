"""Answers of calls on a recoverable actor, kept until no caller can request the answers again (dialog of wards).

    given        by this node: the caller's node may not have the answer yet
    inherited    of the actor's former home, or for a caller whose node is lost and that may be run again elsewhere: a
                 caller that sends such a call again gets the answer

The next process of an actor asks again for the answers of calls made by the actor's calls (`nested`).  Such an answer
is kept until the calling actor's guardian has the answer, too.  Large values are held as long, where they were made.

Readonly calls of a recoverable actor with answers kept only by the actor's node: large answers, or with refs inside.

    a readonly call ends   the log records the call with its arguments and position: after all calls seen by the call
    CallsLogged            the answer leaves
    AnswersTaken           no more requests for the answer follow: the call is forgotten, also at the backup node
    the node is lost       the call is replayed at its position among the other calls, and so returns the same;
                           if the answer may still be requested

Calls older than the checkpoint are not replayed, as with other calls.  Small answers are kept in the log (`shipping`).

Begun calls of a recoverable actor: the guardian hears of a begun call before the nested calls leave.

    a call makes another       the nested call waits on this node
    the turn ends              LogCalls.begun -> guardian, behind the calls that have ended
    CallsLogged                the nested call leaves
    the node is lost           the begun call runs first on the next node, right after the ended calls

So the begun call starts from the same state on the next node, and makes the same nested calls.  Otherwise calls of
other callers could come first, and the nested calls made there would not match earlier nested calls, which had their
effect.  The nested calls of a readonly call wait for the calls that the readonly call may have seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ....ids import FIRST_RETURN, PARENT_HASH_BYTES, ObjectID, children_prefix, is_item, return_id
from ....wire import task_spec, tasks, wards
from ....wire.task_spec import TaskSpec, parse_options
from ....wire.wards import Answer, BegunCall, LoggedCall
from ..tables import LOST_WITH_ACTOR, Actor
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .shipping import Shipping

# The number of calls kept whose answers are not taken yet, and their bytes in messages; the last is always kept.
READS_MAX = 1000
READS_BYTES_MAX = 1 << 20


class Read(Struct, gc=False, eq=False):
    """A recorded readonly call."""

    spec: TaskSpec
    place: int  # calls that it has seen


class Reads:
    """The readonly calls of a journal."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_id: dict[bytes, Read] = {}  # in the order of their places
        self.size = 0

    def keep(self, spec: TaskSpec, place: int) -> None:
        """Record a finished readonly call, and its position."""
        self.drop(spec.task_id)  # it has run twice
        self.by_id[spec.task_id] = Read(spec, place)
        self.size += len(spec.args)
        for object_id in (*spec.deps, *spec.holds):
            self.node.objects.retain(object_id)
        while len(self.by_id) > READS_MAX or (self.size > READS_BYTES_MAX and len(self.by_id) > 1):
            self.drop(next(iter(self.by_id)))

    def drop(self, task_id: bytes) -> bool:
        """Drop a call from replay.  Returns whether the call was recorded."""
        read = self.by_id.pop(task_id, None)
        if read is None:
            return False
        self.size -= len(read.spec.args)
        self.node.objects.drop_all((*read.spec.deps, *read.spec.holds))
        return True

    def begin_at(self, place: int) -> None:
        """Drop calls before position `place`, where no state is left."""
        for task_id in [task_id for task_id, read in self.by_id.items() if read.place < place]:
            self.drop(task_id)

    def only(self, answers: Mapping[bytes, Answer]) -> None:
        """Drop all calls not in `answers`."""
        for task_id in self.by_id.keys() - answers.keys():
            self.drop(task_id)

    def clear(self) -> None:
        """Drop all calls: the actor is dead, or keeps no earlier state."""
        self.only({})

    def specs(self) -> list[TaskSpec]:
        """Return the specs of all calls."""
        return [read.spec for read in self.by_id.values()]

    def among(self, calls: Iterable[TaskSpec], first: int) -> Iterable[TaskSpec]:
        """Merge the readonly calls into `calls` by position; `first` is the position of the first call."""
        reads = deque(self.by_id.values())
        for place, spec in enumerate(calls, first):
            while reads and reads[0].place <= place:
                yield reads.popleft().spec
            yield spec
        yield from (read.spec for read in reads)


def is_kept(call: LoggedCall) -> bool:
    """Return whether the logged call is a readonly call that may be replayed."""
    return call.answer is not None and bool(call.answer.large) and parse_options(call.spec.options).is_readonly


def read_ended(shipping: Shipping, task: Task, answer: Answer | None) -> int:
    """Record a finished readonly call.  Returns the number of the log message required by the answer; 0: none.

    A readonly call with nested calls is logged even if not replayed, because nested calls happen only once.
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


class Held(Struct, gc=False, eq=False):
    """Call that waits until the guardian knows the outer call."""

    task: Task
    refs: tuple[bytes, ...]  # what it takes, and the handle of its actor: its maker may drop them
    is_new: bool = True  # nobody has looked yet at who made it
    calls: int = 0  # the guardian is to have so many calls
    said: int = 0  # and so much of what these have made, or have begun


class BegunCalls(Struct, eq=False):
    """Begun calls of one actor that have made other calls."""

    node: LocalScheduler
    actor: Actor
    held: deque[Held] = field(default_factory=deque)  # in the order in which they were made
    said: dict[bytes, int] = {}  # by the prefix of what the call makes: which of the log's words it is

    def hold_back(self, task: Task) -> bool:
        """Return whether a nested call waits until the backup node knows the outer call."""
        shipping = self.actor.shipping
        if not shipping.is_on:
            return False
        said = self.said.get(task.spec.task_id[:PARENT_HASH_BYTES])
        if not self.held and said is not None and shipping.has_heard(said):
            return False
        refs = (*task.spec.deps, *task.spec.holds, task.options.actor_id + FIRST_RETURN)
        for object_id in refs:
            self.node.objects.retain(object_id)
        task.queued()
        self.held.append(Held(task, refs))
        self.node.logs.touched[self.actor.actor_id] = shipping
        return True

    def say(self) -> None:
        """Log the makers of new nested calls at the end of a turn: unfinished makers have begun."""
        new = [item for item in self.held if item.is_new]
        if not new:
            return
        makers = self._makers({item.task.spec.task_id[:PARENT_HASH_BYTES] for item in new} - self.said.keys())
        for item in new:
            prefix = item.task.spec.task_id[:PARENT_HASH_BYTES]
            maker = makers.get(prefix)
            if maker is not None and prefix not in self.said and not maker.options.is_readonly:
                self._say(maker, prefix)
            item.is_new, item.calls, item.said = False, self.actor.journal.count, self.said.get(prefix, 0)
        self.leave()

    def _makers(self, prefixes: set[bytes]) -> dict[bytes, Task]:
        """Return the unfinished calls with the given prefixes; such calls are among the first in flight."""
        found: dict[bytes, Task] = {}
        for task in self.actor.inflight.values():
            if len(found) == len(prefixes):
                break
            prefix = children_prefix(task.spec.task_id)
            if prefix in prefixes:
                found[prefix] = task
        return found

    def _say(self, task: Task, prefix: bytes) -> None:
        spec, journal = task.spec, self.actor.journal
        beside, items = journal.beside(spec.deps, spec.holds), self.actor.items.told(spec.task_id)
        begun = BegunCall(spec, task.origin or self.node.address, beside, items)
        journal.begin(begun)
        self.said[prefix] = self.actor.shipping.says(begun)

    def yields(self, task: Task) -> int:
        """Log a generator call before its items leave.  Returns how much of the log the items may depend on."""
        prefix = children_prefix(task.spec.task_id)
        if prefix not in self.said:
            self._say(task, prefix)
        return int(self.actor.shipping.delivered)

    def start(self, count: int) -> None:
        """Start a new log, of which the first `count` messages include the known begun calls; log the others."""
        journal = self.actor.journal
        first = count - len(journal.begun)
        self.said = {children_prefix(task_id): n for n, task_id in enumerate(journal.begun, first + 1)}
        for task in [*self.actor.queue.begun, *self.actor.inflight.values()]:
            prefix = children_prefix(task.spec.task_id)
            has_begun = prefix in journal.nested.by_parent or task.spec.task_id in self.actor.items.by_call
            if has_begun and prefix not in self.said and not task.options.is_readonly:
                self._say(task, prefix)

    def stop(self) -> None:
        """Note that the backup node has no log any more."""
        self.said.clear()
        for item in self.held:
            item.is_new = True

    def leave(self) -> None:
        """Submit nested calls that need not wait any longer."""
        node, shipping = self.node, self.actor.shipping
        while self.held:
            item = self.held[0]
            if shipping.is_on and (item.is_new or not shipping.is_there(item.calls, item.said)):
                return
            self.held.popleft()
            node.calls.submit(item.task)
            node.cancels.cancel_again(item.task)
            node.objects.drop_all(item.refs)

    def ended(self, task_id: bytes) -> None:
        """Forget a call that has ended, and is logged as ended."""
        if self.said:
            self.said.pop(children_prefix(task_id), None)

    def run_first(self) -> None:
        """Queue the begun calls of an actor from a lost node ahead of all calls that callers send or repeat."""
        node, actor = self.node, self.actor
        for begun in reversed(list(actor.journal.begun.values())):
            spec = begun.spec
            task = node.tasks.get(spec.task_id)
            if task is None:
                task = node.lifecycle.accept_placed(spec, parse_options(spec.options), actor.job, "")
                task.queued()
                actor.shipping.answers.unasked[spec.task_id] = begun.origin
                node.lifecycle.retain_arguments(task)
            elif task in actor.queue.begun or not actor.queue.take_out(task):
                continue  # its process has died here; or an actor of this node has made it once more, and it waits
            actor.queue.put_first(task, has_begun=True)
            if task.options.is_generator and begun.origin in node.recovery.lost:
                node.generators.end_unread(task)


# So many results that callers have are told with the next calls; more of them at once, and so are large ones, which
# the next process would make again.
TAKEN_COUNT_MAX = 64
# Answers to calls of actors whose node is lost: nobody says whether these actors are run again, and the last are kept.
ORPHANS_MAX = 10_000
# So many bytes of what these have returned that lies in the store; the last one in any case.
ORPHANS_BYTES_MAX = 64 << 20


class Answers(Struct, eq=False):
    """Kept answers of one actor's calls."""

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
        """Return all kept answers by call."""
        return {**self.inherited, **self.given}

    def give(self, task: Task, result: tasks.TaskResult) -> wards.Answer | None:
        """Keep the answer of a call.  Returns None if no caller would request the answer again."""
        spec = task.spec
        is_nested = bool(spec.caller) and spec.caller != self.actor.actor_id
        unasked = self.unasked.pop(spec.task_id, "") if not task.origin else ""
        if not task.origin and not unasked and not (is_nested and self._recovers(spec.caller)):
            self.actor.items.ended(spec.task_id)
            return None
        origin, items = task.origin or unasked or self.node.address, self.actor.items.told(spec.task_id)
        answer = wards.Answer(spec.task_id, origin, _as_told(result), is_nested, items)
        if unasked:
            if not is_nested and (unasked == self.node.address or unasked in self.node.recovery.lost):
                self.actor.items.ended(spec.task_id)
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

    def is_given(self, task_id: bytes, origin: str) -> bool:
        """Return whether the answer of a call has left for a node, which has not acknowledged it."""
        answer = self.given.get(task_id)
        return answer is not None and answer.origin == origin

    def asked_for(self, task_id: bytes, origin: str) -> None:
        """Note a call that the caller at `origin` sends before seeing the answer."""
        self.unasked.pop(task_id, None)
        answer = self.inherited.pop(task_id, None)
        if answer is not None:
            self.given[task_id] = replace(answer, origin=origin)

    def _hold(self, answer: wards.Answer) -> None:
        former = self.held.get(answer.task_id, [])  # it has run twice, or its items are kept
        self.held[answer.task_id] = [*answer.large, *filter(is_item, former)]
        for object_id in answer.large:
            self.node.objects.retain(object_id)
        self.node.objects.drop_all(object_id for object_id in former if not is_item(object_id))

    def comes_again(self, task_id: bytes) -> None:
        """Expect a call that comes again for its answer, and is not run."""
        self.asked.add(task_id)

    def are_due(self) -> None:
        """Have the guardian told of taken answers without more calls."""
        self.is_due = True

    def take_taken(self) -> list[bytes]:
        """Return, once, the answers that the guardian need not keep."""
        taken, self.taken, self.is_due = self.taken, [], False
        return taken

    def forget_taken(self) -> None:
        """Forget the taken answers: no guardian has any."""
        self.taken.clear()

    def take_reads(self) -> dict[bytes, wards.LoggedCall]:
        """Return, once, the answers of readonly calls that no log has."""
        reads, self.reads = self.reads, {}
        return reads

    def hold_item(self, task_id: bytes, object_id: bytes) -> None:
        """Hold an item for the caller of a call."""
        self.held.setdefault(task_id, []).append(object_id)
        self.node.objects.retain(object_id)

    def take_held(self, task_id: bytes) -> list[bytes]:
        """Return what is held for the caller of a call; it is to be dropped."""
        return self.held.pop(task_id, [])

    def let_go(self, task_id: bytes) -> None:
        """Release what is held for the caller of a call."""
        self.node.objects.drop_all(self.held.pop(task_id, ()))

    def _recovers(self, caller: bytes) -> bool:
        actor = self.node.calls.actors.get(caller)
        return actor is not None and actor.shipping is not None

    def large_given(self) -> set[bytes]:
        """Return the calls whose callers may lack the large answers."""
        missing = self.actor.items.are_missing
        return {task_id for task_id, answer in self.given.items() if answer.large or missing(task_id)}

    def inherit(self, answers: dict[bytes, wards.Answer]) -> None:
        """Keep answers for repeated calls."""
        self.inherited = {
            task_id: answer
            for task_id, answer in answers.items()
            if answer.is_nested or answer.origin != self.node.address or task_id in self.node.tasks
        }

    @property
    def are_known(self) -> bool:
        """Whether answers of repeated calls are known."""
        return bool(self.inherited or self.asked)

    def again(self, batch: dict[bytes, Task]) -> dict[bytes, Task]:
        """Return the calls of a batch that must run; answer the calls that have run."""
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
            self.node.take_task(task_id)
            if task.origin or answer.is_nested:
                self.given[task_id] = replace(answer, origin=task.origin or self.node.address)
            else:
                self.taken.append(task_id)
            self.actor.items.give_kept(task, answer.items)
            self._finish_again(task, answer)
            if task_id not in self.given:
                self.let_go(task_id)
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
        """Return the lost large results of the given calls that may be requested: such calls run again."""
        entries, lost = self.node.objects.entries, []
        for spec in calls if self.inherited else ():
            answer = self.inherited.get(spec.task_id)
            for object_id in answer.large if answer is not None else ():
                entry = entries.get(object_id)
                if entry is None or entry.value is None or entry.is_lost:
                    lost.append(object_id)
        return lost

    def made_again(self, calls: Iterable[task_spec.TaskSpec]) -> None:
        """Hold the large results of calls that have run again, until a caller requests the results."""
        for spec in calls if self.inherited else ():
            answer = self.inherited.get(spec.task_id)
            if answer is not None and answer.large and spec.task_id not in self.held:
                if not self.to_be_made_again([spec]):
                    self._hold(answer)

    def caller_goes_on(self, origin: str) -> None:
        """Drop the answers for a caller's node that has repeated its calls: the node has all other answers."""
        for task_id in [task_id for task_id, asker in self.unasked.items() if asker == origin]:
            del self.unasked[task_id]
            self.let_go(task_id)
        for task_id in [task_id for task_id, answer in self.inherited.items() if answer.origin == origin]:
            if task_id not in self.node.tasks:
                del self.inherited[task_id]
                self.let_go(task_id)
                self.actor.journal.read_is_over(task_id)
                self.taken.append(task_id)

    def has(self, task_id: bytes) -> None:
        """Forget a call whose caller has the answer for good."""
        shipping = self.actor.shipping
        if not self.actor.items.has_end(task_id):
            return
        self.let_go(task_id)
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
        """Drop answers for callers of a lost node, except for actors, which may repeat calls from another node."""
        for answers in (self.given, self.inherited):
            for task_id in [task_id for task_id, answer in answers.items() if answer.origin == lost]:
                answer = answers.pop(task_id)
                if answer.is_nested:
                    self.inherited[task_id] = answer
                else:
                    self.reads.pop(task_id, None)
                    self.actor.items.ended(task_id)
                    self.actor.journal.read_is_over(task_id)
        for task_id in [task_id for task_id, asker in self.unasked.items() if asker == lost]:
            self.let_go(task_id)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        drop_orphans(self.inherited, self.node)
        size = 0
        is_needed = {*self.given, *self.unasked, *(self.held.keys() & self.node.tasks.keys())}
        for task_id in [task_id for task_id in reversed(self.held) if task_id not in is_needed]:
            answer = self.inherited.get(task_id)
            if answer is None or size > ORPHANS_BYTES_MAX:
                self.let_go(task_id)
            else:
                size += sum(value for value in answer.values if type(value) is int)

    def close(self) -> None:
        """Drop all answers: the actor is dead, or lives on another node."""
        self.given.clear()
        self.inherited.clear()
        self.reads.clear()
        self.asked.clear()
        self.unasked.clear()
        for task_id in list(self.held):
            self.let_go(task_id)


def drop_orphans(answers: dict[bytes, wards.Answer], node: LocalScheduler) -> None:
    """Drop the oldest answers for callers on lost nodes, beyond ORPHANS_MAX."""
    if len(answers) > ORPHANS_MAX:
        orphans = [task_id for task_id, answer in answers.items() if answer.origin in node.recovery.lost]
        for task_id in orphans[: max(0, len(orphans) - ORPHANS_MAX)]:
            del answers[task_id]


def _as_told(result: tasks.TaskResult) -> list[bytes | int]:
    """Return small values unchanged, and the sizes of large values and values with refs, which stay on this node."""
    values: list[bytes | int] = []
    for index, value in enumerate(result.values or [b""]):
        has_refs = index < len(result.contained) and bool(result.contained[index])
        if type(value) is task_spec.StoredValue:
            values.append(value.size)
        else:
            values.append(len(value) if has_refs else value)  # type: ignore[arg-type]
    return values
