"""The event loop of a process for hosted actors, which all of its async actors share.

A call that blocks the loop holds up all of them.  The loop goes on after loop.stop(), and after an exit of user code
beside the calls, which ends the actor of that code alone.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
import traceback
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...exceptions import ClusterLostError
from ...object_ref import ObjectRef
from ...wire.actors import SHUTDOWN_SECONDS
from ...wire.task_spec import TaskSpec, parse_options
from ..client.event_log import ASYNC_LANE
from ..client.fork_guard import end_child
from ..client.task_context import Call, current_call
from .actor_methods import call_shutdown, make_instance
from .async_runner import LOOK_SECONDS, call_that_raised, current_task
from .exit import crash
from .exit_errors import exit_in_words, is_success
from .generators import run_async_generator

if TYPE_CHECKING:
    from .hosting import Guest, Hosting


class HostedLoop:
    """An event loop in a thread of its own."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.worker = hosting.worker
        self.incoming: deque[tuple[Guest, TaskSpec | None]] = deque()
        self.is_due = False  # the loop will take what has come in
        self.flush_is_due = False
        # By call, or by actor for its end; a loop refers to its tasks weakly.
        self.tasks: dict[bytes, tuple[Guest, TaskSpec | None, Any]] = {}
        self.looked_at = 0.0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="zray-loop", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                self.loop.run_forever()
            except BaseException as error:
                self._ended(error)

    def _ended(self, error: BaseException) -> None:
        """End the actor whose task or callback has ended the loop."""
        if os.getpid() != self.worker.pid:
            end_child(error)
        call = call_that_raised(error)
        guest = self.hosting.of(call.spec) if call is not None else None
        if guest is None:
            traceback.print_exception(error)
        elif is_success(error):
            self.hosting.leave_when_idle(guest, error)
        else:
            self.hosting.end_by_crash(guest, f"a task or callback of its event loop {exit_in_words(error)}")

    def begin(self, guest: Guest, spec: TaskSpec | None) -> None:
        """Have a call begin; None: the actor's end.  With the worker's lock held."""
        self.incoming.append((guest, spec))
        if not self.is_due:
            self.is_due = True
            self.loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self.is_due = False
        while self.incoming:
            self._create(*self.incoming.popleft())

    def _create(self, guest: Guest, spec: TaskSpec | None) -> None:
        run = self._shut_down(guest) if spec is None else self._call(guest, spec)
        self.tasks[guest.actor_id if spec is None else spec.task_id] = guest, spec, self.loop.create_task(run)

    async def _call(self, guest: Guest, spec: TaskSpec) -> None:
        current_call.set(Call(spec))  # the task's own context, invisible to other calls
        hosting, worker = self.hosting, self.worker
        value = failed = None
        result: Any = ([], (), False)
        began, read = time.perf_counter(), 0.0
        try:
            args, kwargs = worker.arguments_of(spec)
            read = time.perf_counter()
            if spec is guest.spec:
                guest.instance = await make_instance(hosting.class_of(spec), args, kwargs)
            else:
                value = guest.method_of(spec)(*args, **kwargs)
                if type(value) is not ObjectRef and hasattr(value, "__await__"):  # a returned ref stays a ref
                    value = await value
                if hasattr(value, "__aiter__") and parse_options(spec.options).is_generator:
                    result = ([await run_async_generator(worker, spec, value)], (), False)
                else:
                    result = hosting.result_of(guest, spec, value)
            del args, kwargs
        except BaseException as error:
            failed = error
        if worker.events is not None:
            hosting.note_run(guest, spec, began, read, failed, ASYNC_LANE)
        self._ended_call(guest, spec, result, failed)
        value = failed = None  # an error's traceback has this frame, which would keep the error alive

    def _ended_call(self, guest: Guest, spec: TaskSpec, result: Any, error: BaseException | None) -> None:
        """Note the end of a call, or of a constructor; the call behind it begins."""
        del self.tasks[spec.task_id]
        try:
            if spec is guest.spec:
                following = None
                self.hosting.constructed(guest, spec, error)
            else:
                if error is not None:
                    result = self.hosting.outcome_of(guest, spec, error)
                following = self.hosting.finished(guest, spec, result)
        except BaseException as trouble:  # of zray's own
            crash(self.worker, self.worker.name_of(spec), trouble)
        if following is not None:
            self._create(guest, following)
        if not self.flush_is_due:
            self.flush_is_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send results, after the calls that were ready together."""
        self.flush_is_due = False
        with suppress(ClusterLostError):  # the node is gone, and with it the process
            self.worker.flush()

    def is_own(self, spec: TaskSpec) -> bool:
        """Return whether this code runs in the call, or the constructor, not in a task or thread of its own."""
        known = self.tasks.get(spec.task_id)
        return known is not None and known[2] is current_task()

    # --- ends ---

    def cancel(self, task_id: bytes) -> None:
        """Cancel a call: CancelledError is raised where it awaits.  For any thread."""
        self.loop.call_soon_threadsafe(self._cancel, task_id)

    def _cancel(self, task_id: bytes) -> None:
        known = self.tasks.get(task_id)
        if known is not None:
            self.worker.cancelling.knows(task_id)
            known[2].cancel()

    def cancel_all(self, guest: Guest) -> None:
        """Cancel all calls of a killed actor.  For any thread."""
        self.loop.call_soon_threadsafe(self._cancel_all, guest)

    def _cancel_all(self, guest: Guest) -> None:
        for other, spec, task in [*self.tasks.values()]:
            if other is guest and spec is not None:
                task.cancel()

    async def _shut_down(self, guest: Guest) -> None:
        try:
            if guest.has_shutdown and not guest.is_gone:
                guest.has_shutdown = False
                watchdog = self.hosting.limit_shutdown(guest)
                returned = call_shutdown(guest.instance)
                if inspect.isawaitable(returned):
                    await asyncio.wait_for(asyncio.ensure_future(returned), SHUTDOWN_SECONDS)
                watchdog.cancel()
        except BaseException:
            traceback.print_exc()
        finally:
            self.tasks.pop(guest.actor_id, None)
            guest.let_go()
            self.hosting.left(guest)

    def look(self) -> None:
        """Have the loop look for ended calls now and then.  In the worker's helper thread."""
        now = time.monotonic()
        if self.tasks and now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = now
            self.loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Finish tasks that were cancelled before their first step, so that no line of zray's ran."""
        for guest, spec, task in [entry for entry in self.tasks.values() if entry[2].done()]:
            error = asyncio.CancelledError("cancelled before it began") if task.cancelled() else task.exception()
            if spec is not None:
                self._ended_call(guest, spec, ([], (), False), error)
