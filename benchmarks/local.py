"""Figures of local mode: calls that run inline in the program."""

from __future__ import annotations

from types import ModuleType

from .timing import Effort, median_seconds

CALLS = 1_000


def local_calls(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """1,000 calls of a task and of an actor's method, each with a get: microseconds a call."""

    @ray.remote
    def same(value):
        return value

    class Same:
        def same(self, value):
            return value

    def call_task() -> None:
        for index in range(CALLS):
            ray.get(same.remote(index))

    def call_actor() -> None:
        for index in range(CALLS):
            ray.get(actor.same.remote(index))

    actor = ray.remote(Same).remote()
    return {
        "local_call": median_seconds(call_task, effort) / CALLS * 1e6,
        "local_actor_call": median_seconds(call_actor, effort) / CALLS * 1e6,
    }


WORKLOADS = [local_calls]
