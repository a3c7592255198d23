"""Figures of long queues: how long 100,000 and 1,000,000 tasks take, and what all processes then hold."""

from __future__ import annotations

import statistics
from types import ModuleType

from .processes import Program, peak_memory
from .timing import Effort

DRAIN = """
ray = importlib.import_module(MODULE)
ray.init(num_cpus=2)
@ray.remote
def nothing():
    return None
ray.get([nothing.remote() for _ in range(1000)])
report("ready")
input()
start = time.perf_counter()
ray.get([nothing.remote() for _ in range(OPTIONS["count"])])
report(time.perf_counter() - start)
ray.shutdown()
"""


def drain_seconds(ray: ModuleType, count: int) -> float:
    with Program(ray.__name__, DRAIN, count=count) as program:
        program.next_report()
        program.go_on()
        return program.next_report()


def drain_peak_bytes(ray: ModuleType, count: int) -> int:
    """Peak PSS of all processes of the session, the driver too."""
    with Program(ray.__name__, DRAIN, count=count) as program:
        program.next_report()
        with peak_memory(program) as peak:
            program.go_on()
            program.next_report()
        return peak.bytes


def drain_100k(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """100,000 tasks queued, then drained: seconds; and in a run of its own, MB."""
    times = [drain_seconds(ray, 100_000) for _ in range(effort.repeats)]
    return {
        "drain_100k": statistics.median(times),
        "drain_100k_peak_memory": drain_peak_bytes(ray, 100_000) / 1e6,
    }


def drain_1m(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """1,000,000 tasks queued, then drained: seconds; and in a run of its own, MB."""
    return {
        "drain_1m": drain_seconds(ray, 1_000_000),
        "drain_1m_peak_memory": drain_peak_bytes(ray, 1_000_000) / 1e6,
    }


FRESH_WORKLOADS = [drain_100k, drain_1m]
