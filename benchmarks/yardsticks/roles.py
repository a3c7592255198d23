"""Turns and memory of a local scheduler with many tasks."""

from __future__ import annotations

import gc
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .bench import DRIVER, Bench, least, names
from .names import NotThere

READY, DEPARTING, ENDED, WAITING = 100_000, 100_000, 1_000_000, 10_000
COUNTED = 3_000  # tasks whose instructions are counted
PORTION = 1_000  # tasks of one message
COURSES = 5
NEXT = 1_001  # further messages, one task each


def guarded(measure: Callable[[float], dict[str, float]]) -> Callable[[float], dict[str, float]]:
    """The same, where a tree with other roles has no such figure.  Without the collector, as a node nearly is."""

    def attempt(scale: float) -> dict[str, float]:
        gc.disable()
        try:
            return measure(scale)
        except (AttributeError, ImportError, TypeError) as error:
            raise NotThere(f"{type(error).__name__}: {error}") from error
        finally:
            gc.enable()

    return attempt


def next_turn(bench: Bench) -> float:
    """The median turn of a message with one task, in microseconds."""
    return statistics.median(bench.submit(bench.specs(1)) for _ in range(NEXT)) * 1e6


@guarded
def ready(scale: float) -> dict[str, float]:
    """Tasks are submitted, and those that the workers were sent go on running."""
    count, courses, following = max(PORTION, int(READY * scale)), [], []
    for _ in range(COURSES):
        bench = Bench()
        bench.turns.clear()
        for _ in range(0, count, PORTION):
            bench.submit(bench.specs(PORTION))
        courses.append(bench.turns.copy())
        following.append(next_turn(bench))
    turns = least(courses)
    return {"ready.turn": max(turns) * 1e3, "ready.next": min(following), "ready.cpu": sum(turns) / count * 1e6}


@guarded
def departing(scale: float) -> dict[str, float]:
    """Workers are busy with the first tasks for ever; the others leave for another node, and come back done."""
    count, bench = max(PORTION, int(DEPARTING * scale)), Bench(is_member=True)
    let_depart(bench, count)
    return {"departing.turn": max(bench.turns) * 1e3, "departing.cpu": sum(bench.turns) / count * 1e6}


def let_depart(bench: Bench, count: int) -> None:
    """Submit so many to a full node, and let them leave; the turns before do not count.

    Raises:
        NotThere: they do not leave.
    """
    bench.submit(bench.specs(PORTION))
    bench.settle()
    bench.turns.clear()
    gone = 0
    for _ in range(0, count, PORTION):
        bench.submit(bench.specs(PORTION))
    while gone < count:
        gone += bench.finish_spilled()
        bench.settle()
        if not bench.spilled and not bench.fire():
            raise NotThere(f"{gone} of {count} tasks have left, and nothing more happens")


@guarded
def ended(scale: float) -> dict[str, float]:
    """Tasks are run, and the driver keeps all refs on what they return."""
    count, bench = max(PORTION, int(ENDED * scale)), Bench()
    bench.turns.clear()
    before = resident_bytes()
    run_to_end(bench, count)
    used = resident_bytes() - before
    turns = bench.turns
    found = {"ended.turn": max(turns) * 1e3, "ended.cpu": sum(turns) / count * 1e6, "ended.memory": used / count}
    return found | {"ended.next": next_turn(bench)}


def run_to_end(bench: Bench, count: int) -> None:
    """Submit so many, and run them.

    Raises:
        NotThere: results are missing.
    """
    for _ in range(0, count, PORTION):
        bench.submit(bench.specs(PORTION))
        while bench.work():
            pass
    while bench.fire():
        bench.settle()
    if bench.ready_count != count:
        raise NotThere(f"{bench.ready_count} of {count} results have come")


@guarded
def bytecodes(scale: float) -> dict[str, float]:
    """Instructions of Python in zray's own code: the same in each turn, however busy the machine is."""
    found = {}
    for name, is_member, course in (("ended", False, run_to_end), ("departing", True, let_depart)):
        counter = Bytecodes()
        bench = Bench(is_member=is_member)
        with counter:
            course(bench, COUNTED)
        found[f"{name}.bytecodes"] = counter.count / COUNTED
    return found


class Bytecodes:
    """Counts instructions of zray's code while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Bytecodes:
        sys.settrace(self.on_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Look into functions of zray alone."""
        if not frame.f_globals.get("__name__", "").startswith("zray."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.on_instruction

    def on_instruction(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        """Count one."""
        self.count += event == "opcode"
        return self.on_instruction


@guarded
def waiting(scale: float) -> dict[str, float]:
    """Tasks wait for results of two others, which never end."""
    count, bench = max(100, int(WAITING * scale)), Bench()
    makers = bench.specs(2)
    bench.submit(makers)
    bench.settle()

    def deps() -> tuple[bytes, ...]:
        return tuple(names.return_id(spec.task_id, 1) for spec in makers)

    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for start in range(0, count, PORTION):
            bench.turn((DRIVER, names.SubmitTasks(bench.specs(min(PORTION, count - start), deps))))
        bench.turns.clear()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {"waiting.memory": (after - before) / count}


def resident_bytes() -> int:
    """Memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise NotThere("the kernel does not tell the memory of a process")
