"""E4 (OSDI Fig 11a): nodes are killed and replaced under chains of 100 ms tasks; what is lost is run again."""

from __future__ import annotations

import collections
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zray
from zray.cluster_utils import Cluster

from ..timing import Effort
from .emulated import emulated
from .results import EMULATED, Figure, Plot, Series

NODES = 6
SLOTS = 2  # of each node
CHAIN = 10  # tasks of a chain
CHAINS = 20  # at any time: more than slots, so that none is idle
TASK_SECONDS = 0.1
ARRAY = 25_000  # 200 KB of float64: it lies on the node that made it, and nowhere else
PAPER = "nodes removed at 25, 50 and 100 s; full throughput again by 210 s"


@dataclass(frozen=True)
class Plan:
    """When nodes go and come, in seconds."""

    kills: tuple[float, ...]
    joins: tuple[float, ...]
    end: float
    unsettled: float  # so long after each of these throughput may be what it will


FULL = Plan((25, 50, 100), (150, 155, 160), 230, 5)
QUICK = Plan((4, 7, 10), (13, 13.5, 14), 20, 1.5)


@dataclass
class Course:
    """What has happened, in seconds from the start."""

    began: float = field(default_factory=time.monotonic)
    changes: list[tuple[float, int]] = field(default_factory=list)  # when, and how many nodes there are since then
    wrong: int = 0
    chains: int = 0
    ends: list[tuple[float, bool]] = field(default_factory=list)  # of each task: when, and whether it ran again


def measure(figure: Figure, effort: Effort) -> None:
    """Throughput by second, of first runs and of repeated ones."""
    plan = QUICK if effort.quick else FULL
    course = run(plan)
    judge(figure, course, plan)
    end = int(plan.end)
    first, again = (collections.Counter(int(at) for at, is_again in course.ends if is_again == kind) for kind in (0, 1))
    nodes = [(at, float(count)) for at, count in steps(course.changes, plan.end)]
    lines = [
        Series("first runs, per second", EMULATED, [(float(t), float(first[t])) for t in range(end)]),
        Series("repeated runs", EMULATED, [(float(t), float(again[t])) for t in range(end)]),
        Series("nodes", EMULATED, nodes),
    ]
    figure.plots.append(Plot("Tasks run while nodes go and come", "s", "tasks/s; nodes", lines))
    if effort.quick:
        figure.notes.append("A quick run is over in 20 s: nodes go after 4, 7 and 10 s, and come back from 13 s on.")


def steps(changes: list[tuple[float, int]], end: float) -> list[tuple[float, int]]:
    """Corners of a line that goes up and down in steps."""
    corners: list[tuple[float, int]] = []
    for (at, count), (until, _) in zip(changes, [*changes[1:], (end, 0)], strict=True):
        corners += [(at, count), (until, count)]
    return corners


def judge(figure: Figure, course: Course, plan: Plan) -> None:
    """By PAPER's rules: exact, as many per live node as before, all of it back."""
    again = sum(is_again for _, is_again in course.ends)
    words = f"{course.chains} chains of {CHAIN} tasks, {course.wrong} wrong; {again} tasks were run again"
    figure.add_fact("results exact, nothing for the user to do", course.wrong == 0, words, EMULATED, paper=PAPER)
    first_kill = course.changes[1][0]
    early = sum(is_again and at < first_kill for at, is_again in course.ends)
    figure.add_fact("tasks run again only after a kill", early == 0, f"{early} before the first kill", EMULATED)
    by_node = [
        (count, rate(course, at + plan.unsettled, until) / count)
        for (at, count), (until, _) in zip(course.changes, [*course.changes[1:], (plan.end, 0)], strict=True)
        if until - at > plan.unsettled + 0.5
    ]
    before = by_node[0][1]
    worst = max(abs(value / before - 1) for _, value in by_node[1:])
    figure.add("throughput per live node: farthest from before", worst * 100, "%", EMULATED, at_most=15)
    after = by_node[-1][0] * by_node[-1][1] / (by_node[0][0] * before)
    figure.add("throughput when all nodes are back / at first", after, "", EMULATED, at_least=0.95)


def rate(course: Course, since: float, until: float) -> float:
    """Tasks per second, repeated ones too."""
    return sum(since <= at < until for at, _ in course.ends) / (until - since)


def run(plan: Plan) -> Course:
    """The driver keeps so many chains going, and compares what each gives."""

    @zray.remote(max_retries=-1)
    def step(before: Any, chain: int, number: int, path: str) -> Any:
        import numpy

        time.sleep(TASK_SECONDS)
        with open(path, "a") as file:
            file.write(f"{chain} {number} {time.monotonic()}\n")
        return numpy.full(ARRAY, 1.0) if before is None else before + 1

    def new_chain(number: int, path: str) -> Any:
        ref = None
        for index in range(CHAIN):
            ref = step.remote(ref, number, index, path)
        return ref

    with tempfile.TemporaryDirectory() as folder, emulated(NODES, cpus=SLOTS) as cluster:
        path = str(Path(folder) / "runs")
        zray.get([new_chain(-number, path) for number in range(1, NODES * SLOTS + 1)])
        course = Course()
        course.changes.append((0.0, NODES))
        events = sorted([(at, "kill") for at in plan.kills] + [(at, "join") for at in plan.joins])
        going: list[Any] = []
        while True:
            now = time.monotonic() - course.began
            if events and now >= events[0][0]:
                change(cluster, events.pop(0)[1])
                course.changes.append((time.monotonic() - course.began, len(cluster.worker_nodes)))
            while len(going) < CHAINS and now < plan.end:
                going.append(new_chain(course.chains, path))
                course.chains += 1
            if not going:
                break
            done, going = zray.wait(going, timeout=0.1)
            course.wrong += sum(bool((zray.get(ref) != float(CHAIN)).any()) for ref in done)
        course.ends = read_ends(Path(path), course.began)
    return course


def change(cluster: Cluster, what: str) -> None:
    if what == "kill":
        cluster.remove_node(cluster.worker_nodes[0])
    else:
        cluster.add_node(num_cpus=SLOTS)


def read_ends(path: Path, began: float) -> list[tuple[float, bool]]:
    """When each task ended, and whether it had ended before; the chains that warm up are left out."""
    seen: set[tuple[str, str]] = set()
    ends = []
    for line in path.read_text().splitlines():
        chain, number, at = line.split()
        if not chain.startswith("-"):
            ends.append((float(at) - began, (chain, number) in seen))
            seen.add((chain, number))
    return ends
