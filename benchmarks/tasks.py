"""Figures of tasks: throughput, round trips, and graphs of them.

Each workload takes a module with Ray's API, in a session of two CPUs, and returns figures by name. Functions
are local to the workloads, so that they travel by value whatever package this file belongs to.
"""

from __future__ import annotations

import statistics
import time
from types import ModuleType
from typing import Any

from .timing import Effort, median_seconds, percentile, rate, samples

BURST = 10_000


def no_op(ray: ModuleType) -> Any:
    """A remote function that does nothing, warmed up."""

    @ray.remote
    def nothing():
        return None

    ray.get([nothing.remote() for _ in range(200)])
    return nothing


def tasks_async(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """10,000 no-op tasks submitted, then fetched: tasks/s."""
    nothing = no_op(ray)
    return {"single_client_tasks_async": rate(BURST, lambda: ray.get([nothing.remote() for _ in range(BURST)]), effort)}


def tasks_with_payload(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """10,000 tasks with an argument of 1 KB and a small dict back: tasks/s."""

    @ray.remote
    def describe(payload):
        return {"bytes": len(payload), "first": payload[0], "ok": True}

    payload = b"x" * 1024
    burst = lambda: ray.get([describe.remote(payload) for _ in range(BURST)])  # noqa: E731
    return {"tasks_1kb_argument_async": rate(BURST, burst, effort)}


def tasks_sync(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """One task submitted and fetched: tasks/s, and microseconds at the median and at 99 %."""
    nothing = no_op(ray)
    times = samples(lambda: ray.get(nothing.remote()), effort, at_least=500)
    return {
        "single_client_tasks_sync": len(times) / sum(times),
        "task_round_trip_p50": statistics.median(times) * 1e6,
        "task_round_trip_p99": percentile(times, 99) * 1e6,
    }


def get_in_a_loop(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """1,000 tasks, each submitted and fetched before the next: microseconds a task."""

    @ray.remote
    def same(value):
        return value

    def loop() -> None:
        for i in range(1000):
            ray.get(same.remote(i))

    return {"get_in_a_loop": median_seconds(loop, effort) / 1000 * 1e6}


def chain(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """1,000 tasks, each taking the one before as its argument: tasks/s."""

    @ray.remote
    def step(value):
        return value + 1

    def run() -> None:
        value = 0
        for _ in range(1000):
            value = step.remote(value)
        assert ray.get(value) == 1000

    return {"chain_1k": rate(1000, run, effort)}


def tree_reduce(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """1,024 leaves added up in pairs, 2,047 tasks: tasks/s."""

    @ray.remote
    def leaf(value):
        return value

    @ray.remote
    def add(left, right):
        return left + right

    def run() -> None:
        level = [leaf.remote(i) for i in range(1024)]
        while len(level) > 1:
            level = [add.remote(*level[i : i + 2]) for i in range(0, len(level), 2)]
        assert ray.get(level[0]) == 1023 * 512

    return {"tree_reduce_1024": rate(2047, run, effort)}


def nested(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """10 tasks that submit and fetch 100 each, 1,010 in all: tasks/s."""

    @ray.remote
    def inner(value):
        return value

    @ray.remote
    def outer():
        return sum(ray.get([inner.remote(i) for i in range(100)]))

    def run() -> None:
        assert ray.get([outer.remote() for _ in range(10)]) == [4950] * 10

    return {"nested_10x100": rate(1010, run, effort)}


def wait_loop(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """`wait` over 1,000 refs, one at a time until all are done: loops/s."""
    nothing = no_op(ray)

    def run() -> None:
        waiting = [nothing.remote() for _ in range(1000)]
        while waiting:
            _, waiting = ray.wait(waiting)

    return {"single_client_wait_1k_refs": rate(1, run, effort)}


def short_sleeps(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """200 tasks of 10 ms on two CPUs: the ideal second over the seconds taken."""

    @ray.remote
    def sleep():
        time.sleep(0.01)

    took = median_seconds(lambda: ray.get([sleep.remote() for _ in range(200)]), effort)
    return {"sleep_200x10ms_efficiency": 1.0 / took}


WORKLOADS = [
    tasks_async,
    tasks_with_payload,
    tasks_sync,
    get_in_a_loop,
    chain,
    tree_reduce,
    nested,
    wait_loop,
    short_sleeps,
]
