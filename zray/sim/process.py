"""Simulated drivers and workers: the production client and task executor around scripts.

A process has one thread: a stack of activations, the top one runs.  A process is busy (`is_busy`: arrivals wait),
blocked (arrivals are handled, nested tasks run on top), or idle.  Refs are counted by hand: each activation owns the
ids of its refs, once per ref, and drops them at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from ..ids import children_prefix, root_task_id
from ..roles.client import BUFFERED_COUNT_MAX, Client
from ..roles.role import handlers_of, on
from ..roles.task_executor import TaskExecutor
from ..wire.output import FlushOutput, OutputFlushed
from ..wire.reasons import ASKED_MAX, Explain, ExplainReply
from ..wire.task_spec import GivenItems, StoredValue, TaskSpec
from ..wire.tasks import LeaveGenerator
from .language import Stream
from .network import Connection
from .requests import ANSWER
from .values import RemoteError, decode, decode_failure, is_error

if TYPE_CHECKING:
    from .node import Node
    from .simulator import Simulator

# A process that has waited this long asks why.
CURIOUS_SECONDS = 5e-4
# A buffer is sent at the latest this long after its first message.
FLUSH_SECONDS = 1e-3


class Activation:
    """A running script: a task, a call, a constructor, or a driver's program."""

    def __init__(self, task_id: bytes) -> None:
        self.task_id = task_id
        self.prefix = children_prefix(task_id)
        self.children = 0
        self.puts = 0
        self.items = 0  # that it has yielded, of a generator
        self.closed_at: int | None = None  # a generator was closed behind so many
        self.streams: list[Stream] = []  # generators that it draws from
        self.refs: list[bytes] = []  # an entry per owned ref
        self.views: list[bytes] = []  # an entry per owned array
        self.body: Generator[Any, Any, Any]
        self.answer: Any = None
        self.failure: Exception | None = None
        self.is_over: Any = None  # while blocked: a function that tells when to resume
        self.resume: Any = None  # and a function that returns the answer
        self.spec: TaskSpec | None = None
        self.is_save = False  # of an actor's state
        self.begun_at = 0.0
        self.gpus: list[str] | None = None  # assigned by the node
        self.gpu_amount = 0

    def next_child(self) -> bytes:
        """Return the id of the next submitted task."""
        self.children += 1
        return self.prefix + self.children.to_bytes(6, "big")


class Process:
    """The base of drivers and workers."""

    kind = ""
    actor_id = b""  # of a worker, once it runs an actor
    is_host = False  # a worker that runs hosted actors
    life = ""  # the incarnation of the actor that runs
    actor_gpus: Activation | None = None  # the holder of the actor's GPUs

    def __init__(self, world: Simulator, node: Node, address: str, pid: int) -> None:
        self.world = world
        self.handlers = handlers_of(self)
        self.node = node
        self.address = address
        self.pid = pid
        self.connection: Connection
        self.client = Client(deque(), deque())
        self.executor = TaskExecutor()
        self.client.is_argument = self.executor.arguments.__contains__
        self.published: set[bytes] = set()  # membership only
        self.again: dict[bytes, GivenItems] = {}  # generators that run again: items that are not made again
        self.stack: list[Activation] = []
        self.inbox: deque[Any] = deque()
        self.is_busy = False
        self.is_alive = True
        self.flush_is_due = False
        self.slowness = world.faults.draw_slowness()
        self.kept: list[bytes] = []  # refs beyond any activation: an actor's
        self.actor_id = b""
        self.questions = 0  # about missing objects
        self.answers = 0
        self.runs = 0
        self.has_all_output = False
        self.bundles: list[bytes] = []  # a driver's, published

    # --- arrivals ---

    def receive(self, messages: Any) -> None:
        """A frame."""
        if self.is_alive:
            for message in messages:
                self.world.trace.message(self.world.now, self.node.name, self.address, message)
            self.inbox.extend(messages)
            if not self.is_busy:
                self.run()

    def read(self) -> None:
        """Handle the arrived messages."""
        while self.inbox:
            message = self.inbox.popleft()
            handler = self.handlers.get(type(message))
            if handler is not None:
                handler(message)
            else:
                self.client.handle(message)

    @property
    def inline_bytes_max(self) -> int:
        """The limit of values in messages."""
        told = self.client.inline_bytes_max
        return self.world.options.inline_bytes_max if told is None else told

    # --- running ---

    def run(self) -> None:
        """Run as far as possible without passing time."""
        while self.is_alive and not self.is_busy:
            self.read()
            if self.is_behind():
                break
            top = self.stack[-1] if self.stack else None
            if top is None:
                if not self.next_task():
                    break
            elif not self.step(top) and not self.next_nested():
                break
        if self.is_alive and not self.is_busy:
            self.flush()
        if self.is_alive:
            self.world.checkers.after_run(self)

    def is_behind(self) -> bool:
        """Return whether too much is in flight to say more, as Runtime.wait_for_room does."""
        return bool(self.connection.ends[self.address].link.is_full)

    def step(self, top: Activation) -> bool:
        """Advance a script, or resume it after its wait.  False: it waits."""
        if top.is_over is None:
            self._advance(top)
            return True
        if not top.is_over():
            return False
        resume, top.is_over, top.resume = top.resume, None, None
        try:
            top.answer = resume()
        except RemoteError as error:
            top.failure = error
        return True

    def served(self) -> Iterable[bytes]:
        """Return the actors of this process."""
        return (self.actor_id,) if self.actor_id else ()

    def next_task(self) -> bool:
        """Begin something."""
        return False

    def next_nested(self) -> bool:
        """Begin something inside a wait."""
        return False

    def waits_for_draws(self, top: Activation, then: Callable[[], None]) -> bool:
        """Have a generator wait until one more item may be made, and go on with `then`; return whether it waits."""
        return False

    def closes(self, top: Activation) -> bool:
        """Return whether a generator is closed at this item."""
        return False

    def _advance(self, top: Activation) -> None:
        """Advance the script on top by a step."""
        answer, top.answer = top.answer, None
        failure, top.failure = top.failure, None
        try:
            request = top.body.throw(failure) if failure is not None else top.body.send(answer)
        except StopIteration as end:
            assert self.stack.pop() is top
            self.ended(top, end.value)
            return
        ANSWER[type(request)](self, top, request)
        client = self.client
        if client.buffered >= BUFFERED_COUNT_MAX:
            self.flush()
        elif client.buffered and not self.flush_is_due:
            self.flush_is_due = True
            self.world.call_later(FLUSH_SECONDS, self._flush_is_due)

    def ended(self, top: Activation, result: Any) -> None:
        """Handle the return of a script."""

    def throw_nested_out(self) -> None:
        """Return tasks sent into a wait that ends."""
        for object_id in self.executor.throw_nested_out():
            self.client.place_unused(object_id)

    def busy(self, seconds: float) -> None:
        """Do nothing else for so many seconds."""
        self.is_busy = True
        self.world.call_later(seconds * self.slowness * self.node.drag, self._busy_no_more)

    def _busy_no_more(self) -> None:
        if self.is_alive:
            self.is_busy = False
            self.run()

    # --- saying ---

    def flush(self) -> None:
        """Send all pending messages, in one frame."""
        messages = self.client.take_messages(self.executor.take_messages())
        if messages:
            self.connection.send(self.address, messages)

    def _flush_is_due(self) -> None:
        # In production a helper thread does this while the user's code computes.
        self.flush_is_due = False
        if self.is_alive:
            self.flush()

    def let_go(self, activation: Activation) -> None:
        """Drop all refs that the activation still owns, and its generators."""
        for stream in activation.streams:
            self.leave_stream(stream)
        activation.streams.clear()
        self.client.released.extend(activation.refs)
        activation.refs.clear()
        self.client.unread.extend(activation.views)
        activation.views.clear()

    def leave_stream(self, stream: Stream) -> None:
        """Draw no more from a generator."""
        count = self.client.leave_stream(stream.task_id, stream.drawn)
        assert count is not None
        self.client.say(LeaveGenerator(stream.task_id, count))

    def die(self) -> None:
        """Die at once."""
        self.is_alive = False
        self.stack.clear()

    # --- values ---

    def read_value(self, activation: Activation, value: bytes | StoredValue) -> Any:
        """The value; the refs inside are the activation's from now on."""
        decoded, found = decode(self.bytes_of(value))
        for object_id in found:
            self.client.hold(object_id)
            activation.refs.append(object_id)
        return decoded

    def bytes_of(self, value: bytes | StoredValue) -> bytes:
        """Return the present bytes of a value."""
        if type(value) is StoredValue:
            return self.node.arena.read(value.segment, value.offset, value.size)
        assert isinstance(value, bytes)
        return value

    def value_of(self, activation: Activation, object_id: bytes) -> Any:
        """Return the value of a present object.  Raises RemoteError."""
        value = self.client.values[object_id]
        self.world.checkers.is_read(object_id, self.bytes_of(value), self.address)
        if type(value) is bytes and is_error(value):
            raise RemoteError(decode_failure(value))
        return self.read_value(activation, value)

    def block(self, top: Activation, is_over: Any, resume: Any) -> None:
        """The script on top stops until `is_over()`, and is answered `resume()`."""
        top.is_over, top.resume = is_over, resume
        if self.world.options.curious and top.refs:
            self.world.call_later(CURIOUS_SECONDS, self._ask_why, top, is_over, 10 * CURIOUS_SECONDS)

    def _ask_why(self, top: Activation, is_over: Any, again: float) -> None:
        """Ask why a wait lasts, while it lasts: there must be some answer."""
        if self.is_alive and not self.is_busy and top.is_over is is_over and top in self.stack:
            self.questions += 1
            self.client.say(Explain(self.questions, top.refs[-ASKED_MAX:]))
            self.flush()
            self.world.call_later(again, self._ask_why, top, is_over, 10 * again)

    @on(ExplainReply)
    def _on_explained(self, message: ExplainReply) -> None:
        self.answers += 1
        assert message.lines, "an answer that says nothing"

    @on(OutputFlushed)
    def _on_output_flushed(self, message: OutputFlushed) -> None:
        self.has_all_output = True

    def leave_after(self, top: Activation) -> None:
        """exit_actor()."""
        raise AssertionError("only an actor can leave")


class Driver(Process):
    """A user's program."""

    kind = "driver"

    def __init__(
        self, world: Simulator, node: Node, address: str, pid: int, job_id: bytes, program: Any, args: Any
    ) -> None:
        super().__init__(world, node, address, pid)
        self.job_id = job_id
        self.program = program
        self.args = args
        self.is_done = False
        self.result: Any = None
        self.slowness = 1.0

    def start(self) -> None:
        """Begin the program."""
        if not self.is_alive:
            return
        top = Activation(root_task_id(self.job_id))
        top.body = self._body()
        self.stack.append(top)
        self.run()

    def ask_for_output(self) -> None:
        """Ask for all output."""
        self.client.say(FlushOutput(self.job_id))
        self.flush()

    def _body(self) -> Generator[Any, Any, Any]:
        return (yield from self.program(*self.args))

    def ended(self, top: Activation, result: Any) -> None:
        self.result = result
        self.is_done = True
        self.let_go(top)
