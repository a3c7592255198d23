"""Figures of actors: round trips, calls in flight, many of them, many at once."""

from __future__ import annotations

import statistics
import time
from types import ModuleType
from typing import Any

from .timing import Effort, percentile, rate, samples

BURST = 10_000
CREATED = 100


def echo_class(ray: ModuleType) -> Any:
    @ray.remote
    class Echo:
        def same(self, value=None):
            return value

    return Echo


def calls_sync(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """One call at a time: calls/s, and microseconds at the median and at 99 %."""
    actor = echo_class(ray).remote()
    times = samples(lambda: ray.get(actor.same.remote()), effort, at_least=500)
    return {
        "1_1_actor_calls_sync": len(times) / sum(times),
        "actor_round_trip_p50": statistics.median(times) * 1e6,
        "actor_round_trip_p99": percentile(times, 99) * 1e6,
    }


def calls_async(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """10,000 calls in flight on one actor: calls/s."""
    actor = echo_class(ray).remote()
    burst = lambda: ray.get([actor.same.remote() for _ in range(BURST)])  # noqa: E731
    return {"1_1_actor_calls_async": rate(BURST, burst, effort)}


def calls_n_to_n(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """Two tasks that call two actors in turn, 5,000 times each: calls/s."""
    Echo = echo_class(ray)
    actors = [Echo.remote() for _ in range(2)]

    @ray.remote
    def call(actors, count):
        ray.get([actors[i % len(actors)].same.remote() for i in range(count)])

    burst = lambda: ray.get([call.remote(actors, BURST // 2) for _ in range(2)])  # noqa: E731
    return {"n_n_actor_calls_async": rate(BURST, burst, effort)}


def async_calls(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """An asyncio actor, rounds of 100 calls in flight: calls/s."""

    class AsyncEcho:
        async def same(self, value=None):
            return value

    remote: Any = ray.remote
    actor = remote(AsyncEcho).remote()

    def rounds() -> None:
        for _ in range(20):
            ray.get([actor.same.remote() for _ in range(100)])

    return {"1_1_async_actor_calls_async": rate(2000, rounds, effort)}


def create_hundred(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """100 actors created and called once: seconds."""
    Echo = echo_class(ray)
    ray.get(Echo.remote().same.remote())
    start = time.perf_counter()
    actors = [Echo.remote() for _ in range(CREATED)]
    values = ray.get([actor.same.remote(i) for i, actor in enumerate(actors)])
    took = time.perf_counter() - start
    assert values == list(range(CREATED))
    return {"actors_100_created": took}


WORKLOADS = [calls_sync, calls_async, calls_n_to_n, async_calls, create_hundred]
