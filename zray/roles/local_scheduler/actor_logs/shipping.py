"""Shipping of the journals of this node's actors to backup nodes (dialog of wards).  The other side: `copies`.

    a call's result comes           the result goes into the log, and is held back on this node
    the arguments are shared        LogCalls, in order, once per turn -> the guardian
    CallsLogged                     the guardian has the arguments: results up to the acknowledged call leave
    the state was saved             LogCheckpoint, one at a time
    the caller's node has a result  AnswersTaken: nobody will ask for the result again

So nobody has seen more of the actor than the guardian could bring about again.  A call that is sent again, since its
answer was lost with the node, gets the same answer from the log.

Readonly calls are not run again for the state's sake, and the results wait for the calls that may have been seen.  But
a readonly call that is sent again would see later calls.  So the answer is in the log, too, ahead of the next logged
call, unless the caller's node has the answer by then.  For a large answer the log has the call, at once (`Reads`).

Results are held back as soon as a node could guard the actor.  Without such a node, or without a log, results leave at
once until the next checkpoint.  A log can be `broken`: too long, or without room for its checkpoint at the guardian.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ....ids import FIRST_RETURN, item_id, return_id
from ....wire.message import Message
from ....wire.task_spec import StoredValue
from ....wire.tasks import TaskResult
from ....wire.wards import Answer, BegunCall, CallsLogged, LogCalls, LogCheckpoint, LoggedCall, LogStart, NestedAnswer
from ..log_batches import in_batches, size_of_call, size_of_nested
from ..tables import Actor, Process
from ..task import Task
from .answers import Answers, BegunCalls, read_ended
from .journals import Journal

if TYPE_CHECKING:
    from ..forwarding.generators import Item as YieldedItem
    from ..scheduler import LocalScheduler

# A checkpoint waits for what its calls have called, while the guardian has at most so many calls and bytes since.
LATE_CALLS_MAX = 1000
LATE_BYTES_MAX = 1 << 20
# Or bytes of what these take that lies in stores, where the log holds it; callers that pull results let it go on.
LATE_STORED_MAX = 64 << 20


class Item(Struct, gc=False, eq=False):
    """An item for the backup node, in order: a call, the answer of a nested call, or a message."""

    call: LoggedCall | None = None
    nested: NestedAnswer | None = None
    message: Message | None = None
    is_ready: bool = True  # the shards know that we hold what it takes


class Withheld(Struct, gc=False, eq=False):
    """Result, or items of a generator, that nobody has seen."""

    count: int  # calls that it may have seen
    said: int  # and, if it may have to be given again, which word of the log says how; 0: none
    task: Task
    values: list[bytes | StoredValue]
    contained: tuple[tuple[bytes, ...], ...]
    first: int = 0  # number of the first item
    items: list[YieldedItem] = []
    has_ended: bool = True  # the call: it is among the counted ones


class LogState(IntEnum):
    """Knowledge of the log outside of this node."""

    ALONE = 0  # no other node has it
    CHOSEN = 1  # a guardian is to have it: results wait for that
    LIVE = 2  # the guardian has it, or is being sent it


ALONE, CHOSEN, LIVE = LogState
TRANSITIONS: dict[tuple[LogState, str], LogState] = {
    (ALONE, "chosen"): CHOSEN,
    (CHOSEN, "sent"): LIVE,
    (ALONE, "handed over"): LIVE,  # the former home has it, as the guardian
    **{(state, "stops"): ALONE for state in LogState},
}


class Shipping(Struct, eq=False):
    """The shipping of one actor's journal."""

    node: LocalScheduler
    actor: Actor
    answers: Answers
    begun: BegunCalls
    epoch: int = 0
    state: LogState = ALONE
    is_known: bool = False  # the shard knows who the guardian is
    is_unseen: bool = True  # no result has ever left
    acked: int = -1  # calls whose effect the guardian could bring about
    queue: deque[Item] = field(default_factory=deque)
    withheld: deque[Withheld] = field(default_factory=deque)
    yields: list[tuple[Task, int, list[YieldedItem]]] = []  # items of this turn, and the number of the first one
    # Answers that its calls got, which the guardian may not have yet: (their number, whom to tell when it has).
    undelivered: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)
    delivered: int = 0  # of this epoch: so many were sent, and calls that have begun
    heard: int = 0  # of these the guardian has so many
    offered: bytes = b""  # the checkpoint that it is asked to pull
    offered_count: int = 0
    is_offer_said: bool = True
    awaited: set[bytes] = set()  # calls in it whose large answers are to be with their callers first
    unoffered_size: int = 0  # bytes that the calls since then take
    unoffered_stored: int = 0  # and of what they take that is large
    offered_all_of: list[bytes] = []  # the calls that these were made by are in it
    held: list[bytes] = []  # what the log's beginning takes, until it is there

    @property
    def is_on(self) -> bool:
        """Whether a guardian has the log, or is to have it: results wait for that."""
        return self.state is not ALONE

    @property
    def is_started(self) -> bool:
        """Whether the log is being sent."""
        return self.state is LIVE

    def _happened(self, event: str) -> None:
        self.state = TRANSITIONS[self.state, event]

    # --- the log ---

    def begin(self) -> None:
        """Begin a log for a chosen backup node.  Results are withheld until the backup node has all."""
        self.stop()
        self._happened("chosen")
        self.node.logs.unheard.guarded_soon(self.actor.actor_id)
        self.epoch += 1

    def goes_on(self) -> None:
        """Go on with a log that the former home has, as its backup node."""
        self._happened("handed over")

    def goes_on_from(self, answers: dict[bytes, Answer]) -> None:
        """Go on with the journal and the answers of the actor's former home."""
        journal: Journal = self.actor.journal
        if self.is_started:
            journal.nested.is_logged()
            self.acked = journal.count  # its guardian is who sent all this
        journal.nested.settle()
        self.is_unseen = False
        self.answers.inherit(answers)
        journal.reads.only(self.answers.inherited)
        self.offered_count = journal.first

    def start(self) -> None:
        """Send the backup node the whole journal."""
        journal: Journal = self.actor.journal
        if journal.is_full or not self.is_on:
            self._happened("stops")
            self.node.logs.unheard.guarded(self.actor.actor_id)
            self.release()
            return
        self._happened("sent")
        journal.nested.forget_all(journal.done_with(self.actor))
        self.offered_count, self.is_offer_said = journal.first, True
        self.unoffered_size = self.unoffered_stored = 0
        first, *others = self._as_messages(self.epoch)
        self.delivered = sum(1 for _ in journal.nested.answers()) + len(journal.reads.by_id) + len(journal.begun)
        self.undelivered = deque((self.delivered, done) for _, done in self.undelivered)
        if journal.checkpoint:
            self.offered, self.offered_count = journal.checkpoint, journal.first
            self.node.objects.retain(self.offered)
        refs = self.held = journal.refs()
        for object_id in refs:
            self.node.objects.retain(object_id)
        journal.nested.is_logged()
        self._put(Item(message=first), refs, is_log=True)
        for message in others:
            self._put(Item(message=message), ())
        self.begun.start(self.delivered)
        for withheld in self.withheld:
            withheld.said = self.delivered

    def _as_messages(self, epoch: int) -> Iterable[Message]:
        """Yield the messages of the whole journal, from its beginning on."""
        actor_id, journal = self.actor.actor_id, self.actor.journal
        beside = journal.beside([journal.checkpoint]) if journal.checkpoint else []
        hidden = self.withheld[0] if self.withheld else None
        seen = journal.count
        if hidden is not None:
            seen = hidden.count - (hidden.has_ended and not hidden.task.options.is_readonly)
        yield LogStart(actor_id, epoch, journal.first, journal.checkpoint, beside, seen)
        answers = self.answers.all()
        self.answers.take_reads()
        journal.reads.only(answers)
        calls, specs = [], list(journal.reads.among(journal.calls, journal.first))
        for spec in reversed(specs):  # one that was run twice was answered the last time
            calls.append(journal.logged(spec, answers.pop(spec.task_id, None)))
        calls.reverse()
        for answer in answers.values():
            yield LogCalls(actor_id, epoch, [], [answer])
        for nested in in_batches(journal.nested.answers(), size_of_nested):
            yield LogCalls(actor_id, epoch, [], nested=nested)
        for batch in in_batches(calls, size_of_call):
            yield LogCalls(actor_id, epoch, batch)
        for call in journal.begun.values():
            call.items = self.actor.items.told(call.spec.task_id) or call.items
        for begun in in_batches(journal.begun.values(), lambda call: len(call.spec.args)):
            yield LogCalls(actor_id, epoch, [], begun=begun)

    def send_all_to(self, home: str) -> None:
        """Send the journal to the actor's next home; the shards know all refs in the journal."""
        for message in self._as_messages(0):
            self.node.send(home, message)

    def ran(self, task: Task) -> None:
        """Log a call that has run.  `withhold` handles the answers of readonly calls."""
        self.begun.ended(task.spec.task_id)
        if self.is_started and not task.options.is_readonly:
            self.log_reads()
            spec, call = task.spec, self.actor.journal.logged(task.spec)
            self.unoffered_size += self.actor.journal.size_of(spec)
            self.unoffered_stored += self.actor.journal.stored_by(spec)
            self._put(Item(call=call), (*spec.deps, *spec.holds))

    def log_reads(self, *more: LoggedCall) -> None:
        """Log the answers of readonly calls, ahead of the following calls."""
        for read in (*self.answers.take_reads().values(), *more):
            self._put(Item(call=read), ())

    def says(self, call: BegunCall | LoggedCall) -> int:
        """Log a begun call, or a readonly call that may be replayed.  Returns the number of the message."""
        self.delivered += 1
        message = LogCalls(self.actor.actor_id, self.epoch, [])
        (message.calls if type(call) is LoggedCall else message.begun).append(call)  # type: ignore[arg-type]
        self._put(Item(message=message), (*call.spec.deps, *call.spec.holds))
        return self.delivered

    def has_heard(self, count: int) -> bool:
        """Return whether the backup node has the given count of messages, and is known to the shard as the backup."""
        return self.is_on and self.is_known and self.heard >= count

    def is_there(self, count: int, said: int) -> bool:
        """Return whether a replay after a loss of this node would repeat the given calls, and the begun
        calls, alike.
        """
        unheard = self.node.logs.unheard
        return self.has_heard(said) and self.acked >= count and not unheard.awaits_maker(self.actor.actor_id)

    def nested_ended(self, answer: NestedAnswer, done: Callable[[], None]) -> None:
        """Log the answer of a nested call.  done: called once no other node would make the call again."""
        if not self.is_on:
            done()
            return
        if self.is_started:
            self.delivered += 1
            self._put(Item(nested=answer), answer.large)
            self._offer()
        large = answer.large  # held until it is there, though the call that made it may have ended by then
        for object_id in large:
            self.node.objects.retain(object_id)

        def is_there() -> None:
            self.node.objects.drop_all(large)
            done()

        self.undelivered.append((self.delivered, is_there))

    def made(self, answer: NestedAnswer) -> None:
        """Log a nested actor, or the end of the process's last handle on the actor."""
        if self.is_started:
            self.delivered += 1
            refs = () if answer.values else (answer.actor_id + FIRST_RETURN,)
            self._put(Item(nested=answer), refs, is_log=True)
        if self.is_on and not answer.values:
            self.node.logs.unheard.made(answer.actor_id)
            self.undelivered.append((self.delivered, partial(self.node.logs.unheard.maker_said, answer.actor_id)))

    def saved(self) -> None:
        """Offer a new checkpoint, or begin the log again."""
        if self.is_started:
            self._offer()
        elif self.actor.guardian and not self.is_on:
            self.begin()  # what was wrong with the log is over
            if self.actor.is_guarded:
                self.shard_knows()
            self.start()

    def _offer(self) -> None:
        """Offer the last checkpoint; for a while no checkpoint that covers calls whose nested calls are under way.

        After a loss of this node, no replay would make the nested calls again.
        """
        journal = self.actor.journal
        if not self.offered and journal.checkpoint and journal.first > self.offered_count and not journal.is_full:
            if not self._is_late and journal.nested.are_under_way(journal.done_with(self.actor)):
                return
            self.unoffered_size = self.unoffered_stored = 0
            self.offered, self.offered_count = journal.checkpoint, journal.first
            self.node.objects.retain(self.offered)
            self.offered_all_of = journal.done_with(self.actor)
            self.is_offer_said, self.awaited = False, self.answers.large_given()
        self.say_offer()

    @property
    def _is_late(self) -> bool:
        """Whether the backup node has too many calls or bytes since its checkpoint."""
        count = self.actor.journal.count - self.offered_count
        is_large = self.unoffered_size > LATE_BYTES_MAX or self.unoffered_stored > LATE_STORED_MAX
        return is_large or count > LATE_CALLS_MAX

    def say_offer(self) -> None:
        """Send the offer once callers have all large results of the covered calls: until then a replay returns the
        results.
        """
        if not self.is_offer_said and (self._is_late or self.awaited.isdisjoint(self.answers.given)):
            self.is_offer_said, self.awaited = True, set()
            actor_id, offered = self.actor.actor_id, self.offered
            beside = self.actor.journal.beside([offered])
            message = LogCheckpoint(actor_id, self.epoch, offered, self.offered_count, self.offered_all_of, beside)
            self._put(Item(message=message), (offered,))

    def _put(self, item: Item, refs: Iterable[bytes], *, is_log: bool = False) -> None:
        """Queue an item, which is ready when the shards know that this node holds its refs."""
        node, refs, nested = self.node, list(dict.fromkeys(refs)), self.actor.journal.nested
        if forgotten := nested.take_forgotten():
            self.queue.append(Item(message=LogCalls(self.actor.actor_id, self.epoch, [], forgotten=forgotten)))
        self.queue.append(item)
        if refs:
            item.is_ready = False
            node.lineage.flush()
            request = node.acks.next_request()
            expected = node.remote._share(refs, request, is_log=is_log)
            node.acks.expect(request, expected, lambda: self._is_ready(item))
        node.logs.touched[self.actor.actor_id] = self

    def _is_ready(self, item: Item) -> None:
        item.is_ready = True
        self.node.logs.touched[self.actor.actor_id] = self

    def pump(self) -> None:
        """Send the items that are ready, at the end of a turn."""
        calls: list[LoggedCall] = []
        nested: list[NestedAnswer] = []
        while self.queue and self.queue[0].is_ready:
            item = self.queue.popleft()
            if item.call is not None:
                calls.append(item.call)
            elif item.nested is not None:
                nested.append(item.nested)
            else:
                self._send_calls(calls, nested)
                calls, nested = [], []
                self.node.send(self.actor.guardian, item.message)  # type: ignore[arg-type]
        if self.is_started and self.answers.is_due and not (calls or nested or self.queue):
            self._send(LogCalls(self.actor.actor_id, self.epoch, []))
        self._send_calls(calls, nested)

    def _send_calls(self, calls: list[LoggedCall], nested: list[NestedAnswer]) -> None:
        """Send calls behind the answers of nested calls that the calls may have seen."""
        actor_id, epoch = self.actor.actor_id, self.epoch
        batches = [LogCalls(actor_id, epoch, [], nested=batch) for batch in in_batches(nested, size_of_nested)]
        for batch in in_batches(calls, size_of_call):
            if len(batches) == 1 and not batches[0].calls:
                batches[0] = replace(batches[0], calls=batch)
            else:
                batches.append(LogCalls(actor_id, epoch, batch))
        for message in batches:
            self._send(message)

    def _send(self, message: LogCalls) -> None:
        items = self.actor.items.take_news() if self.actor.items.news else []
        self.node.send(self.actor.guardian, replace(message, taken=self.answers.take_taken(), items=items))

    def acknowledged(self, message: CallsLogged) -> None:
        """CallsLogged, from the backup node."""
        if message.epoch != self.epoch or not self.is_started:
            return
        if message.broken:
            self.stop(is_known=True)
            self.release()
            return
        self.acked, self.heard = message.count, message.nested
        while self.undelivered and self.undelivered[0][0] <= message.nested:
            self.undelivered.popleft()[1]()
        held, self.held = self.held, []
        self.node.objects.drop_all(held)
        if self.offered and message.offered >= self.offered_count:
            self.actor.journal.nested.forget_all(self.offered_all_of)
            self._let_go_of_offer()
            self._offer()
        self.release()

    def _let_go_of_offer(self) -> None:
        if self.offered:
            offered, self.offered, self.offered_all_of, self.is_offer_said = self.offered, b"", [], True
            self.node.objects.drop(offered)

    def stop(self, *, is_known: bool = False) -> None:
        """Stop the log: no node has it."""
        self._happened("stops")
        self.node.logs.unheard.guarded(self.actor.actor_id)
        self.is_known = self.is_known and is_known
        self.acked, self.heard = -1, 0
        self.begun.stop()
        self.queue.clear()
        self.actor.journal.nested.is_logged_no_more()
        self.answers.forget_taken()
        self._let_go_of_offer()
        held, self.held = self.held, []
        self.node.objects.drop_all(held)

    def shard_knows(self) -> None:
        """Note that the shard knows the backup node."""
        self.is_known = True
        self.node.logs.unheard.guarded(self.actor.actor_id)
        self.release()

    @property
    def is_safe(self) -> bool:
        """Whether the backup node has all calls that have run."""
        return self.is_started and self.is_known and self.acked >= self.actor.journal.count

    # --- results ---

    def withhold(self, task: Task, result: TaskResult, process: Process) -> bool:
        """Withhold a result until the backup node has the call.  Returns whether the result must wait."""
        node = self.node
        if self.yields:
            self.pass_on(task)
        answer = self.answers.give(task, result)
        item = self.queue[-1] if self.queue else None
        said = read_ended(self, task, answer) if task.options.is_readonly else 0
        if item is not None and item.call is not None and item.call.spec.task_id == task.spec.task_id:
            item.call = replace(item.call, answer=answer)
        if task.spec.caller == self.actor.actor_id:
            node.calls.nested_ended(
                task, result.values, result.contained
            )  # of its own: in the log with the call itself
        if self._may_leave(said):
            self.is_unseen = False
            return False
        for index, value in enumerate(result.values, 1):
            if type(value) is StoredValue:
                node.objects.pin(return_id(task.spec.task_id, index), process)
                node.to_seal.append(return_id(task.spec.task_id, index))
        for inside in result.contained:
            for object_id in inside:
                node.objects.retain(object_id)
        task.queued()
        self.withheld.append(Withheld(self.actor.journal.count, said, task, result.values, result.contained))
        return True

    def _may_leave(self, said: int) -> bool:
        """Return whether nothing that comes now has to be withheld.  said: as in Withheld."""
        return not self.is_on or (not self.withheld and self.is_there(self.actor.journal.count, said))

    def yielded(self, task: Task, first: int, items: list[YieldedItem]) -> None:
        """Take items of a generator, until the end of the turn: they overtake the results of earlier calls."""
        for number, (value, inside, _) in enumerate(items, first):
            if type(value) is StoredValue:
                self.node.to_seal.append(item_id(task.spec.task_id, number))
            for object_id in inside:
                self.node.objects.retain(object_id)
        self.yields.append((task, first, items))
        self.node.logs.touched[self.actor.actor_id] = self

    def pass_on(self, ended: Task | None = None) -> None:
        """Pass items on, or withhold the items until the backup node has all that they depend on.

        ended: only items of this call, which has ended.
        """
        yields, self.yields = self.yields, []
        for task, first, items in yields:
            if ended is not None and task is not ended:
                self.yields.append((task, first, items))
                continue
            said = self.delivered if ended is not None or not self.is_started else self.begun.yields(task)
            contained = tuple(inside for _, inside, _ in items)
            if not self._may_leave(said):
                count, is_end = self.actor.journal.count, ended is not None
                self.withheld.append(Withheld(count, said, task, [], contained, first, items, is_end))
                continue
            self.is_unseen = False
            self.actor.items.leave(task, first, items)
            for inside in contained:
                self.node.objects.drop_all(inside)

    def release(self) -> None:
        """Release the results and nested calls that may be seen."""
        self.begun.leave()
        while self.undelivered and not self.is_on:
            self.undelivered.popleft()[1]()
        while self.withheld:
            item = self.withheld[0]
            if self.is_on and not self.is_there(item.count, item.said):
                return
            self.withheld.popleft()
            self.is_unseen = False
            node, task = self.node, item.task
            if item.items:
                self.actor.items.leave(task, item.first, item.items)
            else:
                node.take_task(task.spec.task_id)
                node.lifecycle.finish(task, item.values, item.contained)
            for inside in item.contained:
                node.objects.drop_all(inside)
            node.calls.touch(self.actor.actor_id)

    def close(self) -> None:
        """Stop the log of an actor that is dead for good, and release all results."""
        self.stop()
        self.release()
        self.pass_on()
        self.answers.close()


def new_shipping(node: LocalScheduler, actor: Actor) -> Shipping:
    """Return the state of an actor's log that no other node has yet."""
    return Shipping(node, actor, Answers(node, actor), BegunCalls(node, actor))
