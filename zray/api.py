"""Public functions on sessions, objects and actors.  Names and meanings are Ray's.

The first of `.remote()`, `get`, `put`, `wait` starts a session on this machine, where no init() did.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import absent, uncaught
from .checks import check_timeout, check_wait
from .exceptions import ZrayError
from .host import context
from .host.process import visible_gpus
from .object_ref import ObjectRef
from .runtime_env import check_runtime_env
from .session_facts import Context

if TYPE_CHECKING:
    from .actor_handle import ActorHandle
    from .host.client.runtime import Runtime
    from .runtime_context import RuntimeContext

T = TypeVar("T")
Progress = Literal["text"] | bool | None

_start_lock = context.StartLock()
ZrayError._render_traceback_ = uncaught.lines_for_ipython  # from here: errors lie below the module that folds frames


def init(
    address: str | None = None,
    *,
    num_cpus: int | float | None = None,
    num_gpus: int | float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: float | None = None,
    ignore_reinit_error: bool = False,
    namespace: str | None = None,
    log_to_driver: bool = True,
    local_mode: bool = False,
    include_dashboard: bool | None = None,
    logging_level: Any = None,
    runtime_env: dict[str, Any] | None = None,
    infeasible: str | None = None,
    seed: int | None = None,
    _memory: int | float | None = None,
    **ignored: Any,
) -> Context:
    """Start a session on this machine, or join one.

        zray.init(num_cpus=2)  # a new session; without arguments: with all CPUs
        zray.init("10.0.0.1:6379")  # a cluster; the token is in ZRAY_TOKEN

    Args:
        address: None joins ZRAY_ADDRESS if set, and starts a session else.  "local" starts a session.  "auto" joins
            the newest session of `zray start` on this machine, else the newest of another program's init(), which its
            own address joins too.  "HOST:PORT" joins a cluster through its node here, or with the token in ZRAY_TOKEN.
        num_cpus, num_gpus: CPUs and GPUs of a new session; default: those that this process may use.
        resources: further resources of a new session, as {"disk": 2}.
        labels: labels of the node, as {"disk": "ssd"}.
        object_store_memory: bytes of shared memory; default: 30 % of memory, at most 80 % of what /dev/shm has free.
        ignore_reinit_error: return the session's facts where this process is in a session already.
        namespace: namespace of named actors and placement groups; default: one for this program.
        log_to_driver: print the output of workers.
        local_mode: run everything inside of this process, for debuggers.  Default: False, or True where ZRAY_LOCAL=1.
        include_dashboard, logging_level: have no effect; True warns that there is no dashboard.
        runtime_env: environment of all tasks: a dict with env_vars, working_dir, py_modules, excludes, pip or uv.
        infeasible: "raise" makes a request that no node can meet an error; "wait" keeps it until a node can.
            Default: ZRAY_INFEASIBLE, else "raise" in a session of this program's own and "wait" in a cluster.
        seed: makes zray.util.rng() draw the same numbers in each run.  Default: ZRAY_SEED, else other numbers each run.
        _memory: bytes that `memory=` options may request together; default: 70 % of memory.

    Returns:
        A dict of facts on the session, also a context manager: `with zray.init():` calls shutdown() at the end.

    Raises:
        RuntimeError: this process is in a session already, or gevent or eventlet has replaced its threads.
        ConnectionError: no session is at the address.
        ValueError, TypeError: a bad value, or an argument of a new session where one is joined.
        NotImplementedError: an argument of Ray's that zray does not have yet.
    """
    return _start(
        {**ignored, "include_dashboard": include_dashboard},
        ignore_reinit_error,
        address,
        local_mode=local_mode,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        labels=labels,
        memory=_memory,
        object_store_memory=object_store_memory,
        namespace=namespace,
        log_to_driver=log_to_driver,
        infeasible=infeasible,
        seed=seed,
        runtime_env=runtime_env,
    )


def _start(
    further: dict[str, Any],
    ignore_reinit_error: bool,
    address: str | None,
    namespace: str | None,
    runtime_env: dict[str, Any] | None,
    **arguments: Any,
) -> Context:
    """further: arguments of init() that have no effect, or are unknown."""
    from .host.driver import startup
    from .job_config import with_job_config
    from .options import check_text

    startup.check_init_arguments(further)
    namespace, runtime_env = with_job_config(further.get("job_config"), namespace, runtime_env)
    arguments["runtime_env"] = check_runtime_env(runtime_env or {}, "init()")
    for name, text in {"address": address, "namespace": namespace}.items():
        if text is not None:
            check_text(name, text)
    with _start_lock:
        runtime = context.runtime
        if runtime is None:
            runtime = startup.start(address, namespace=namespace, **arguments)
            context.set_runtime(runtime)
        elif not ignore_reinit_error:
            raise RuntimeError(startup.why_not_again(runtime))
        return Context(startup.describe(runtime))


def require_runtime(using: Any = None) -> Runtime:
    """Return this process's session; start one where there is none.

    Args:
        using: refs or a handle that the caller was given; without a session they are of one that ended.
    """
    runtime = context.runtime
    if runtime is None:
        if context.is_forked:
            raise RuntimeError(
                "This process was forked from a program in a zray session, and is in no session itself: refs and "
                "actors of the parent are not valid here.  Call zray.init() for another session, or run a task instead."
            )
        context.refuse_without_session(using)
        init(ignore_reinit_error=True)
        runtime = context.runtime
        assert runtime is not None
    return runtime


def is_initialized() -> bool:
    """Tell whether this process is in a session."""
    return context.runtime is not None


def shutdown() -> None:
    """Leave the session.  A session that this process started ends: no process, file or memory is left.

    A second call does nothing, and so does a call in a task or an actor.
    """
    runtime = context.runtime
    if runtime is None or runtime.is_worker:
        return
    context.set_runtime(None)
    runtime.leave()  # type: ignore[attr-defined]


@overload
def get(
    object_refs: ObjectRef[T], *, timeout: float | None = None, writable: bool = False, progress: Progress = None
) -> T: ...
@overload
def get(
    object_refs: Sequence[ObjectRef[T]],
    *,
    timeout: float | None = None,
    writable: bool = False,
    progress: Progress = None,
) -> list[T]: ...
def get(
    object_refs: Any = None, *, timeout: float | None = None, writable: bool = False, progress: Progress = None
) -> Any:
    """Wait for the value of a ref, or of each of a list of refs.

        total = zray.get(add.remote(1, 2))
        first, second = zray.get([a, b], timeout=10)

    Arrays are read-only views of shared memory.

    Args:
        object_refs: a ref or a list of refs.
        timeout: seconds; 0 looks and does not wait; None waits without limit.
        writable: return copies of arrays that may be written to.  Default: False.
        progress: True or "text" shows a bar on a terminal and in a notebook.  Default: None, no bar.

    Returns:
        The value, or a list of values in the order of the refs.

    Raises:
        TaskError: the task raised; the error is also an instance of the user's class.
        GetTimeoutError: a value was not there in time; it may still come (indefinite).
        WorkerCrashedError, ActorDiedError, ObjectLostError: a value will never come (definite).
        ValueError: an argument is neither a ref nor a list of refs, or the timeout is negative.
        TypeError: the timeout is no number.
    """
    if timeout is not None:
        check_timeout(timeout)
    runtime = require_runtime(object_refs)
    try:
        if progress is not None:
            from .host.output.progress_bar import show

            timeout = show(runtime, object_refs, timeout, progress)
        if type(object_refs) is ObjectRef and not writable:
            value = runtime.client.values.get(object_refs.id)
            if value is not None and type(value) is bytes:
                return runtime.value_of(object_refs.id)
            return runtime.get((object_refs,), timeout)[0]
        if type(object_refs) is ObjectRef:
            return runtime.get((object_refs,), timeout, writable=True)[0]
        if not isinstance(object_refs, (list, tuple)):
            raise ValueError(f"get() takes an ObjectRef or a list of them, not {type(object_refs).__name__}.")
        for ref in object_refs:
            if type(ref) is not ObjectRef:
                raise ValueError(f"get() takes a list of ObjectRefs, but one item is of type {type(ref).__name__}.")
        return runtime.get(object_refs, timeout, writable=writable)
    except ZrayError as error:
        # The text has all that matters to the user; frames of zray do not help.
        __tracebackhide__ = True  # pytest leaves this frame out
        raise error.with_traceback(None) from error.__cause__


def put(value: T) -> ObjectRef[T]:
    """Store a value in shared memory, so that many tasks can read it without a copy.

        table = zray.put(np.zeros((1000, 1000)))
        refs = [column_sum.remote(table, index) for index in range(1000)]

    Returns:
        A ref on the value.

    Raises:
        TypeError: the value is a ref already, or cannot be serialized.
        ObjectStoreFullError: the value does not fit into the object store.
    """
    if type(value) is ObjectRef:
        raise TypeError("put() of an ObjectRef is not allowed: the ref is one already.  To wrap it, put([ref]).")
    try:
        return (context.runtime or require_runtime([value])).put(value)
    except ZrayError as error:
        __tracebackhide__ = True
        raise error.with_traceback(None) from error.__cause__  # as above


# The list that wait() returned last, by identity and length: wait in a loop need not check it all again.  Only
# errors that would have been raised are missed when another list takes its place.
_checked: tuple[int, int] = (0, 0)


def wait(
    object_refs: list[ObjectRef[T]], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[ObjectRef[T]], list[ObjectRef[T]]]:
    """Wait until some of the refs are ready.  A failed task is ready too.

        while refs:
            (ref,), refs = zray.wait(refs)
            print(zray.get(ref))

    Args:
        object_refs: a list of different refs.
        num_returns: how many to wait for.  Default: 1.
        timeout: seconds; 0 looks and does not wait; None waits without limit.
        fetch_local: False counts a value as ready as soon as any node has it.  Default: True.

    Returns:
        Two lists in the order of the input: at most num_returns ready refs, and all others.

    Raises:
        TypeError: the argument is no list of refs, or a number has a wrong type.
        ValueError: a ref is there twice, or num_returns or timeout is out of range.
    """
    global _checked
    if (
        type(object_refs) is not list
        or _checked != (id(object_refs), len(object_refs))
        or (object_refs and type(object_refs[0]) is not ObjectRef)
    ):
        check_wait(object_refs)
    count = len(object_refs)
    if not count:
        return [], []
    if not isinstance(num_returns, Integral):
        raise TypeError(f"num_returns must be an int, not {type(num_returns).__name__}.")
    if num_returns <= 0 or num_returns > count:
        raise ValueError(f"wait() for {num_returns} of {count} refs: num_returns must be from 1 to {count}.")
    if timeout is not None:
        check_timeout(timeout)
    runtime = require_runtime(object_refs)
    client = runtime.client
    if num_returns == 1:
        values = client.values
        for index, ref in enumerate(object_refs):
            if ref.id in values:
                rest = object_refs[:index] + object_refs[index + 1 :]
                _checked = (id(rest), count - 1)
                return [ref], rest
    try:
        is_ready = runtime.wait([ref.id for ref in object_refs], num_returns, timeout, fetch_local)
    except ZrayError as error:
        __tracebackhide__ = True
        raise error.with_traceback(None) from error.__cause__  # as in get
    ready: list[ObjectRef[T]] = []
    rest = []
    for ref in object_refs:
        (ready if len(ready) < num_returns and is_ready(ref.id) else rest).append(ref)
    _checked = (id(rest), len(rest))
    return ready, rest


@overload
def as_completed(
    object_refs: Iterable[ObjectRef[T]], *, timeout: float | None = None, with_results: Literal[False] = False
) -> Iterator[ObjectRef[T]]: ...
@overload
def as_completed(
    object_refs: Iterable[ObjectRef[T]], *, timeout: float | None = None, with_results: Literal[True]
) -> Iterator[tuple[ObjectRef[T], T]]: ...
def as_completed(
    object_refs: Iterable[ObjectRef[Any]], *, timeout: float | None = None, with_results: bool = False
) -> Iterator[Any]:
    """Iterate over refs in the order in which they become ready.

        for ref, value in zray.as_completed(refs, with_results=True):
            print(value)

    Args:
        object_refs: refs, all different.
        timeout: seconds for all of them together; None waits without limit.
        with_results: yield pairs of ref and value.  Default: False.

    Raises:
        GetTimeoutError: a ref was not ready in time.
        TaskError: a task raised, and with_results asks for its value.
    """
    from .exceptions import GetTimeoutError

    rest = list(object_refs)
    deadline = None if timeout is None else time.monotonic() + check_timeout(timeout)
    while rest:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, rest = wait(rest, num_returns=1, timeout=left)
        if not ready:
            text = f"{len(rest)} objects were not ready after {timeout:g} s."
            raise GetTimeoutError(text + require_runtime().why_late([ref.id for ref in rest], timeout or 0.0))
        yield (ready[0], get(ready[0])) if with_results else ready[0]


def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> None:
    """End an actor at once.  Calls that wait raise ActorDiedError.

    Args:
        actor: the actor's handle.
        no_restart: False allows a restart, as max_restarts says.  Default: True.

    Raises:
        ValueError: the argument is no actor handle.
        TypeError: no_restart is not a bool.
    """
    from .actor_handle import ActorHandle
    from .options import check_flag
    from .wire.actors import KillActor

    if not isinstance(actor, ActorHandle):
        raise ValueError(f"kill() takes an actor handle, not {type(actor).__name__}; for a task's ref see cancel().")
    check_flag("no_restart", no_restart)
    runtime = require_runtime(actor)
    actor._refuse_if_over(runtime)
    runtime.say(KillActor(actor._actor_id, no_restart, actor._found_at))
    runtime.flush()


def cancel(ref: ObjectRef[Any], *, force: bool = False, recursive: bool = True) -> None:
    """Absent: cancelling a task.

    Raises:
        NotImplementedError: always; says what to do instead.
    """
    raise absent.not_built(absent.NAMES, "zray.cancel")


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Find a living actor by its name.

        Counter.options(name="hits", lifetime="detached").remote()
        counter = zray.get_actor("hits")

    The handle does not keep the actor: one that is not detached ends with the handles of the program or task that made
    it, and with those that were passed on.

    Args:
        name: the name that the actor was given in its options.
        namespace: the namespace of the name; default: this program's.

    Raises:
        ValueError: no living actor has the name, or the name is empty.
        TypeError: the namespace is not a str.
    """
    from .actor_handle import find_actor, why_not_found
    from .options import check_text

    if not isinstance(name, str) or not name:
        raise ValueError("get_actor() needs a name that is not empty.")
    check_text("name", name)
    if namespace is not None:
        check_text("namespace", namespace)
    runtime = require_runtime()
    found = find_actor(runtime, name, namespace, is_weak=True)
    if found is None:
        raise ValueError(why_not_found(runtime, name, namespace or runtime.namespace))
    return found


def get_gpu_ids() -> list[int | str]:
    """List the GPUs of this task or actor; in a program, all that it may use.

    Returns:
        Whole numbers; a str where CUDA_VISIBLE_DEVICES names a GPU otherwise, as by its UUID.
    """
    return [int(name) if name.isdecimal() else name for name in visible_gpus.of_current(context.runtime)]


def timeline(filename: str | None = None) -> Any:
    """Absent: a trace of the tasks that ran.

    Raises:
        NotImplementedError: always; says what to do instead.
    """
    raise absent.not_built(absent.NAMES, "zray.timeline")


def get_runtime_context() -> RuntimeContext:
    """Return facts on the task, actor, worker and node that this code runs in."""
    from .runtime_context import RuntimeContext

    return RuntimeContext(require_runtime())
