"""Programs in new processes, and what all processes of a session use together.

A program is Python source that reads MODULE (the name of a module with Ray's API) and OPTIONS (a dict), and
calls report(value) once. Its session's processes are found by an environment variable that they inherit, so
that one which leaves the process tree is counted all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MARK = "ZRAY_BENCHMARK_RUN"
REPORT = "benchmark report: "
# Of clock_getcpuclockid: the clock of what the scheduler has given a process, in nanoseconds.
CPUCLOCK_SCHED = 2
PRELUDE = """
import importlib, json, sys, time
MODULE, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
def report(value):
    print("benchmark report: " + json.dumps(value), flush=True)
"""


class Program:
    """One running program; a context manager that ends it."""

    def __init__(self, module: str, source: str, environment: dict[str, str] | None = None, **options: Any) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + source, module, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}) | {MARK: self.mark},
        )
        self.complaints: list[str] = []
        self.reader = threading.Thread(target=self.read_complaints, daemon=True)
        self.reader.start()

    def read_complaints(self) -> None:
        assert self.process.stderr is not None
        self.complaints.extend(self.process.stderr)

    def next_report(self) -> Any:
        """What the program reports next; raises with the end of its stderr if it ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(REPORT):
                return json.loads(line[len(REPORT) :])
        code = self.process.wait()
        self.reader.join(1)
        raise RuntimeError(f"the program ended with {code}: " + "".join(self.complaints[-5:]).strip())

    def go_on(self) -> None:
        """Answer the program's input()."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *failure: Any) -> None:
        if failure[0] is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run_program(module: str, source: str, **options: Any) -> Any:
    """What the program reports, when it has ended."""
    with Program(module, source, **options) as program:
        return program.next_report()


def session_processes(program: Program) -> set[int]:
    """The program's process, those that descend from it, and all others that carry its mark.

    Neither is enough alone: a daemon leaves the tree, and a process that sets its title loses its mark.
    """
    needle = f"{MARK}={program.mark}".encode()
    found = {program.process.pid}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if needle in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
    return descendants(found)


def parent_of(process: int) -> int:
    """The process that has started it.

    Raises:
        OSError: it has ended.
    """
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(processes: Iterable[int]) -> set[int]:
    """Ids of these processes, of their children, of the children of those, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(parent_of(int(entry.name)), []).append(int(entry.name))
    found = set(processes)
    grown = list(found)
    while grown:
        new = set(children.get(grown.pop(), ())) - found
        found |= new
        grown.extend(new)
    return found


def proportional_bytes(process: int) -> int:
    """PSS of a process: its own pages, and its share of those that it shares. 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def anonymous_bytes(process: int) -> int:
    """PSS of a process without what it maps from files: how much of that is its share depends on what else runs."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return 0


def cpu_seconds(process: int) -> float:
    """User and system time that a process has taken, of all its threads. 0 when it has ended."""
    with contextlib.suppress(OSError):
        return time.clock_gettime(~process << 3 | CPUCLOCK_SCHED)
    return 0.0


class PeakMemory(threading.Thread):
    """Samples the PSS of all processes of a program's session together; `bytes` is the highest."""

    def __init__(self, program: Program, interval_seconds: float = 0.1) -> None:
        super().__init__(daemon=True)
        self.program = program
        self.interval_seconds = interval_seconds
        self.bytes = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            self.bytes = max(self.bytes, sum(map(proportional_bytes, session_processes(self.program))))
            self.ended.wait(self.interval_seconds)


@contextlib.contextmanager
def peak_memory(program: Program) -> Iterator[PeakMemory]:
    sampler = PeakMemory(program)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.ended.set()
        sampler.join()


def idle_use(program: Program, seconds: float) -> tuple[int, float]:
    """PSS in bytes, and CPU in percent of one core over `seconds`, of all but the driver."""
    before = {process: cpu_seconds(process) for process in session_processes(program) - {program.process.pid}}
    start = time.perf_counter()
    time.sleep(seconds)
    used = sum(max(0.0, cpu_seconds(process) - taken) for process, taken in before.items())
    percent = 100 * used / (time.perf_counter() - start)
    return sum(proportional_bytes(process) for process in before), percent
