"""A standard process pool under the few names of Ray's API that the workloads of tasks use.

ZRAY_BENCHMARK_POOL says which: multiprocessing, futures or loky. Functions travel as cloudpickle bytes, pickled
once and loaded once per worker, since the workloads' functions are local. A ref holds a future or the value put.
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import cloudpickle

KIND = os.environ.get("ZRAY_BENCHMARK_POOL", "futures")
state: dict[str, Any] = {}
load = functools.lru_cache(maxsize=None)(cloudpickle.loads)


class Ref:
    """A task's future, or a value that was put: a pool has no store, so a put is nothing."""

    __slots__ = ("future", "value")

    def __init__(self, future: Any = None, value: Any = None) -> None:
        self.future = future
        self.value = value


class Remote:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.code = cloudpickle.dumps(function)

    def remote(self, *args: Any) -> Ref:
        return Ref(future=state["submit"](run, self.code, [plain(arg) for arg in args]))


def run(code: bytes, args: list[Any]) -> Any:
    return load(code)(*args)


def plain(arg: Any) -> Any:
    """A ref that is an argument is its value: pools know no dependencies."""
    return get(arg) if isinstance(arg, Ref) else arg


def multiprocessing_submit(pool: Any) -> Callable[..., Any]:
    return lambda function, *args: pool.apply_async(function, args)


def init(num_cpus: int = 2, **options: Any) -> None:
    if KIND == "multiprocessing":
        state["pool"] = multiprocessing.get_context("fork").Pool(num_cpus)
        state["submit"] = multiprocessing_submit(state["pool"])
        return
    if KIND == "loky":
        from loky import ProcessPoolExecutor

        state["pool"] = ProcessPoolExecutor(num_cpus)
    else:
        state["pool"] = concurrent.futures.ProcessPoolExecutor(num_cpus)
    state["submit"] = state["pool"].submit


def is_initialized() -> bool:
    return bool(state)


def shutdown() -> None:
    pool = state.pop("pool", None)
    state.clear()
    if pool is None:
        return
    if KIND == "multiprocessing":
        pool.terminate()
        pool.join()
    else:
        pool.shutdown()


def remote(function: Callable[..., Any]) -> Remote:
    if isinstance(function, type):
        raise NotImplementedError("a pool has no actors")
    return Remote(function)


def put(value: Any) -> Ref:
    return Ref(value=value)


def get(refs: Any) -> Any:
    if isinstance(refs, list):
        return [get(ref) for ref in refs]
    if refs.future is None:
        return refs.value
    return refs.future.get() if KIND == "multiprocessing" else refs.future.result()


def wait(refs: list[Ref]) -> tuple[list[Ref], list[Ref]]:
    """The first ref that is done, and the rest."""
    if KIND == "multiprocessing":
        done = next((ref for ref in refs if ref.future.ready()), refs[0])
        done.future.wait()
    else:
        finished = concurrent.futures.wait(
            [ref.future for ref in refs], return_when=concurrent.futures.FIRST_COMPLETED
        ).done
        done = next(ref for ref in refs if ref.future in finished)
    return [done], [ref for ref in refs if ref is not done]
