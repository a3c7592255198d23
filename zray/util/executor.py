"""Executor: concurrent.futures over the tasks of zray.

    with Executor() as executor:
        futures = [executor.submit(pow, 2, n) for n in range(10)]
        squares = list(executor.map(square, range(1_000), chunksize=50))

`await loop.run_in_executor(executor, function, argument)` works too.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import Executor as PythonExecutor
from types import FunctionType
from typing import Any

from ..api import objects, sessions
from ..api.cluster_info import cluster_resources
from ..api.decorator import remote
from ..api.remote_function import RemoteFunction
from ..exceptions import TaskCancelledError
from ..object_ref import ObjectRef
from .mapping import check_count, chunk_function, chunk_task, name_of, next_values
from .pace import Pace

__all__ = ["Executor"]

# Functions whose code is kept ready; a program submits a handful again and again.
FUNCTIONS_MAX = 100


class Executor(PythonExecutor):
    """Executor of concurrent.futures whose calls run as tasks, on all nodes of the cluster.

        with Executor() as executor:
            print(executor.submit(pow, 2, 10).result())

    A call runs as a new task, without an initializer, in any worker: at least once if workers or nodes die.
    A future that waits for a free CPU can be cancelled.  A call that was handed to the cluster counts as running.

    Args:
        max_workers: number of calls at a time at most.  Default: as many as the cluster has CPUs.
        remote_options: options of the tasks, as {"num_cpus": 2}.  Default: none.

    Raises:
        ValueError: max_workers is less than 1.
        TypeError: max_workers is no int.
    """

    def __init__(self, max_workers: int | None = None, *, remote_options: dict[str, Any] | None = None) -> None:
        if max_workers is not None:
            check_count("max_workers", max_workers)
        sessions.require_runtime()
        self._limit = max_workers
        self._pace = Pace(max_workers or max(1, int(cluster_resources().get("CPU", 1))))
        self._options = remote_options or {}
        self._functions: dict[Any, RemoteFunction[..., Any]] = {}
        self._lock = threading.Lock()
        self._pending: deque[tuple[Future[Any], str, Any, tuple[Any, ...], dict[str, Any]]] = deque()
        self._running = 0
        self._refs: set[ObjectRef[Any]] = set()  # of calls that were handed to the cluster
        self._is_idle = threading.Condition(self._lock)
        self._is_shut_down = False
        self._is_terminated = False
        self._maps: weakref.WeakSet[_Results] = weakref.WeakSet()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn(*args, **kwargs)` in a task, and return a future of the result.

        Args:
            fn: plain or remote function, or anything else that can be called.
            args, kwargs: the arguments.  A ref stands for its value.

        Raises:
            RuntimeError: the executor has been shut down.
        """
        return self._submit("", fn, args, kwargs)

    def _submit(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """Call fn in a task of that name; "": of fn's name."""
        future: Future[Any] = Future()
        with self._lock:
            self._require_open()
            self._pending.append((future, name, fn, args, kwargs))
        self._start()
        return future

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """Call `fn` with items of all iterables in turn, and iterate over results in their order.

        All tasks are submitted at once.  zray.util.map draws items as they are needed.

        Args:
            fn: function of as many arguments as there are iterables.
            iterables: any iterables; the shortest one ends the results.
            timeout: seconds from this call on; None waits without limit.
            chunksize: items per task.  Default: 1.

        Raises:
            TimeoutError: a result is not ready in time.
            RuntimeError: the executor has been shut down.
            TaskError: fn raised, in place of its result.
            ValueError: chunksize is less than 1.
        """
        check_count("chunksize", chunksize)
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._require_open()
        items: Iterator[tuple[Any, ...]] = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        if self._limit is not None:
            return self._map_with_limit(fn, chunks, timeout)
        if chunksize == 1:
            submit = self._remote(fn)
            refs = deque([submit(*args) for args in items])
        else:
            task = chunk_task(fn, takes_tuples=True)
            submit = (task.options(**self._options) if self._options else task).remote
            refs = deque([submit(*chunk) for chunk in chunks])
        results = _Results(refs, deadline, chunksize > 1)
        self._maps.add(results)
        return results

    def _map_with_limit(
        self, fn: Callable[..., Any], chunks: Iterable[list[Any]], timeout: float | None
    ) -> Iterator[Any]:
        run = chunk_function(fn, takes_tuples=True)

        def run_chunk(chunk: list[Any]) -> list[Any]:
            return run(*chunk)

        run_chunk.__qualname__ = name_of(fn)
        return itertools.chain.from_iterable(super().map(run_chunk, chunks, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls, and free what the executor holds.  The session goes on.

        Args:
            wait: return when all calls have ended.  Default: True.
            cancel_futures: cancel calls that wait for a free CPU, also those of map().  Default: False.
        """
        with self._lock:
            self._is_shut_down = True
            cancelled = list(self._pending) if cancel_futures else []
            if cancel_futures:
                self._pending.clear()
        for future, *_ in cancelled:
            future.cancel()
            future.set_running_or_notify_cancel()
        if cancel_futures:
            for results in list(self._maps):
                results.cancel()
        if not wait:
            return
        with self._lock:
            self._is_idle.wait_for(lambda: not self._running and not self._pending)
        for results in list(self._maps):
            results.wait()

    def terminate_workers(self) -> None:
        """Refuse further calls, and cancel all calls, also those that run.  Workers stay for other tasks."""
        self._is_terminated = True
        self.shutdown(wait=False, cancel_futures=True)
        for ref in list(self._refs):
            objects.cancel(ref)
        for results in list(self._maps):
            results.cancel(with_running=True)

    # --- calls ---

    def _require_open(self) -> None:
        if self._is_shut_down:
            raise RuntimeError("The executor has been shut down: it takes no further calls.")

    def _task_of(self, fn: Any, name: str) -> RemoteFunction[..., Any]:
        if isinstance(fn, RemoteFunction):
            return fn.options(**self._options) if self._options else fn
        return remote(**{"name": name, **self._options})(fn)

    def _remote(self, fn: Any, name: str = "") -> Callable[..., ObjectRef[Any]]:
        """`remote` of fn: plain functions are pickled once, other callables each time, since they may change."""
        name = name or name_of(fn)
        if isinstance(fn, (FunctionType, RemoteFunction)):
            return self._found(fn, name).remote
        call = self._found(_call, name).remote
        return lambda *args, **kwargs: call(fn, *args, **kwargs)

    def _found(self, fn: Any, name: str) -> RemoteFunction[..., Any]:
        found = self._functions.get((fn, name))
        if found is None:
            if len(self._functions) >= FUNCTIONS_MAX:
                self._functions.clear()
            found = self._functions[fn, name] = self._task_of(fn, name)
        return found

    def _start(self) -> None:
        """Submit tasks for waiting calls, as long as few run: the future of a submitted task is not cancelled."""
        while True:
            with self._lock:
                if not self._pending or self._running >= self._in_flight_max():
                    return
                future, name, fn, args, kwargs = self._pending.popleft()
                self._running += 1
            if not future.set_running_or_notify_cancel():
                self._ended(None)
                continue
            try:
                ref = self._remote(fn, name)(*args, **kwargs)
                done = ref.future()
            except BaseException as error:
                future.set_exception(error)
                self._ended(None)
                continue
            if done.done():
                self._settle(future, ref, done)
            else:
                self._refs.add(ref)
                done.add_done_callback(functools.partial(self._settle_and_start, future, ref))
                if self._is_terminated:
                    objects.cancel(ref)

    def _in_flight_max(self) -> int:
        """Return the number of tasks at a time; one more per CPU than can run, so no CPU waits for the executor's
        process.
        """
        return self._limit or self._pace.in_all + self._pace.workers

    def _settle(self, future: Future[Any], ref: ObjectRef[Any], done: Future[Any]) -> None:
        self._refs.discard(ref)
        self._ended(done)
        error = done.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def _settle_and_start(self, future: Future[Any], ref: ObjectRef[Any], done: Future[Any]) -> None:
        self._settle(future, ref, done)
        self._start()

    def _ended(self, done: Future[Any] | None) -> None:
        with self._lock:
            self._running -= 1
            if done is not None:
                self._pace.ended(1)
            if not self._running and not self._pending:
                self._is_idle.notify_all()


def _call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


class _Results:
    """Results of map() in the order of the items: an iterator that goes on after an error."""

    def __init__(self, refs: deque[ObjectRef[Any]], deadline: float | None, is_chunked: bool) -> None:
        self._refs = refs
        self._deadline = deadline
        self._is_chunked = is_chunked
        self._is_cancelled = False
        self._iterator = self._values()

    def __iter__(self) -> Iterator[Any]:
        return self._iterator

    def __next__(self) -> Any:
        return next(self._iterator)

    def cancel(self, *, with_running: bool = False) -> None:
        """Cancel tasks that wait, the last ones first; with_running: also those that run."""
        self._is_cancelled = True
        refs = list(self._refs)
        _, unfinished = objects.wait(refs, num_returns=len(refs), timeout=0) if refs else ([], [])
        for ref in reversed(unfinished):
            if with_running:
                objects.cancel(ref)
            else:
                ref.future().cancel()

    def wait(self) -> None:
        """Wait until all tasks have ended."""
        refs = list(self._refs)
        if refs:
            objects.wait(refs, num_returns=len(refs))

    def _values(self) -> Iterator[Any]:
        refs = self._refs
        while refs:
            try:
                values = next_values(refs, self._deadline)
            except TaskCancelledError:
                if self._is_cancelled:
                    raise CancelledError from None
                raise
            except (KeyboardInterrupt, SystemExit):
                self.cancel()  # as the standard library's map(): the end of the `with` waits for running calls only
                raise
            yield from itertools.chain.from_iterable(values) if self._is_chunked else values
