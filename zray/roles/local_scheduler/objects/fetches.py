"""Fetch objects from other nodes until each has come or nobody wants the object any more.

An order is one FetchObject; an order ends with ObjectFetched or FetchFailed, whatever becomes of the entry meanwhile.
So an object is never ordered twice at a time, and a late answer belongs to the standing order.

An object released on this node, and still being read, is not fetched: the copy still exists.  (Nor could a second copy
come before the last reader lets go; and that reader may wait for a task that takes the object.)

An object with refs inside has come when the shards have confirmed that this node holds the inner objects.  The inner
objects may have gone before, with the node that sent the value, or when this node released the value.

Eviction from the local store, when a writer or a pull finds no room.

    objects kept for reconstruction of a return (puts)               all
    copies not held locally any more, but held elsewhere             copies known by the shard to exist elsewhere too
    copies not held anywhere                                         all: were kept for dependent tasks

Such a copy stays while there is room, because the next reader may be local, or may have lost the other copy.  A writer
without room waits while other objects are released, so the check is repeated, less and less often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import encode_system_error
from ....ids import ObjectID
from ....wire.amounts import name_of
from ....wire.gcs import OfferCopies, RemoveLocations
from ....wire.limits import portions
from ....wire.objects import FetchFailed, FetchObject, FetchWaits, ObjectFetched, StopFetching
from ....wire.task_spec import StoredValue
from ...role import on
from ...work_effects import RoomWanted
from ..tables import Process
from ..task import FORWARDED, Task, TaskState
from .sharing import Shared
from .table import ObjectEntry

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .table import ObjectEntry

# Many may find no room at once: what was offered a moment ago is not offered again.  The next time is so much later,
# the one after that twice as much, and so on, as long as anybody may wait.
AGAIN_SECONDS = 0.1
WANTED_SECONDS = 5.0
# The number of recorded copies before evicted ones are dropped.
COPIES_MIN = 1_000


class MakingRoom:
    """Eviction on a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.copies: dict[ObjectID, None] = {}  # that nobody here holds; some have gone since
        self.count_max = COPIES_MIN
        self.offered_at = self.wanted_at = -WANTED_SECONDS
        self.number = 0  # of the timer that counts
        self.seconds = AGAIN_SECONDS  # until the next time

    def let_go(self, entry: ObjectEntry) -> None:
        """Note an object without local holders."""
        if type(entry.value) is StoredValue:
            self.copies[entry.object_id] = None
            if len(self.copies) > self.count_max:
                self._forget_those_that_have_gone()
                self.count_max = max(COPIES_MIN, 2 * len(self.copies))

    def _forget_those_that_have_gone(self) -> None:
        entries = self.node.objects.entries
        self.copies = {
            object_id: None
            for object_id in self.copies
            if (entry := entries.get(object_id)) is not None and entry.is_released and type(entry.value) is StoredValue
        }

    @on(RoomWanted)
    def on_room_wanted(self, message: RoomWanted) -> None:
        """RoomWanted."""
        node = self.node
        node.recovery.puts.let_go_of_all()
        self.wanted_at = node.now
        self.seconds = AGAIN_SECONDS
        since = node.now - self.offered_at
        if since < AGAIN_SECONDS:
            self._set_timer(AGAIN_SECONDS - since)
        else:
            self._offer()

    def _set_timer(self, seconds: float) -> None:
        self.number += 1
        self.node.after(seconds, self.offer_again, self.number)

    def offer_again(self, number: int) -> None:
        """Make the next offer; only the timer with the latest number counts."""
        if number == self.number and self.node.now - self.wanted_at < WANTED_SECONDS:
            self.node.recovery.puts.let_go_of_all()
            self._offer()

    def _offer(self) -> None:
        node = self.node
        self.offered_at = node.now
        self._forget_those_that_have_gone()
        for shard, object_ids in node.addresses.by_shard(list(self.copies)).items():
            for portion in portions(object_ids):
                node.send(shard, OfferCopies(node.address, portion))
        self._set_timer(self.seconds)
        self.seconds *= 2


# A fetch waits so long for space while a process here may still free some; then it fails (docs/design/storage.md).
ROOM_SECONDS_MAX = 600.0
# What was said of a full store holds for so long: it is said again twice as often, while nothing else comes either.
FULL_NEWS_SECONDS = 10.0


class Fetches:
    """Orders for objects on the way to this node."""

    # Orders stay until the shards have answered, also where nobody wants them any more.
    PASSING = {"unheld": "node.acks.expected", "ordered": lambda it: len(it.node.objects.entries) + len(it.unheld)}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ordered: dict[bytes, bool] = {}  # by object: whether it is urgent
        # Requests to hold what is inside of a value that has come: whether some of that is gone.
        self.unheld: dict[int, bool] = {}
        self.full = ""  # what was said last of the store that has no room for one of them
        self.full_at = 0.0  # when
        self.full_for = b""  # that one
        self.room = MakingRoom(node)

    def begin(self, entry: ObjectEntry, shared: Shared, *, is_urgent: bool = False) -> None:
        """Order the object once. is_urgent: a process waits for the object, and may have room that others wait for."""
        object_id, size = entry.object_id, shared.size
        is_ordered = object_id in self.ordered
        if is_ordered and not shared.is_fetching:
            shared.ordered()
            return  # given up a moment ago: when that is confirmed, the shard is asked where it is now
        if shared.is_fetching and (self.ordered.get(object_id, True) or not is_urgent):
            return
        if self._is_still_here(object_id, size):
            if not is_ordered:
                shared.ordered()
                self.ordered[object_id] = True
                self.node.after(0.0, self.take_what_is_here, object_id)
            return
        if not is_ordered:
            shared.ordered()
            self.node.load.fetch_begins(object_id, size)
            self.node.stages.fetch_begins(object_id)
        self.ordered[object_id] = is_urgent
        places = [*shared.locations, self.node.address] if object_id in self.node.objects.on_disk else shared.locations
        order = FetchObject(object_id, size, list(places), size <= self.node.inline_bytes_max, is_urgent)
        self.node.send(self.node.addresses.object_manager, order)

    def _is_still_here(self, object_id: bytes, size: int) -> bool:
        objects = self.node.objects
        return object_id in objects.revivable and size in (-1, objects.dying[object_id].size)

    def take_what_is_here(self, object_id: ObjectID) -> None:
        """Take the copy being read on this node for the order, unless the copy has been freed in the meantime."""
        objects = self.node.objects
        entry = objects.entries.get(object_id)
        if entry is None or entry.value is not None:
            self.ordered.pop(object_id, None)
        elif object_id not in objects.revivable:
            self.failed(FetchFailed(object_id, "its last reader here has dropped it"))
        else:
            copy = ObjectFetched(object_id, objects.dying[object_id], objects.revivable[object_id])
            if copy.contained:
                self._take_inside(entry, copy, was_here=True)
            else:
                self._is_here(entry, copy)

    def made(self, entry: ObjectEntry) -> None:
        """Take a value that was made here, perhaps again, in place of the copy on disk or on order."""
        if entry.shared is not None:
            if entry.shared.is_fetching:
                self.stop(entry.object_id)  # else its request of room would stay
            entry.shared.made()

    def stop(self, object_id: bytes, reason: str = "") -> None:
        """Stop a fetch: nobody wants the object; or, for the given reason, the object can never be here."""
        if object_id in self.ordered:
            self.node.send(self.node.addresses.object_manager, StopFetching(object_id, reason))

    @on(ObjectFetched)
    def fetched(self, message: ObjectFetched) -> None:
        """ObjectFetched: a copy has come."""
        node = self.node
        if type(message.value) is StoredValue:
            self.full = ""
        node.load.fetch_ends(message.object_id, has_come=True)
        node.stages.fetch_ends(message.object_id, message.value)
        entry = node.objects.entries.get(message.object_id)
        if entry is None or entry.value is not None:
            self.ordered.pop(message.object_id, None)
            if type(message.value) is StoredValue:
                node.objects.freed_places.append(message.object_id)
        elif message.contained:
            self._take_inside(entry, message)
        else:
            self._is_here(entry, message)

    def _take_inside(self, entry: ObjectEntry, message: ObjectFetched, *, was_here: bool = False) -> None:
        """Hold the refs inside at the shards before any local process takes a ref from the value.

        The sender of the value may be lost, and with the sender the inner objects: a program that nobody hears for a
        minute then reads messages from the beginning of the minute.  Then the value is as lost as a value that never
        left its node.
        """
        node = self.node
        node.objects.contain(entry, message.contained)
        inside = list(dict.fromkeys(message.contained))
        for object_id in inside:
            node.objects.entries[object_id].share()
        request = node.acks.next_request()
        self.unheld[request] = False
        expected = node.remote._hold_at_shards(inside, request, are_inside=True)
        node.acks.expect(request, expected, lambda: self._inside_is_held(entry, message, request, was_here))

    def inside_is_gone(self, request: int) -> None:
        """Note a shard's word: some object to be held for the given request, if the request is pending, was gone."""
        if request in self.unheld:
            self.unheld[request] = True

    def _inside_is_held(self, entry: ObjectEntry, message: ObjectFetched, request: int, was_here: bool) -> None:
        node, object_id = self.node, message.object_id
        is_in_vain = self.unheld.pop(request)
        is_wanted = node.objects.entries.get(object_id) is entry and entry.value is None
        is_there = not was_here or node.objects.dying.get(object_id) is message.value
        if is_wanted and is_there and not is_in_vain:
            self._is_here(entry, message)
            return
        if was_here:  # whoever reads it frees it
            node.objects.revivable.pop(object_id, None)  # what is ordered next is another copy
        elif type(message.value) is StoredValue:
            node.objects.freed_places.append(object_id)
        if is_wanted:
            node.objects.drop_all(entry.take_contained())
        self.failed(FetchFailed(object_id, "an object inside of it was lost with its node"))

    def _is_here(self, entry: ObjectEntry, message: ObjectFetched) -> None:
        node = self.node
        self.ordered.pop(message.object_id, None)
        if entry.shared is not None:
            entry.shared.came()
        node.trips.is_made(entry)  # it may be made again: the shard had heard of no copy when this one was ordered
        is_restored = message.object_id in node.objects.on_disk
        node.object_is_here(entry, message.value, message.contained, is_restored=is_restored)

    @on(FetchFailed)
    def failed(self, message: FetchFailed) -> None:
        """FetchFailed: ask the shard again for locations; or give the object up for this node."""
        self.ordered.pop(message.object_id, None)
        self.node.load.fetch_ends(message.object_id, has_come=False)
        self.node.stages.fetch_ends(message.object_id)
        entry, guards = self.node.objects.entries.get(message.object_id), self.node.guards
        if entry is not None and entry.value is None and entry.shared is not None:
            entry.shared.failed()
            if message.object_id in self.node.objects.on_disk:
                entry.shared.spilled()
            if message.is_definite and not entry.waiting and not entry.watchers and entry.object_id in guards.wanted:
                pass  # no room for a copy that nobody needs now
            elif message.is_definite:
                self._has_no_room(entry, message.reason)
            elif message.object_id in self.node.objects.on_disk:
                if entry.waiting or entry.watchers:
                    self.node.remote.want(entry, is_urgent=bool(entry.watchers))
            else:
                self.node.remote.subscribe(entry)
                if message.object_id in self.node.spilling.lost:
                    self.is_lost_on_disk(entry)

    def is_lost_on_disk(self, entry: ObjectEntry) -> None:
        """Have the shard forget the copy of this node: other nodes have copies, or the object is reconstructed."""
        shard = self.node.addresses.shard_of(entry.object_id)
        self.node.send(shard, RemoveLocations(self.node.address, [entry.object_id]))

    # --- room ---

    def _has_no_room(self, entry: ObjectEntry, reason: str) -> None:
        """Fail everybody who waits for an object that can never be here, and fetch no other arguments of the failed
        tasks.
        """
        assert entry.shared is not None
        doomed = [task for task in entry.waiting_tasks() if task.state == TaskState.WAITING]
        texts = [self._in_words(task, reason) for task in doomed]
        self.node.trips.stop_waiting(doomed)
        for task, text in zip(doomed, texts, strict=True):
            if task.state == TaskState.WAITING:  # else it takes it twice, or was ended with another of them
                self._fail_task(task, text)
        self._stop_for(doomed)
        if doomed and not entry.waiting and not entry.watchers:
            return
        calls = [task for task in entry.waiting_tasks() if task.state == TaskState.CALL]
        entry.shared.lost()  # to us: what stands here is no copy
        self.node.object_is_here(entry, encode_system_error("ObjectStoreFullError", reason))
        self._stop_for(calls, reason)  # which fail in their turns

    def _fail_task(self, task: Task, text: str) -> None:
        """Fail the task at once, also where other arguments are not made yet: present arguments take room."""
        node = self.node
        task.ended()
        node.functions.forget_waiters()
        node.lifecycle.fail(task, "ObjectStoreFullError", text)

    def _in_words(self, task: Task, reason: str) -> str:
        node, known = self.node, 0
        arguments = dict.fromkeys(task.spec.deps)
        for object_id in arguments:
            entry = node.objects.entries[object_id]
            if type(entry.value) is StoredValue:
                known += entry.value.size
            elif entry.shared is not None:
                known += max(0, entry.shared.size)
        count = f"its {len(arguments)} arguments, " if len(arguments) > 1 else "its argument, "
        name = task.options.name or node.lifecycle.function_name(task.spec.function_id)
        return (
            f"The object store of node {name_of(node.address)} is too full for task {name}: {count}{known:,} bytes as "
            f"far as is known, must be in it at once.  {reason}"
        )

    def _stop_for(self, tasks: list[Task], reason: str = "") -> None:
        """Stop the fetches of arguments that only the given tasks wait for, with the given reason."""
        wanted, own = self.node.guards.wanted, set(map(id, tasks))
        for object_id in dict.fromkeys(object_id for task in tasks for object_id in task.spec.deps):
            entry = self.node.objects.entries.get(object_id)
            if object_id not in self.ordered or entry is None or entry.watchers or object_id in wanted:
                continue
            if all(id(waiter) in own for waiter in entry.waiting or ()):
                self.stop(object_id, reason)

    def why_no_room(self, object_id: bytes) -> str:
        """Return the last report of what fills the store, for an object that waits for room; "" if no such wait is
        known.
        """
        is_new = self.full and self.full_for in self.ordered and self.node.now - self.full_at <= FULL_NEWS_SECONDS
        entry = self.node.objects.entries.get(object_id)
        is_large = entry is not None and entry.shared is not None and entry.shared.size > self.node.inline_bytes_max
        return self.full if is_new and is_large and object_id in self.ordered else ""

    @on(FetchWaits)
    def waits(self, message: FetchWaits) -> None:
        """FetchWaits: an error, unless a process or task may yet release objects in the store."""
        if message.object_id not in self.ordered:
            return
        self.full, self.full_at, self.full_for = message.reason, self.node.now, message.object_id
        if message.seconds >= ROOM_SECONDS_MAX or not self._may_make_room():
            self.stop(message.object_id, message.reason)

    def _may_make_room(self) -> bool:
        """Return whether somebody may release local objects: a process that goes on, or a task on another node."""
        node, stuck = self.node, self._without_room()
        if any(task.state >= FORWARDED and (task.spec.deps or task.spec.holds) for task in node.tasks.values()):
            return True
        return any(
            self._goes_on(process, stuck) and self._has_something(process) for process in node.processes.values()
        )

    def _without_room(self) -> set[bytes]:
        """Return the objects without room on this node, and the returns of tasks that wait for these objects."""
        node, stuck = self.node, set(self.ordered)
        following = [node.objects.entries[object_id] for object_id in stuck if object_id in node.objects.entries]
        while following:
            for task in following.pop().waiting_tasks():
                for entry in node.lifecycle.returns_of(task):
                    if entry.object_id not in stuck:
                        stuck.add(entry.object_id)
                        following.append(entry)
        return stuck

    def _goes_on(self, process: Process, stuck: set[bytes]) -> bool:
        """Return whether the process computes, or waits only for objects with room on this node."""
        worker = process.worker
        if worker is not None and not worker.inflight and next(worker.calls(), None) is None:
            return False  # it has nothing to do
        return all(stuck.isdisjoint(wait.pending) for wait in process.wait_by_request.values())

    def _has_something(self, process: Process) -> bool:
        """Return whether the process takes, holds or reads anything: a program at its end, or at its
        prompt, may not.
        """
        objects = self.node.objects
        return (
            process.worker is not None
            or any(process in readers for readers in objects.pins.values())
            or any(objects.is_held_by(entry, process) for entry in objects.entries.values())
        )
