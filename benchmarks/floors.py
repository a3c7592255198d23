"""The floors under zray's figures, each measured in a clean process of its own.

python -m benchmarks.floors        prints both as one JSON line
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
PIPELINE = ("sync_us", "async_1k", "async_10k", "async_100k")  # microseconds; tasks/s
MEMORY = ("heap_copy", "mapped_copy", "remapped_copy", "fresh_copy")  # GB/s
TIMEOUT_SECONDS = 300


def run_floor(program: str, *options: str) -> dict[str, float]:
    command = [sys.executable, str(HERE / program), *options]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    return json.loads(printed.stdout)


def measure_pipeline(seconds: float = 2.0, workers: int = 2, figures: Iterable[str] = PIPELINE) -> dict[str, float]:
    """sync_us in microseconds and async_* in tasks/s, each measured for `seconds`."""
    names = ",".join(figures)
    return run_floor("floor_pipeline.py", f"--seconds={seconds}", f"--workers={workers}", f"--figures={names}")


def measure_memory(mebibytes: int = 100) -> dict[str, float]:
    """The rate of each kind of copy of `mebibytes`, GB/s."""
    return run_floor("floor_memory.py", f"--mebibytes={mebibytes}")


def measure(names: Iterable[str], seconds: float = 0.5) -> dict[str, float]:
    """The named floors, and those that come for free with them."""
    wanted = set(names)
    floors: dict[str, float] = {}
    pipeline = [name for name in PIPELINE if name in wanted]
    if pipeline:
        floors |= measure_pipeline(seconds, figures=pipeline)
    if wanted.intersection(MEMORY):
        floors |= measure_memory()
    return floors


if __name__ == "__main__":
    print(json.dumps(measure(PIPELINE + MEMORY, seconds=2.0)))
