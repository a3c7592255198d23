"""A worker process: begins tasks one by one, within its claim window, and reports the outcomes.

The main thread runs user code.  While blocked in `get` or `wait`, it receives messages, and runs nested tasks from the
node.  Results leave when the queue is empty, after half a millisecond if the rest of the queue takes longer than that,
or through the helper thread while a long task runs.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import posix_ipc

from ...ids import SALT_BYTES, child_path, is_child, return_id, root_task_id, stray_task_id, unrepeated_id
from ...ray_names import ray_imports
from ...roles.client import BUFFERED_COUNT_MAX
from ...roles.kept import Latest
from ...roles.task_executor import TaskExecutor
from ...store import unpickling
from ...store.arguments import deserialize_arguments
from ...store.errors import deserialize_error
from ...store.values import deserialize, deserialize_writable, is_error, serialize
from ...version import __version__
from ...wire import actors, tasks
from ...wire import session as session_wire
from ...wire.message import PROTOCOL_VERSION, Message
from ...wire.task_spec import GivenItems, StoredValue, TaskSpec, parse_options
from ..client.array_origins import Origins
from ..client.connection import Connection
from ..client.event_log import Kind, event_log
from ..client.recursion_guard import as_deep_as_any
from ..client.runtime import Runtime
from ..client.task_context import Call, Submitter, current_call
from ..code.pinned_imports import PinnedFinder
from ..links.compatibility import python_version
from ..output.task_index import TaskIndex
from ..output.truncation import LogRoom
from ..output.worker_output import begun_lines
from ..process import visible_gpus
from ..process.math_threads import threads
from ..process.titles import WorkerTitle
from ..session.session import Session
from .background_waits import Aside
from .cancelling import Cancelling
from .code_changes import CodeChanges
from .environment_variables import set_env_vars
from .exit import Parting, leave
from .failures import failure
from .function_loading import function_of
from .outcomes import several
from .run_queue_delay import CoreWaits

if TYPE_CHECKING:
    from ..code.download import CodeTaker

TASK = int(Kind.TASK)
# Results wait no longer than this for company, or about twice as long if the queue is empty by then.
RESULT_SECONDS = 0.0005
# Limit of an actor's methods known to be brief; each call may have options of its own.
BRIEF_MAX = 1_000
# Longer runs are checked for waits for a core; shorter ones change no plan.
ODD_SECONDS = 0.001


class Leave(SystemExit):
    """Unwinds the main thread when the worker is to stop."""


class Worker(Runtime):
    """The runtime of a worker process, with a queue of tasks."""

    def __init__(self, session: Session, worker: str, worker_id: int, node_pidfd: int) -> None:
        self.window = posix_ipc.Semaphore(session.window_name(worker_id))
        self.claim: Callable[[float], None] = self.window.acquire
        connection = Connection(session.address, node_pidfd)
        hello = session_wire.Hello(
            PROTOCOL_VERSION, __version__, "worker", os.getpid(), worker_id=worker_id, python=python_version()
        )
        self.executor = TaskExecutor()
        self.orders: list[Message] = []  # StartActor, StopWorker: the main loop's to act upon
        welcome, early = connection.join(hello)
        root = Submitter(stray_task_id(welcome.node_id, worker_id))
        super().__init__(connection, welcome.session, welcome.inline_bytes_max, root, session.folder)
        self.is_worker = True
        self.events = event_log(self.session, f"worker {worker_id}", self.name_of)
        self.client.is_argument = self.executor.arguments.__contains__
        self.paths, self.worker_id = session, worker_id
        self.worker_name = worker
        self.pid = os.getpid()
        self.node_id = welcome.node_id
        unpickling.node = welcome.node_id.hex()
        self.on_other = self._on_order
        begun_lines.on_written = self._note_output
        begun_lines.new_name = self._new_name
        self.printed_by = b""  # the task that printed last
        self.more_messages = self.executor.take_messages
        self.functions: dict[bytes, Callable[..., Any]] = {}
        self.origins = Origins(self)
        self.fitted = b""  # options of the last task, whose CPUs set the libraries' threads
        self.time_limit = 0.0  # of tasks with these options, in seconds; 0: none
        self.calls: Counter[bytes] = Counter()  # of functions with max_calls
        self.parting: Parting | None = None  # this process ends after the task in hand
        self.call: Call | None = None  # the call in the main thread and in threads started by the call
        self.ended_spec: TaskSpec | None = None  # the last task that has ended
        self.first_submit = threading.Lock()  # several threads of a task may be its first to submit
        self.main_thread = threading.get_ident()
        self.sent_at = 0.0
        self.clock = 0.0  # read a moment ago, at the end of a task; 0.0: not
        # The actor's brief methods, by the options of their calls.
        self.brief: Latest[bytes, None] = Latest(BRIEF_MAX)
        self.aside = Aside(self)
        self.cancelling = Cancelling(self)
        self.title = WorkerTitle(self)
        log = session.worker_log_path(worker_id, self.pid)
        self.log_room = LogRoom(log)
        self.task_index = TaskIndex(log)
        self.core_waits = CoreWaits()  # of the main thread, which constructs the worker
        self.drawn: dict[bytes, int] = {}  # generators with `max_buffered` that run here -> items that were drawn
        # Generators that are to run here again -> items that are not made again, and items that were drawn.
        self.again: dict[bytes, tuple[GivenItems, int]] = {}
        self.said_goodbye = False  # and the node has acknowledged
        self.actor: Any = None  # an actors.ActorHost, once this worker runs an actor
        self.hosting: Any = None  # a Hosting, which is `actor` too, once this worker runs hosted actors
        self.code: CodeTaker | None = None  # where files are to be brought
        self.has_new_code = False  # to be taken before the next function or argument is unpickled
        self.code_changes = CodeChanges(self)
        with self.lock:
            self._handle(early)
        self.begin()

    def _note_output(self) -> None:
        """Note the output at the end of a task that has printed.  An actor's calls belong together."""
        if self.call is None and self.actor is None and os.getpid() == self.pid:
            self.paths.note_output(self.worker_id, self.pid)

    def _new_name(self) -> str:
        """Return the name of the printing task; "": the same call as before, none, or an actor without a label."""
        call = self.call
        printing = call or current_call.get()
        if printing is not None and self.task_index.is_due(spec := printing.spec):
            actor = self.actor.of(spec) if self.actor is not None else None
            self.task_index.note(spec, self.name_of(spec), actor)
        if call is None or call.spec.task_id is self.printed_by:
            return ""
        self.printed_by = call.spec.task_id
        return self.name_of(call.spec) if self.actor is None else self.actor.label()

    # --- orders ---

    def _on_order(self, message: Message) -> None:
        """Handle a message from the node.  With the lock held."""
        kind = type(message)
        if kind is tasks.StartTasks and self.cancelling.cancelled:
            self.cancelling.begin_anew(message.specs)  # type: ignore[attr-defined]
        if kind is tasks.StartTasks and self.hosting is not None:
            self.hosting.on_start_tasks(message)  # type: ignore[arg-type]
        elif kind is tasks.StartTasks:
            for argument in message.arguments:  # type: ignore[attr-defined]
                if type(argument.value) is StoredValue:
                    self.client.place_told(argument.object_id)
            self.executor.on_start_tasks(message)  # type: ignore[arg-type]
            if self.client.left and message.nested:  # type: ignore[attr-defined]
                self.throw_nested_out()
            for task_id, given, drawn in message.again:  # type: ignore[attr-defined]
                self.again[task_id] = given, drawn
            if message.gpus is not None and not message.nested:  # type: ignore[attr-defined]
                visible_gpus.show(message.gpus)  # type: ignore[attr-defined]
            if self.executor.forgotten:
                for function_id in self.executor.take_forgotten():
                    self.functions.pop(function_id, None)
        elif kind is tasks.JobStarted:
            self._join_job(message)  # type: ignore[arg-type]
        elif kind is tasks.InterruptTask:
            self.cancelling.told(message.task_id, message.items)  # type: ignore[attr-defined]
        elif kind is tasks.ItemsDrawn:
            self._drew(message.task_id, message.count)  # type: ignore[attr-defined]
        elif kind is session_wire.GoodbyeReply:
            self.said_goodbye = True
        elif kind is actors.EndActor:
            self.hosting.on_end_actor(message)
        elif kind is actors.StartActor and message.options.hosted:  # type: ignore[attr-defined]
            self._host(message)  # type: ignore[arg-type]
        else:
            self.orders.append(message)

    def _drew(self, task_id: bytes, count: int) -> None:
        if task_id in self.again:  # it has not begun
            self.again[task_id] = self.again[task_id][0], count
        elif task_id in self.drawn:  # else it has ended
            self.drawn[task_id] = count

    def _host(self, order: actors.StartActor) -> None:
        """Begin a hosted actor, and with the first one a process for them.  With the lock held."""
        if self.hosting is None:
            from .hosting import Hosting

            self.actor = self.hosting = Hosting(self)
            self.orders.append(order)
        self.hosting.on_start_actor(order)

    def _join_job(self, message: tasks.JobStarted) -> None:
        before, facts = self.facts, message.facts
        self.facts, self.environment = facts, message.environment
        is_elsewhere = bool(facts.home) and facts.home.partition("/")[0] != self.node_id.hex()
        if is_elsewhere or message.environment.parcels:
            if self.code is None:
                from ..code.download import CodeTaker

                self.code = CodeTaker(self, is_elsewhere=is_elsewhere)
            self.has_new_code = self.code.has_new(facts)
        if self.job_id:
            self.code_changes.told(before, message)
            return
        self.job_id, self.namespace = message.job_id, facts.namespace
        env_vars = (*facts.env_vars, *message.environment.env_vars)
        set_env_vars(env_vars)
        threads.user_has_set(name for name, _ in env_vars)
        if facts.as_ray:
            ray_imports.install(self)
        self.paths.show_log(message.job_id, self.worker_id, self.pid)
        self.code_changes.show_path(facts.sys_path)
        if self.code is None:
            PinnedFinder(self.paths.job_sources(message.job_id)).install()
        try:
            os.chdir(facts.working_dir)
        except OSError:
            pass  # the driver's folder is gone: absolute paths still work

    def submitter(self) -> Submitter:
        """Return the task that this thread runs, or that started the thread."""
        call = current_call.get() or self.call
        if call is None:
            return self.root
        if call.submitter is None:
            with self.first_submit:
                if call.submitter is None:
                    spec = call.spec
                    actor = self.actor.of(spec) if self.actor is not None else None
                    actor_id = actor.actor_id if actor is not None else b""
                    where = actor.options.where if actor is not None else parse_options(spec.options).where
                    call.submitter = Submitter(spec.task_id, self.name_of(spec), actor_id, where, self.path_of(spec))
        return call.submitter

    def running_task_id(self) -> bytes:
        call = current_call.get() or self.call
        return self.root.task_id if call is None else call.spec.task_id

    def path_of(self, spec: TaskSpec) -> bytes:
        """Return the path of a task in a job with a seed; b"" otherwise, or if another job's driver submitted
        the task.
        """
        if self.facts.seed is None or spec.path:
            return spec.path
        return child_path(b"", spec.task_id) if is_child(spec.task_id, root_task_id(self.job_id)) else b""

    def refuse_blocking(self) -> None:
        if self.hosting is not None:
            self.hosting.refuse_blocking()

    def check_cancelled(self) -> None:
        if self.cancelling.cancelled and self.call is not None and self.actor is None:
            if threading.get_ident() == self.main_thread:
                self.cancelling.check(self.call.spec)

    def blocks(self) -> bool:
        """Return whether a wait of this thread stops the worker."""
        if threading.get_ident() != self.main_thread or (self.code is not None and self.code.is_fetching):
            return False
        return self.actor is None or bool(self.actor.is_serial)

    def look_around(self) -> None:
        super().look_around()
        self.log_room.look()
        self.aside.look()
        self._look_at_window()
        self.title.look()
        if self.actor is not None:
            self.actor.look_around()

    def name_of(self, spec: TaskSpec) -> str:
        """Return a task's name, for the user."""
        options = parse_options(spec.options)
        function = self.executor.functions.get(spec.function_id)
        return options.name or options.method or (function.name if function is not None else spec.function_id.hex())

    # --- the loop ---

    def run(self) -> None:
        """Run until told to stop."""
        executor = self.executor
        queue = executor.queue
        while True:
            if queue:
                self.run_next()
                continue
            with self.lock:
                if self.aside.request:
                    self.aside.end()
                self.send_buffered()
            if queue:
                continue
            if self.orders:
                self._obey(self.orders.pop(0))
                continue
            self.wait_for_room()
            self.receive_until(lambda: bool(queue or self.orders), None)
            self.sent_at = time.perf_counter()  # the first of many is not sent by itself

    def _obey(self, order: Message) -> None:
        if type(order) is tasks.StopWorker:
            if self.actor is not None:
                self.actor.stop()
            raise Leave(0)
        if type(order) is tasks.JobStarted:
            self.code_changes.leave_if_told()
        if type(order) is actors.StartActor and order.options.hosted:
            self.hosting.run()
        elif type(order) is actors.StartActor:
            from .actor_runner import ActorHost

            if order.gpus is not None:
                self.executor.gpus = order.gpus
                visible_gpus.show(order.gpus)
            self.actor = ActorHost(self, order)
            self.actor.start()

    def run_next(self) -> None:
        """Begin the task at the head of the queue, if the window lets us."""
        executor = self.executor
        try:
            self.claim(0)
        except posix_ipc.BusyError:
            with self.lock:
                self.throw_out()
            return
        with self.lock:
            spec = executor.begun = executor.queue.popleft()
        if spec.deps and not executor.has_arguments(spec):
            with self.lock:
                self.give_back(spec)
            return
        self.run_task(spec)
        if self.parting is not None:
            leave(self, self.parting.reason, status=self.parting.status)
        self.send_results_soon()

    def throw_out(self, count: int = 0) -> None:
        """Drop what the node has reclaimed: the queue but for its first `count` tasks.  With the lock held."""
        for object_id in self.executor.throw_out(count):
            self.client.place_unused(object_id)

    def give_back(self, spec: TaskSpec) -> None:
        """Return a task without one of its arguments to the node.  With the lock held."""
        self.executor.give_back(spec)
        self.done_with(spec)

    def done_with(self, spec: TaskSpec) -> None:
        """Drop a task's use of its arguments.  With the lock held."""
        for object_id in self.executor.done_with(spec):
            self.client.place_unused(object_id)

    def _look_at_window(self) -> None:
        """Drop reclaimed tasks while a task runs, in the helper thread: their arguments would stay in the store."""
        with self.lock:
            # The main thread claims no task as long as one runs, and a task ends with the lock held.
            if self.executor.queue and self.call is not None and self.actor is None:
                self.throw_out(self.window.value)
                self.send_buffered()

    def send_results_soon(self) -> None:
        """Send results at once if they have waited long enough, or if the next task may take long or end the process.

        The loop sends the last of the queue; in other cases the helper sends.  Where more tasks have ended than are
        queued, those take no longer than these did: one frame is enough for the results of both.
        """
        queue = self.executor.queue
        if not queue:
            return
        now, self.clock = self.clock or time.perf_counter(), 0.0
        is_late = now - self.sent_at > RESULT_SECONDS and len(queue) > len(self.executor.results)
        if is_late or not self.is_brief(queue[0]):
            self.sent_at = now
            self.flush()
            self.wait_for_room()
        elif not self.is_armed:
            self.arm()

    def ended(self, spec: TaskSpec, took: float) -> None:
        """Note the duration of an actor's call, as the duration of its method."""
        if took < RESULT_SECONDS:
            self.brief[spec.options] = None
        else:
            self.brief.pop(spec.options, None)

    def is_brief(self, spec: TaskSpec) -> bool:
        """Return whether the function or method has ended here before, in less time than results may wait."""
        mean = self.executor.means.get(spec.function_id)
        return mean.us < RESULT_SECONDS * 1e6 if mean is not None else spec.options in self.brief

    def run_task(self, spec: TaskSpec) -> None:
        """Run a task, and note the outcome."""
        outer = self.call
        call = self.call = Call(spec, outer)
        if spec.options != self.fitted:
            self.take_options(spec)
        if self.time_limit:
            call.limit = self.cancelling.limit(spec, self.time_limit)
        began = time.perf_counter()
        read = 0.0
        wants_retry = False
        value = None  # lives until noted: its refs keep their objects alive
        try:
            function = self.functions.get(spec.function_id) or function_of(self, spec.function_id)
            args, kwargs = self.arguments_of(spec)
            read = time.perf_counter() if spec.deps else began  # what has none has them at once
            value = function(*args, **kwargs)
            del args, kwargs
            end = time.perf_counter()
            options = parse_options(spec.options)
            if options.has_plain_return:
                serialized = serialize(value)
                if serialized.size <= self.inline_bytes_max and not serialized.buffers:
                    values: list[bytes | StoredValue] = [serialized.inband]
                else:
                    values = [self.store(return_id(spec.task_id, 1), serialized)]
                contained: tuple[tuple[bytes, ...], ...] = (serialized.contained,) if serialized.contained else ()
            else:
                values, contained = several(self, spec, value, options)
                end = time.perf_counter()  # a generator has run only now
        except Leave:
            raise
        except BaseException as error:
            call.is_open = False  # nothing is raised in what follows
            end = time.perf_counter()
            values, contained, wants_retry = failure(self, spec, error)
            value = error  # lives as long, for the same reason
        took = end - began
        if (events := self.events) is not None:
            stored = self.clock = time.perf_counter()
            if call.is_open:
                ran_well = events.ran_well  # a function of one object is called sooner as a local name
                ran_well(spec, began, read, end, stored)
            else:
                failed = value if isinstance(value, BaseException) else None
                events.ran(TASK, spec, began, read, end, stored, failed)
                failed = None
        if spec.options and (max_calls := parse_options(spec.options).max_calls):
            self.calls[spec.function_id] += 1
            if self.calls[spec.function_id] >= max_calls and self.parting is None:
                self.parting = Parting("max_calls")
        call.is_open = False
        if call.limit is not None:
            call.limit.stop()
        if self.cancelling.cancelled:
            self.cancelling.ends(spec, has_returned=not isinstance(value, BaseException))
        self.call = outer
        begun_lines.write_own(ends_bar=True)
        executor = self.executor
        is_odd = took > ODD_SECONDS and executor.is_unlike(spec.function_id, took * 1e6)
        was_held_up = is_odd and self.core_waits.hold_up(took)
        with self.lock:
            if not was_held_up:
                executor.ran_for(spec.function_id, took * 1e6)
            self.note(spec, values, contained, wants_retry=wants_retry)
            self.ended_spec = spec
        value = None  # an error's traceback has this frame, which would keep the error alive

    def take_options(self, spec: TaskSpec) -> None:
        """Set the threads of math libraries to the CPUs of the task, and the time that it may take."""
        self.fitted = spec.options
        options = parse_options(spec.options)
        self.time_limit = options.time_limit
        threads.fit(options.resources)

    def note(
        self, spec: TaskSpec, values: list[Any], contained: tuple[tuple[bytes, ...], ...], *, wants_retry: bool
    ) -> None:
        """Note the outcome of a task, for the next flush.  With the lock held."""
        executor, client = self.executor, self.client
        for object_id in executor.finished(spec, values, contained, wants_retry=wants_retry):
            client.place_told(object_id)
            if object_id not in executor.arguments:
                client.place_unused(object_id)
        if self.writer.found:
            self.writer.drop_found()
        if spec.deps:
            self.done_with(spec)

    def arguments_of(self, spec: TaskSpec) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments, refs resolved.

        Raises:
            the error in an argument's place.
        """
        if self.cancelling.cancelled:
            self.cancelling.check(spec, has_begun=False)
        if self.has_new_code:
            self.code_changes.take()
        if not spec.deps:
            return deserialize_arguments(spec.args, ())
        resolved = []
        writable = bool(spec.options) and parse_options(spec.options).writable
        for index, value in enumerate(self.executor.begin(spec)):
            if type(value) is StoredValue:
                origin = "" if writable else self.origins.of_argument(spec, index)
                resolved.append(self.read_stored(spec.deps[index], value, writable=writable, origin=origin))
            elif is_error(value):
                raise deserialize_error(value)
            else:
                resolved.append(deserialize_writable(value) if writable else deserialize(value))
        return deserialize_arguments(spec.args, resolved)

    # --- items of generators ---

    def say_item(self, task_id: bytes, number: int, value: bytes | StoredValue, contained: tuple[bytes, ...]) -> bool:
        """Buffer an item of a generator.  Returns whether the buffer is full."""
        with self.lock:
            self.client.say_item(task_id, number, value, contained)
            if self.writer.found:
                self.writer.drop_found()
            return self.client.buffered >= BUFFERED_COUNT_MAX

    def unrepeated(self, task_id: bytes) -> bytes:
        """Return the id of a generator that this process is about to submit.

        Items that the process has drawn are freed.  So a further run of its task submits a generator of its own, and
        does not find this one.  The replay of an actor's call log has to submit the same tasks.
        """
        if getattr(self.actor, "recovery", None) is not None:
            return task_id
        return unrepeated_id(task_id, os.urandom(SALT_BYTES))

    def wait_for_draws(self, task_id: bytes, count: int) -> None:
        """Wait until so many items of a generator were drawn.  Its CPU is lent meanwhile, and its time stops."""

        def are_drawn() -> bool:
            # Not there: its run has ended.  A cancelled one makes only what it has made before.
            return self.drawn.get(task_id, count) >= count or task_id in self.cancelling.cancelled

        if are_drawn():
            return
        self.flush()
        limit = self.call.limit if self.call is not None else None
        if limit is not None:
            limit.stop()
        self.waiting.for_word(return_id(task_id, 1), are_drawn)
        if limit is not None:
            limit.start()

    # --- nested ---

    def receive_until(self, is_done: Callable[[], bool], deadline: float | None) -> bool:
        """Receive as the base class does; in the thread that runs tasks, also run nested tasks from the node."""
        nested = self.executor.nested
        if threading.get_ident() != self.main_thread:
            return super().receive_until(is_done, deadline)
        while not super().receive_until(lambda: bool(nested) or is_done(), deadline) or nested:
            if not nested or (deadline is not None and time.monotonic() >= deadline):
                return is_done()
            with self.lock:
                spec = self.executor.begun = nested.popleft()
            outer, self.waiting.blocked = self.waiting.blocked, 0  # waits of the nested task may lend the CPU
            with as_deep_as_any(), visible_gpus.shown_inside(self.executor, spec):
                self.run_task(spec)
            if self.call is not None and self.actor is None and self.call.spec.options != self.fitted:
                self.take_options(self.call.spec)
            self.waiting.blocked = outer
            self.flush()
            if self.call is not None and self.cancelling.cancelled:
                self.cancelling.check(self.call.spec)
        return True

    def throw_nested_out(self) -> None:
        for object_id in self.executor.throw_nested_out():
            self.client.place_unused(object_id)
