"""Figures of a session's life: start, rest, a worker's death, the end; and several drivers at once."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from .processes import Program, idle_use, run_program
from .timing import Effort

IDLE_SECONDS = 6.0
SETTLE_SECONDS = 2.0
DRIVERS = 4
TASKS_PER_DRIVER = 2_500

IMPORT = """
start = time.perf_counter()
importlib.import_module(MODULE)
report(time.perf_counter() - start)
"""

LIFE = """
start = time.perf_counter()
ray = importlib.import_module(MODULE)
ray.init(num_cpus=2)
@ray.remote
def one():
    return 1
assert ray.get(one.remote()) == 1
ready = time.perf_counter()
ray.shutdown()
report([ready - start, time.perf_counter() - ready])
"""

REST = """
ray = importlib.import_module(MODULE)
ray.init(num_cpus=2)
@ray.remote
def nothing():
    return None
ray.get([nothing.remote() for _ in range(100)])
report("ready")
input()
ray.shutdown()
"""

KILL = """
import os, signal, tempfile
ray = importlib.import_module(MODULE)
ray.init(num_cpus=2)
@ray.remote(max_retries=3)
def attempt(path):
    import os, time
    with open(path, "a") as file:
        file.write(f"{os.getpid()} {time.monotonic()}\\n")
    if len(open(path).readlines()) == 1:
        time.sleep(60)
def lines(path):
    try:
        with open(path) as file:
            return [line.split() for line in file if line.endswith("\\n")]
    except FileNotFoundError:
        return []
times = []
with tempfile.TemporaryDirectory() as folder:
    for i in range(OPTIONS["repeats"] + 1):
        path = f"{folder}/{i}"
        ref = attempt.remote(path)
        while not lines(path):
            time.sleep(0.005)
        time.sleep(0.1)
        killed = time.monotonic()
        os.kill(int(lines(path)[0][0]), signal.SIGKILL)
        ray.get(ref)
        times.append(float(lines(path)[1][1]) - killed)
ray.shutdown()
report(times[1:])
"""

DRIVER = """
ray = importlib.import_module(MODULE)
end = time.monotonic() + 30
while True:
    try:
        ray.init(address="auto")
        break
    except ConnectionError:
        if time.monotonic() > end:
            raise
        time.sleep(0.2)
@ray.remote
def nothing():
    return None
ray.get([nothing.remote() for _ in range(500)])
report("ready")
for _ in range(OPTIONS["repeats"]):
    input()
    start = time.monotonic()
    ray.get([nothing.remote() for _ in range(OPTIONS["count"])])
    report([start, time.monotonic()])
ray.shutdown()
"""


def import_time(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """The import in a new process, the interpreter's own start left out: seconds."""
    times = [run_program(ray.__name__, IMPORT) for _ in range(max(3, effort.repeats))]
    return {"import_time": statistics.median(times)}


def life(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """Import, `init` and a first task's result in a new process; `shutdown`: seconds."""
    times = [run_program(ray.__name__, LIFE) for _ in range(max(3, effort.repeats))]
    starts, ends = zip(*times, strict=False)
    return {"first_result": statistics.median(starts), "shutdown": statistics.median(ends)}


def rest(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """An idle session, all processes but the driver: PSS in MB, CPU in percent of a core."""
    with Program(ray.__name__, REST) as program:
        program.next_report()
        time.sleep(SETTLE_SECONDS)
        used, percent = idle_use(program, IDLE_SECONDS)
        program.go_on()
    return {"idle_memory": used / 1e6, "idle_cpu": percent}


def worker_killed(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """From kill -9 of a worker to the second start of its task: milliseconds."""
    times = run_program(ray.__name__, KILL, repeats=max(3, effort.repeats))
    return {"worker_killed_to_running": statistics.median(times) * 1e3}


@contextmanager
def standing_head(name: str) -> Iterator[dict[str, str]]:
    """A session of two CPUs, by the command `NAME start --head --block`; yields the environment to join it in.

    It has a temporary folder of its own, so that "auto" finds it and no other, and nothing of it stays behind.
    """
    with tempfile.TemporaryDirectory(prefix="b", ignore_cleanup_errors=True) as folder:
        environment = {"TMPDIR": folder, "RAY_TMPDIR": folder}
        with running_head(name, environment):
            yield environment


@contextmanager
def running_head(name: str, environment: dict[str, str]) -> Iterator[None]:
    script = Path(sys.executable).parent / name
    command = [str(script)] if script.exists() else [sys.executable, "-m", f"{name}.cli.main"]
    head = subprocess.Popen(
        [*command, "start", "--head", "--num-cpus", "2", "--block"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
    )
    try:
        yield
    finally:
        head.terminate()
        try:
            head.wait(20)
        except subprocess.TimeoutExpired:
            head.kill()
            head.wait()


def several_drivers(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """10,000 no-op tasks from four driver processes together: tasks/s."""
    repeats = max(2, effort.repeats) + 1
    options = {"count": TASKS_PER_DRIVER, "repeats": repeats}
    with standing_head(ray.__name__) as environment:
        programs = [Program(ray.__name__, DRIVER, environment, **options) for _ in range(DRIVERS)]
        try:
            for program in programs:
                program.next_report()
            times = []
            for _ in range(repeats):
                for program in programs:
                    program.go_on()
                starts, ends = zip(*(program.next_report() for program in programs), strict=False)
                times.append(max(ends) - min(starts))
        finally:
            for program in programs:
                program.__exit__(*sys.exc_info())
    return {"multi_client_tasks_async": DRIVERS * TASKS_PER_DRIVER / statistics.median(times[1:])}


FRESH_WORKLOADS = [import_time, life, rest, worker_killed]
DRIVER_WORKLOADS = [several_drivers]
