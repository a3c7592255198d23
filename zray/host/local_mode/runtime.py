"""The runtime of local mode, used by the public API if everything runs inline in the program.

It replaces a driver's `Runtime`, with the same methods.  A task runs inside its `.remote()`, in the calling thread; a
get finds the value ready.  Three kinds of work run beside: calls of async actors on an event loop, calls of actors with
`max_concurrency` in threads, and tasks that wait for those, in helper threads.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ... import object_ref
from ...exceptions import ClusterLostError, DeadlockError, GetTimeoutError
from ...ids import FIRST_RETURN, JOB_ID_BYTES, item_id, put_id, return_id, root_task_id, task_of
from ...object_ref import ObjectRef, refuse_nil
from ...store.errors import deserialize_error
from ...store.layout import Serialized
from ...store.values import deserialize, deserialize_writable, is_error, serialize
from ...wire.environment import NO_ENVIRONMENT, Environment, EnvVars
from ...wire.message import Message
from ...wire.scheduling import JobFacts
from ...wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, TaskSpec, parse_options
from ...wire.tasks import Function
from .. import context
from ..client import interrupts
from ..client.task_context import Submitter
from ..worker.environment_variables import with_env_vars
from .actors import LocalActors
from .calls import LocalCalls, local_call
from .helper_threads import Helpers
from .node import LocalNode
from .objects import INLINE_BYTES_MAX, LocalFutures, LocalObjects

NODE_ID_BYTES = 8
# A wait of this many seconds is explained.
EXPLAINED_AFTER = 10.0
# Tasks nest inside one another, while in a session each begins with an empty stack.
RECURSION_LIMIT = 10_000


def refuse_fields(runtime_env: dict[str, Any]) -> None:
    """Refuse fields of a runtime_env that local mode does not have.

    Raises:
        NotImplementedError: a field other than env_vars.
    """
    for field in runtime_env:
        if field not in ("env_vars", "config"):
            raise NotImplementedError(
                f"Local mode does not have the field {field!r} of runtime_env: tasks run in the program itself.  Start "
                "the program in that folder, and add to sys.path what tasks import."
            )


class LocalRuntime:
    """The runtime of a program in local mode."""

    def __init__(self, total: dict[str, int], labels: dict[str, str], capacity: int, facts: JobFacts) -> None:
        self.mark = object()  # a key of caches that need not keep this runtime alive
        self.session = "local"
        self.job_id = os.urandom(JOB_ID_BYTES)
        self.node_id = os.urandom(NODE_ID_BYTES)
        self.namespace = facts.namespace or self.job_id.hex()
        self.facts = facts
        self.root = Submitter(root_task_id(self.job_id), "driver")
        self.inline_bytes_max = INLINE_BYTES_MAX
        self.connection = SimpleNamespace(over="")  # there is no connection, so it never breaks
        self.environment = NO_ENVIRONMENT  # children inherit the variables, because they run inside their parent
        self.is_over = False
        self.drawn: dict[bytes, int] = {}
        self.again: dict[bytes, Any] = {}  # as in a worker, where generators of recovered actors run again
        self.streams: dict[bytes, int] = {}  # generators -> how many items of each are there
        self.restored_count = 0  # refs that were unpickled or copied
        self.client = self.objects = LocalObjects(capacity)
        self.is_inside: Callable[[], bool] = self.objects.lock._is_owned  # type: ignore[attr-defined]
        self.writer = self.objects
        self.store = self.objects.store
        self.helpers = Helpers(total.get("CPU", 0) // RESOURCE_UNIT)
        self.calls = LocalCalls(self)
        self.publish: Callable[[Function], None] = self.calls.code.publish
        self.futures = LocalFutures(self)
        self.node = LocalNode(self, total, labels)
        self.actors = LocalActors(self)
        self.own_threads: set[int] = set()  # event loops and threads of actors
        self.loop_threads: set[int] = set()
        object_ref.enable_releases()
        object_ref.on_restore = self._restored
        object_ref.resolve_future = self.futures.future_of
        self.limit_before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.limit_before, RECURSION_LIMIT))

    # --- the call of the running code ---

    @property
    def call(self) -> Any:
        """The task or call of the running code; None in the program."""
        return local_call.get()

    @property
    def is_worker(self) -> bool:
        """Whether the running code is part of a task or an actor."""
        return local_call.get() is not None

    @property
    def actor(self) -> Any:
        """The actor of the running code; None outside of actors."""
        call: Any = local_call.get()
        return call.actor if call is not None else None

    @property
    def executor(self) -> Any:
        """GPUs of the task or actor of the running code, as in a worker."""
        return SimpleNamespace(gpus=self.node.gpus_of(local_call.get()))

    def submitter(self) -> Submitter:
        """Return the task (or program) for which the running code submits."""
        call = local_call.get()
        if call is None:
            return self.root
        found = call.submitter
        if found is None:
            found = call.submitter = self.calls.submitter_of(call)
        return found

    def name_of(self, spec: TaskSpec) -> str:
        """A task's name, for the user."""
        options = parse_options(spec.options)
        function = self.calls.code.published.get(spec.function_id)
        return options.name or options.method or (function.name if function is not None else spec.function_id.hex())

    def current_environment(self) -> Environment:
        """Return the environment of the running task, beyond that of its job."""
        call: Any = local_call.get()
        found: dict[str, str] = {}
        while call is not None:
            own = (call.options if call.actor is None else call.actor.options).environment.env_vars
            found = {**dict(own), **found}
            call = call.outer
        return Environment(tuple(found.items()))

    def check_fields(self, given: dict[str, Any]) -> None:
        """Refuse fields of a runtime_env that local mode lacks."""
        refuse_fields(given)

    def is_own_thread(self) -> bool:
        """Return whether this thread is zray's, and not the program's."""
        return threading.get_ident() in self.own_threads or self.helpers.is_helper()

    # --- tasks and actors ---

    def submit(self, spec: TaskSpec, num_returns: int) -> bytes:
        """Run a task or a call, inline if possible.  Returns the id of its first return."""
        if object_ref.released:
            self.objects.drop_dead()
            if self.objects.abandoned:
                self.settle()
        if self.is_over:
            raise ClusterLostError("This process has left its session.")
        first = spec.task_id + FIRST_RETURN
        held = self.objects.held
        if num_returns == 1 and first not in held:
            held[first] = 1  # without the lock: no other thread knows the id
        elif num_returns:
            is_known = first in held
            self.objects.hold_all([first, *(return_id(spec.task_id, index) for index in range(2, num_returns + 1))])
            if is_known:  # a re-execution of its parent
                return first
        options = parse_options(spec.options)
        if options.actor_id:
            self.actors.submit(spec, options)
        elif spec.deps or self.loop_threads or options.environment.env_vars or self.facts.env_vars or self.is_inside():
            self._submit_with_care(spec, options)
        elif spec.options in self.node.feasible or self._is_feasible(spec, options):
            self.calls.run_task(spec, options)
        return first

    def _is_feasible(self, spec: TaskSpec, options: TaskOptions) -> bool:
        error = self.node.why_no_task(spec.options, options)
        if error:
            self.calls.fail(spec, options, error)
        return not error

    def _submit_with_care(self, spec: TaskSpec, options: TaskOptions) -> None:
        """Submit a task that may have to wait, or has an environment."""
        if not self._is_feasible(spec, options):
            return
        missing = self.missing(spec)
        if not missing and not self.must_not_block():
            self._run_with_environment(spec, options)
            return
        kept = (*spec.deps, *spec.holds)
        self.objects.hold_all(kept)

        def run() -> None:
            try:
                self._run_with_environment(spec, options)
            finally:
                self.objects.release_all(kept)

        self.run_when_ready(missing, run)

    def _run_with_environment(self, spec: TaskSpec, options: TaskOptions) -> None:
        with with_env_vars(self.env_vars_of(options.environment.env_vars)):
            self.calls.run_task(spec, options)

    def env_vars_of(self, own: EnvVars) -> EnvVars:
        """Return the variables to set around a call: inside another call the job's are set already."""
        return own if local_call.get() is not None else (*self.facts.env_vars, *own)

    def missing(self, spec: TaskSpec) -> list[bytes]:
        """Return the arguments that are not ready."""
        values = self.objects.values
        return [object_id for object_id in spec.deps if object_id not in values]

    def must_not_block(self) -> bool:
        """Return whether this thread is an event loop's, or in the middle of a step of zray."""
        return threading.get_ident() in self.loop_threads or self.is_inside()

    def run_when_ready(self, missing: Sequence[bytes], job: Callable[[], None]) -> None:
        """Run a job in a helper thread once all of these objects are ready."""
        if not missing:
            self.helpers.run_soon(job)
            return
        first, *rest = missing
        self.objects.when_ready(first, lambda: self.run_when_ready(rest, job))

    def create_actor(self, spec: TaskSpec, options: ActorOptions) -> None:
        """Create an actor; the caller makes its first handle."""
        self.settle()
        self.objects.hold(spec.task_id + FIRST_RETURN)
        self.actors.create(spec, options)

    def settle(self) -> None:
        """Free dead objects; end actors without handles."""
        objects = self.objects
        objects.drop_dead()
        while objects.abandoned:
            self.actors.handles_gone(objects.abandoned.pop())

    def say(self, message: Message) -> None:
        """KillActor and RemoveGroup; nothing else is said in local mode."""
        self.settle()
        self.node.tell(message)

    def ask(self, build: Callable[[int], Message], timeout: float | None = None) -> Any:
        """The answer to a question about actors, placement groups or nodes."""
        self.settle()
        return self.node.answer(build(1))

    # --- get, wait, put ---

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, *, writable: bool = False) -> list[Any]:
        """Return the values, in order; raise the first failure as soon as it is ready."""
        values = self.objects.values
        missing = [ref.id for ref in refs if ref.id not in values]
        if missing:
            self._check_awaited(missing)
            if len(missing) < len(refs):
                self._raise_failure([ref.id for ref in refs])
            self._wait_for_values(missing, timeout)
        return [self.value_of(ref.id, writable=writable) for ref in refs]

    def value_of(self, object_id: bytes, *, writable: bool = False) -> Any:
        """Return the value of a ready object.

        Raises:
            TaskError and others: the object is an error.
            ClusterLostError: another thread has ended the session meanwhile.
        """
        try:
            value = self.objects.values[object_id]
        except KeyError:
            raise ClusterLostError("This process has left its session.") from None
        if is_error(value):
            raise deserialize_error(value)
        return deserialize_writable(value) if writable else deserialize(value)

    def _check_awaited(self, missing: list[bytes]) -> None:
        refuse_nil(missing)
        for object_id in missing:
            if object_id not in self.objects.held and task_of(object_id) not in self.streams:
                raise context.ref_of_ended_session(object_id)

    def _raise_failure(self, ids: Sequence[bytes]) -> None:
        values = self.objects.values
        for object_id in ids:
            if (value := values.get(object_id)) is not None and is_error(value):
                raise deserialize_error(value)

    def _wait_for_values(self, missing: list[bytes], timeout: float | None) -> None:
        left = set(missing)

        def look(ready: list[bytes]) -> bool:
            fresh = left.intersection(ready)
            self._raise_failure([object_id for object_id in ready if object_id in fresh])
            left.difference_update(fresh)
            return not left

        if not self._sleep(missing, look, timeout):
            text = f"{len(left)} of {len(missing)} objects were not there after {timeout:g} s.  They may still come."
            raise GetTimeoutError(text + self.why_late(list(left), timeout or 0.0))

    def wait(self, ids: list[bytes], count: int, timeout: float | None, fetch: bool) -> Callable[[bytes], bool]:
        """Block until `count` ids are ready, or the time is over.  Returns a predicate for readiness."""
        values = self.objects.values
        missing = [object_id for object_id in ids if object_id not in values]
        if len(ids) - len(missing) < count:
            self._check_awaited(missing)
            left = set(missing)

            def look(ready: list[bytes]) -> bool:
                left.difference_update(ready)
                return len(ids) - len(left) >= count

            self._sleep(missing, look, timeout)
        return values.__contains__

    def _sleep(self, missing: list[bytes], look: Callable[[list[bytes]], bool], timeout: float | None) -> bool:
        if timeout is None and (why := self.actors.why_never(missing)):
            raise DeadlockError(why)
        began = time.monotonic()
        with self.helpers.lent():
            if timeout is None or timeout > EXPLAINED_AFTER:
                if self.objects.watch(missing, look, began + EXPLAINED_AFTER):
                    return True
                lines = self.actors.reasons(missing)
                print(
                    "\n  ".join([f"zray: a wait has lasted {EXPLAINED_AFTER:g} s:", *lines]),
                    file=sys.stderr,
                    flush=True,
                )
            return self.objects.watch(missing, look, None if timeout is None else began + timeout)

    def why_late(self, awaited: Sequence[bytes], timeout: float) -> str:
        """Return the text for the error of an expired wait."""
        return "".join(f"\n  {line}" for line in self.actors.reasons(awaited))

    def put(self, value: Any) -> ObjectRef:
        """Store a value."""
        return ObjectRef(self.put_serialized(serialize(value)))

    def put_serialized(self, serialized: Serialized, submitter: Submitter | None = None) -> bytes:
        """Store a serialized value.  The caller wraps the id in a ref, which then counts."""
        if object_ref.released:
            self.settle()
        if serialized.contained:
            context.refuse_strangers(serialized.contained)
        submitter = submitter or self.submitter()
        object_id = put_id(submitter.task_id, submitter.next_put())
        stored = self.objects.store(object_id, serialized)
        self.objects.hold(object_id)
        self.objects.deliver([object_id], [stored], (serialized.contained,))
        return object_id

    # --- generators ---

    def unrepeated(self, task_id: bytes) -> bytes:
        """Return the id of a generator that is about to be submitted: nothing is run again by another process."""
        return task_id

    def draws(self, task_id: bytes) -> None:
        """Note that the program draws the items of a generator."""
        self.streams[task_id] = 0

    def items_of(self, task_id: bytes) -> int:
        """Return how many items of a generator are there."""
        return self.streams.get(task_id, 0)

    def draws_no_more(self, task_id: bytes, first: int, *, ends: bool) -> None:
        """Let go of a generator, and of its items from number `first` on.  Its function has ended already."""
        count = self.streams.pop(task_id, 0)
        self.objects.release_all(item_id(task_id, number) for number in range(first, count))

    def wait_for_draws(self, task_id: bytes, count: int) -> None:
        """Do nothing: a generator runs inside of its call, before anybody can draw."""

    def drew(self, task_id: bytes, count: int) -> None:
        """Do nothing, likewise."""

    def say_item(self, task_id: bytes, number: int, value: Any, contained: tuple[bytes, ...]) -> bool:
        """Take an item of a generator.  Returns False: nothing is buffered."""
        if number == self.streams.get(task_id):
            self.objects.hold(item_id(task_id, number))
            self.objects.deliver([item_id(task_id, number)], [value], (contained,) if contained else ())
            self.streams[task_id] = number + 1
        return False

    # --- refs ---

    def _restored(self, object_id: bytes) -> None:
        self.restored_count += 1
        self.objects.hold(object_id)

    def another_ref(self, object_id: bytes) -> ObjectRef:
        """Return a further ref on an object, counted as such."""
        self._restored(object_id)
        return ObjectRef(object_id)

    # --- only for sessions ---

    def look_for_code(self, function: Any = None) -> None:
        """Do nothing: no code is sent."""

    def code_refs(self) -> list[ObjectRef]:
        """Return no refs: no code is sent."""
        return []

    def flush(self) -> None:
        """Nothing is buffered."""

    def arm(self) -> None:
        """Nothing is buffered."""

    def wait_for_room(self) -> None:
        """Nothing is in flight."""

    # --- end ---

    def leave(self) -> None:
        """End all actors and threads, and forget all values."""
        self.actors.end_all()
        self.is_over = True
        self.connection.over = "This process has left its session."
        object_ref.disable_releases()
        object_ref.on_restore = lambda object_id: None
        object_ref.resolve_future = context.of_ended_session
        self.objects.close()
        self.futures.close()
        self.helpers.close()
        if sys.getrecursionlimit() == max(self.limit_before, RECURSION_LIMIT):
            sys.setrecursionlimit(self.limit_before)
        interrupts.uninstall()
