"""Cancelled tasks and calls of one worker.

    a task that has not begun       ends before beginning
    a task that runs                an exception is raised in the task's code, in the main thread of the worker
    a coroutine that awaits         its asyncio task is cancelled
    a call of an async actor        the call's asyncio task is cancelled
    a task that has run for its time limit   the same: a thread of the worker waits for the time to pass
    a call that has not begun       leaves the queue of its actor
    a call of any other actor       nothing interrupts the call: `is_canceled()` is true, and the result does not count

The node sends InterruptTask and then the signal SIGURG, whose default action is none.  The signal's handler runs in the
main thread, also in the middle of a sleep or a lock.  The handler reads the message, and raises where user code runs or
a wait sleeps.  In the middle of zray's own work the handler sends the signal again a little later.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from ...exceptions import encode_system_error
from ...roles.kept import Latest
from ...store.errors import serialize_cancellation
from ...wire.actors import CallClosed
from ...wire.task_spec import TaskSpec, overdue_in_words, parse_options
from ...wire.tasks import TaskCleansUp, TaskOverdue
from ..client.interrupts import AGAIN_SECONDS, may_interrupt
from ..client.runtime import Runtime
from ..client.task_context import Call, current_call
from . import async_tasks
from .outcomes import Failure

if TYPE_CHECKING:
    from .main import Worker

# The signal may overtake its message, and several of them may come as one: so many further looks follow the last news,
# each after twice the time; 4 s in all, since threads of a busy machine may wait for as long.
LOOKS_MAX = 11
# Calls of an actor that were cancelled and have not ended; more than an actor may have under way.
CALLS_MAX = 10_000


class TaskInterrupt(KeyboardInterrupt):
    """Exception for ending the code of a cancelled task; `except Exception` does not catch a TaskInterrupt,
    as in Ray.
    """

    # The name in a program's tracebacks.
    __module__, __qualname__ = "builtins", "KeyboardInterrupt"
    how = "was cancelled"


class TimeLimitInterrupt(TaskInterrupt):
    """The same for a task whose time is over: event records tell the two from each other by their names."""


class TimeLimit:
    """The time limit of one run, which stops while the run waits until its items are drawn."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self.left = seconds
        self.end = end  # called when no time is left

    def start(self) -> None:
        """Have the time pass."""
        self.since = time.monotonic()
        self.timer = threading.Timer(max(0.0, self.left), self.end)
        self.timer.daemon = True
        self.timer.start()

    def stop(self) -> None:
        """Have no time pass."""
        self.timer.cancel()
        self.left -= time.monotonic() - self.since


class Cancelling:
    """Cancelled tasks and calls of one worker; the running task may be among them, and tasks below in the stack."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.cancelled: Latest[bytes, int] = Latest(CALLS_MAX)  # -> items of a generator that it does not end before
        self.heard_count = 0
        self.raised_in = b""  # the task in which the exception was raised: once, so that it can clean up
        self.knowing: set[bytes] = set()  # tasks of `cancelled` whose code has learnt of that
        self.is_look = False  # the next signal is one of our own
        self.looks_left = 0
        self.overdue: set[bytes] = set()  # tasks of `cancelled` whose time limit has passed
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGURG, self._on_signal)

    def told(self, task_id: bytes, items: int) -> None:
        """Note InterruptTask, with the lock held, if the task has not ended: the task may run again later,
        uncancelled.
        """
        self.heard_count += 1
        actor = self.worker.actor
        if actor is not None:
            self.cancelled[task_id] = items
            actor.cancel(task_id, at_once=not items)
        elif any(spec.task_id == task_id for spec in self._unfinished()):
            self.cancelled[task_id] = items
            if self.worker.call is not None and self.worker.call.spec.task_id == task_id:
                self._cancel_coroutine(self.worker.call)  # before failures of its children come

    def begin_anew(self, specs: Iterable[TaskSpec]) -> None:
        """Forget orders to end earlier runs of calls that came too late, with the lock held."""
        for spec in specs:
            self.cancelled.pop(spec.task_id, None)

    def _unfinished(self) -> list[TaskSpec]:
        executor, call = self.worker.executor, self.worker.call
        specs = [*executor.queue, *executor.nested]
        if executor.begun is not None and executor.begun is not self.worker.ended_spec:
            specs.append(executor.begun)
        while call is not None:
            specs.append(call.spec)
            call = call.outer
        return specs

    # --- time limits ---

    def limit(self, spec: TaskSpec, seconds: float) -> TimeLimit:
        """Start the time of a task that begins.  The caller stops it."""
        limit = TimeLimit(seconds, lambda: self._is_overdue(spec))
        limit.start()
        return limit

    def _is_overdue(self, spec: TaskSpec) -> None:
        with self.worker.lock:
            if spec.task_id in self.cancelled or not any(each is spec for each in self._unfinished()):
                return
            self.cancelled[spec.task_id] = 0
            self.overdue.add(spec.task_id)
            self.heard_count += 1
        self.worker.say(TaskOverdue(spec.task_id))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)

    def ended(self, spec: TaskSpec, error: BaseException, name: str) -> bytes:
        """Return the error value of a task that is cancelled or overdue, whatever its code made of the exception; b"":
        the error is the task's own.
        """
        if self.worker.actor is not None or not self.is_cancelled(spec):
            return b""
        if spec.task_id in self.overdue:
            text = overdue_in_words(f"Task {name}", parse_options(spec.options))
            return encode_system_error("TaskTimeoutError", text)
        return serialize_cancellation(error, name, TaskInterrupt.how, skip_frames=1)

    def check(self, spec: TaskSpec, *, has_begun: bool = True) -> None:
        """Raise TaskInterrupt in a task or call that is cancelled."""
        if self._is_due(spec):
            if not has_begun:
                self.closes_at(spec, 0)
            raise (TimeLimitInterrupt if spec.task_id in self.overdue else TaskInterrupt)("cancelled") from None

    def _is_due(self, spec: TaskSpec) -> bool:
        """Return whether an exception is to be raised in a task or call now, which is so once."""
        if not self.is_cancelled(spec) or spec.task_id == self.raised_in:
            return False
        self.raised_in = spec.task_id
        self.knows(spec.task_id)
        return True

    def _cancel_coroutine(self, call: Call) -> None:
        async_tasks.cancel(call, lambda: self._is_due(call.spec))

    def is_cancelled(self, spec: TaskSpec) -> bool:
        """Return whether a task is to end, and not to run again as far as the program has seen its items."""
        return spec.task_id in self.cancelled and not self.cancelled[spec.task_id]

    def closes_at(self, spec: TaskSpec, count: int) -> None:
        """Note where a call of an actor ends early, for its replay."""
        actor = self.worker.actor
        if actor is not None and actor.recovery is not None:
            self.worker.say(CallClosed(spec.task_id, count))
            actor.recovery.log = None  # a replay would not know where to end it

    def ends(self, spec: TaskSpec, *, has_returned: bool) -> None:
        """Forget a task that has ended; if the task caught the exception, its value counts, and its user is told."""
        if spec.task_id == self.raised_in:
            self.raised_in = b""
        self.knowing.discard(spec.task_id)
        what = "was cancelled"
        if spec.task_id in self.overdue:
            self.overdue.discard(spec.task_id)
            what = f"ran longer than its timeout of {parse_options(spec.options).time_limit:g} s"
        if self.cancelled.pop(spec.task_id, None) is not None and has_returned:
            name = self.worker.name_of(spec)
            text = f"zray: task {name} {what}, and has returned a value: it caught the exception, or was faster."
            print(text, file=sys.stderr, flush=True)

    def outcome(self, spec: TaskSpec, result: Failure) -> Failure:
        """Return the outcome of a call of an actor: not the call's value, if the call is cancelled."""
        if self.cancelled.pop(spec.task_id, None) is None:
            return result
        self.knowing.discard(spec.task_id)
        text = f"The call of {self.worker.name_of(spec)} was cancelled."
        count = max(1, parse_options(spec.options).num_returns)
        return [encode_system_error("TaskCancelledError", text)] * count, (), False

    def ends_generator(self, spec: TaskSpec, count: int) -> bool:
        """Return whether a generator of an actor, which no signal interrupts, is cancelled and ends after its
        `count`th item.
        """
        if spec.task_id not in self.cancelled or self.worker.actor is None or count < self.cancelled[spec.task_id]:
            return False
        self.closes_at(spec, count)
        self.knows(spec.task_id)
        return True

    def is_canceled(self) -> bool:
        """Return whether the task or call that this thread runs is cancelled."""
        call = current_call.get() or self.worker.call
        if call is None or call.spec.task_id not in self.cancelled:
            return False
        if self.worker.actor is not None:
            self.knows(call.spec.task_id)
        return True

    def knows(self, task_id: bytes) -> None:
        """Tell the node once that the code of a task knows of its end."""
        if task_id not in self.knowing:
            self.knowing.add(task_id)
            self.worker.say(TaskCleansUp(task_id))

    # --- the signal ---

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        worker = self.worker
        if os.getpid() != worker.pid:
            return  # in a process that user code has forked
        is_look, self.is_look = self.is_look, False
        if worker.connection.is_inside():
            self._look_again()
            return
        call, heard_count = worker.call, self.heard_count
        # Before the look, which ends the sleep of a wait.
        may_raise = may_interrupt(frame) and not _is_importing(frame, type(worker).run_task.__code__)
        Runtime.receive_until(worker, lambda: False, time.monotonic())  # what is there
        if not is_look or self.heard_count != heard_count:
            self.looks_left = LOOKS_MAX
        is_cancelled = call is not None and call.spec.task_id in self.cancelled
        if is_cancelled and call is not None and call.is_open and worker.actor is None:
            if may_raise:
                self.check(call.spec)
            elif self.raised_in != call.spec.task_id:
                self._cancel_coroutine(call)
                self._look_again()
        elif not is_cancelled and self.looks_left:
            self.looks_left -= 1
            self._look_again(AGAIN_SECONDS * 2 ** (LOOKS_MAX - 1 - self.looks_left))

    def _look_again(self, seconds: float = AGAIN_SECONDS) -> None:
        # Not a Thread: the main thread may hold a lock that starting one takes.  The system may allow no more of them.
        with suppress(RuntimeError):
            _thread.start_new_thread(self._signal_soon, (seconds,))

    def _signal_soon(self, seconds: float) -> None:
        time.sleep(seconds)
        self.is_look = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)


def _is_importing(frame: FrameType | None, outermost: CodeType) -> bool:
    """Return whether a task imports a module: Python cannot load one again whose import has ended halfway."""
    while frame is not None and frame.f_code is not outermost:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
