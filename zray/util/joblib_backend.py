"""Backend of joblib: batches of calls run as tasks, and large arguments are put once per `Parallel` call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, SequentialBackend
from joblib.parallel import BatchedCalls, ParallelBackendBase

from ..api import objects, sessions
from ..api.cluster_info import cluster_resources
from .executor import Executor
from .mapping import name_of

# Smaller arguments travel with each batch.
SHARED_BYTES_MIN = 100_000
SMALL_TYPES = frozenset({int, float, bool, str, bytes, tuple, list, dict, type(None)})


class ZrayBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Backend whose batches are tasks, on all nodes of the cluster.

    Short calls are joined to batches, as for joblib's own processes.  Parallel calls inside of a task use threads.

    Args:
        nesting_level: depth of parallel calls, as joblib counts it.
        inner_max_num_threads: accepted as None only; numerical libraries use as many threads as the task has CPUs.
        ray_remote_args: options of the tasks, as {"num_cpus": 2}.  Default: none.
        further: options of joblib's own backends, without effect.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **further: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **further)
        self._options = ray_remote_args
        self._executor: Executor | None = None
        self._shared: dict[int, tuple[Any, Any]] = {}  # values and refs by identity, for one Parallel call

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of tasks at a time: n_jobs, or the number of CPUs; -2 is one less.

        Raises:
            ValueError: n_jobs is 0.
        """
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        sessions.require_runtime()
        return max(1, int(cluster_resources().get("CPU", 1)) + 1 + n_jobs)

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, prefer: Any = None, require: Any = None, **further: Any
    ) -> int:
        """Get ready for a Parallel call.  Returns the number of tasks at a time."""
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._executor = Executor(count, remote_options=self._options)
        return count

    def submit(self, func: Callable[[], Any], callback: Callable[[Future[Any]], Any] | None = None) -> Future[Any]:
        """Begin a batch.  Returns a future, which the callback gets at the end."""
        assert self._executor is not None
        if isinstance(func, BatchedCalls):
            refs: dict[int, Any] = {}
            calls = [
                (function, tuple(self._share(value, refs) for value in args), self._share_all(kwargs, refs))
                for function, args, kwargs in func.items
            ]
            given = calls if refs else func.items
            name = name_of(func.items[0][0]) if func.items else "joblib"
            batch = (given, (func._backend, func._n_jobs), list(refs), *refs.values())
            future = self._executor._submit(name, _run_batch, batch, {})
        else:
            future = self._executor._submit(name_of(func), _run, (func,), {})
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Results of a batch."""
        return out.result()

    def stop_call(self) -> None:
        """Free what the call has shared."""
        self._shared.clear()

    def terminate(self) -> None:
        """Free everything.  Workers stay for later calls."""
        self._end()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel all batches, also those that run."""
        if self._executor is not None:
            self._executor.terminate_workers()
        self._end()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def _end(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
        self._shared.clear()

    # --- large arguments ---

    def _share_all(self, kwargs: dict[str, Any], refs: dict[int, Any]) -> dict[str, Any]:
        return {name: self._share(value, refs) for name, value in kwargs.items()}

    def _share(self, value: Any, refs: dict[int, Any]) -> Any:
        """A mark in place of a large value, whose ref is among the arguments of the task then."""
        if type(value) in SMALL_TYPES or _bytes_of(value) < SHARED_BYTES_MIN:
            return value
        key = id(value)
        if key not in self._shared:
            self._shared[key] = (value, objects.put(value))
        refs[key] = self._shared[key][1]
        return _Shared(key)


class _Shared:
    """Mark of a large value in a batch."""

    __slots__ = ("key",)

    def __init__(self, key: int) -> None:
        self.key = key

    def __reduce__(self) -> Any:
        return _Shared, (self.key,)


def _bytes_of(value: Any) -> int:
    """Size of an array, a sparse matrix or a frame; 0 of anything else."""
    size = getattr(value, "nbytes", None)
    if size is None:
        size = getattr(getattr(value, "data", None), "nbytes", None)  # scipy's
    if size is None and hasattr(value, "memory_usage"):  # pandas'
        try:
            size = value.memory_usage().sum()
        except Exception:
            size = 0
    return int(size) if size is not None and hasattr(size, "__index__") else 0


def _run_batch(calls: list[Any], backend: Any, keys: list[int], *values: Any) -> list[Any]:
    if not keys:
        plain: list[Any] = BatchedCalls(calls, backend)()
        return plain
    by_key = dict(zip(keys, values, strict=True))

    def found(value: Any) -> Any:
        return by_key[value.key] if type(value) is _Shared else value

    items = [
        (function, tuple(map(found, args)), {name: found(value) for name, value in kwargs.items()})
        for function, args, kwargs in calls
    ]
    results: list[Any] = BatchedCalls(items, backend)()
    return results


def _run(function: Callable[[], Any]) -> Any:
    return function()
