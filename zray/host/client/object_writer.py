"""Writes large values into the arena: ask for space, await its pages, then copy the bytes once."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from typing import TYPE_CHECKING, Any

from ...exceptions import ClusterLostError, ObjectStoreFullError, OutOfDiskError
from ...ids import is_put
from ...store.copying import copy_bytes
from ...store.folding import OWN_FOLDER
from ...store.layout import Serialized, placed
from ...store.values import write_into
from ...wire.objects import AbandonObject, AllocateObject, AllocateRefused, ObjectAllocated
from ...wire.task_spec import StoredValue
from .recursion_guard import require_room
from .task_context import current_call

if TYPE_CHECKING:
    from .runtime import Runtime

# Copied at a time while pages are still being reserved: a quarter of a reservation step.
STEP_BYTES = 16 << 20
# Characters of the text that says where a value was made.
MADE_LENGTH_MAX = 200
# A write that waits this long for space collects garbage: refs in cycles (an exception and its frames) hold space.
GARBAGE_SECONDS = 0.2
# Ahead of the folder and of the objects in the store: logs cut long messages.
DISK_IS_FULL = (
    "The object store and its disk are full.  Free space on the disk, or set object_spilling_directory to another one"
)


class Writer:
    """The writes of a process's threads."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        # Objects already written by an earlier run; once reported, they are not read here.
        self.found: list[bytes] = []
        self.ordered: dict[bytes, int] = {}  # values that are expected: bytes
        self.made: dict[bytes, str] = {}  # values of `put` that are being written: where the program puts them

    def order(self, object_ids: list[bytes], size: int) -> None:
        """Ask for space for values that are expected next, before they are made; nothing waits for it.

        Those that are not written are given back by `give_up`.
        """
        with self.runtime.lock:
            for object_id in object_ids:
                if object_id not in self.ordered:
                    self.ordered[object_id] = size
                    self.runtime.client.allocations[object_id] = size
                    self.runtime.client.say(AllocateObject(object_id, size))

    def give_up(self, object_ids: list[bytes]) -> None:
        """Give back the space of expected values that were not made."""
        with self.runtime.lock:
            for object_id in object_ids:
                if self.ordered.pop(object_id, None) is not None:
                    self.runtime.client.allocations.pop(object_id, None)
                    self.runtime.client.say(AbandonObject(object_id))

    def drop_found(self) -> None:
        """Drop the found objects, which have been reported.  With the lock held."""
        while self.found:
            self.runtime.client.place_unused(self.found.pop())

    def write(self, object_id: bytes, serialized: Serialized) -> StoredValue:
        """Write a value and return its place; PutObjects or TasksFinished tell the node that the value is complete.

        Raises:
            ObjectStoreFullError: there is no space; the text says what fills the store.
        """
        require_room()
        runtime = self.runtime
        allocations = runtime.client.allocations
        if self.ordered.pop(object_id, -1) != serialized.size:
            made = self._how_made(object_id)
            with runtime.lock:
                if object_id in allocations:  # the size was another one than expected
                    runtime.client.say(AbandonObject(object_id))  # its answer, of that size, is ignored
                allocations[object_id] = serialized.size
                runtime.client.say(AllocateObject(object_id, serialized.size, made))
                runtime.send_buffered()
        try:
            answer = self._await_pages(object_id, 1)
            place: StoredValue = answer.place
            if answer.reserved < 0:
                # An earlier run has written the object: a parent that runs again puts the same values.
                with runtime.lock:
                    runtime.client.place_told(object_id)
                    self.found.append(object_id)
            elif answer.reserved >= place.size:
                write_into(serialized, runtime.arena.writable(place.segment, place.offset, place.size))
            else:
                self._write_behind_pages(object_id, serialized, place)
        except ObjectStoreFullError:
            self.made.pop(object_id, None)
            raise
        except BaseException:
            self.made.pop(object_id, None)
            with contextlib.suppress(ClusterLostError):  # the node has ended, and all objects with it
                runtime.say(AbandonObject(object_id))
            raise
        finally:
            allocations.pop(object_id, None)
        if runtime.events is not None:
            runtime.events.wrote(object_id, serialized.size)
        return place

    def _how_made(self, object_id: bytes) -> str:
        """Return where the program puts a value, or which task returns it."""
        if is_put(object_id):
            made = self.made[object_id] = f"put at {place_in_program()}"
            return made
        runtime: Any = self.runtime
        call = current_call.get() or getattr(runtime, "call", None)
        return f"task {runtime.name_of(call.spec)}"[:MADE_LENGTH_MAX] if call is not None else ""

    def _write_behind_pages(self, object_id: bytes, serialized: Serialized, place: StoredValue) -> None:
        """Copy onto reserved pages while the node reserves the next ones: both take about equally long."""
        view = self.runtime.arena.writable(place.segment, place.offset, place.size)
        for begin, buffer in ((0, memoryview(serialized.inband)), *placed(serialized)):
            for offset in range(0, buffer.nbytes, STEP_BYTES):
                piece = buffer[offset : offset + STEP_BYTES]
                end = begin + offset + piece.nbytes
                self._await_pages(object_id, end)
                copy_bytes(view[end - piece.nbytes : end], piece, new_pages=True)

    def _await_pages(self, object_id: bytes, size: int) -> ObjectAllocated:
        """Wait until `size` bytes of the object may be written, or the write is refused."""
        allocations = self.runtime.client.allocations

        def is_done() -> bool:
            answer = allocations[object_id]
            return type(answer) is AllocateRefused or (
                type(answer) is ObjectAllocated and (answer.reserved >= size or answer.reserved < 0)
            )

        runtime = self.runtime
        if not runtime.receive_until(is_done, time.monotonic() + GARBAGE_SECONDS):
            gc.collect()
            runtime.flush()
            if type(allocations[object_id]) is int and runtime.is_worker and runtime.blocks():
                runtime.waiting.for_room(is_done, lambda: type(allocations[object_id]) is AllocateRefused)
            else:
                runtime.receive_until(is_done, None)
        answer = allocations[object_id]
        if type(answer) is AllocateRefused:
            if answer.is_disk_full:
                raise OutOfDiskError(f"{DISK_IS_FULL}: {answer.reason}")
            raise ObjectStoreFullError(f"The object store is full: {answer.reason}")
        assert type(answer) is ObjectAllocated
        return answer


def place_in_program() -> str:
    """Return the file and line of the program's code that runs."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    path = frame.f_code.co_filename[-MADE_LENGTH_MAX:].encode(errors="replace").decode()
    return f"{path}:{frame.f_lineno}"
