"""Objects held by processes: put, held, released, unpinned, claimed.

The table of objects itself: `table`.

Values freed by a program while refs to them exist.

    driver, worker     FreeValues    free the values, locally and on the other nodes
    local scheduler    FreeValues    free the local values among them
    -> driver, worker  ValuesFreed   to each process with a ref: the value is an error now

A freed object stays an object, with an ObjectFreedError as its value.  Refs, lineage and locations at the shard are
unchanged, so a task that takes the object fails with the error, on any node.  A result not ready yet is left alone.
The bytes of a large value are freed when no process reads them any more.

A value may also be lost on purpose, for tests of programs: as if its node had lost it, or its file on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import is_error_value
from ....wire import objects as wire
from ....wire.limits import portions
from ....wire.objects import FreeValues, ValuesFreed, error_of_freed
from ....wire.task_spec import StoredValue
from ...role import on
from .table import ObjectEntry

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from .table import ObjectEntry


def _is_in_arena_now(node: LocalScheduler, put: wire.PutObject, entry: ObjectEntry) -> bool:
    """Whether a repeated put, formerly in a message (small_values), is in the arena now; if so, the old value is
    dropped."""
    if type(put.value) is not StoredValue or type(entry.value) is not bytes:
        return False
    node.objects.forget_value(entry)
    return True


class Holding:
    """Messages of a node's processes about objects."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    @on(wire.PutObjects)
    def on_put_objects(self, message: wire.PutObjects) -> None:
        """PutObjects: the values are stored, and held by the senders."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None:
            node.reject("values of a process that is gone")
            return
        objects = node.objects
        entries, worker = objects.entries, process.worker
        for put in message.objects:
            if worker is not None:
                node.recovery.puts.note(worker, put.object_id)
            entry = entries.get(put.object_id)
            if entry is None:
                entry = entries[put.object_id] = ObjectEntry(put.object_id, process)
            elif entry.value is not None and not entry.is_lost and not _is_in_arena_now(node, put, entry):
                # A re-executed task puts the value again, and holds the object of its first run.
                node.reject("a value put again")
                objects.hold(entry, process)
                if type(put.value) is StoredValue:
                    objects.pin(put.object_id, process)
                continue
            else:
                node.recovery.made_after_all(entry)
                objects.hold(entry, process)
            value = put.value
            if put.contained:
                objects.contain(entry, put.contained)
            objects.place(entry, value)
            node.fetches.made(entry)
            entry.pushed(process)
            if type(value) is StoredValue:
                # The writer knows the place: that counts as told.
                objects.pin(put.object_id, process)
                objects.dies_no_more(put.object_id)
                objects.on_disk.pop(put.object_id, None)
                objects.made[put.object_id] = put.made
                node.to_seal.append(put.object_id)
            if entry.task is not None:
                continue  # a call's that has run on another node (answers): it gets this when it is answered
            if entry.waiting is not None:
                for task in entry.take_waiting():
                    node.lifecycle.argument_is_here(task)
            if entry.watchers is not None:
                node.waits.object_is_here(entry, is_pushed=False)
            if entry.shared is not None:
                node.remote.value_is_here(entry)  # others wait for what this task puts again

    @on(wire.HoldObjects)
    def on_hold_objects(self, message: wire.HoldObjects) -> None:
        """HoldObjects."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None:
            return
        for object_id in message.object_ids:
            entry = node.objects.entries.get(object_id)
            if entry is None:
                # The sender of the ref holds the object until this message is handled.  So the object is another
                # node's, or its job is over.
                entry = node.objects.require(object_id)
                node.remote.adopt(entry)
            node.objects.hold(entry, process)

    @on(wire.ReleaseObjects)
    def on_release_objects(self, message: wire.ReleaseObjects) -> None:
        """ReleaseObjects."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None:
            return
        node.objects.release_all(message.object_ids, process)
        actor = process.worker.actor if process.worker is not None else None
        if actor is not None and actor.journal is not None:
            for let_go in actor.journal.nested.let_go(message.object_ids):
                if actor.shipping is not None:
                    actor.shipping.made(let_go)

    @on(wire.UnpinObjects)
    def on_unpin_objects(self, message: wire.UnpinObjects) -> None:
        """UnpinObjects: the sender no longer reads these places."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None:
            return
        for object_id, count in message.pins:
            if not node.objects.unpin(object_id, process, count):
                node.reject("unpinned what was not pinned")
            elif (entry := node.objects.entries.get(object_id)) is not None and entry.pushed_to is process:
                entry.pushed(None)  # it was asked to forget the place

    @on(wire.ClaimObject)
    def on_claim_object(self, message: wire.ClaimObject) -> None:
        """ClaimObject: a value that exists already is not written again."""
        node = self.node
        process = node.processes.get(message.process)
        place = node.objects.claim(message.object_id, process) if process is not None else None
        if place is not None:
            node.send(message.process, wire.ObjectAllocated(message.object_id, place, -1))
            node.send(node.sender, wire.ObjectClaimed(message.object_id, message.process))


def _free(node: LocalScheduler, entry: ObjectEntry) -> None:
    objects, object_id = node.objects, entry.object_id
    if type(entry.value) is StoredValue:
        objects.free_place(object_id, entry.value)
    elif object_id in objects.on_disk:
        objects.freed_places.append(object_id)
    objects.forget_value(entry)
    objects.place(entry, error_of_freed(object_id))
    objects.drop_all(entry.take_contained())
    if entry.shared is not None and not entry.is_released:
        node.remote.value_is_here(entry)  # a small one now


def _lose(node: LocalScheduler, entry: ObjectEntry) -> bool:
    """Drop this node's copy of a large value, as a store that has lost the value.  Returns False if the copy stays.

    Whoever reads the copy keeps its bytes.  A value that a task here takes stays, since the task has been told so.
    """
    objects, object_id, value = node.objects, entry.object_id, entry.value
    if type(value) is bytes or not node.spilling.may_be_lost(entry):
        return False
    if entry.is_released:
        node.fetches.is_lost_on_disk(entry)
        objects.forget_released(entry)
        return True
    node.lineage.flush()  # the shard, which has the value made again, hears of all this in order
    node.remote._share([object_id], 0)
    node.fetches.is_lost_on_disk(entry)
    if type(value) is StoredValue:
        objects.free_place(object_id, value)
        if object_id in objects.pins:
            objects.revivable[object_id] = entry.contained
    else:
        objects.freed_places.append(object_id)
    objects.on_disk.pop(object_id, None)
    objects.forget_value(entry)
    entry.pushed(None)
    entry.share().failed()
    return True


class Freeing:
    """Requests of programs to free values, at a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    @on(FreeValues)
    def on_free_values(self, message: FreeValues) -> None:
        """FreeValues."""
        node = self.node
        told: dict[Process, list[bytes]] = {}
        for object_id in message.object_ids:
            entry = node.objects.entries.get(object_id)
            if entry is None or entry.task is not None or is_error_value(entry.value):
                continue
            if not entry.is_here or (message.are_lost and not _lose(node, entry)):
                continue
            if not message.are_lost:
                _free(node, entry)
            for process in node.objects.processes_that_hold(entry):
                told.setdefault(process, []).append(object_id)
        for process, object_ids in told.items():
            for portion in portions(object_ids):
                node.send(process.address, ValuesFreed(portion, message.are_lost))
        if node.sender in node.processes:
            for peer in node.members.peers:
                node.send(peer, message)
