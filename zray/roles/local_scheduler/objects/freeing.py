"""Values that a program frees itself, while it still has refs on them.

    driver, worker     FreeValues    free these, here and on the other nodes
    local scheduler    FreeValues    free those of them that are here
    -> driver, worker  ValuesFreed   to each with refs on one: an error is its value now

An object whose value is freed stays an object: its value is an ObjectFreedError.  Refs, lineage and the places at the
shard go on as they are, so a task that takes the object fails with that error, on whichever node.  A result that is not
there yet is left alone.  The bytes of a large value go when no process reads them any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import is_error_value
from ....wire.limits import portions
from ....wire.objects import FreeValues, ValuesFreed, error_of_freed
from ....wire.task_spec import StoredValue
from ...role import on

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from .table import ObjectEntry


def _free(node: LocalScheduler, entry: ObjectEntry) -> None:
    objects, object_id = node.objects, entry.object_id
    if type(entry.value) is StoredValue:
        if object_id in objects.pins:
            objects.dying[object_id] = entry.value
        else:
            objects.freed_places.append(object_id)
    objects.forget_value(entry)
    objects.place(entry, error_of_freed(object_id))
    objects.drop_all(entry.take_contained())
    if entry.shared is not None and not entry.is_released:
        node.remote.value_is_here(entry)  # a small one now


class Freeing:
    """Orders of programs to free values, at one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    @on(FreeValues)
    def on_free_values(self, message: FreeValues) -> None:
        """FreeValues."""
        node = self.node
        told: dict[Process, list[bytes]] = {}
        for object_id in message.object_ids:
            entry = node.objects.entries.get(object_id)
            if entry is None or entry.value is None or entry.task is not None or is_error_value(entry.value):
                continue
            _free(node, entry)
            for process in node.objects.processes_that_hold(entry):
                told.setdefault(process, []).append(object_id)
        for process, object_ids in told.items():
            for portion in portions(object_ids):
                node.send(process.address, ValuesFreed(portion))
        if node.sender in node.processes:
            for peer in node.members.peers:
                node.send(peer, message)
