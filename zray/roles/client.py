"""Client: inside every driver and worker; knows the process's refs and values, and the messages for the node.

The client is no Role with effects.  Because every task calls it, messages are collected in `outbox`.  The host takes
them (`take_messages`) when a buffer is full, when a caller waits, or after about a millisecond.  The client is as pure
as a role: no socket, no clock, no thread.

Dialog (sender, message, reaction):

    local scheduler    ObjectsReady     keep the values of objects that a ref here refers to
    local scheduler    ValuesFreed      an error takes the place of values
    local scheduler    ReturnPlaces     places of values that nobody reads are forgotten
    local scheduler    WaitReply        a wait is over
    object manager     ObjectAllocated, PagesReserved, AllocateRefused    room for a large value
    local scheduler    InlineLimit      larger values are written into the arena
    node               FindActorReply, ActorNamesFound, StatusReply, NodesReply, ExplainReply, WorkListed, EventsListed

A value is kept while a ref to its object lives in this process.  A place in the arena that the node has sent stays
pinned until no ref to the object and no array on it is left (`UnpinObjects`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any, get_args

from ..exceptions import FIRST_MARK, PAST_MARKS
from ..ids import FIRST_RETURN, index_of, item_id, return_id, task_of
from ..wire import actors, events, groups, hosts, listing, objects, reasons, session, task_spec, tasks
from ..wire.message import Message
from .role import handlers_of, on
from .unfetched import Unfetched

# A full buffer leaves at once: enough to share the cost of a wake-up, little enough to keep the node busy.
BUFFERED_COUNT_MAX = 128


# Ends of refs that are said in one frame: a program may drop a million at once, and the node serves others too.
RELEASES_MAX = 4_096
# Likewise of items of generators that were left; the helper thread sends the others, so that no submission waits long.
LEFT_ITEMS_MAX = 1_024


def _is_no_argument(object_id: bytes) -> bool:
    """Return False for any object: a driver runs no task that could take it."""
    return False


# Answers of a node, matched by the number of the request.
Reply = (
    actors.FindActorReply
    | actors.ActorNamesFound
    | session.StatusReply
    | tasks.CancelTaskReply
    | hosts.NodesReply
    | reasons.ExplainReply
    | groups.CreateGroupReply
    | groups.GroupsFound
    | listing.WorkListed
    | events.EventsListed
)


class Client:
    """The refs, values and outbox of a process."""

    PASSING = {"held told reading replies left streams early leaving": None, "further_refs values located": "held"}
    LASTING = {"asked asked_whether": "borrowed"}

    def __init__(self, released: deque[bytes], unread: deque[bytes]) -> None:
        """`released`: ids of dead refs, appended by their finalizers; `unread`: ids of dead arrays."""
        self.released = released
        self.unread = unread
        # Objects that this process has refs on -> the one copy of the id that tables and refs share: each further
        # copy of a million ids is 64 MB.
        self.held: dict[bytes, bytes] = {}
        self.further_refs: dict[bytes, int] = {}  # object -> refs on it beyond the first; most have none
        self.borrowed: set[bytes] = set()  # refs that were handed to us: their values come only when asked for
        self.asked: set[bytes] = set()  # borrowed ones that we have asked for
        self.asked_whether: set[bytes] = set()  # of these, only when they are there
        self.values: dict[bytes, bytes | task_spec.StoredValue] = {}
        self.arrivals = 0  # objects that have become ready, at most; counted when they are there
        self.located: set[bytes] = set()  # said to exist by a wait that did not fetch
        self.told: dict[bytes, int] = {}  # how often the node told us the place
        # Whether a task that is queued or runs here takes the object: its place is not returned then.
        self.is_argument: Callable[[bytes], bool] = _is_no_argument
        self.reading: dict[bytes, int] = {}  # arrays on it that live
        self.outbox: list[Message] = []
        self._specs: list[task_spec.TaskSpec] | None = None  # of the SubmitTasks at the end of the outbox
        self._puts: list[objects.PutObject] | None = None  # of the PutObjects at the end of the outbox
        # Said in the middle of anything else, by a finalizer or a signal's handler.
        self.later: deque[task_spec.TaskSpec | Message] = deque()
        self.buffered = 0
        self.request = 0
        self.replies: dict[int, Any] = {}  # answers by request, until taken
        self.left = 0  # the wait that was left last, until the node answers it; 0: the node knows of all
        # Per object being allocated: the size asked for, in bytes, and then the newest answer.
        self.allocations: dict[bytes, int | objects.ObjectAllocated | objects.AllocateRefused] = {}
        self.waits: list[Collection[bytes]] = []  # what threads of this process wait for the values of
        self.is_urgent = False  # something in the outbox is awaited: send it with this turn
        self.arrived_lists: list[list[Any]] = []  # each gets what comes in ObjectsReady from now on (gets of lists)
        # Told of how large values in messages may be from now on (None: as in Welcome).
        self.inline_bytes_max: int | None = None
        self.on_inline_limit: Callable[[int], None] | None = None
        self.unfetched = Unfetched(self.held)
        self.items: list[bytes | task_spec.StoredValue] = []
        self.streams: dict[bytes, int] = {}  # generator tasks -> how many items of each have arrived
        self.early: dict[bytes, set[int]] = {}  # items that have arrived ahead of others
        self.leaving: deque[Iterator[bytes]] = deque()  # items of generators that were left, still to be released
        # Told of every object that becomes ready, when set (futures).
        self.on_ready: Callable[[bytes], None] | None = None

    # --- what the process says ---

    def submit(self, spec: task_spec.TaskSpec, num_returns: int = 1) -> bytes:
        """Submit a task or an actor call; this process holds its returns from now on.

        Returns the id of the first return, for the ref to share.
        """
        first = spec.task_id + FIRST_RETURN
        if num_returns == 1:  # nearly always: `_own`, without the call where the id is new
            known = self.held.setdefault(first, first)
            if known is not first:
                first = self._own(first)
        elif num_returns:
            first = self._own(first)
            for index in range(2, num_returns + 1):
                self._own(return_id(spec.task_id, index))
        specs = self._specs
        if specs is None:
            specs = self._specs = []
            self._puts = None
            self.outbox.append(tasks.SubmitTasks(specs))
        specs.append(spec)
        if spec.deps:
            self.unfetched.handed.update(spec.deps)
        self.buffered += 1
        return first

    def _is_item(self, object_id: bytes) -> bool:
        """Whether an object is an item of a generator of ours that has just arrived: it is held from now on."""
        task_id = task_of(object_id)
        if task_id not in self.streams or object_id in self.held:
            return False
        self.held[object_id] = object_id
        early = self.early.setdefault(task_id, set())
        early.add(index_of(object_id) - 2)
        while self.streams[task_id] in early:
            early.remove(self.streams[task_id])
            self.streams[task_id] += 1
        if not early:
            del self.early[task_id]
        return True

    def leave_stream(self, task_id: bytes, first: int) -> int | None:
        """Draw no more from a generator: its items from number `first` on are released.

        Returns how many have arrived; None: the generator was left before.  The items go a few at a time, so that a
        program that leaves a generator does not wait.
        """
        count = self.streams.pop(task_id, None)
        if count is not None:
            numbers = chain(range(first, count), self.early.pop(task_id, ()))
            self.leaving.append(item_id(task_id, number) for number in numbers)
        return count

    def submit_later(self, spec: task_spec.TaskSpec, num_returns: int) -> bytes:
        """Submit like submit(), but safe at any moment, even inside this class's own methods."""
        first = self._own(spec.task_id + FIRST_RETURN)
        for index in range(2, num_returns + 1):
            self._own(return_id(spec.task_id, index))
        self.later.append(spec)
        self.unfetched.handed.update(spec.deps)
        return first

    def put(
        self,
        object_id: bytes,
        value: bytes | task_spec.StoredValue,
        contained: tuple[bytes, ...] = (),
        made: str = "",
    ) -> None:
        """Store a value: this process holds a ref to the object, and knows the value.  made: as in PutObject."""
        self._own(object_id)
        self.values[object_id] = value
        if type(value) is task_spec.StoredValue:
            self.told[object_id] = self.told.get(object_id, 0) + 1
        puts = self._puts
        if puts is None:
            puts = self._puts = []
            self._specs = None
            self.outbox.append(objects.PutObjects(puts))
        puts.append(objects.PutObject(object_id, value, contained, made))
        self.buffered += 1

    def say_item(
        self, task_id: bytes, number: int, value: bytes | task_spec.StoredValue, contained: tuple[bytes, ...]
    ) -> None:
        """An item of a generator that runs here.  Nobody here refers to it; its place is told, and not read."""
        last = self.outbox[-1] if self.outbox else None
        if (
            type(last) is tasks.ItemsYielded
            and last.task_id == task_id
            and last.first + len(last.values) == number
            and not (contained or last.contained)
        ):
            self.items.append(value)
            self.buffered += 1
        else:
            self.items = [value]  # those of the message at the end of the outbox
            self.say(tasks.ItemsYielded(task_id, number, self.items, (contained,) if contained else ()))
        if type(value) is task_spec.StoredValue:
            object_id = item_id(task_id, number)
            self.place_told(object_id)
            self.place_unused(object_id)

    def say(self, message: Message) -> None:
        """Append any other message to the outbox, in order."""
        self.outbox.append(message)
        self._specs = None
        self._puts = None
        self.buffered += 1

    def say_first(self, message: Message) -> None:
        """Insert any other message ahead of all unsent messages."""
        self.outbox.insert(0, message)
        self.buffered += 1

    def hold(self, object_id: bytes) -> None:
        """Count another ref to the object in this process; the first ref is announced."""
        if object_id in self.held:
            self.further_refs[object_id] = self.further_refs.get(object_id, 0) + 1
            return
        self.held[object_id] = object_id
        self.borrowed.add(object_id)
        self.say(objects.HoldObjects([object_id]))

    def expect_actor(self, object_id: bytes) -> None:
        """Hold the object behind a new actor's handles, as a task's return.  The actor's calls report its failure."""
        self.unfetched.made_actor(object_id)
        self._own(object_id)

    def _own(self, object_id: bytes) -> bytes:
        """Hold an object that this process creates, and return the shared copy of its id.

        The id may be held already: a re-executed task creates the same ids, and refs of the first run may live.
        """
        known = self.held.setdefault(object_id, object_id)
        if known is not object_id:
            self.further_refs[known] = self.further_refs.get(known, 0) + 1
        return known

    def take_messages(self, results: Iterable[Message] = ()) -> list[Message]:
        """Take all unsent messages, including releases of a limited number of dead refs and arrays.

        results: a worker's, from its task executor, at each flush.  Results follow the messages of the tasks, so a ref
        that a task keeps is held before the task releases its argument.  Results precede the releases, so a ref inside
        a result is counted before the task's ref is released.
        """
        if results:
            self.outbox += results
            self._specs = None
            self._puts = None
        self._drop_dead()
        outbox = self.outbox
        if outbox:
            self.outbox = []
            self._specs = None
            self._puts = None
            self.buffered = 0
        return outbox

    def _drop_dead(self) -> None:
        released = self.released
        dead = [released.popleft() for _ in range(min(len(released), RELEASES_MAX))]
        while self.later:  # ahead of the ends of the refs that it made
            words = self.later.popleft()
            self.say(tasks.SubmitTasks([words]) if type(words) is task_spec.TaskSpec else words)  # type: ignore[arg-type]
        if self.leaving:
            self._take_left(dead)
        if dead:
            held, further_refs, values, gone = self.held, self.further_refs, self.values, []
            for object_id in dead:
                if object_id in further_refs:
                    further_refs[object_id] -= 1
                    if not further_refs[object_id]:
                        del further_refs[object_id]
                elif held.pop(object_id, None) is not None:
                    gone.append(object_id)
                    value = values.pop(object_id, None)
                    if type(value) is task_spec.StoredValue:
                        self.place_unused(object_id)
                    elif value is None:
                        self.unfetched.left(object_id)
                    elif FIRST_MARK <= value < PAST_MARKS:  # type: ignore[operator]
                        self.unfetched.gone(object_id, value)  # type: ignore[arg-type]
            if self.borrowed or self.located:
                self.borrowed.difference_update(gone)
                self.asked.difference_update(gone)
                self.asked_whether.difference_update(gone)
                self.located.difference_update(gone)
            if gone:
                self.unfetched.forget(gone)
                self.say(objects.ReleaseObjects(gone))
        if self.unread:
            pins = []
            for _ in range(len(self.unread)):
                object_id = self.unread.popleft()
                left = self.reading.get(object_id, 1) - 1
                if left > 0:
                    self.reading[object_id] = left
                    continue
                self.reading.pop(object_id, None)
                if type(self.values.get(object_id)) is task_spec.StoredValue or self.is_argument(object_id):
                    continue  # the end of the ref, or of the task that takes it, says so
                if object_id in self.told:
                    pins.append((object_id, self.told.pop(object_id)))
            if pins:
                self.say(objects.UnpinObjects(pins))

    def _take_left(self, dead: list[bytes]) -> None:
        """Add some items of generators that were left to what is released now."""
        left = LEFT_ITEMS_MAX
        while self.leaving and left:
            items = list(islice(self.leaving[0], left))
            dead += items
            left -= len(items)
            if left:
                self.leaving.popleft()

    # --- reading ---

    def place_told(self, object_id: bytes) -> None:
        """Record that the node has sent the object's place in the arena, as a task's argument."""
        self.told[object_id] = self.told.get(object_id, 0) + 1

    def read_begins(self, object_id: bytes) -> None:
        """Count another live array on the object; its finalizer appends to `unread`."""
        self.reading[object_id] = self.reading.get(object_id, 0) + 1

    def place_unused(self, object_id: bytes) -> None:
        """Unpin a place sent by the node, unless a live array reads from the place."""
        if object_id in self.told and object_id not in self.reading:
            self.reading[object_id] = 1
            self.unread.append(object_id)

    # --- waiting ---

    def is_ready(self, object_id: bytes) -> bool:
        """Whether the value is here, or is known to exist."""
        return object_id in self.values or object_id in self.located

    def ask(self, object_ids: Iterable[bytes]) -> None:
        """Request the values of borrowed objects; values of this process's own tasks come unasked."""
        wanted = [i for i in object_ids if i in self.borrowed and i not in self.asked and i not in self.values]
        if wanted:
            self.asked.update(wanted)
            self.request += 1
            # The reply is not awaited: the values themselves are.
            self.say(tasks.WaitObjects(self.request, wanted, len(wanted), True, False))

    def ask_whether(self, object_ids: Iterable[bytes]) -> None:
        """Ask the node to report when each object exists, without its value; existing objects enter `located`."""
        for object_id in object_ids:
            if object_id not in self.asked_whether:  # whoever polls asks once
                self.asked_whether.add(object_id)
                self.request += 1
                # Separate requests, because every reply lists only the objects found by then.
                self.say(tasks.WaitObjects(self.request, [object_id], 1, False, False))

    def wait(
        self,
        object_ids: list[bytes],
        count: int,
        *,
        fetch: bool,
        block: bool,
        aside: bool = False,
        limited: bool = False,
    ) -> int:
        """Ask the node to report when `count` of the objects are ready.  Returns the key of the reply in `replies`."""
        self.request += 1
        self.replies[self.request] = None
        self.say(tasks.WaitObjects(self.request, object_ids, count, fetch, block, aside, limited))
        return self.request

    def cancel_wait(self, request: int) -> None:
        """Cancel a wait; the reply comes soon."""
        self.say(tasks.CancelWait(request))

    def leave_wait(self, request: int) -> None:
        """Leave a wait at once: nested tasks that the node has sent into the wait are not run."""
        self.say(tasks.CancelWait(request, goes_on=True))
        self.left = request

    def await_room(self) -> int:
        """Wait for room in the object store.  Returns the request, for the caller to cancel in the end."""
        request = self.expect_reply()
        self.say(tasks.AwaitRoom(request))
        return request

    def expect_reply(self) -> int:
        """Return the number of a new request, and expect its reply."""
        self.request += 1
        self.replies[self.request] = None
        return self.request

    # --- what the node says ---

    def handle(self, message: Message) -> None:
        """Handle a message; messages for other roles are ignored."""
        handler = HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message)

    def _lie_elsewhere(self, object_ids: list[bytes]) -> None:
        """Large results of our own tasks are on other nodes: they come when they are asked for."""
        mine = [object_id for object_id in object_ids if object_id in self.held or self._is_item(object_id)]
        self.borrowed.update(mine)
        wanted = [object_id for object_id in mine if any(object_id in wait for wait in self.waits)]
        if wanted:
            self.ask(wanted)
            self.is_urgent = True

    @on(tasks.ObjectsReady)
    def on_objects_ready(self, message: tasks.ObjectsReady) -> None:
        held, values = self.held, self.values
        for arrived in self.arrived_lists:
            arrived.append(message.objects)
        for object_id, value in message.objects:
            known = held.get(object_id)
            if known is None and self.streams and self._is_item(object_id):
                known = object_id
            if type(value) is task_spec.StoredValue:
                self.told[object_id] = self.told.get(object_id, 0) + 1
                if known is None:
                    self.place_unused(object_id)
            if known is not None:
                values[known] = value
            elif self.unfetched.crossing:
                self.unfetched.arrived_late(object_id, value)
        self.arrivals += len(message.objects)
        if self.on_ready is not None:
            for object_id, _ in message.objects:
                self.on_ready(object_id)

    @on(objects.ValuesFreed)
    def on_values_freed(self, message: objects.ValuesFreed) -> None:
        """ValuesFreed: an error replaces the values, also if freed by the process itself; lost ones are forgotten."""
        for object_id in message.object_ids:
            known = self.held.get(object_id)
            if known is not None:
                if type(self.values.get(known)) is task_spec.StoredValue:
                    self.place_unused(known)
                if message.are_lost:
                    self.values.pop(known, None)
                    self.asked.discard(known)
                    self.located.discard(known)
                    self.borrowed.add(known)
                    continue
                self.values[known] = objects.error_of_freed(known)
                if self.on_ready is not None:
                    self.on_ready(known)
        self.arrivals += len(message.object_ids)

    @on(objects.ReturnPlaces)
    def on_return_places(self, message: objects.ReturnPlaces) -> None:
        """ReturnPlaces: values that nobody here reads or waits for may leave the arena; they come when asked for."""
        pins = []
        for object_id in message.object_ids:
            value = self.values.get(object_id)
            if type(value) is not task_spec.StoredValue or object_id in self.reading:
                continue
            if object_id not in self.told or self.is_argument(object_id):
                continue
            if any(object_id in wait for wait in self.waits):
                continue
            del self.values[object_id]
            self.asked.discard(object_id)
            self.borrowed.add(self.held[object_id])
            self.located.add(self.held[object_id])
            pins.append((object_id, self.told.pop(object_id)))
        if pins:
            self.say(objects.UnpinObjects(pins))
            self.is_urgent = True

    @on(tasks.WaitReply)
    def on_wait_reply(self, message: tasks.WaitReply) -> None:
        if not message.request:
            self._lie_elsewhere(message.ready)
        self.asked_whether.difference_update(message.ready)
        for object_id in message.ready:
            if object_id not in self.values and object_id in self.held:
                self.located.add(object_id)
        self.arrivals += len(message.ready)
        if message.request in self.replies:
            self.replies[message.request] = message
        if message.request == self.left:
            self.left = 0

    @on(*get_args(Reply))
    def on_reply(self, message: Reply) -> None:
        if message.request in self.replies:
            self.replies[message.request] = message
        if type(message) is actors.FindActorReply and message.actor_id and not message.node:
            object_id = message.actor_id + FIRST_RETURN
            if object_id not in self.held:
                self.borrowed.add(object_id)

    @on(objects.ObjectAllocated, objects.PagesReserved, objects.AllocateRefused)
    def on_allocation(self, message: objects.ObjectAllocated | objects.PagesReserved | objects.AllocateRefused) -> None:
        object_id = message.object_id
        known = self.allocations.get(object_id)
        if isinstance(message, objects.PagesReserved):
            if type(known) is objects.ObjectAllocated:  # which told the place, with the first pages
                self.allocations[object_id] = objects.ObjectAllocated(object_id, known.place, message.reserved)
            return
        exists = isinstance(message, objects.ObjectAllocated) and message.reserved < 0
        size = message.place.size if isinstance(message, objects.ObjectAllocated) else message.size
        if type(known) is int and (exists or size == known):
            self.allocations[object_id] = message
        elif exists:  # told to a writer that gave up, or for the second time
            self.place_told(object_id)
            self.place_unused(object_id)

    @on(objects.InlineLimit)
    def on_limit(self, message: objects.InlineLimit) -> None:
        self.inline_bytes_max = message.bytes_max
        if self.on_inline_limit is not None:
            self.on_inline_limit(message.bytes_max)


# Not in each client: it would refer to itself, and stay until the collector came by.
HANDLERS = handlers_of(Client)
