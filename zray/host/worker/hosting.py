"""Hosted actors: many light actors in one worker process, each with an instance, calls and an end of its own.

The process has one runtime: refs, values and messages are the process's.  The main thread runs no user code: it
receives, and adds threads while all of them wait.  Each message is handled as it comes, with the runtime's lock held.
Calls of an actor begin in order, as many at once as its `max_concurrency`, in the threads of the process (host_threads)
or on its event loop (hosted_loop).  The node sends no call before its arguments, so there is no claim window.

Rule 1: an actor is in `guests` until ActorEnded is said, the last word of it.

Rule 2: `running` counts an actor's calls that a thread or the loop has, the constructor among them.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, NoReturn

from ...exceptions import ClusterLostError, encode_system_error
from ...ids import return_id
from ...wire.actors import (
    KILLED_SECONDS,
    SHUTDOWN_SECONDS,
    ActorEnded,
    ActorExited,
    ActorStarted,
    ActorStartFailed,
    EndActor,
    StartActor,
)
from ...wire.objects import AbandonObject
from ...wire.task_spec import ActorOptions, StoredValue, TaskSpec, parse_options
from ...wire.tasks import Argument, StartTasks, StopWorker
from ..client.event_log import Kind
from ..client.task_context import Call, current_call
from ..output.worker_output import begun_lines
from ..process import visible_gpus
from ..process.math_threads import threads as math_threads
from ..process.preloading import suggest
from .actor_methods import METHOD, call_shutdown, has_shutdown
from .actor_runner import LAST_CALLS_SECONDS, Instance, Result
from .exit import crash
from .exit_errors import ActorExit, exit_in_words, is_success
from .failures import failure
from .function_loading import function_of
from .host_threads import HostThreads
from .replays import keep

if TYPE_CHECKING:
    from .hosted_loop import HostedLoop
    from .main import Worker

# Results wait no longer than this for company, as those of tasks.
RESULT_SECONDS = 0.0005
# The name of such a process, for people.
NAME = "hosted actors"
IN_ORDER = "it ended in order, and its process goes on"
KILLED = "it was killed, and its process goes on"


class Guest(Instance):
    """A hosted actor."""

    __slots__ = (
        *("cause", "concurrency", "crash", "exiting", "farewell", "has_shutdown", "hosting", "is_gone", "last_call"),
        *("queue", "restart_count", "running", "spec", "unclaimed"),
    )

    def __init__(self, hosting: Hosting, order: StartActor) -> None:
        super().__init__(hosting.worker, order)
        self.hosting = hosting
        self.spec: TaskSpec | None = order.spec  # until the constructor has ended
        self.concurrency = order.options.max_concurrency
        self.restart_count = order.restart_count
        self.queue: list[TaskSpec] = []  # calls that have not begun
        self.running = 0
        self.has_shutdown = False
        self.is_gone = False  # its calls count for nothing any more
        self.cause = ""  # of that
        self.unclaimed = 0  # calls that had not begun then
        self.last_call: TaskSpec | None = None  # the call that asked for the actor's end
        self.farewell = ""  # the reason of that end
        self.crash = ""  # of an end that counts as a crash
        self.exiting = ""  # the reason, once no call begins any more

    @property
    def async_calls(self) -> Any:
        """The event loop of an async actor; None of another one."""
        return self.hosting.loop if self.options.is_async else None

    def let_go(self) -> None:
        """Drop the instance, which refers to itself by its bound methods."""
        if self.methods is not None:
            self.methods.let_go()
        self.instance = self.methods = None


class Hosting:
    """The hosted actors of a worker process."""

    is_serial = False  # a wait of one actor does not stop the others
    async_calls = None
    restart_count = 0
    options = ActorOptions(class_name=NAME)

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.guests: dict[bytes, Guest] = {}
        self.threads = HostThreads(self._work)
        self.loop: HostedLoop | None = None  # once there is an async actor
        self.leavers: set[bytes] = set()  # calls of exit_actor(): user code may catch the exception

    def run(self) -> NoReturn:
        """Receive, in the main thread, until the process is ended."""
        from .main import Leave

        worker, threads = self.worker, self.threads
        with begun_lines.lock:
            begun_lines.mark(NAME)
        math_threads.fit({})
        while True:
            with worker.lock:
                worker.send_buffered()
            while worker.orders:
                if type(worker.orders.pop(0)) is StopWorker:
                    raise Leave(0)
            if threads.waiting:
                threads.look()
                worker.receive_until(lambda: bool(worker.orders), time.monotonic() + threads.LOOK_SECONDS)
            else:
                worker.receive_until(lambda: bool(worker.orders or threads.waiting), None)

    # --- orders, with the lock held ---

    def on_start_actor(self, order: StartActor) -> None:
        """StartActor: the constructor runs."""
        if order.gpus is not None and not self.guests:
            visible_gpus.show(order.gpus)
        guest = self.guests[order.spec.task_id] = Guest(self, order)
        self.worker.executor.learn(order.functions)
        self._take(order.arguments, (order.spec,))
        guest.running = 1
        self._give(guest, order.spec)

    def on_start_tasks(self, message: StartTasks) -> None:
        """StartTasks: calls are queued, and begin."""
        self._take(message.arguments, message.specs)
        for spec in message.specs:
            guest = self.guests.get(parse_options(spec.options).actor_id)
            if guest is None or guest.is_gone:
                self.worker.done_with(spec)
                if guest is not None:
                    guest.unclaimed += 1
            else:
                guest.queue.append(spec)
                if guest.running < guest.concurrency and not guest.exiting:
                    guest.running += 1
                    self._give(guest, guest.queue.pop(0))

    def on_end_actor(self, message: EndActor) -> None:
        """EndActor: the node sends no further call."""
        guest = self.guests.get(message.actor_id)
        if guest is None or guest.is_gone:
            return  # it has ended by itself, or was told before
        if message.is_killed:
            self._gone(guest, KILLED)
            self.worker.client.is_urgent = True
        elif not guest.exiting:
            guest.exiting = IN_ORDER
            self._leave(guest)

    def cancel(self, task_id: bytes, *, at_once: bool) -> None:
        """Cancel a call: take an unbegun one out, and have an async one raise CancelledError where it awaits."""
        for guest in self.guests.values():
            for place, spec in enumerate(guest.queue):
                if spec.task_id == task_id:
                    del guest.queue[place]
                    values, contained, _ = self.worker.cancelling.outcome(spec, ([], (), False))
                    self.worker.note(spec, values, contained, wants_retry=False)
                    self.worker.client.is_urgent = True
                    return
        if self.loop is not None:
            self.loop.cancel(task_id)

    def _take(self, arguments: Iterable[Argument], specs: Iterable[TaskSpec]) -> None:
        executor, client = self.worker.executor, self.worker.client
        for argument in arguments:
            if type(argument.value) is StoredValue:
                client.place_told(argument.object_id)
            executor.arguments[argument.object_id] = argument.value
        for spec in specs:
            executor.will_take(spec)

    def _give(self, guest: Guest, spec: TaskSpec | None) -> None:
        """Give a call to a thread or to the loop; None: the actor's end."""
        if guest.options.is_async:
            if self.loop is None:
                from .hosted_loop import HostedLoop  # it imports asyncio, which others do without

                self.loop = HostedLoop(self)
            self.loop.begin(guest, spec)
        else:
            self.threads.put(guest, spec)

    # --- calls ---

    def _work(self, guest: Guest, spec: TaskSpec | None) -> None:
        """Run a call of an actor, and the calls behind it.  In a thread of the process."""
        if spec is None:
            self._shut_down(guest)
            return
        following: TaskSpec | None = spec
        while following is not None:
            # In a context of its own: a variable that it sets is not seen by other actors.
            following = Context().run(self._run, guest, following)
            self.send_soon(is_last=following is None)

    def _run(self, guest: Guest, spec: TaskSpec) -> TaskSpec | None:
        worker = self.worker
        current_call.set(Call(spec))
        value = failed = None  # live until noted: their refs keep their objects alive
        result: Result = [], (), False
        began, read = time.perf_counter(), 0.0
        try:
            try:
                args, kwargs = worker.arguments_of(spec)
                read = time.perf_counter()
                if spec is guest.spec:
                    guest.instance = self.class_of(spec)(*args, **kwargs)
                else:
                    value = guest.method_of(spec)(*args, **kwargs)
                    result = self.result_of(guest, spec, value)
                del args, kwargs
            except BaseException as error:
                failed = error
            if worker.events is not None:
                self.note_run(guest, spec, began, read, failed, worker.events.lane())
            if spec is guest.spec:
                self.constructed(guest, spec, failed)
                return None
            if failed is not None:
                result = self.outcome_of(guest, spec, failed)
            begun_lines.write_own()
            return self.finished(guest, spec, result)
        except BaseException as trouble:  # of zray's own: in a thread it would be invisible
            crash(worker, worker.name_of(spec), trouble)
        finally:
            value = failed = None  # an error's traceback has this frame, which would keep the error alive

    def note_run(
        self, guest: Guest, spec: TaskSpec, began: float, read: float, error: BaseException | None, lane: int
    ) -> None:
        """Record the run of a call, or of a constructor."""
        end = time.perf_counter()
        kind, actor = (Kind.CONSTRUCTOR, guest.options) if spec is guest.spec else (Kind.CALL, None)
        assert self.worker.events is not None
        self.worker.events.ran(kind, spec, began, read, end, end, error, lane, actor)

    def send_soon(self, *, is_last: bool) -> None:
        """Send results at once if nothing else runs here, or if they have waited long enough."""
        worker, now = self.worker, time.perf_counter()
        with suppress(ClusterLostError):  # the node is gone, and with it the process
            if (is_last and not self.threads.waiting) or now - worker.sent_at > RESULT_SECONDS:
                worker.sent_at = now
                worker.flush()
            elif not worker.is_armed:
                worker.arm()

    def refuse_blocking(self) -> None:
        """Refuse a wait in the event loop: it would stop all async actors here, also one that is waited for.

        Raises:
            RuntimeError: this thread runs the loop.
        """
        if self.loop is not None and threading.current_thread() is self.loop.thread:
            raise RuntimeError(
                "get() and wait() in an async hosted actor would stop all async actors of its process, perhaps the one "
                "that is waited for.  Await the ref: `value = await ref`, or leave out hosted=True"
            )

    def class_of(self, spec: TaskSpec) -> Any:
        """Return the class of an actor to construct."""
        cls = function_of(self.worker, spec.function_id)
        suggest(cls)
        return cls

    def constructed(self, guest: Guest, spec: TaskSpec, error: BaseException | None) -> None:
        """Report the end of a constructor."""
        worker = self.worker
        if spec.task_id in self.leavers:
            self.leavers.discard(spec.task_id)
            error = ActorExit(0)
        death = b""
        if error is not None and not isinstance(error, ActorExit):
            death = guest.death_by(error)
            keep(worker, spec, guest.options.class_name, error, kind="constructor")
        elif error is not None:
            guest.farewell = guest.left_by(error)
        begun_lines.write_own()
        with worker.lock:
            self.worker.done_with(spec)
            guest.running -= 1
            guest.spec = None
            if guest.is_gone:
                self._runs_no_more(guest)
            elif death:
                worker.client.say(ActorStartFailed(guest.actor_id, death))
            elif error is not None:
                guest.exiting = guest.farewell
                self._leave(guest)
            else:
                guest.has_shutdown = has_shutdown(guest.instance)
                worker.client.say(ActorStarted(guest.actor_id, guest.has_shutdown))

    def result_of(self, guest: Guest, spec: TaskSpec, value: Any) -> Result:
        """Return what a call has returned as its result; nothing of a killed actor is stored."""
        return ([], (), False) if guest.is_gone else guest.result_of(spec, value)

    def outcome_of(self, guest: Guest, spec: TaskSpec, error: BaseException) -> Result:
        """Return the result of a call that raised: an error, or the end of the actor."""
        if isinstance(error, SystemExit) and os.getpid() == self.worker.pid:
            guest.last_call = spec
            if not is_success(error):
                guest.crash = f"{self.worker.name_of(spec)} has {exit_in_words(error)}, and its process goes on"
                return [], (), False
            guest.farewell = guest.left_by(error)
            left = encode_system_error("ActorDiedError", guest.farewell)
            return [left] * max(1, parse_options(spec.options).num_returns), (), False
        return failure(self.worker, spec, error)

    def finished(self, guest: Guest, spec: TaskSpec, result: Result) -> TaskSpec | None:
        """Note the result of a call.  Returns the actor's next call."""
        worker = self.worker
        if self.leavers and spec.task_id in self.leavers:
            self.leavers.discard(spec.task_id)
            if spec is not guest.last_call:
                result = self.outcome_of(guest, spec, ActorExit(0))  # user code has caught the first exception
        with worker.lock:
            guest.running -= 1
            if guest.is_gone:
                self._discard(guest, spec, result)
                return None
            if spec is guest.last_call and guest.crash:
                self.worker.done_with(spec)
                self._gone(guest, guest.crash)
                return None
            if worker.cancelling.cancelled:
                result = worker.cancelling.outcome(spec, result)
            values, contained, wants_retry = result
            worker.note(spec, values, contained, wants_retry=wants_retry)
            if spec is guest.last_call:
                self._begin_to_leave(guest, guest.farewell)
            elif guest.exiting:
                if not guest.running:
                    self._leave(guest)
            elif guest.queue and guest.running < guest.concurrency:
                guest.running += 1
                return guest.queue.pop(0)
        return None

    def _discard(self, guest: Guest, spec: TaskSpec, result: Result) -> None:
        """Drop the result of a killed actor's call."""
        for index, value in enumerate(result[0], 1):
            if type(value) is StoredValue:
                self.worker.client.say(AbandonObject(return_id(spec.task_id, index)))
        self.worker.done_with(spec)
        self._runs_no_more(guest)

    # --- ends ---

    def leave_when_idle(self, guest: Guest, error: BaseException) -> None:
        """End an actor at the request of a task or callback beside its calls, after the running calls."""
        with self.worker.lock:
            self._begin_to_leave(guest, guest.left_by(error))

    def end_by_crash(self, guest: Guest, how: str) -> None:
        """End an actor at once for an exit of its code beside its calls."""
        with self.worker.lock:
            if not guest.is_gone:
                self._gone(guest, f"{how}, and its process goes on")
        self.worker.arm()

    def _begin_to_leave(self, guest: Guest, reason: str) -> None:
        """No call begins any more.  With the lock held."""
        if guest.exiting:
            return
        guest.farewell = guest.exiting = reason
        if not guest.running:
            self._leave(guest)
        else:
            patience = threading.Timer(LAST_CALLS_SECONDS, self._leave, (guest,))
            patience.daemon = True
            patience.start()

    def _leave(self, guest: Guest) -> None:
        """Have the actor's shutdown code run, and then its end said."""
        with self.worker.lock:
            self._give(guest, None)

    def _shut_down(self, guest: Guest) -> None:
        """End an actor in order; drop the instance of one that was killed, once no call of it runs."""
        if guest.has_shutdown and not guest.is_gone:
            guest.has_shutdown = False
            watchdog = self.limit_shutdown(guest)
            returned = call_shutdown(guest.instance)
            if inspect.iscoroutine(returned):
                returned.close()
                print(f"{guest.in_words}: {METHOD} is async, but the actor is not: it was not run.", file=sys.stderr)
            guest.let_go()
            watchdog.cancel()
        elif not guest.running:
            guest.let_go()
        self.left(guest)

    def limit_shutdown(self, guest: Guest) -> threading.Timer:
        """Start the time of an actor's shutdown code."""

        def end_late() -> None:
            said = f"{METHOD} or __del__ has not ended after {SHUTDOWN_SECONDS:g} s: the actor ends without it."
            print(f"{guest.in_words}: {said}", file=sys.stderr)
            self.left(guest)

        self.worker.flush()  # nobody waits longer for the results that are there
        watchdog = threading.Timer(SHUTDOWN_SECONDS, end_late)
        watchdog.daemon = True
        watchdog.start()
        return watchdog

    def left(self, guest: Guest) -> None:
        """Say the end of an actor that ends in order, once."""
        worker = self.worker
        with worker.lock:
            if guest.is_gone:
                return
            if guest.farewell:
                worker.client.later.append(ActorExited(guest.actor_id, guest.farewell))
            self._gone(guest, IN_ORDER, at_once=True)
        worker.arm()

    def _gone(self, guest: Guest, cause: str, *, at_once: bool = False) -> None:
        """Have an actor's calls count for nothing.  With the lock held.

        at_once: its end is said now, also while calls run.  Otherwise it is said behind them: what they would write, a
        new run of the actor in this process might be writing too.
        """
        guest.is_gone, guest.cause, guest.unclaimed = True, cause, len(guest.queue)
        for spec in guest.queue:
            self.worker.done_with(spec)
        guest.queue.clear()
        if self.loop is not None and guest.options.is_async:
            self.loop.cancel_all(guest)
        if at_once or not guest.running:
            self._say_end(guest)
        else:
            patience = threading.Timer(KILLED_SECONDS, self._ends_late, (guest,))
            patience.daemon = True
            patience.start()
        if not guest.running and guest.instance is not None:
            self._give(guest, None)  # the instance is dropped without the lock

    def _runs_no_more(self, guest: Guest) -> None:
        """Note the end of a call of an actor that is gone.  With the lock held."""
        if not guest.running:
            self._say_end(guest)
            self._give(guest, None)

    def _ends_late(self, guest: Guest) -> None:
        with self.worker.lock:
            self._say_end(guest)
        self.worker.arm()

    def _say_end(self, guest: Guest) -> None:
        """Say an actor's end, once, behind all results.  With the lock held."""
        if self.guests.get(guest.actor_id) is guest:
            del self.guests[guest.actor_id]
            said = ActorEnded(guest.actor_id, guest.cause, guest.unclaimed, guest.running > 0)
            self.worker.client.later.append(said)

    # --- as `Worker.actor` ---

    def of(self, spec: TaskSpec) -> Guest | None:
        """Return the actor that runs a call or a constructor."""
        return self.guests.get(parse_options(spec.options).actor_id or spec.task_id)

    def note_exit(self) -> None:
        """Note a call of exit_actor(): the actor ends after this call, even if user code catches the exception."""
        call = current_call.get()
        if call is None or (guest := self.of(call.spec)) is None:
            return
        if not guest.options.is_async or (self.loop is not None and self.loop.is_own(call.spec)):
            self.leavers.add(call.spec.task_id)

    def label(self) -> str:
        """Return no label: the lines of all actors are those of their process."""
        return ""

    def running_call(self) -> TaskSpec | None:
        """Return None: the title of the process names no call."""
        return None

    def look_around(self) -> None:
        """Look for ended calls of the loop, in the worker's helper thread, now and then."""
        if self.loop is not None:
            self.loop.look()
