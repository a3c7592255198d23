"""Refs as futures in local mode: settled by the thread that makes the value."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..exceptions import ClusterLostError
from ..object_ref import ObjectRef
from . import context
from .settling import settle

if TYPE_CHECKING:
    from .local_runtime import LocalRuntime


class LocalFutures:
    """The futures of one program."""

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
        """The session has ended: what has not come will not."""
        is_the_end = not threading.main_thread().is_alive()
        while self.waiting:
            _, future = self.waiting.popitem()
            future.zray_ref = None
            error = SystemExit() if is_the_end else ClusterLostError("This process has left its session.")
            settle(future.set_exception, error)
