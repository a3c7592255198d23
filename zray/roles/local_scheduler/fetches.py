"""Objects that this node has its object manager bring here, until they are here or nobody wants them any more.

An order is one FetchObject; it ends with ObjectFetched or FetchFailed, whatever becomes of the object here meanwhile.
So an object is never ordered twice at a time, and what comes late belongs to the order that stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...exceptions import encode_system_error
from ...wire.objects import FetchFailed, FetchObject, FetchWaits, ObjectFetched, StopFetching
from ...wire.task_spec import StoredValue
from .tables import ObjectEntry, Process, Shared

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# How long something waits for room while somebody here may still make some (USERS 2.3: a stuck fetch fails then).
ROOM_SECONDS_MAX = 600.0


class Fetches:
    """What is on its way here."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ordered: dict[bytes, bool] = {}  # by object: whether it is urgent

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
        self.ordered.pop(message.object_id, None)
        node.load.fetch_ends(message.object_id, has_come=True)
        entry = node.objects.entries.get(message.object_id)
        if entry is None or entry.value is not None:
            if type(message.value) is StoredValue:
                node.objects.freed_places.append(message.object_id)
            return
        if entry.shared is not None:
            entry.shared.is_fetching = False
        for object_id in message.contained:
            inner = node.objects.require(object_id)
            if inner.value is None and inner.task is None and inner.shared is None:
                node.remote.adopt(inner)
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
        if message.seconds >= ROOM_SECONDS_MAX or not any(map(self._goes_on, self.node.processes.values())):
            self.stop(message.object_id, message.reason)

    def _goes_on(self, process: Process) -> bool:
        """Whether it computes, or waits for something else than what has no room here."""
        worker = process.worker
        if worker is not None and not worker.inflight and not (worker.actor is not None and worker.actor.inflight):
            return False  # it has nothing to do
        entries = self.node.objects.entries
        return not any(
            (shared := entries[object_id].shared) is not None and shared.is_fetching
            for wait in process.wait_by_request.values()
            for object_id in wait.pending
        )


FETCH_HANDLERS: dict[type, Callable[..., None]] = {
    ObjectFetched: lambda self, message: self.fetches.fetched(message),
    FetchFailed: lambda self, message: self.fetches.failed(message),
    FetchWaits: lambda self, message: self.fetches.waits(message),
}
