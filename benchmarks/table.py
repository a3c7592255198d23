"""The table of figures: what each is, what it must reach, and the floor that binds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from . import actors, environments, hosted, local, memory, objects, pools, session, tasks
from .timing import Effort

Workload = Callable[[ModuleType, Effort], dict[str, float]]
HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class Figure:
    """One row. Where `floor` is set, `ratio` times that floor binds; `target` is an absolute guide."""

    name: str  # Ray's name where Ray's own microbenchmark has one
    what: str
    unit: str
    target: float | None = None
    floor: str | None = None  # a key of floors.py
    ratio: float | None = None
    better: str = HIGHER

    def reached(self, measured: float, ratio: float | None) -> bool | None:
        """Whether what binds is met: the ratio if there is one, else the target. None if there is neither."""
        found, needed = (measured, self.target) if self.ratio is None else (ratio, self.ratio)
        if found is None or needed is None:
            return None
        return found >= needed if self.better == HIGHER else found <= needed


@dataclass(frozen=True)
class Group:
    """Workloads that share a session, and others that start their own."""

    name: str
    figures: list[Figure]
    shared: Sequence[Workload] = field(default_factory=list)  # in one session of two CPUs
    fresh: Sequence[Workload] = field(default_factory=list)  # each starts what it needs
    options: dict[str, Any] = field(default_factory=dict)  # of the shared session's init

    @property
    def floors(self) -> list[str]:
        return sorted({figure.floor for figure in self.figures if figure.floor})

    def only(self, wanted: Callable[[Workload], bool]) -> Group:
        """Cut down to some of its workloads."""
        return replace(self, shared=list(filter(wanted, self.shared)), fresh=list(filter(wanted, self.fresh)))


RATE, MICROSECONDS, SECONDS, MEGABYTES = "1/s", "us", "s", "MB"
GIGABYTES = "GB/s"

TASKS = [
    Figure("single_client_tasks_async", "10,000 no-op tasks, then fetched", RATE, 100_000, "async_10k", 0.4),
    Figure("tasks_1kb_argument_async", "1 KB in, a small dict back", RATE, 75_000, "async_10k", 0.3),
    Figure("single_client_tasks_sync", "one task at a time", RATE),
    Figure("task_round_trip_p50", "one task, p50", MICROSECONDS, 150, "sync_us", 1.6, LOWER),
    Figure("task_round_trip_p99", "one task, p99", MICROSECONDS, 400, "sync_us", 4.0, LOWER),
    Figure("get_in_a_loop", "1,000 tasks, get in a loop", MICROSECONDS, 150, "sync_us", 1.6, LOWER),
    Figure("chain_1k", "chain of 1,000 tasks", RATE, 20_000),
    Figure("tree_reduce_1024", "tree reduce, 1,024 leaves", RATE, 40_000),
    Figure("nested_10x100", "10 tasks x 100 nested", RATE, 40_000),
    Figure("single_client_wait_1k_refs", "wait over 1,000 refs, one at a time", RATE, 50),
    Figure("sleep_200x10ms_efficiency", "200 tasks of 10 ms on 2 CPUs", "of ideal", 0.97),
]
CLIENTS = [
    Figure("multi_client_tasks_async", "10,000 tasks from four drivers", RATE, 75_000, "async_10k", 0.3),
]
ACTORS = [
    Figure("1_1_actor_calls_sync", "one call at a time", RATE),
    Figure("actor_round_trip_p50", "one call, p50", MICROSECONDS, 150, "sync_us", 1.6, LOWER),
    Figure("actor_round_trip_p99", "one call, p99", MICROSECONDS, 400, "sync_us", 4.0, LOWER),
    Figure("1_1_actor_calls_async", "10,000 calls in flight", RATE, 87_500, "async_10k", 0.35),
    Figure("n_n_actor_calls_async", "2 callers, 2 actors", RATE, 87_500, "async_10k", 0.35),
    Figure("1_1_async_actor_calls_async", "async actor, 100 in flight", RATE, 37_500, "async_10k", 0.15),
    Figure("actors_100_created", "100 actors created, called once", SECONDS, 1.0, better=LOWER),
]
HOSTED = [
    Figure("hosted_200_created", "200 hosted actors created, called once", SECONDS, 1.0, better=LOWER),
    Figure("hosted_200_memory", "the same, growth of all processes", MEGABYTES, 20, better=LOWER),
    Figure("hosted_2000_created", "2,000 hosted actors created, called once", SECONDS, 5.0, better=LOWER),
    Figure("hosted_2000_memory", "2,000 of them, growth of all processes", MEGABYTES, 100, better=LOWER),
]
OBJECTS = [
    Figure("single_client_put_calls", "put of 100 B", RATE, 200_000),
    Figure("single_client_get_calls", "get of 100 B", RATE, 400_000),
    Figure("put_100mb_gigabytes", "put of 100 MB, refs dropped", GIGABYTES, 13, "mapped_copy", 0.9),
    Figure("single_client_put_gigabytes", "put of 1 GB, refs dropped", GIGABYTES, 18, "mapped_copy", 0.9),
    Figure("get_1gb", "get of an existing 1 GB array, no copy", MICROSECONDS, 20, better=LOWER),
    Figure("array_10mb_round_trips", "10 MB into a task and back", RATE, 150),
    Figure("array_100mb_to_20_tasks", "100 MB put, read by 20 tasks", "ms", 10, better=LOWER),
    Figure("parameter_server_25mb", "parameter server, 25 MB, 2 workers", RATE, 40),
    Figure("put_first_gigabyte", "first put of 1 GB in a session", GIGABYTES, 1.2, "fresh_copy", 1.0),
    Figure("put_first_gigabyte_at_rest", "the same, on a machine at rest", GIGABYTES),
]
UTIL = [
    Figure("actor_pool_map", "ActorPool.map of 10,000 no-ops, 2 actors", RATE),
    Figure("actor_pool_map_of_plain", "the same, to plain calls", "x", 0.8),
    Figure("executor_map", "Executor.map of 10,000 no-ops", RATE),
    Figure("executor_map_of_plain", "the same, to plain tasks", "x", 0.8),
    Figure("pool_map_chunks", "Pool.map, 100,000 items, chunks of 100", RATE),
    Figure("pool_map_of_multiprocessing", "the same, to multiprocessing.Pool", "x", 1.0),
    Figure("queue_put_get", "Queue, one task puts, one gets", RATE, 5_000),
    Figure("queue_batches", "Queue, batches of 1,000", RATE, 100_000),
    Figure("joblib_grid_search", "GridSearchCV on digits, 18 fits", SECONDS, better=LOWER),
    Figure("joblib_grid_search_of_loky", "the same, to joblib's processes", "x", 1.0),
    Figure("dask_graph_10k", "graph of 10,000 small dask tasks", RATE),
]
MEMORY = [
    Figure("drain_100k", "100,000 queued, then drained", SECONDS, 1.0, better=LOWER),
    Figure("drain_100k_peak_memory", "the same, peak PSS of all", MEGABYTES, 200, better=LOWER),
    Figure("drain_1m", "1,000,000 queued, then drained", SECONDS, 15, better=LOWER),
    Figure("drain_1m_peak_memory", "the same, peak PSS of all", MEGABYTES, 1200, better=LOWER),
]
SESSION = [
    Figure("import_time", "import", SECONDS, 0.10, better=LOWER),
    Figure("first_result", "import, init, first result", SECONDS, 0.35, better=LOWER),
    Figure("shutdown", "shutdown", SECONDS, 0.15, better=LOWER),
    Figure("idle_memory", "idle, all but the driver: PSS", MEGABYTES, 80, better=LOWER),
    Figure("idle_cpu", "idle, all but the driver: CPU", "%", 0.5, better=LOWER),
    Figure("worker_killed_to_running", "worker killed -> task running", "ms", 50, better=LOWER),
]
ENVIRONMENTS = [
    Figure("environment_task_p50", "one task in a cached pip environment, warm, p50", MICROSECONDS),
    Figure("environment_first_task", "first task of a session in a cached pip environment", SECONDS, 0.5, better=LOWER),
    Figure("environment_installed", "one local wheel installed, and the first task", SECONDS, better=LOWER),
]
LOCAL = [
    Figure("local_call", "local mode: one task and its get", MICROSECONDS, 20, better=LOWER),
    Figure("local_actor_call", "local mode: one actor call and its get", MICROSECONDS, 30, better=LOWER),
]

GROUPS = [
    Group("tasks", TASKS, shared=tasks.WORKLOADS),
    Group("clients", CLIENTS, fresh=session.DRIVER_WORKLOADS),
    Group("actors", ACTORS, shared=actors.WORKLOADS),
    Group("hosted", HOSTED, fresh=hosted.FRESH_WORKLOADS),
    Group(
        "objects",
        OBJECTS,
        shared=objects.WORKLOADS,
        fresh=objects.FRESH_WORKLOADS,
        options={"object_store_memory": objects.STORE_BYTES},
    ),
    Group("util", UTIL, shared=pools.WORKLOADS),
    Group("memory", MEMORY, fresh=memory.FRESH_WORKLOADS),
    Group("session", SESSION, fresh=session.FRESH_WORKLOADS),
    Group("environments", ENVIRONMENTS, fresh=environments.FRESH_WORKLOADS),
    Group("local", LOCAL, shared=local.WORKLOADS, options={"local_mode": True}),
]
WORKLOAD_NAMES = [workload.__name__ for group in GROUPS for workload in (*group.shared, *group.fresh)]
SLOW = {"drain_1m"}  # workloads that a quick run leaves out
# Workloads whose figures a floor binds: measured in turns with it.
BOUND = {
    "tasks_async",
    "tasks_with_payload",
    "tasks_sync",
    "get_in_a_loop",
    "several_drivers",
    "calls_sync",
    "calls_async",
    "calls_n_to_n",
    "async_calls",
    "put_100_megabytes",
    "put_gigabyte",
    "first_gigabyte",
}


def chosen_groups(only: list[str]) -> list[Group]:
    """The groups with a group or workload name in `only`, cut down to those workloads; all if it is empty."""
    known = {group.name for group in GROUPS} | set(WORKLOAD_NAMES)
    unknown = sorted(set(only) - known)
    if unknown:
        raise ValueError(f"no such group or workload: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    chosen = []
    for group in GROUPS:
        if only and group.name not in only:
            group = group.only(lambda workload: workload.__name__ in only)
        if group.shared or group.fresh:
            chosen.append(group)
    return chosen
