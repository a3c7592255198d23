"""Figures of pools, executors and queues: beside plain calls, or Python's own pool, in the same minute."""

from __future__ import annotations

import importlib
import multiprocessing
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .actors import echo_class
from .timing import Effort, median_seconds, rate

CALLS = 10_000
# A process releases 4,096 objects with each of its messages at most: after so many calls, all of a run are released.
BETWEEN = 4
ITEMS = 100_000
CHUNK = 100
QUEUE_ITEMS = 5_000
BATCH = 1_000
LEAVES = 5_000


def util(ray: ModuleType, name: str) -> Any:
    """A module of ray.util."""
    return importlib.import_module(f"{ray.__name__}.util.{name}")


def in_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any], effort: Effort, between: Callable[[], Any] | None = None
) -> tuple[float, float]:
    """Seconds of ours, and how many times as fast as theirs it is: medians of runs in turns.

    Calls of `between` are not timed.  They let zray release the objects of one run before the next one is timed.
    """
    ours(), theirs()
    seconds: list[float] = []
    ratios: list[float] = []
    end = time.perf_counter() + effort.seconds
    while len(seconds) < max(3, effort.repeats) or time.perf_counter() < end:
        times = []
        for action in (ours, theirs):
            if between:
                for _ in range(BETWEEN):
                    between()
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
        seconds.append(times[0])
        ratios.append(times[1] / times[0])
    return statistics.median(seconds), statistics.median(ratios)


def actor_pool(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """ActorPool.map of no-ops on two actors: calls/s, and that of plain calls."""

    Echo = echo_class(ray)
    actors = [Echo.remote() for _ in range(2)]
    pool = util(ray, "actor_pool").ActorPool(actors)
    seconds, ratio = in_turns(
        lambda: list(pool.map(lambda actor, value: actor.same.remote(value), range(CALLS))),
        lambda: ray.get([actors[index % 2].same.remote(index) for index in range(CALLS)]),
        effort,
        lambda: ray.get(actors[0].same.remote(0)),
    )
    return {"actor_pool_map": CALLS / seconds, "actor_pool_map_of_plain": ratio}


def executor_map(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """Executor.map of no-ops: calls/s, and that of plain tasks."""

    def same(value):
        return value

    remote = ray.remote(same)
    with util(ray, "executor").Executor() as executor:
        seconds, ratio = in_turns(
            lambda: list(executor.map(same, range(CALLS))),
            lambda: ray.get([remote.remote(value) for value in range(CALLS)]),
            effort,
            lambda: ray.get(remote.remote(0)),
        )
    return {"executor_map": CALLS / seconds, "executor_map_of_plain": ratio}


def pool_map(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """Pool.map of a built-in function in chunks of 100: items/s, and those of Python's own pool."""
    action = lambda pool: pool.map(abs, range(ITEMS), CHUNK)  # noqa: E731
    with util(ray, "multiprocessing").Pool(2) as ours, multiprocessing.get_context("forkserver").Pool(2) as theirs:
        seconds, ratio = in_turns(lambda: action(ours), lambda: action(theirs), effort)
    return {"pool_map_chunks": ITEMS / seconds, "pool_map_of_multiprocessing": ratio}


def queue(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """A queue between a task that puts and one that gets, and batches from this process: items/s."""
    items = util(ray, "queue").Queue()

    @ray.remote
    def put(items, count):
        for value in range(count):
            items.put(value)

    @ray.remote
    def get(items, count):
        for _ in range(count):
            items.get()

    def batch() -> None:
        items.put_nowait_batch(range(BATCH))
        items.get_nowait_batch(BATCH)

    both = lambda: ray.get([put.remote(items, QUEUE_ITEMS), get.remote(items, QUEUE_ITEMS)])  # noqa: E731
    return {"queue_put_get": rate(QUEUE_ITEMS, both, effort), "queue_batches": rate(BATCH, batch, effort)}


def grid_search(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """GridSearchCV on digits through joblib, against its own processes; nothing without scikit-learn."""
    try:
        import joblib
        from sklearn.datasets import load_digits
        from sklearn.model_selection import GridSearchCV
        from sklearn.svm import SVC
    except ImportError:
        return {}
    util(ray, "joblib").register_ray()
    data, target = load_digits(return_X_y=True)

    def search(backend: str) -> None:
        with joblib.parallel_config(backend, n_jobs=2):
            GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [1e-4, 1e-3]}, cv=3).fit(data, target)

    seconds, ratio = in_turns(lambda: search("ray"), lambda: search("loky"), effort)
    return {"joblib_grid_search": seconds, "joblib_grid_search_of_loky": ratio}


def dask_graph(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """A graph of 10,000 small dask tasks, a sum in pairs: dask tasks/s; nothing without dask."""
    try:
        import dask  # noqa: F401
    except ImportError:
        return {}
    get = util(ray, "dask").ray_dask_get
    graph: dict[Any, Any] = {("leaf", index): (abs, index) for index in range(LEAVES)}
    level = list(graph)
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=False))
        graph.update({("sum", *pair): (sum, list(pair)) for pair in pairs})
        level = [("sum", *pair) for pair in pairs] + level[2 * len(pairs) :]
    return {"dask_graph_10k": len(graph) / median_seconds(lambda: get(graph, level), effort)}


WORKLOADS = [actor_pool, executor_map, pool_map, queue, grid_search, dask_graph]
