"""Items of generator tasks and calls, on the way to the process that draws the items.

    worker              ItemsYielded     items of a task that runs on the worker
    local scheduler     ItemsMade        the same, from the node that runs the task: small values, sizes of large values
    driver, worker      ItemsDrawn       count of drawn items: where the number is limited, as many more may come
    driver, worker      LeaveGenerator   drawing has ended: items behind `count` go, and the task is cancelled

Item n (from 0) is the object `item_id(task, n)`.  The task's first return is the end: the number of items, or an error.
The submitter of the task holds each item from its arrival on.  Each item holds the end, so that the shards keep the
task's spec.  A task that runs again yields the same items: the submitter is given only items not received before.

Items of a call that a recoverable actor has made are held by the journal of that actor too (`Nested`), and kept where
they are made (`kept_items`).

Rule 1: A stream exists from the submission of its task until its owner leaves the stream or ends.  Without an owner, it
waits for the next process of a recoverable actor.
Rule 2: The origin of a task hears of its items in order, and of its end behind the items.
Rule 3: Items 0 to `count` - 1 were given to the owner, in this order; `early` has later ones.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ....exceptions import FIRST_MARK, PAST_MARKS, encode_retry_error, encode_system_error
from ....ids import FIRST_RETURN, index_of, is_put, item_id, task_of
from ....wire.actors import ResultsHeld
from ....wire.gcs import CannotRebuild
from ....wire.scheduling import ItemsMade
from ....wire.task_spec import StoredValue
from ....wire.tasks import ItemsDrawn, ItemsYielded, LeaveGenerator
from ...kept import Latest
from ...role import on
from ..objects.table import ObjectEntry
from ..tables import Actor, Process
from ..task import RebuiltTask, Task

if TYPE_CHECKING:
    from ..actor_logs.nested import Nested
    from ..scheduler import LocalScheduler

# Items that overtake one with refs inside, since the shards hear of those refs first: some of the same milliseconds.
EARLY_MAX = 100_000
# Generators whose items are counted: more than run at once on a node.
ATTEMPTS_MAX = 10_000
UNKNOWN = 0
ITEMS_MAX = 1 << 30

Item = tuple[bytes | StoredValue | int, tuple[bytes, ...], str]  # value or size; refs inside; where a large one lies


class Stream(Struct, eq=False):
    """Generator at the node of the process that draws its items."""

    LASTING = {"early": "EARLY_MAX"}

    owner: Process | None
    maker: Actor | None = None  # the recoverable actor whose call has called the generator
    count: int = 0
    drawn: int = 0  # as far as the owner says so, of a generator with `max_buffered`
    early: dict[int, Item] = {}


class Attempts(Struct, eq=False):
    """The attempts of a generator that runs on this node."""

    count: int = 0  # items of this attempt
    attempt: int = 0  # its task's attempts before this one
    drawn: int = 0  # of a generator with `max_buffered`
    before: int = 0  # the most items of an earlier attempt
    differs: int = -1  # the first item that differs from the one of an earlier attempt
    # Hashes of the items of a generator of a recoverable actor; UNKNOWN: of large ones.
    known: array[int] = field(default_factory=lambda: array("q"))

    def compare(self, first: int, made: list[Item]) -> None:
        """Compare items with those of earlier runs; the others may come with gaps."""
        known = self.known
        for number, (value, _, _) in enumerate(made, first):
            found = hash(value) if type(value) is bytes else UNKNOWN
            if number >= len(known):
                known.extend([UNKNOWN] * (number - len(known)))
                known.append(found)
            elif self.differs < 0 and found != known[number] and UNKNOWN not in (found, known[number]):
                self.differs = number


class Untold(Struct, eq=False):
    """Words to the origin of a generator that runs on this node, beginning with the first that waits for the shards."""

    origin: str
    words: deque[list[Any]] = field(default_factory=deque)  # [what says it, whether it may be said]


class Generators:
    """The generators of one node."""

    PASSING = {"streams untold": None, "asked": "node.tasks"}
    LASTING = {"attempts left": "ATTEMPTS_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.streams: dict[bytes, Stream] = {}
        self.untold: dict[bytes, Untold] = {}
        self.asked: dict[bytes, dict[bytes, None]] = {}  # lost items that shards have asked for, by task in hand
        self.attempts: Latest[bytes, Attempts] = Latest(ATTEMPTS_MAX)  # by task that runs here, or has left
        self.left: Latest[bytes, int] = Latest(ATTEMPTS_MAX)  # items that the program has had of those it has left

    def is_left(self, task_id: bytes, count: int) -> None:
        """Note how many items the program has had of a generator that it draws no more."""
        self.left[task_id] = count

    def submitted(self, task_id: bytes, owner: Process, maker: Actor | None) -> None:
        """Note a generator that a process has submitted, perhaps once more: present items are given to the process
        again.
        """
        node, former = self.node, self.streams.get(task_id)
        held = maker.journal.nested.items_of(task_id) if maker is not None else 0
        stream = self.streams[task_id] = Stream(owner, maker)
        if former is not None and maker is not None:
            stream.early = former.early
        while (entry := node.objects.entries.get(item_id(task_id, stream.count))) is not None:
            if maker is not None and stream.count >= held or maker is None and entry.value is None:
                break
            stream.count += 1
            node.objects.hold(entry, owner)
            if entry.value is not None:
                node.push(entry, owner)
            else:
                node.waits.lies_elsewhere(entry)
        if maker is not None and task_id in node.tasks:
            node.kept_items.give(node.tasks[task_id])

    def is_item(self, entry: ObjectEntry) -> bool:
        """Return whether an object may be an awaited item of a generator that a local process draws from."""
        return entry.shared is None and entry.object_id[:-4] in self.streams

    def look_for(self, entry: ObjectEntry) -> None:
        """Look for an item that a process waits for: if the task has ended, the item is elsewhere, or lost."""
        node = self.node
        if entry.object_id[:-4] in node.tasks or entry.value is not None:
            return
        if node.is_embedded:
            text = f"Item {entry.object_id.hex()} of a generator was lost."
            node.object_is_here(entry, encode_system_error("ObjectLostError", text))
        else:
            node.remote.adopt(entry)
            node.remote.want(entry, is_urgent=True)

    # --- items ---

    @on(ItemsYielded)
    def on_items_yielded(self, message: ItemsYielded) -> None:
        """Handle ItemsYielded."""
        node = self.node
        process = node.processes.get(node.sender)
        task = node.tasks.get(message.task_id)
        worker = process.worker if process is not None else None
        is_running = worker is not None and worker.has(task)
        contained = message.contained or ((),) * len(message.values)
        made: list[Item] = []
        for n, value, inside in zip(range(message.first, 1 << 31), message.values, contained, strict=False):
            if type(value) is StoredValue and process is not None:
                node.objects.pin(item_id(message.task_id, n), process)  # its writer knows the place
            if not is_running:
                self.drop(item_id(message.task_id, n), value)
            else:
                made.append((value, inside, ""))
        if not is_running or task is None:
            node.reject("items of a task that does not run")
        else:
            self._count(task, message.first, made)
            self.leave(task, message.first, made)

    def leave(self, task: Task, first: int, made: list[Item]) -> None:
        """Pass items on, or have them withheld by a recoverable actor."""
        actor = self.node.calls.actors.get(task.options.actor_id)
        if actor is not None and actor.items is not None:
            for number, row in actor.items.new(task, first, made):
                if actor.shipping is not None:
                    actor.shipping.yielded(task, number, row)
                else:
                    actor.items.leave(task, number, row)
        elif self.is_for_another_node(task):
            self.tell_origin(task, first, made)
        else:
            self.arrived(task.spec.task_id, first, made)

    def is_for_another_node(self, task: Task) -> bool:
        """Return whether another node draws the items of a task: not a lost one, whose actor has come here."""
        origin = task.origin
        return bool(origin) and origin != self.node.address and not self._has_come(task)

    def _has_come(self, task: Task) -> bool:
        return task.origin in self.node.recovery.lost and task.spec.task_id in self.streams

    def _count(self, task: Task, first: int, made: list[Item]) -> None:
        """Count the items of an attempt, and compare small ones that are here with those of an earlier attempt."""
        attempts = self.attempts.setdefault(task.spec.task_id, Attempts())
        attempts.attempt = task.attempts
        if task.options.is_logged:
            attempts.count = first + len(made)
            attempts.compare(first, made)
            return
        if first < attempts.count:
            attempts.before, attempts.count = max(attempts.before, attempts.count), 0
        attempts.count = first + len(made)
        if attempts.before and attempts.differs < 0:
            entries = self.node.objects.entries
            for n, (value, _, _) in enumerate(made, first):
                entry = entries.get(item_id(task.spec.task_id, n))
                former = entry.value if entry is not None else None
                if type(former) is bytes and type(value) is bytes and former != value:
                    attempts.differs = n
                    return

    def ended(self, task: Task, values: list[bytes | StoredValue]) -> list[bytes | StoredValue]:
        """Return the end of a generator that has run here: an error if its attempts do not agree."""
        attempts = self.attempts.pop(task.spec.task_id, None)
        actor = self.node.calls.actors.get(task.options.actor_id)
        if actor is not None and actor.items is not None and actor.shipping is None:
            actor.items.ended(task.spec.task_id)
        is_error = bool(values) and type(values[0]) is bytes and FIRST_MARK <= values[0] < PAST_MARKS
        if attempts is None or is_error or not task.options.is_deterministic:
            return values
        if attempts.differs < 0 and attempts.count >= attempts.before:
            return values
        name = task.options.name or task.options.method or self.node.lifecycle.function_name(task.spec.function_id)
        what = f"item {attempts.differs} differs from that of an earlier attempt"
        if attempts.differs < 0:
            what = f"it yielded {attempts.count} items, and an earlier attempt {attempts.before}"
        return [encode_retry_error(name, what)]

    def tell_origin(self, task: Task, first: int, made: list[Item], receipt: int = 0) -> None:
        """Send small items to the submitter's node; keep the others on this node until the submitter's node is a
        holder.
        """
        node, task_id = self.node, task.spec.task_id
        back: list[bytes | int] = []
        held: list[bytes] = []
        for n, (value, inside, _) in enumerate(made, first):
            if type(value) is bytes and not inside:
                back.append(value)
                continue
            entry = node.objects.require(item_id(task_id, n))
            back.append(node.results.lend(task.origin, entry, value, inside))  # type: ignore[arg-type]
            held += inside
        if task.spec.caller and task.options.is_logged:
            node.kept_items.keep(task, first, made)
            receipt = receipt or node.logs.items_leave(task, [item_id(task_id, first + len(made) - 1)])
        if task.origin in node.recovery.lost:
            return
        tell = partial(node.send, task.origin, ItemsMade(task_id, task.trip, first, back, receipt))
        if not held:
            self.tell_in_order(task, tell)
            return
        word = [tell, False]
        self.untold.setdefault(task_id, Untold(task.origin)).words.append(word)
        request = node.acks.next_request()
        node.acks.expect(
            request, node.remote._share(held, request), partial(self._may_tell, task_id, word), task.origin
        )

    def not_drawn_again(self, task_id: bytes, nested: Nested) -> None:
        """Forget a stream without an owner, which no process will ask for again."""
        stream, task = self.streams.get(task_id), self.node.tasks.get(task_id)
        if stream is not None and stream.owner is None and stream.maker.journal.nested is nested:  # type: ignore
            del self.streams[task_id]
            if task is not None:
                self.node.cancels.cancel(task, False, True)

    def tell_in_order(self, task: Task, tell: Callable[[], None]) -> None:
        """Tell the origin of a task something, behind all words not told yet."""
        untold = self.untold.get(task.spec.task_id)
        if untold is None:
            tell()
        else:
            untold.words.append([tell, True])

    def _may_tell(self, task_id: bytes, word: list[Any]) -> None:
        word[1] = True
        untold = self.untold.get(task_id)
        while untold is not None and untold.words and untold.words[0][1]:
            untold.words.popleft()[0]()
        if untold is not None and not untold.words:
            del self.untold[task_id]

    def node_lost(self, lost: str) -> None:
        """Drop the words to a lost node, and cancel the calls whose items its processes drew.

        A further run of a lost process submits a call of its own.  A recoverable actor asks for the same call again.
        """
        node = self.node
        for task_id in [task_id for task_id, untold in self.untold.items() if untold.origin == lost]:
            del self.untold[task_id]
        for task in [task for task in node.tasks.values() if task.options.is_generator]:
            actor = node.calls.actors.get(task.options.actor_id)
            origin = task.origin
            if actor is not None and actor.shipping is not None and not origin:
                origin = actor.shipping.answers.unasked.get(task.spec.task_id, "")
            if actor is not None and origin == lost:
                self.end_unread(task)

    def end_unread(self, task: Task) -> None:
        """Cancel a call of a lost process, unless a recoverable actor has made it, and asks for it again."""
        if task.spec.caller and task.options.is_logged:
            self.node.kept_items.look_for_caller(task.spec.task_id)
        else:
            self.node.cancels.cancel(task, False, True)

    @on(ItemsMade)
    def on_items_made(self, message: ItemsMade) -> None:
        """Handle ItemsMade, from the node of the running task."""
        node, home = self.node, self.node.sender
        task = node.tasks.get(message.task_id)
        ids = [item_id(message.task_id, n) for n in range(message.first, message.first + len(message.values))]
        lying = [object_id for object_id, value in zip(ids, message.values, strict=True) if type(value) is int]
        wanted = message.task_id in self.streams or any(object_id in node.objects.entries for object_id in ids)
        wanted = wanted or type(task) is RebuiltTask or message.task_id in self.asked
        if not wanted or home in node.recovery.lost:
            if lying:
                node.send(home, ResultsHeld(lying))
            if message.receipt:
                node.logs.items_taken(home, message.receipt)
            return
        if lying:
            request = node.acks.next_request()
            expected = 0
            if task is not None and task.options.may_run_again:
                expected = node.departures.record(task, request)
            for object_id in lying:
                node.objects.require(object_id).share().holds()
            expected += node.remote._hold_at_shards(lying, request)
            node.acks.expect(request, expected, partial(node.send, home, ResultsHeld(lying)), home)
        node.logs.begin_taking(home, message.receipt)
        self.arrived(message.task_id, message.first, [(value, (), home) for value in message.values])
        if message.receipt and task is not None and task.options.is_logged:  # its actor recovers
            taken = node.logs.receipt_waits()
            if not node.routes.unpulled.keep_items(task, home, lying, taken):
                taken()
        node.logs.end_taking()

    def arrived(self, task_id: bytes, first: int, items: list[Item]) -> None:
        """Give the items to the process that draws them, in order."""
        stream, task = self.streams.get(task_id), self.node.tasks.get(task_id)
        given: list[bytes | int] = []  # to an owner, or kept for the next one
        if type(task) is RebuiltTask:
            task.has_yielded(first + len(items))
        is_undrawn = stream is None or type(task) is RebuiltTask
        if is_undrawn and task is not None and task.options.max_buffered and not first:
            most = self.left.get(task_id, ITEMS_MAX) if stream is None else ITEMS_MAX
            self._pass_on(task, ItemsDrawn(task_id, most))  # nobody draws these items
        elif stream is not None and stream.drawn and first < stream.drawn and task is not None:
            # A task that runs again: its new worker has not heard what was drawn before.
            self._pass_on(task, ItemsDrawn(task_id, stream.drawn))
        for n, item in enumerate(items, first):
            if stream is None or n < stream.count:
                is_kept = (type(task) is RebuiltTask or task_id in self.asked) and n < EARLY_MAX
                self._arrived_again(item_id(task_id, n), item, is_kept=is_kept)
            elif n > stream.count:
                if len(stream.early) >= EARLY_MAX:
                    self.node.reject("items far ahead of those before them")
                    return
                stream.early[n] = item
            else:
                given.append(self._give(stream, task_id, item))
        while stream is not None and stream.early and (early := stream.early.pop(stream.count, None)) is not None:
            given.append(self._give(stream, task_id, early))
        if stream is not None and stream.maker is not None and given:
            self._log(stream, task_id, given)
        if type(task) is RebuiltTask and stream is None and task.yielded >= self.left.get(task_id, ITEMS_MAX):
            self.node.cancels.cancel(task, False, True)  # no program has had further items

    def _log(self, stream: Stream, task_id: bytes, given: list[bytes | int]) -> None:
        """Log items that a call of a recoverable actor has drawn, as the answers of nested calls."""
        node, first = self.node, stream.count - len(given)
        nested, shipping = stream.maker.journal.nested, stream.maker.shipping  # type: ignore[union-attr]
        task = node.tasks.get(task_id)
        is_beside = task is not None and task.options.actor_id in node.calls.actors
        part = nested.yielded(task_id, first, given, is_beside=is_beside)
        for n in range(first, stream.count):
            node.objects.drop(item_id(task_id, n))  # the journal holds it
        if part is not None:
            if shipping is not None:
                shipping.nested_ended(part, node.logs.receipt_waits())
            nested.bound(part)

    def _give(self, stream: Stream, task_id: bytes, item: Item) -> bytes | int:
        """Give an item to the owner.  Returns what the log has of it: a small value, or a size."""
        node, (value, inside, home) = self.node, item
        entry = node.objects.require(item_id(task_id, stream.count))
        stream.count += 1
        if stream.maker is not None:
            node.objects.retain(entry.object_id)
        if stream.owner is not None:
            node.objects.hold(entry, stream.owner)
        if isinstance(value, int):
            node.routes.lies_at(entry, value, home)
        elif entry.value is None:
            end = task_id + FIRST_RETURN
            node.object_is_here(entry, value, (*inside, end) if end in node.objects.entries else inside)
        elif stream.owner is not None:
            node.push(entry, stream.owner)
        if type(value) is StoredValue:
            return value.size
        return len(value) if type(value) is bytes and inside else value  # type: ignore[return-value]

    def _arrived_again(self, object_id: bytes, item: Item, *, is_kept: bool) -> None:
        """Take an item that nobody draws: a lost item may be wanted again.

        is_kept: the shard keeps the item for as long as further tasks that took it may be lost.
        """
        node, (value, inside, home) = self.node, item
        entry = node.objects.entries.get(object_id)
        if entry is None and is_kept:
            entry = node.objects.require(object_id)
            node.remote.adopt(entry)
        if entry is None or entry.value is not None:
            self.drop(object_id, value)
            if entry is not None:
                node.objects.free_if_unreferenced(entry)  # held anew with the others of its message
        elif isinstance(value, int):
            node.routes.lies_at(entry, value, home)
        else:
            node.object_is_here(entry, value, inside)

    def drop(self, object_id: bytes, value: bytes | StoredValue | int) -> None:
        """Free a large value, unless the value is the entry's."""
        entry = self.node.objects.entries.get(object_id)
        if type(value) is StoredValue and (entry is None or type(entry.value) is not StoredValue):
            self.node.objects.free_place(object_id, value)

    # --- back-pressure ---

    @on(ItemsDrawn)
    def on_items_drawn(self, message: ItemsDrawn) -> None:
        """Handle ItemsDrawn, on the way to the worker."""
        node = self.node
        stream, task = self.streams.get(message.task_id), node.tasks.get(message.task_id)
        if stream is not None and stream.owner is not None and stream.owner.address == node.sender:
            stream.drawn = max(stream.drawn, message.count)
        elif task is None or task.origin != node.sender:
            return  # it has ended
        if task is not None and type(task) is not RebuiltTask:
            actor = node.calls.actors.get(task.options.actor_id)
            if actor is not None and actor.items is not None:
                given = actor.items.require(message.task_id)
                given.drawn = max(given.drawn, message.count)
            self._pass_on(task, message)

    def _pass_on(self, task: Task, message: ItemsDrawn) -> None:
        if task.worker is not None:
            if (attempts := self.attempts.get(message.task_id)) is not None:
                attempts.drawn = max(attempts.drawn, message.count)
            self.node.send(task.worker.address, message)
        elif place := self.place_of(task):
            self.node.send(place, message)

    def place_of(self, task: Task) -> str:
        """Return the other node that runs a task or call; "": none is known."""
        route = self.node.routes.by_actor.get(task.options.actor_id)
        if route is not None and route.home:
            return route.home
        return task.forward.peer if task.forward is not None else ""

    def made_in_run(self, task: Task) -> int:
        """Return the number of items that the present run of a task has made here."""
        attempts = self.attempts.get(task.spec.task_id)
        return attempts.count if attempts is not None and attempts.attempt == task.attempts else 0

    def waits_for_draws(self, task: Task) -> bool:
        """Return whether a generator that runs here may make no further item before one is drawn."""
        most, attempts = task.options.max_buffered, self.attempts.get(task.spec.task_id)
        return bool(most) and attempts is not None and attempts.count - attempts.drawn >= most

    # --- ends ---

    def asks(self, object_id: bytes, *, is_here: bool = False, drawn: int = 0) -> None:
        """Note a lost item that a shard has asked for, of a generator that runs, or is about to run again.

        drawn: the items that its consumer has had, if it was left.
        """
        if drawn:
            self.left[task_of(object_id)] = drawn
        if is_here:
            self.node.remote.share_value(self.node.objects.entries[object_id])
        elif not object_id.endswith(FIRST_RETURN):
            self.asked.setdefault(task_of(object_id), {})[object_id] = None
            if (task := self.node.tasks.get(task_of(object_id))) is not None:
                self.node.reruns.is_missing(task, object_id)

    def has_run(self, task: Task, value: bytes | StoredValue | int) -> None:
        """Answer the shards that have asked for items which a run has not made since.

        The items may have been made before: another run makes them again.  Items that a run for lost items has not
        yielded are lost for good.
        """
        node = self.node
        node.reruns.ended(task)
        text = "The generator that made it was run again, since a copy of an item was lost, and yielded fewer items."
        is_error = type(value) is bytes and FIRST_MARK <= value < PAST_MARKS
        error: bytes = value if is_error else encode_system_error("ObjectReconstructionFailedError", text)  # type: ignore
        passed: list[ObjectEntry] = []
        for object_id in self.asked.pop(task.spec.task_id, ()):
            entry = node.objects.require(object_id)
            if entry.shared is None:
                node.remote.adopt(entry)
            if entry.is_here or entry.is_elsewhere:
                continue
            if type(task) is RebuiltTask and index_of(object_id) > task.yielded + 1:
                node.object_is_here(entry, error)
                continue
            passed.append(entry)
            node.remote.subscribed.discard(object_id)
            node.send(node.addresses.shard_of(object_id), CannotRebuild(node.address, object_id))
        for entry in passed:
            node.routes.unpulled.look_for(entry)

    @on(LeaveGenerator)
    def on_leave_generator(self, message: LeaveGenerator) -> None:
        """Handle LeaveGenerator."""
        node = self.node
        stream = self.streams.get(message.task_id)
        if stream is None or stream.owner is None or stream.owner.address != node.sender:
            node.reject("a generator of somebody else")
            return
        task = node.tasks.get(message.task_id)
        if task is not None and message.ends:
            self.left[message.task_id] = stream.count
            if task.entry.is_recorded:
                node.lineage.say_left([message.task_id])
        del self.streams[message.task_id]
        node.undoing.release_items(message.task_id, range(message.count, stream.count), stream.owner)
        if task is not None and message.ends:
            node.cancels.cancel(task, False, True)

    def seen(self, task: Task) -> int:
        """Return the number of items behind which a cancelled generator of a recoverable actor may end: the program has
        had them.
        """
        if not task.options.is_logged:
            return 0
        stream = self.streams.get(task.spec.task_id)
        return stream.count if stream is not None else self.left.get(task.spec.task_id, 0)

    def sent_again(self, task: Task, home: str) -> None:
        """Tell another home of an actor what the former one knew of a call."""
        stream = self.streams.get(task.spec.task_id)
        if stream is not None and stream.drawn:
            self.node.send(home, ItemsDrawn(task.spec.task_id, stream.drawn))
        self.node.cancels.tell_home(task, home)
        self.node.reruns.sent_again(task)

    def comes_again(self, object_id: bytes) -> bool:
        """Return whether an object may be a lost item of a recoverable actor's call, which gives it again."""
        task = self.node.tasks.get(task_of(object_id))
        is_item = not object_id.endswith(FIRST_RETURN) and not is_put(object_id)
        return task is not None and is_item and task.options.is_generator and task.options.is_logged

    def look_again(self, task: Task) -> None:
        """Look for awaited items of a call that has run again, or was asked again, and has not given them."""
        entries = self.node.objects.entries
        if not task.options.is_logged or self.node.is_embedded:
            return
        for entry in [entry for object_id, entry in entries.items() if object_id.startswith(task.spec.task_id)]:
            if entry.task is None and (entry.waiting or entry.watchers) and _is_missing(entry):
                self.node.remote.want(entry)

    def forget_process(self, process: Process) -> None:
        """Forget the generators of an ended process.

        A driver's calls of actors are cancelled: nobody else can draw.  Its tasks end with the job.  See Fates for what
        workers have submitted.
        """
        for task_id, stream in [each for each in self.streams.items() if each[1].owner is process]:
            if stream.maker is not None and stream.maker.journal.nested.has(task_id):
                stream.owner = None
                continue
            del self.streams[task_id]
            task = self.node.tasks.get(task_id)
            if process.worker is None and task is not None and task.options.actor_id:
                if task.options.is_logged:
                    self.left[task_id] = stream.count
                self.node.cancels.cancel(task, False, True)


def _is_missing(entry: ObjectEntry) -> bool:
    """Return whether somebody waits for a missing object without a copy under way."""
    is_awaited = entry.waiting or entry.watchers or entry.holders
    is_coming = entry.is_elsewhere or (entry.shared is not None and entry.shared.is_fetching)
    return bool(is_awaited) and not entry.is_here and not is_coming
