"""Future of a ref, which cancels a task that waits, as futures of Python's executors do.

    the task has not begun on this node           cancel() ends it, and returns True
    the task has begun, or another node has it    cancel() changes nothing, and returns False
    the future has its value                      the same

The node decides: no task that has begun is interrupted.  `zray.cancel(ref)` interrupts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, PENDING
from typing import TYPE_CHECKING, Any

from ...exceptions import TaskCancelledError, ZrayError
from ...ids import is_put, task_of
from ...object_ref import ObjectRef
from ...wire.tasks import CancelTask

if TYPE_CHECKING:
    from .runtime import Runtime


class RefFuture(Future[Any]):
    """The value of a ref as a concurrent future."""

    cancels_task = True  # False for a future that asyncio cancels with its own

    def __init__(self, runtime: Runtime, ref: ObjectRef) -> None:
        super().__init__()
        self.zray_runtime = runtime
        self.zray_ref: ObjectRef | None = ref  # keeps the object alive until it is resolved
        self.was_asked = False

    def cancel(self) -> bool:
        """Cancel the task if it waits.  Returns whether the future is cancelled."""
        ref = self.zray_ref
        if self.done() or ref is None or not self.cancels_task or is_put(ref.id):
            return self.cancelled()
        self.was_asked = True
        try:
            reply = self.zray_runtime.ask(
                lambda request: CancelTask(task_of(ref.id), request=request, only_waiting=True)
            )
        except ZrayError:
            return False
        if not reply.error:
            self._give_up()
        return self.cancelled()

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the error of the task; that it is cancelled is no error where this future has asked for it."""
        if self.was_asked and isinstance(exception, TaskCancelledError):
            self._give_up()
        else:
            self._set(super().set_exception, exception)

    def set_result(self, result: Any) -> None:
        """Set the value, unless the future is cancelled."""
        self._set(super().set_result, result)

    def _set(self, set_outcome: Callable[[Any], None], outcome: Any) -> None:
        try:
            set_outcome(outcome)
        except InvalidStateError:  # the caller's thread has cancelled it a moment ago
            if not self.cancelled():
                raise

    def _give_up(self) -> None:
        """Become cancelled, once: the caller's thread and the receiving thread may both say so."""
        with self._condition:
            if self._state != PENDING:
                return
            self._state = CANCELLED_AND_NOTIFIED
            for waiter in self._waiters:
                waiter.add_cancelled(self)
            self._condition.notify_all()
        self._invoke_callbacks()  # type: ignore[attr-defined]
