"""Objects of local mode: values, reference counts, and waits for values from other threads.

Values are kept serialized, as in a session: each `get` returns a new copy, and large arrays are read-only views.  A
reference count covers refs, values around a ref, and calls not yet ended.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ... import object_ref
from ...exceptions import ClusterLostError, ObjectStoreFullError
from ...ids import FIRST_RETURN, TASK_ID_BYTES, task_of
from ...object_ref import ObjectRef
from ...store.layout import Serialized
from ...store.values import to_bytes, write_into
from .. import context
from ..client.future_outcome import settle

if TYPE_CHECKING:
    from .runtime import LocalRuntime

# Larger values count towards the size of the object store, and are read in place: as in a session.
INLINE_BYTES_MAX = 100 * 1024
# Arrays begin at multiples of so many bytes, as in shared memory.
ALIGNMENT = 64


class LocalObjects:
    """All objects of the program."""

    def __init__(self, capacity: int) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.values: dict[bytes, Any] = {}  # bytes; large ones: read-only arrays of bytes
        self.held: dict[bytes, int] = {}  # object -> reference count
        self.inside: dict[bytes, tuple[bytes, ...]] = {}  # object -> refs in its value
        self.watches: list[list[bytes]] = []  # each gets the ids of objects that become ready
        self.callbacks: dict[bytes, list[Callable[[], None]]] = {}  # called once the object is ready
        self.actors: set[bytes] = set()  # actors whose handles are counted
        self.abandoned: list[bytes] = []  # actors whose last handle is gone
        self.capacity = capacity
        self.stored_bytes = 0
        self.is_over = False

    # --- reference counts ---

    def hold(self, object_id: bytes) -> None:
        """Count another reference."""
        with self.lock:
            self.held[object_id] = self.held.get(object_id, 0) + 1

    def hold_all(self, ids: Iterable[bytes]) -> None:
        """Count another reference on each object."""
        with self.lock:
            for object_id in ids:
                self.held[object_id] = self.held.get(object_id, 0) + 1

    def release_all(self, ids: Iterable[bytes]) -> None:
        """Count a reference less on each object; free objects without references."""
        with self.lock:
            todo = list(ids)
            while todo:
                object_id = todo.pop()
                count = self.held.get(object_id)
                if count is None:
                    continue  # of another session
                if count > 1:
                    self.held[object_id] = count - 1
                    continue
                del self.held[object_id]
                self.values.pop(object_id, None)
                todo += self.inside.pop(object_id, ())
                if object_id[-len(FIRST_RETURN) :] == FIRST_RETURN and task_of(object_id) in self.actors:
                    self.abandoned.append(task_of(object_id))

    def drop_dead(self) -> None:
        """Release the refs that have died."""
        released = object_ref.released
        held, values, inside, actors = self.held, self.values, self.inside, self.actors
        with self.lock:
            while released:
                object_id = released.popleft()
                if held.get(object_id) == 1 and object_id not in inside and object_id[:TASK_ID_BYTES] not in actors:
                    del held[object_id]  # nearly always
                    values.pop(object_id, None)
                else:
                    self.release_all((object_id,))

    # --- values ---

    def sizes(self) -> list[tuple[bytes, int, str]]:
        """Return (id, bytes, Ray's name of the state) of the referenced objects, the largest first."""
        with self.lock:
            ids = [object_id for object_id in self.held if task_of(object_id) not in self.actors]
            rows = [(object_id, *self._place(self.values.get(object_id))) for object_id in ids]
        return sorted(rows, key=lambda row: -row[1])

    @staticmethod
    def _place(value: Any) -> tuple[int, str]:
        if value is None:
            return 0, "PENDING"
        return len(value), "MESSAGE" if type(value) is bytes else "MEMORY"

    def store(self, object_id: bytes, serialized: Serialized) -> Any:
        """The value as it is kept.

        Raises:
            ObjectStoreFullError: the large values would take more than the object store has.
        """
        if serialized.size <= INLINE_BYTES_MAX:
            return to_bytes(serialized)
        return self.write(object_id, serialized)

    def write(self, object_id: bytes, serialized: Serialized) -> Any:
        """Return a large value in its stored form: read-only bytes, shared by arrays in the value."""
        with self.lock:
            free = self.capacity - self.stored_bytes
            if serialized.size > free:
                raise ObjectStoreFullError(
                    f"There is no room for an object of {serialized.size:,} bytes: {free:,} of {self.capacity:,} bytes "
                    "are free.  Drop refs that are not needed, or give init() a larger object_store_memory."
                )
            self.stored_bytes += serialized.size
        try:
            import numpy as np

            memory: Any = np.empty(serialized.size + ALIGNMENT, np.uint8)
            begin = -memory.ctypes.data % ALIGNMENT
            part = memoryview(memory)[begin : begin + serialized.size]
            write_into(serialized, part)
            kept = np.frombuffer(part.toreadonly(), np.uint8)
            weakref.finalize(kept, self._freed, serialized.size).atexit = False
        except BaseException:
            self._freed(serialized.size)
            raise
        return kept

    def _freed(self, size: int) -> None:
        """Note freed memory, in a finalizer: this thread may hold the lock already."""
        with self.lock:
            self.stored_bytes -= size

    def deliver_first(self, object_id: bytes, value: Any) -> None:
        """Deliver a single value without refs inside."""
        with self.lock:
            if not self.callbacks and not self.watches:  # nearly always
                if object_id in self.held:
                    self.values.setdefault(object_id, value)
                return
        self.deliver((object_id,), (value,))

    def deliver(self, ids: Sequence[bytes], values: Sequence[Any], contained: Sequence[tuple[bytes, ...]] = ()) -> None:
        """Store values of objects, unless unreferenced or known already."""
        called: list[Callable[[], None]] = []
        with self.lock:
            for index, object_id in enumerate(ids):
                if object_id not in self.held or object_id in self.values:
                    continue
                self.values[object_id] = values[index]
                if contained and contained[index]:
                    self.inside[object_id] = contained[index]
                    self.hold_all(contained[index])
                if self.callbacks:
                    called += self.callbacks.pop(object_id, ())
                for watch in self.watches:
                    watch.append(object_id)
            if self.watches:
                self.changed.notify_all()
        for callback in called:
            callback()

    def when_ready(self, object_id: bytes, callback: Callable[[], None]) -> None:
        """Call back when the object is ready; at once if ready already."""
        with self.lock:
            if object_id not in self.values:
                self.callbacks.setdefault(object_id, []).append(callback)
                return
        callback()

    # --- waits ---

    def watch(self, missing: Sequence[bytes], look: Callable[[list[bytes]], bool], deadline: float | None) -> bool:
        """Sleep until `look` returns True.  False: the deadline of time.monotonic() came first.

        look: called with the objects that became ready since the last call, at first with all ready ones.

        Raises:
            ClusterLostError: the session has ended.
            any error of `look`.
        """
        ready: list[bytes] = []
        with self.lock:
            self.watches.append(ready)
            fresh = [object_id for object_id in missing if object_id in self.values]
            try:
                while not look(fresh):
                    if self.is_over:
                        raise ClusterLostError("This process has left its session.")
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    if not ready:
                        self.changed.wait(left)
                    fresh = ready[:]
                    del ready[: len(fresh)]
            finally:
                # By identity: two lists of the same arrivals are equal.
                self.watches = [other for other in self.watches if other is not ready]
        return True

    def close(self) -> None:
        """The session has ended: waits end, and values are dropped."""
        with self.lock:
            self.is_over = True
            self.changed.notify_all()
            self.values.clear()
            self.held.clear()
            self.inside.clear()
            self.callbacks.clear()


class LocalFutures:
    """The futures of a program."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.waiting: dict[int, Any] = {}  # by the future's id

    def future_of(self, ref: ObjectRef) -> Any:
        """The ref's value as a concurrent future."""
        from concurrent.futures import Future

        objects = self.runtime.objects
        future: Any = Future()
        future.set_running_or_notify_cancel()
        future.zray_ref = ref  # keeps the object alive until it is resolved
        if ref.id not in objects.held:
            future.set_exception(context.ref_of_ended_session(ref.id))
            return future
        if ref.id not in objects.values:
            self.waiting[id(future)] = future
        objects.when_ready(ref.id, lambda: self._resolve(future))
        return future

    def arrival_of(self, ids: list[bytes]) -> Any:
        """A concurrent future of the arrival of the first of several objects."""
        from concurrent.futures import Future

        future: Any = Future()
        future.set_running_or_notify_cancel()

        def arrived() -> None:
            if not future.done():
                settle(future.set_result, None)

        for object_id in ids:
            self.runtime.objects.when_ready(object_id, arrived)
        return future

    def _resolve(self, future: Any) -> None:
        self.waiting.pop(id(future), None)
        ref, future.zray_ref = future.zray_ref, None
        if ref is None:
            return  # the session has ended
        try:
            value = self.runtime.value_of(ref.id)
        except BaseException as error:
            settle(future.set_exception, error)
        else:
            settle(future.set_result, value)

    def close(self) -> None:
        """Fail the remaining futures at the session's end."""
        is_the_end = not threading.main_thread().is_alive()
        while self.waiting:
            _, future = self.waiting.popitem()
            future.zray_ref = None
            error = SystemExit() if is_the_end else ClusterLostError("This process has left its session.")
            settle(future.set_exception, error)
