"""Refs as futures: a dedicated thread receives while any future waits."""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...exceptions import ClusterLostError
from ...object_ref import ObjectRef
from .. import context
from . import slow_wait_report
from .future_outcome import settle

if TYPE_CHECKING:
    from .runtime import Runtime


class Futures:
    """The futures of one process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.waiting: dict[bytes, list[Any]] = {}
        self.began: dict[bytes, float] = {}  # start times of the waits
        self.ready: deque[bytes] = deque()  # objects with futures, whose values have arrived
        self.thread: threading.Thread | None = None

    def future_of(self, ref: ObjectRef) -> Any:
        """The ref's value as a concurrent future."""
        from .ref_future import RefFuture

        runtime = self.runtime
        client = runtime.client
        runtime.refuse_in_the_middle()
        future: Any = RefFuture(runtime, ref)
        with runtime.lock:
            if ref.id not in client.held:
                future.set_exception(context.ref_of_ended_session(ref.id))
                return future
            if ref.id not in client.values:
                self.waiting.setdefault(ref.id, []).append(future)
                self.began.setdefault(ref.id, time.monotonic())
                client.ask([ref.id])
                self._receive()
                return future
        self._resolve(ref.id, [future])
        return future

    def arrival_of(self, ids: list[bytes]) -> Any:
        """A concurrent future of the arrival of the first of several objects, which this process need not hold yet."""
        from concurrent.futures import Future

        future: Any = Future()
        future.set_running_or_notify_cancel()
        with self.runtime.lock:
            if any(map(self.runtime.client.is_ready, ids)):
                future.set_result(None)
                return future
            future.zray_ids = ids
            for object_id in ids:
                self.waiting.setdefault(object_id, []).append(future)
                self.began.setdefault(object_id, time.monotonic())
            self._receive()
        return future

    def _arrived(self, object_id: bytes, future: Any) -> None:
        """Resolve the future of an arrival, and take it from where it stands for other objects."""
        with self.runtime.lock:
            for other in future.zray_ids:
                if (futures := self.waiting.get(other)) is not None:
                    futures.remove(future)
                    if not futures:
                        del self.waiting[other], self.began[other]
        if not future.done():
            settle(future.set_result, None)

    def _receive(self) -> None:
        client = self.runtime.client
        client.on_ready = self._object_is_ready
        if not any(wait is self.waiting for wait in client.waits):
            client.waits.append(self.waiting)
        self.runtime.send_buffered()
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, name="zray-futures", daemon=True)
            self.thread.start()

    def _object_is_ready(self, object_id: bytes) -> None:
        if object_id in self.waiting:
            self.ready.append(object_id)

    def _run(self) -> None:
        ready, runtime = self.ready, self.runtime
        looked_at = time.monotonic()
        while True:
            try:
                if not runtime.receive_until(lambda: bool(ready), looked_at + slow_wait_report.SAID_AFTER[0]):
                    looked_at = self._explain(looked_at)
            except ClusterLostError as error:
                self._fail_all(error)
                return
            while ready:
                object_id = ready.popleft()
                with runtime.lock:
                    futures = self.waiting.pop(object_id, [])
                    self.began.pop(object_id, None)
                self._resolve(object_id, futures)
            with runtime.lock:
                if not self.waiting and not ready:
                    self.thread = None
                    if not runtime.is_over:  # else its client is gone
                        runtime.client.on_ready = None
                    return

    def _explain(self, looked_at: float) -> float:
        """Explain late refs as a `get` of them would, at the usual intervals.  Returns the time of this look."""
        now = time.monotonic()
        with self.runtime.lock:
            began = list(self.began.items())
        for seconds in reversed(slow_wait_report.SAID_AFTER):
            late = [object_id for object_id, since in began if looked_at < since + seconds <= now]
            if late:
                said = f"{len(late)} ref(s) have been awaited for {seconds:g} s"
                slow_wait_report.explain(self.runtime, lambda: False, None, late, said)
                break
        return now

    def _resolve(self, object_id: bytes, futures: list[Any]) -> None:
        for future in futures:
            if hasattr(future, "zray_ids"):
                self._arrived(object_id, future)
                continue
            try:
                value = self.runtime.value_of(object_id)
            except BaseException as error:
                settle(future.set_exception, error)
            else:
                settle(future.set_result, value)
            future.zray_ref = None

    def _fail_all(self, error: BaseException) -> None:
        with self.runtime.lock:
            lost = dict(self.waiting)
            self.waiting.clear()
            self.began.clear()
            self.thread = None
        for future in dict.fromkeys(chain.from_iterable(lost.values())):  # an arrival waits for several objects
            settle(future.set_exception, error)

    def close(self) -> None:
        """Fail the remaining futures at the end of the session."""
        if self.waiting:
            # At the program's end only daemon threads may wait: they end in silence (context.refuse_at_the_end).
            is_the_end = not threading.main_thread().is_alive()
            self._fail_all(SystemExit() if is_the_end else ClusterLostError("This process has left its session."))
