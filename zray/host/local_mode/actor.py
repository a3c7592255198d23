"""An actor of local mode: its instance, its calls in order, and its ends.

A serial actor runs its calls in the submitting thread, one after the other.  A call submitted during another call waits
in the queue; the thread of the running call runs it next.  Calls with `max_concurrency` run in threads, and calls of
async actors on an event loop.  An exit stands for the end of a worker process: the instance is lost, and the
constructor runs again if `max_restarts` allows.
"""

from __future__ import annotations

import enum
import threading
import time
import traceback
from collections import Counter, deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...exceptions import encode_system_error
from ...store.errors import deserialize_error, serialize_error
from ...wire.task_spec import ActorOptions, TaskOptions, TaskSpec
from ..worker.actor_methods import Methods
from ..worker.environment_variables import with_env_vars
from ..worker.exit_errors import ActorExit, died, farewell, is_success
from .actor_shutdown import say_last_words
from .calls import LocalCall, PendingCall, local_call

if TYPE_CHECKING:
    from .event_loop import ActorLoop
    from .runtime import LocalRuntime

CONSTRUCTOR = TaskOptions()
# An event loop cancels its calls, and runs the class's methods for its end, in less than this.
LOOP_END_SECONDS = 7.0
# How long a leaving actor waits for its running calls, as in a session.
LAST_CALLS_SECONDS = 10.0


class ActorState(enum.Enum):
    """Where an actor stands: STARTING -> ALIVE -> DEAD, ALIVE -> STARTING at a restart, STARTING -> DEAD."""

    STARTING = "its constructor has not returned"
    ALIVE = "it runs calls"
    DEAD = "it runs no more calls"


class LocalActor:
    """An actor."""

    def __init__(self, runtime: LocalRuntime, spec: TaskSpec, options: ActorOptions) -> None:
        self.runtime = runtime
        self.calls = runtime.calls
        self.lock = runtime.objects.lock
        self.spec = spec
        self.options = options
        self.actor_id = spec.task_id
        self.in_words = f"actor {options.class_name}" + (f" named {options.name!r}" if options.name else "")
        self.is_serial = options.is_serial
        self.has_env_vars = self.is_serial and bool(
            options.environment.env_vars or runtime.facts.env_vars
        )  # set for each call
        self.state = ActorState.STARTING
        self.restart_count = 0
        self.life = 0  # grows when the instance is lost: its begun calls count no more
        self.instance: Any = None
        self.methods: Methods | None = None
        self.queue: deque[PendingCall] = deque()
        self.running: dict[bytes, PendingCall] = {}
        self.owner = 0  # the thread that runs a serial actor
        self.threads: set[threading.Thread] = set()  # of calls
        self.loop_threads: set[threading.Thread] = set()  # also of loops that are about to end
        self.loop: ActorLoop | None = None
        self.is_waiting = False  # for arguments of the first call
        self.leavers: set[bytes] = set()  # calls of exit_actor(): user code may catch the exception
        self.exiting = b""  # the error of later calls, once a call has asked for the end
        self.patience: threading.Timer | None = None  # with calls that run while the actor leaves
        self.is_going = False  # its last handle is gone
        self.environment = ExitStack()
        self.kept = (*spec.deps, *spec.holds)
        runtime.objects.hold_all(self.kept)

    @property
    def loop_thread(self) -> int:
        """The thread of the event loop; 0: no loop."""
        return self.loop.thread.ident or 0 if self.loop is not None else 0

    @property
    def state_name(self) -> str:
        """Ray's name of the state."""
        if self.state is ActorState.STARTING:
            return "RESTARTING" if self.restart_count else "PENDING_CREATION"
        return self.state.name

    # --- the constructor ---

    def start(self) -> None:
        """Run the constructor: at once, if its arguments are ready and this thread may block."""
        runtime = self.runtime
        missing = runtime.missing(self.spec)
        if missing or (runtime.must_not_block() and not self.options.is_async):
            runtime.run_when_ready(missing, self._construct)
        else:
            self._construct()

    def _construct(self) -> None:
        life = self.life
        env_vars = (*self.runtime.facts.env_vars, *self.options.environment.env_vars)
        if not self.is_serial and env_vars and self.life == 0:
            self.environment.enter_context(with_env_vars(env_vars))  # for the actor's life, since its calls overlap
        if self.options.is_async:
            from .event_loop import ActorLoop  # it imports asyncio, which other actors do without

            self.loop = ActorLoop(self)
            self.loop.construct(life)
            return
        self.owner = threading.get_ident()
        token = local_call.set(LocalCall(self.spec, CONSTRUCTOR, self, local_call.get()))
        error = None
        try:
            with with_env_vars(self.runtime.env_vars_of(self.options.environment.env_vars)):
                cls, args, kwargs = self.constructor()
                instance = cls(*args, **kwargs)
        except BaseException as raised:
            error = raised
        finally:
            local_call.reset(token)
            self.owner = 0
        if error is None:
            self.started(instance, life)
            return
        self.bury(self.death_by(error))
        if self.calls.is_of_program(error):
            raise error

    def constructor(self) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the class, and the arguments of its constructor."""
        calls, spec = self.calls, self.spec
        cls = calls.functions.get(spec.function_id) or calls.code.load(spec.function_id)
        return cls, *calls.arguments_of(spec, CONSTRUCTOR)

    def started(self, instance: Any, life: int) -> None:
        """The constructor has returned."""
        with self.lock:
            if life != self.life or self.state is not ActorState.STARTING:
                return  # it was killed meanwhile
            self.state = ActorState.ALIVE
            self.instance = instance
            self.methods = Methods(instance)
        if self.leavers:
            self.leave_by(ActorExit(0))
        self.pump()

    def death_by(self, error: BaseException) -> bytes:
        """Return the error for all calls on an actor whose constructor raised."""
        if isinstance(error, ActorExit):
            return encode_system_error("ActorDiedError", farewell(self.in_words, error))
        name = f"{self.options.class_name}.__init__"
        task_error = deserialize_error(serialize_error(error, name, skip_frames=1).inband)
        text = f"The {self.in_words} died in its constructor: {task_error}"
        details = {**self.calls.details(error), "exit_text": "its constructor raised"}
        return encode_system_error("ActorDiedError", text, details)

    # --- calls ---

    def submit(self, spec: TaskSpec, options: TaskOptions) -> bool:
        """Queue a call, and run it if possible.  False: the actor is dead."""
        call = PendingCall(spec, options)
        with self.lock:
            if self.state is ActorState.DEAD:
                return False
            if spec.deps or spec.holds:
                self.runtime.objects.hold_all((*spec.deps, *spec.holds))
            self.queue.append(call)
        if not (self.is_serial and self.owner):  # else the thread of the running call runs this one next
            self.pump()
        return True

    def pump(self) -> None:
        """Run the calls that can run."""
        if self.options.is_async:
            self._begin_on_loop()
        elif not self.is_serial:
            self._begin_threads()
        elif self.runtime.must_not_block():
            self.runtime.helpers.run_soon(self._run_serially)
        else:
            self._run_serially()

    def _next(self, count_max: int) -> PendingCall | None:
        """Take the first call out of the queue, if allowed to begin now.  With the lock held."""
        if self.state is not ActorState.ALIVE or self.exiting or not self.queue:
            return None
        call = self._first_with_room(count_max)
        if call is None:
            return None
        missing = self.runtime.missing(call.spec) if call.spec.deps else []
        if missing:
            if not self.is_waiting:
                self.is_waiting = True
                self.runtime.run_when_ready(missing, self._arguments_came)
            return None
        self.queue.remove(call)
        self.running[call.spec.task_id] = call
        return call

    def _first_with_room(self, count_max: int) -> PendingCall | None:
        """Return the first call that may run, beside those of the actor or of its concurrency group."""
        if not self.options.groups:
            return self.queue[0] if len(self.running) < count_max else None
        limits = {"": count_max, **self.options.groups}
        running = Counter(call.options.group for call in self.running.values())
        return next((call for call in self.queue if running[call.options.group] < limits[call.options.group]), None)

    def _arguments_came(self) -> None:
        self.is_waiting = False
        self.pump()

    def _run_serially(self) -> None:
        while self.queue:
            with self.lock:
                if self.owner:
                    return
                call, life = self._next(1), self.life
                if call is None:
                    break
                self.owner = threading.get_ident()
            try:
                if self.has_env_vars:
                    with with_env_vars(self.runtime.env_vars_of(self.options.environment.env_vars)):
                        error = self._attempts(call, life)
                else:
                    error = self._attempts(call, life)
                if error is not None:
                    self._ended_by(error, call, life)
            finally:
                with self.lock:
                    if life == self.life:
                        self.owner = 0
        self.end_if_idle()

    def _ended_by(self, error: BaseException, call: PendingCall, life: int) -> None:
        """End the actor after an exit; raise an error that ends the program."""
        if not isinstance(error, SystemExit):
            raise error
        self.exited(call, life, error)

    def _attempts(self, call: PendingCall, life: int) -> BaseException | None:
        """Run a call, and retry it if its options ask for that.

        The outcome is delivered.  An exit, or an error that ends the program, is returned.
        """
        spec, options = call.spec, call.options
        calls = self.calls
        while True:
            token = local_call.set(LocalCall(spec, options, self, local_call.get()))
            wants_retry, interrupt = False, None
            try:
                args, kwargs = calls.arguments_of(spec, options)
                value = self.method_of(options.method)(*args, **kwargs)
                del args, kwargs
                values, contained, _ = calls.result_of(spec, options, value)
            except SystemExit as error:
                return error
            except BaseException as error:
                values, contained, wants_retry = calls.failure(spec, options, error)
                interrupt = error if calls.is_of_program(error) else None
                value = error
            finally:
                local_call.reset(token)
            if wants_retry and interrupt is None and life == self.life and call.may_retry():
                call.attempts += 1
                value = None
                continue
            self.finished(call, life, values, contained)
            value = None  # an error's traceback has this frame, which would keep the error alive
            return interrupt

    def method_of(self, name: str) -> Any:
        """A method, bound to the instance."""
        methods = self.methods
        if methods is None:
            raise RuntimeError(f"The instance of {self.in_words} is gone.")
        return methods.bound.get(name) or methods.find(name)

    def finished(
        self, call: PendingCall, life: int, values: list[Any], contained: tuple[tuple[bytes, ...], ...]
    ) -> None:
        """Deliver the values of a call; results of a lost instance are dropped."""
        if self.leavers and call.spec.task_id in self.leavers:
            self.leavers.discard(call.spec.task_id)
            self.exited(call, life, ActorExit(0))  # user code has caught the first exception
            return
        with self.lock:
            if life != self.life or self.running.pop(call.spec.task_id, None) is None:
                return
        self.calls.deliver(call.spec, call.options, values, contained)
        if call.spec.deps or call.spec.holds:
            self._drop(call)

    def _drop(self, call: PendingCall) -> None:
        self.runtime.objects.release_all((*call.spec.deps, *call.spec.holds))

    # --- threads ---

    def _begin_threads(self) -> None:
        with self.lock:
            while call := self._next(self.options.max_concurrency):
                thread = threading.Thread(
                    target=self._run_in_thread, args=(call, self.life), name="zray-local-actor", daemon=True
                )
                self.threads.add(thread)
                thread.start()
        self.end_if_idle()

    def _run_in_thread(self, call: PendingCall, life: int) -> None:
        own_threads, me = self.runtime.own_threads, threading.get_ident()
        own_threads.add(me)
        try:
            if (error := self._attempts(call, life)) is not None:
                self._ended_by(error, call, life)
        except BaseException:  # of zray's own: in a thread it would be invisible
            traceback.print_exc()
        finally:
            own_threads.discard(me)
            self.threads.discard(threading.current_thread())
            self.pump()

    # --- the event loop ---

    def _begin_on_loop(self) -> None:
        with self.lock:
            while self.loop is not None and (call := self._next(self.options.max_concurrency)):
                self.loop.begin(call, self.life)
        self.end_if_idle()

    # --- exits, restarts, ends ---

    def exited(self, call: PendingCall, life: int, error: SystemExit) -> None:
        """A call has raised SystemExit: by exit_actor() or sys.exit(0) the actor leaves, else its process has died."""
        if not is_success(error):
            if life == self.life:
                self.process_died("", self.calls.details(error))
            return
        left = encode_system_error("ActorDiedError", farewell(self.in_words, error))
        self.leavers.discard(call.spec.task_id)
        with self.lock:
            if life == self.life:
                self.exiting = left
        self.finished(call, life, [left] * max(1, call.options.num_returns), ())
        if self.running and self.patience is None:
            self.patience = threading.Timer(LAST_CALLS_SECONDS, self.bury, (left,), {"is_orderly": True})
            self.patience.daemon = True
            self.patience.start()
        self.end_if_idle()

    def note_exit(self) -> None:
        """Note a call of exit_actor(): the actor ends after this call, even if user code catches the exception."""
        call = local_call.get()
        if call is not None and (self.loop is None or self.loop.is_own()):
            self.leavers.add(call.spec.task_id)

    def leave_by(self, error: BaseException) -> None:
        """End the actor at the request of a task beside the calls, after the running calls."""
        with self.lock:
            self.exiting = encode_system_error("ActorDiedError", farewell(self.in_words, error))
        self.end_if_idle()

    def process_died(self, cause: str, details: dict[str, Any]) -> None:
        """Restart the actor after the loss of its instance, or end it for good.  Begun calls may be retried."""
        limit, count = self.options.max_restarts, self.restart_count
        recovers = self.options.checkpoint_interval >= 0
        if recovers or not (limit < 0 or count < limit):
            text = f"The {self.in_words} died"
            if count:
                text += f" after {count} restart{'s' * (count > 1)} (max_restarts={limit})"
            text += f": {cause}." if cause else "."
            if recovers:
                text += "  Local mode keeps no checkpoints: run the program in a session to have the actor recover."
            self.bury(encode_system_error("ActorDiedError", text, details))
            return
        with self.lock:
            if self.state is ActorState.DEAD:
                return
            begun = self._lose_instance()
            self.state = ActorState.STARTING
            self.restart_count += 1
            failed = [call for call in begun if not call.may_retry()]
            for call in reversed(begun):
                if call.may_retry():
                    call.attempts += 1
                    self.queue.appendleft(call)
        for call in failed:
            text = f"The {self.in_words} died while it ran {call.options.name or call.options.method}; it is restarted."
            self._fail(call, encode_system_error("ActorUnavailableError", text, details))
        self.start()

    def _lose_instance(self) -> list[PendingCall]:
        """Drop the instance, and return its begun calls.  With the lock held."""
        begun = list(self.running.values())
        self.running.clear()
        self.life += 1
        self.owner = 0
        if self.methods is not None:
            self.methods.let_go()
        self.instance = self.methods = None
        loop, self.loop = self.loop, None
        if loop is not None:
            loop.end()
        return begun

    def _fail(self, call: PendingCall, error: bytes) -> None:
        self.calls.fail(call.spec, call.options, error)
        self._drop(call)

    def end_if_idle(self) -> None:
        """Leave, if the actor is to, and nothing runs any more."""
        if not self.exiting and not self.is_going:
            return
        with self.lock:
            if self.state is not ActorState.ALIVE or self.running:
                return
            is_left = self.is_going and not self.queue
        if self.exiting:
            self.bury(self.exiting, is_orderly=True)
        elif is_left:
            self.bury(died(self.in_words, "has ended: its last handle is gone"), is_orderly=True)

    def bury(self, error: bytes, *, is_orderly: bool = False) -> None:
        """End the actor for good: all its calls get the error.  is_orderly: run the class's methods for the end."""
        with self.lock:
            if self.state is ActorState.DEAD:
                return
            self.state = ActorState.DEAD
            instance, loop = self.instance, self.loop
            if is_orderly and loop is not None and instance is not None:
                loop.last_words = instance
            calls = [*self._lose_instance(), *self.queue]
            self.queue.clear()
            self.runtime.actors.bury(self, error)
        self.environment.close()
        if self.patience is not None:
            self.patience.cancel()
        self.runtime.node.actor_ended(self.actor_id)
        for call in calls:
            self._fail(call, error)
        self.runtime.objects.release_all(self.kept)
        if is_orderly and loop is None and instance is not None:
            token = local_call.set(LocalCall(self.spec, CONSTRUCTOR, self, local_call.get()))
            try:
                say_last_words(instance, self.in_words)
            finally:
                local_call.reset(token)

    def join(self, deadline: float) -> None:
        """Wait for the threads of a dead actor.  deadline: of time.monotonic(), for calls that may have no end."""
        for thread in (*self.threads, *self.loop_threads):
            if thread is not threading.current_thread():
                seconds = deadline - time.monotonic() if thread in self.threads else LOOP_END_SECONDS
                thread.join(max(0.0, seconds))

    # --- waits ---

    def find_call(self, task_ids: set[bytes], *, may_have_begun: bool) -> PendingCall | None:
        """Return one of these calls, if not ended; only from the queue, unless may_have_begun."""
        with self.lock:
            calls = [*self.queue, *self.running.values()] if may_have_begun else list(self.queue)
        return next((call for call in calls if call.spec.task_id in task_ids), None)
