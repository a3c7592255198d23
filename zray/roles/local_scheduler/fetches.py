"""Objects that this node has its object manager bring here, until they are here or nobody wants them any more.

An order is one FetchObject; it ends with ObjectFetched or FetchFailed, whatever becomes of the object here meanwhile.
So an object is never ordered twice at a time, and what comes late belongs to the order that stands.

What has refs inside is here when the shards have said that this node holds these: they may have gone before, with the
node that sent the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...exceptions import encode_system_error
from ...wire.objects import FetchFailed, FetchObject, FetchWaits, ObjectFetched, StopFetching
from ...wire.task_spec import StoredValue
from .tables import ObjectEntry, Process, Shared, TaskState

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# How long something waits for room while somebody here may still make some (USERS 2.3: a stuck fetch fails then).
ROOM_SECONDS_MAX = 600.0


class Fetches:
    """What is on its way here."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ordered: dict[bytes, bool] = {}  # by object: whether it is urgent
        # Requests to hold what is inside of a value that has come: whether some of that is gone.
        self.unheld: dict[int, bool] = {}

    def begin(self, entry: ObjectEntry, shared: Shared, *, is_urgent: bool = False) -> None:
        """Have it brought here, once.  is_urgent: a process waits for it, and may have room that others wait for."""
        object_id, size = entry.object_id, shared.size
        is_ordered = object_id in self.ordered
        if is_ordered and not shared.is_fetching:
            shared.is_fetching = True
            return  # given up a moment ago: when that is confirmed, the shard is asked where it is now
        if shared.is_fetching and (self.ordered.get(object_id, True) or not is_urgent):
            return
        if not is_ordered:
            shared.is_fetching = True
            self.node.load.fetch_begins(object_id, size)
        self.ordered[object_id] = is_urgent
        order = FetchObject(object_id, size, list(shared.locations), size <= self.node.inline_bytes_max, is_urgent)
        self.node.send(self.node.addresses.object_manager, order)

    def stop(self, object_id: bytes, reason: str = "") -> None:
        """Nobody here wants it any more; or, for this reason, it can never be here."""
        if object_id in self.ordered:
            self.node.send(self.node.addresses.object_manager, StopFetching(object_id, reason))

    def fetched(self, message: ObjectFetched) -> None:
        """ObjectFetched: a copy is here."""
        node = self.node
        node.load.fetch_ends(message.object_id, has_come=True)
        entry = node.objects.entries.get(message.object_id)
        if entry is None or entry.value is not None:
            self.ordered.pop(message.object_id, None)
            if type(message.value) is StoredValue:
                node.objects.freed_places.append(message.object_id)
        elif message.contained:
            self._take_inside(entry, message)
        else:
            self._is_here(entry, message)

    def _take_inside(self, entry: ObjectEntry, message: ObjectFetched) -> None:
        """Nobody here takes a ref from it before the shards know that we hold it.

        Who gave us the value may be lost, and with it what it held: a program that nobody hears for a minute reads what
        was sent to it at the beginning of that.  Then the value is as lost as if it had not left that node.
        """
        node = self.node
        node.objects.contain(entry, message.contained)
        inside = list(dict.fromkeys(message.contained))
        for object_id in inside:
            node.objects.entries[object_id].share()
        request = node.acks.next_request()
        self.unheld[request] = False
        expected = node.remote._hold_at_shards(inside, request, are_inside=True)
        node.acks.expect(request, expected, lambda: self._inside_is_held(entry, message, request))

    def inside_is_gone(self, request: int) -> None:
        """A shard's word: it did not hold all that this request, if it is one of these, was for."""
        if request in self.unheld:
            self.unheld[request] = True

    def _inside_is_held(self, entry: ObjectEntry, message: ObjectFetched, request: int) -> None:
        node, object_id = self.node, message.object_id
        is_in_vain = self.unheld.pop(request)
        is_wanted = node.objects.entries.get(object_id) is entry and entry.value is None
        if is_wanted and not is_in_vain:
            self._is_here(entry, message)
            return
        if type(message.value) is StoredValue:
            node.objects.freed_places.append(object_id)
        if is_wanted:
            contained, entry.contained = entry.contained, ()
            node.objects.drop_all(contained)
        self.failed(FetchFailed(object_id, "what is inside went with a node that is lost"))

    def _is_here(self, entry: ObjectEntry, message: ObjectFetched) -> None:
        node = self.node
        self.ordered.pop(message.object_id, None)
        if entry.shared is not None:
            entry.shared.is_fetching = False
        node.trips.is_made(entry)  # it may be made again: the shard had heard of no copy when this one was ordered
        node.object_is_here(entry, message.value, message.contained)

    def failed(self, message: FetchFailed) -> None:
        """FetchFailed: ask the shard again where it is; or nobody here will ever have it."""
        self.ordered.pop(message.object_id, None)
        self.node.load.fetch_ends(message.object_id, has_come=False)
        entry, guards = self.node.objects.entries.get(message.object_id), self.node.guards
        if entry is not None and entry.value is None and entry.shared is not None:
            entry.shared.is_fetching = False
            entry.shared.locations = ()
            if message.is_definite and not entry.waiting and not entry.watchers and entry.object_id in guards.wanted:
                pass  # no room for a copy that nobody needs now
            elif message.is_definite:
                entry.shared.is_lost = True  # to us: what stands here is no copy
                self.node.object_is_here(entry, encode_system_error("ObjectStoreFullError", message.reason))
            else:
                self.node.remote.subscribe(entry)

    # --- room ---

    def waits(self, message: FetchWaits) -> None:
        """FetchWaits: an error, unless somebody here may yet let go of what fills the store."""
        if message.object_id not in self.ordered:
            return
        if message.seconds >= ROOM_SECONDS_MAX or not self._may_make_room():
            self.stop(message.object_id, message.reason)

    def _may_make_room(self) -> bool:
        """Whether somebody may let go of what he has here: a process that goes on, or a task on another node."""
        node, stuck = self.node, self._without_room()
        if any(task.state == TaskState.SPILLED and (task.spec.deps or task.spec.holds) for task in node.tasks.values()):
            return True
        return any(
            self._goes_on(process, stuck) and self._has_something(process) for process in node.processes.values()
        )

    def _without_room(self) -> set[bytes]:
        """What is not here for want of room, and what tasks will return that wait for any of that."""
        node, stuck = self.node, set(self.ordered)
        following = [node.objects.entries[object_id] for object_id in stuck if object_id in node.objects.entries]
        while following:
            for task in following.pop().waiting or ():
                if task.state == TaskState.LOGGED:
                    continue  # it returns nothing here
                for entry in node.lifecycle.returns_of(task):
                    if entry.object_id not in stuck:
                        stuck.add(entry.object_id)
                        following.append(entry)
        return stuck

    def _goes_on(self, process: Process, stuck: set[bytes]) -> bool:
        """Whether it computes, or waits for something else than what has no room here."""
        worker = process.worker
        if worker is not None and not worker.inflight and not (worker.actor is not None and worker.actor.inflight):
            return False  # it has nothing to do
        return all(stuck.isdisjoint(wait.pending) for wait in process.wait_by_request.values())

    def _has_something(self, process: Process) -> bool:
        """Whether it takes, holds or reads anything: a program at its end, or at its prompt, may not."""
        objects = self.node.objects
        return (
            process.worker is not None
            or any(process in readers for readers in objects.pins.values())
            or any(objects.is_held_by(entry, process) for entry in objects.entries.values())
        )


FETCH_HANDLERS: dict[type, Callable[..., None]] = {
    ObjectFetched: lambda self, message: self.fetches.fetched(message),
    FetchFailed: lambda self, message: self.fetches.failed(message),
    FetchWaits: lambda self, message: self.fetches.waits(message),
}
