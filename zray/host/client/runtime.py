"""The blocking side of the client: `get`, `wait`, `put` and `.remote()` in a driver or a worker.

Threads: any may call.  A waiting thread receives; the others wait to be notified.  A helper thread sends the buffers
while all others compute: it sleeps until something is buffered, then looks every millisecond while there is work.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ... import object_ref
from ...exceptions import ClusterLostError, GetTimeoutError, ZrayError
from ...ids import FIRST_RETURN, put_id
from ...object_ref import ObjectRef
from ...roles.client import BUFFERED_COUNT_MAX, HANDLERS, RELEASES_MAX, Client
from ...store.arena import ArenaView
from ...store.errors import deserialize_error
from ...store.layout import Serialized
from ...store.values import deserialize, deserialize_writable, is_error, serialize, to_bytes
from ...wire import actors, scheduling, tasks
from ...wire.codec import can_be_encoded
from ...wire.environment import NO_ENVIRONMENT, Environment
from ...wire.message import Message
from ...wire.task_spec import ActorOptions, StoredValue, TaskSpec
from ...wire.tasks import ItemsDrawn, LeaveGenerator
from .. import context
from ..session.session import SEGMENTS
from . import fork_guard, slow_wait_report, unfetched_failures  # noqa: F401  forks watches over forks
from .array_origins import OF_GET, words_of
from .connection import Connection, Disconnected
from .event_log import EventLog, Kind
from .futures import Futures
from .object_writer import Writer
from .published_code import Published
from .recursion_guard import require_room
from .send_thread import flush_forever
from .task_context import Submitter
from .waiting import Waiting

if TYPE_CHECKING:
    from ...store.metric_page import MetricPage
    from ..code.environment_files import Packer

_page_lock = threading.RLock()  # held while a page is made, perhaps by a finalizer
# Ends of refs that a `get` of present values sends at once; fewer leave about a millisecond later.
RELEASED_AT_GET = 4


class Runtime:
    """The runtime of a process that has joined a session."""

    def __init__(
        self, connection: Connection, session: str, inline_bytes_max: int, root: Submitter, folder: str
    ) -> None:
        """folder: the session's."""
        self.connection = connection
        self.lock = connection.lock
        self.is_inside = connection.is_inside
        self.refuse_in_the_middle = connection.refuse_in_the_middle
        self.session = session
        self.inline_bytes_max = inline_bytes_max
        self.root = root
        self.mark = object()  # key of caches that need not keep this runtime: functions live longer than sessions
        self.unread: deque[bytes] = deque()  # objects whose last array died (appended to by finalizers)
        self.client = Client(object_ref.released, self.unread)
        self.client.on_inline_limit = lambda bytes_max: setattr(self, "inline_bytes_max", bytes_max)
        self.arena = ArenaView(session, os.path.join(folder, SEGMENTS))
        self.published = Published()
        self.condition = threading.Condition()
        self.baton = threading.RLock()  # the thread that has it receives
        self.receiver: int | None = None  # the id of the receiving thread
        self.followers = 0  # threads that wait for the receiver
        self.waiting = Waiting(self)
        self.writer = Writer(self)
        self.futures = Futures(self)
        self.events: EventLog | None = None  # of a driver or a worker
        self.metrics: MetricPage | None = None  # made at the first metric
        self.restored_count = 0  # refs unpickled or copied here
        self.is_worker = False
        self.job_id, self.node_id, self.namespace = b"", b"", ""
        self.environment = NO_ENVIRONMENT  # environment of the running tasks beyond their job's, inherited by children
        self.facts = scheduling.JobFacts()  # the job's
        self.is_over = False
        # Receives every message that is not the client's (a worker's orders).
        self.on_other: Callable[[Message], None] | None = None
        # A worker's results, taken at each flush.
        self.more_messages: Callable[[], Iterable[Message]] | None = None
        self.armed: SimpleQueue[None] = SimpleQueue()  # finalizers put into it, too
        self.is_armed = False
        object_ref.enable_releases()
        object_ref.on_restore = self._restored
        object_ref.on_handed = self.client.unfetched.handed.add
        object_ref.resolve_future = self.futures.future_of
        self._helper = threading.Thread(target=flush_forever, args=(self,), name="zray-flush", daemon=True)

    def begin(self) -> None:
        """Start the helper thread, once all that it looks at exists."""
        self._helper.start()

    # --- sending ---

    def submit(self, spec: TaskSpec, num_returns: int) -> bytes:
        """Buffer a task or a call.  Returns the id of the first return."""
        if self.is_inside():
            first = self.client.submit_later(spec, num_returns)
            self.arm()
            return first
        with self.lock:
            client = self.client
            first = client.submit(spec, num_returns)
            is_full = client.buffered >= BUFFERED_COUNT_MAX
            if is_full:
                self.send_buffered()
        if is_full:
            self.wait_for_room()
        elif not self.is_armed:
            self.arm()
        return first

    def wait_for_room(self, deadline: float | None = None) -> bool:
        """Wait while the node is behind: messages in flight are bounded (backpressure; wire/link.py).

        False: the deadline came first.
        """
        link = self.connection.link
        return not link.is_full or Runtime.receive_until(self, lambda: not link.is_full, deadline)

    def arm(self) -> None:
        """Tell the helper that something is buffered.

        Raises:
            ClusterLostError: the message cannot leave any more.
        """
        if self.connection.over and not self.is_over:
            raise ClusterLostError(self.connection.over)
        if not self.is_armed:
            self.is_armed = True
            self.armed.put(None)

    def say(self, message: Message) -> None:
        """Buffer a message."""
        if self.is_inside():
            self.client.later.append(message)
        else:
            with self.lock:
                self.client.say(message)
        self.arm()

    def send_buffered(self) -> None:
        """Send all buffered messages, in one frame, or several if very many refs have died.  With the lock held."""
        require_room()  # what is taken out of the buffers below must leave
        self._send_some()
        while len(object_ref.released) >= RELEASES_MAX:  # fewer go with what is said next
            self._send_some()

    def _send_some(self) -> None:
        messages = self.client.take_messages(() if self.more_messages is None else self.more_messages())
        if messages:
            if self.events is not None:
                for message in messages:
                    if type(message) is tasks.SubmitTasks:
                        self.events.submitted(message.specs)
            try:
                self.connection.send(messages)
            except (TypeError, ValueError, OverflowError):
                # One message cannot be encoded, which is its caller's mistake; the rest belongs to others, and must
                # leave.
                if sound := list(filter(can_be_encoded, messages)):
                    self.connection.send(sound)
                raise

    def flush(self) -> None:
        """Send all buffered messages now; inside another call, soon after it ends."""
        if self.is_inside():
            self.arm()
            return
        with self.lock:
            self.send_buffered()

    def look_around(self) -> None:
        """Called by the helper now and then (a worker looks at the waits of its threads)."""
        unfetched_failures.tell(self)
        self.hear()

    def hear(self) -> None:
        """Handle what has arrived while the program computes: the node may want places back (ReturnPlaces)."""
        if self.receiver is None and self.baton.acquire(False):
            try:
                while self.connection.receive(time.monotonic(), self._handle):
                    pass
            except ClusterLostError:
                pass  # whoever asks for something next is told
            finally:
                self.baton.release()
                self._tell_followers()

    # --- receiving ---

    def receive_until(self, is_done: Callable[[], bool], deadline: float | None) -> bool:
        """Handle what arrives until `is_done`.  False: the deadline (of time.monotonic) came first.

        Raises:
            ClusterLostError: the node is gone.
        """
        self.refuse_in_the_middle()
        me = threading.get_ident()
        while not is_done():
            if self.receiver == me:  # inside a wait of its own: a task that runs nested, or a signal's handler
                was_asleep = self.connection.is_waiting
                try:
                    return self._receive(is_done, deadline)
                finally:
                    if was_asleep:
                        self.connection.wake()  # what came meanwhile has told nobody but us
            if self.baton.acquire(False):  # also when a handler comes between this line and the next
                self.receiver = me
                try:
                    return self._receive(is_done, deadline)
                finally:
                    self.receiver = None
                    self.baton.release()
                    self._tell_followers()
            if not self._follow(is_done, deadline):
                return False
        return True

    def _receive(self, is_done: Callable[[], bool], deadline: float | None) -> bool:
        receive, link = self.connection.receive, self.connection.link
        try:
            while True:
                seen = link.received  # ahead of the look
                if is_done():
                    return True
                if receive(deadline, self._handle, seen) is None:
                    return is_done()
                if self.followers:
                    self._tell_followers()
        except ClusterLostError:
            self.is_armed = False  # later senders get an error (`arm`)
            raise

    def _tell_followers(self) -> None:
        if self.followers:
            with self.condition:
                self.condition.notify_all()

    def _follow(self, is_done: Callable[[], bool], deadline: float | None) -> bool:
        """Wait for values while another thread receives.  False: the deadline has passed."""
        with self.condition:
            self.followers += 1
            try:
                while not is_done() and self.receiver is not None:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    # Bounded, in case the receiver left between the two looks; a thousand threads look less often.
                    bound = 0.1 * (1 + self.followers // 16)
                    self.condition.wait(min(left, bound) if left is not None else bound)
            finally:
                self.followers -= 1
        return True

    def _handle(self, messages: Iterable[Message]) -> None:
        """Handle received messages.  With the lock held."""
        client = self.client
        for message in messages:
            handler = HANDLERS.get(type(message))
            if handler is not None:
                handler(client, message)
            elif self.on_other is not None:
                self.on_other(message)
        if client.is_urgent:
            client.is_urgent = False
            self.send_buffered()

    def throw_nested_out(self) -> None:
        """Return tasks sent into a wait that ends (a worker's).  With the lock held."""

    def create_actor(self, spec: TaskSpec, options: ActorOptions) -> None:
        """Buffer the creation of an actor; the caller makes its first handle."""
        self.refuse_in_the_middle()
        with self.lock:
            self.client.expect_actor(spec.task_id + FIRST_RETURN)
            self.client.say(actors.CreateActor(spec, options))
        self.arm()

    # --- get ---

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, *, writable: bool = False) -> list[Any]:
        """Return the values, in order; raise the first failure as soon as it arrives."""
        self.refuse_in_the_middle()
        values = self.client.values
        missing = [ref.id for ref in refs if ref.id not in values]
        if self.client.buffered or len(object_ref.released) >= (1 if missing else RELEASED_AT_GET):
            self.flush()
        elif object_ref.released:
            self.arm()  # a loop over items drops one ref a `get`: a frame for each would cost a tenth of the rate
        try:
            if missing:
                if len(missing) < len(refs):
                    self.waiting.raise_failure(ref.id for ref in refs)
                began = self.wait_begins()
                try:
                    self.waiting.for_values(missing, timeout)
                finally:
                    ids = missing if len(missing) == len(refs) else [ref.id for ref in refs]
                    self.note_wait(Kind.GET, began, "get", ids, len(ids))
            if writable:
                return [self.value_of(ref.id, writable=True) for ref in refs]
            # `value_of`, inlined for small values: a get of thousands spends as long here as in waiting.
            return [
                deserialize(value) if type(value := values.get(ref.id)) is bytes else self.value_of(ref.id)
                for ref in refs
            ]
        except ZrayError as error:
            unfetched_failures.asked_for(self, refs, error)
            self.check_cancelled()
            raise

    def check_cancelled(self) -> None:
        """Raise the interrupt of a cancelled task, ahead of failures of its children (overridden by the worker)."""

    def refuse_blocking(self) -> None:
        """Refuse a wait that would never end (overridden by the worker)."""

    def blocks(self) -> bool:
        """Return whether a wait of this thread stops the worker (overridden by the worker)."""
        return False

    def value_of(self, object_id: bytes, *, writable: bool = False) -> Any:
        """Return the value of an object present in this process.

        Raises:
            TaskError and others: the object is an error.
        """
        client = self.client
        while (value := client.values.get(object_id)) is None or type(value) is StoredValue:
            with self.lock:
                is_here = client.values.get(object_id) is value is not None
                if is_here:
                    client.read_begins(object_id)
            if is_here:
                return self._read_place(object_id, value, writable=writable)  # type: ignore[arg-type]
            self.waiting.for_values([object_id], None)  # its place was returned to the node
        if is_error(value):
            self.client.unfetched.heard(object_id, value)  # type: ignore[arg-type]
            raise deserialize_error(value)
        return deserialize_writable(value) if writable else deserialize(value)

    def read_stored(self, object_id: bytes, place: StoredValue, *, writable: bool = False, origin: str = OF_GET) -> Any:
        """Read a large value: its arrays are views that pin the arena, or copies, if writable."""
        self.refuse_in_the_middle()
        with self.lock:
            self.client.read_begins(object_id)
        return self._read_place(object_id, place, writable=writable, origin=origin)

    def _read_place(self, object_id: bytes, place: StoredValue, *, writable: bool, origin: str = OF_GET) -> Any:
        unread = self.unread
        said = "" if writable else words_of(object_id, place.size, origin)
        array = self.arena.read(place.segment, place.offset, place.size, lambda: unread.append(object_id), said)
        return deserialize_writable(array) if writable else deserialize(array)

    def wait(self, ids: list[bytes], count: int, timeout: float | None, fetch: bool) -> Callable[[bytes], bool]:
        """Block until `count` ids are ready, or the time is over.  Returns a predicate for readiness."""
        self.refuse_in_the_middle()
        if self.client.buffered:
            self.flush()
        if timeout == 0.0:  # a look, and no wait
            return self.waiting.until_ready(ids, count, timeout, fetch)
        began = self.wait_begins()
        try:
            return self.waiting.until_ready(ids, count, timeout, fetch)
        finally:
            self.note_wait(Kind.WAIT, began, "wait", ids, count)

    def why_late(self, awaited: Sequence[bytes], timeout: float) -> str:
        """Return the text for the error of an expired wait."""
        return slow_wait_report.why_late(self, awaited, timeout)

    def note_span(self, kind: int, began: float, name: str) -> None:
        """Record what this thread has done since `began` (of time.perf_counter)."""
        if self.events is not None:
            self.events.span(kind, self.running_task_id(), began, name)

    def wait_begins(self) -> float:
        """Return the time at which a wait of this thread begins, and let readers of the records know it."""
        began = time.perf_counter()
        if self.events is not None:
            self.events.waits(began)
        return began

    def note_wait(self, kind: int, began: float, name: str, ids: list[bytes], wanted: int) -> None:
        """Record a wait of this thread since `began`, for so many of the objects."""
        if self.events is not None:
            self.events.waited(kind, self.running_task_id(), began, name, ids, wanted)

    def metric_page(self) -> MetricPage | None:
        """Return the page for metrics of this process, made at the first call.  None: there is no memory for it."""
        if self.metrics is None:
            from ...store.metric_page import MetricPage

            with suppress(OSError), _page_lock:
                if self.metrics is None and not self.is_over:
                    self.metrics = MetricPage(self.session)
        return self.metrics

    def running_task_id(self) -> bytes:
        """Return the id of the task that this thread runs; of a driver: its own."""
        return self.root.task_id

    # --- generators ---

    def unrepeated(self, task_id: bytes) -> bytes:
        """Return the id of a generator that this process is about to submit: a driver is not run again."""
        return task_id

    def draws(self, task_id: bytes) -> None:
        """Note that this process draws the items of a generator that it is about to submit."""
        with self.lock:
            self.client.streams[task_id] = 0

    def items_of(self, task_id: bytes) -> int:
        """Return how many items of a generator of this process have arrived."""
        return self.client.streams.get(task_id, 0)

    def drew(self, task_id: bytes, count: int) -> None:
        """Say that so many items of a generator with `max_buffered` were drawn."""
        self.say(ItemsDrawn(task_id, count))
        self.arm()

    def draws_no_more(self, task_id: bytes, first: int, *, ends: bool) -> None:
        """Let go of a generator, and of its items from number `first` on.  For finalizers too.

        ends: the task is cancelled if it still runs.
        """
        count = None if self.is_over else self.client.leave_stream(task_id, first)
        if count is not None:
            self.say(LeaveGenerator(task_id, count, ends))
            with suppress(ClusterLostError):
                self.arm()

    # --- put ---

    def put(self, value: Any) -> ObjectRef:
        """Store a value."""
        return ObjectRef(self.put_serialized(serialize(value)))

    def put_serialized(self, serialized: Serialized, submitter: Submitter | None = None) -> bytes:
        """Store a serialized value.  The caller wraps the id in a ref, which then counts.

        submitter: owner of the value; None: the running task.
        """
        self.refuse_in_the_middle()
        if serialized.contained:
            context.refuse_strangers(serialized.contained)
        submitter = submitter or self.submitter()
        object_id = put_id(submitter.task_id, submitter.next_put())
        began = time.perf_counter()
        stored = self.store(object_id, serialized)
        made = ""
        if type(stored) is StoredValue:
            made = self.writer.made.pop(object_id, "")
            self.note_span(Kind.PUT, began, "put")
        with self.lock:
            client = self.client
            client.put(object_id, stored, serialized.contained, made)
            is_full = client.buffered >= BUFFERED_COUNT_MAX
            if is_full:
                self.send_buffered()
        if is_full:
            self.wait_for_room()
        elif not self.is_armed:
            self.arm()
        return object_id

    def store(self, object_id: bytes, serialized: Serialized) -> bytes | StoredValue:
        """Return the value as sent in a message: the bytes if small, else the place of the copy in the arena.

        Raises:
            ObjectStoreFullError: there is no space; the text says what fills the store.
        """
        if serialized.size <= self.inline_bytes_max:
            return to_bytes(serialized)
        self.refuse_in_the_middle()
        return self.writer.write(object_id, serialized)

    def _restored(self, object_id: bytes) -> None:
        self.refuse_in_the_middle()
        self.restored_count += 1
        with self.lock:
            self.client.hold(object_id)
        if not self.connection.over:
            self.arm()

    def another_ref(self, object_id: bytes) -> ObjectRef:
        """Return a further ref on an object, counted as such."""
        self._restored(object_id)
        return ObjectRef(object_id)

    @cached_property
    def packer(self) -> Packer:
        """The packer of files of environments."""
        from ..code.environment_files import Packer

        return Packer(self)

    def submitter(self) -> Submitter:
        """Return the task (or driver) for which this thread submits."""
        return self.root

    def check_fields(self, given: dict[str, Any]) -> None:
        """Refuse fields of a runtime_env that this runtime lacks: none."""

    def current_environment(self) -> Environment:
        """Return the environment of the running task, beyond that of its job."""
        return self.environment

    def look_for_code(self, function: Any = None) -> None:
        """Send recently imported code along, in a driver of a cluster, and the code that this function imports."""

    def code_refs(self) -> list[ObjectRef]:
        """Return refs on the job's code that travels."""
        return [self.another_ref(bundle.object_id) for bundle in self.facts.code]

    def publish(self, function: tasks.Function) -> None:
        """Publish a function's code, once.

        Raises:
            ValueError: there are too many.
        """
        if self.published.add(function):
            self.say(tasks.PublishFunction(function))

    def ask(self, build: Callable[[int], Message], timeout: float | None = 10.0) -> Any:
        """Send a question and wait for the reply.

        Raises:
            GetTimeoutError: no reply in time.
        """
        self.refuse_in_the_middle()
        with self.lock:
            request = self.client.expect_reply()
            self.client.say(build(request))
            self.send_buffered()
        replies = self.client.replies
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            if not slow_wait_report.wait_for_answer(self, lambda: replies[request] is not None, deadline):
                raise GetTimeoutError(f"The node did not answer in time.{slow_wait_report.why_late(self, [], 1.0)}")
            return replies[request]
        finally:
            del replies[request]

    def close(self) -> None:
        """Leave the session: nothing more is sent.  Refs that die later die in silence."""
        self.is_over = True
        object_ref.disable_releases()
        object_ref.on_restore = object_ref.on_handed = lambda object_id: None
        object_ref.resolve_future = context.of_ended_session
        self.armed.put(None)
        self.connection.close()
        self.futures.close()
        if self._helper.is_alive() and threading.current_thread() is not self._helper:
            self._helper.join(timeout=1.0)
        self.arena.leave()
        # The rest is in no cycle: it is freed with the last thread that uses it, and not when garbage is collected.
        gone: Any = Disconnected(self.connection)
        self.client = self.waiting = self.writer = self.futures = gone
        events, self.events = self.events, None  # the node copies the ring
        if events is not None:
            events.close()
        if self.metrics is not None:
            self.metrics.close()
        self.on_other = self.more_messages = None
        self.connection.how_node_ended = lambda: ""
