"""Figures of hosted actors: many in one process, created and called once, and the memory that they take.

python -m benchmarks.hosted      seconds and MB of 200 and of 2,000
"""

from __future__ import annotations

import importlib
from types import ModuleType

from .processes import Program, proportional_bytes, session_processes
from .timing import QUICK, Effort

COUNTS = (200, 2_000)
CREATE = """
ray = importlib.import_module(MODULE)
ray.init(num_cpus=2)
@ray.remote(hosted=True)
class Counter:
    def __init__(self, value):
        self.value = value
    def add(self):
        self.value += 1
        return self.value
ray.get(Counter.remote(0).add.remote())
report("ready")
input()
start = time.perf_counter()
counters = [Counter.remote(number) for number in range(OPTIONS["count"])]
values = ray.get([counter.add.remote() for counter in counters])
took = time.perf_counter() - start
assert values == list(range(1, OPTIONS["count"] + 1))
report(took)
input()
ray.shutdown()
"""


def memory_of(program: Program) -> int:
    """PSS of all processes of a session together, the program too."""
    return sum(map(proportional_bytes, session_processes(program)))


def created(ray: ModuleType, count: int) -> tuple[float, float]:
    """Seconds until all have answered once, and the MB that all processes have grown by."""
    with Program(ray.__name__, CREATE, count=count) as program:
        program.next_report()
        before = memory_of(program)
        program.go_on()
        seconds = program.next_report()
        grown = memory_of(program) - before
        program.go_on()
        return seconds, grown / 1e6


def create_hosted(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """200 and 2,000 hosted actors created and called once: seconds, and MB of all processes."""
    figures: dict[str, float] = {}
    for count in COUNTS:
        seconds, megabytes = created(ray, count)
        figures |= {f"hosted_{count}_created": seconds, f"hosted_{count}_memory": megabytes}
    return figures


FRESH_WORKLOADS = [create_hosted]


def main() -> None:
    for name, value in create_hosted(importlib.import_module("zray"), QUICK).items():
        print(f"{name:24}{value:8.3f}")


if __name__ == "__main__":
    main()
