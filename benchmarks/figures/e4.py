"""E4 (OSDI Fig 11a): nodes are killed and replaced under chains of 100 ms tasks; what is lost is run again.

Chains are linear: each task takes a number from the one before, and makes an array beside it.  The array lies on the
node that made it and nowhere else, and stays needed: the driver looks at all arrays of a chain when its last task is
done.  It keeps the numbers, too, which are small and so are no node's own.  How many tasks must run again, lineage says
exactly: of each node that was killed, those that had ended there, of chains that the driver had not taken yet.  (Tasks
write down where they end; the driver knows what it had taken, for it is the driver that kills.)  Fewer would mean that
arrays came from elsewhere, so a run that repeats fewer, or that lost nothing, proves nothing; more are done twice.
"""

from __future__ import annotations

import collections
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import zray

from ..timing import Effort
from .emulated import emulated
from .results import EMULATED, Figure, Plot, Series

NODES = 6
SLOTS = 2  # of each node
CHAIN = 10  # tasks of a chain
CHAINS = 20  # at any time: more than slots, so that none is idle
TASK_SECONDS = 0.1
LOOK_SECONDS = 0.1  # between two looks at what is done
AGAIN_MAX = 1.1  # one that ended in a node's last moment may be run on another already
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


class Chain(NamedTuple):
    """The refs of its tasks' outputs."""

    number: int
    links: list[Any]
    arrays: list[Any]


class End(NamedTuple):
    """Of a task."""

    at: float
    is_again: bool  # it had ended before
    task: tuple[int, int]  # chain, and number in it
    node: str


@dataclass
class Course:
    """What has happened, in seconds from the start."""

    began: float = field(default_factory=time.monotonic)
    changes: list[tuple[float, int]] = field(default_factory=list)  # when, and how many nodes there are since then
    wrong: int = 0
    chains: int = 0
    ends: list[End] = field(default_factory=list)
    kills: list[tuple[str, frozenset[int]]] = field(default_factory=list)  # a node, and the chains not taken yet

    def again(self) -> int:
        """Tasks that were run again."""
        return sum(end.is_again for end in self.ends)

    def lost(self) -> int:
        """Outputs that were needed when the only node that had them was killed."""
        return sum(
            len({end.task for end in self.ends if end.node == node and end.task[0] in needed})
            for node, needed in self.kills
        )


def measure(figure: Figure, effort: Effort) -> None:
    """Throughput by second, of first runs and of repeated ones."""
    plan = QUICK if effort.quick else FULL
    course = run(plan)
    judge(figure, course, plan)
    end = int(plan.end)
    first, again = (collections.Counter(int(end.at) for end in course.ends if end.is_again == kind) for kind in (0, 1))
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
    """The figure's conditions: exact results, the same rate per live node, the first throughput again at the end."""
    again, lost = course.again(), course.lost()
    words = f"{course.chains} chains of {CHAIN} tasks, {course.wrong} wrong; {again} tasks were run again"
    is_exact = course.wrong == 0 and again > 0
    figure.add_fact("results exact, nothing for the user to do", is_exact, words, EMULATED, paper=PAPER)
    label = "tasks whose outputs were lost with the nodes and still needed: the fewest that lineage allows to run again"
    figure.add(label, lost, "tasks", EMULATED, at_least=1)
    label = "tasks run again / the fewest that lineage allows"
    figure.add(label, again / max(1, lost), "", EMULATED, at_least=1, at_most=AGAIN_MAX)
    first_kill = course.changes[1][0]
    early = sum(end.is_again and end.at < first_kill for end in course.ends)
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
    return sum(since <= end.at < until for end in course.ends) / (until - since)


def run(plan: Plan) -> Course:
    """The driver keeps so many chains going, and compares what each gives."""

    @zray.remote(max_retries=-1, num_returns=2)
    def step(before: int, chain: int, number: int, path: str) -> tuple[int, Any]:
        import numpy

        node = zray.get_runtime_context().get_node_id()
        time.sleep(TASK_SECONDS)
        with open(path, "a") as file:
            file.write(f"{chain} {number} {node} {time.monotonic()}\n")
        return before + 1, numpy.full(ARRAY, before + 1.0)

    def new_chain(chain: int, path: str) -> Chain:
        links, arrays, link = [], [], 0
        for number in range(CHAIN):
            link, array = step.remote(link, chain, number, path)
            links.append(link)
            arrays.append(array)
        return Chain(chain, links, arrays)

    with tempfile.TemporaryDirectory() as folder, emulated(NODES, cpus=SLOTS) as cluster:
        path = str(Path(folder) / "runs")
        warm_up = [new_chain(-number, path) for number in range(1, NODES * SLOTS + 1)]
        assert not wrong_of(warm_up)
        course = Course()
        course.changes.append((0.0, NODES))
        events = sorted([(at, "kill") for at in plan.kills] + [(at, "join") for at in plan.joins])
        going: dict[Any, Chain] = {}  # by what its last task gives
        while True:
            now = time.monotonic() - course.began
            if events and now >= events[0][0]:
                if events.pop(0)[1] == "kill":
                    # Noted first: on a busy machine its tasks run again before the end of its process is seen.
                    course.changes.append((now, len(cluster.worker_nodes) - 1))
                    node = cluster.worker_nodes[0]
                    cluster.remove_node(node)
                    course.kills.append((node.node_id, frozenset(chain.number for chain in going.values())))
                else:
                    cluster.add_node(num_cpus=SLOTS)
                    course.changes.append((time.monotonic() - course.began, len(cluster.worker_nodes)))
            while len(going) < CHAINS and now < plan.end:
                chain = new_chain(course.chains, path)
                going[chain.links[-1]] = chain
                course.chains += 1
            if not going:
                break
            done, _ = zray.wait(list(going), num_returns=len(going), timeout=LOOK_SECONDS)
            course.wrong += wrong_of([going.pop(ref) for ref in done])
        course.ends = read_ends(Path(path), course.began)
    return course


def wrong_of(chains: list[Chain]) -> int:
    """How many have not given what they should.  (Of all at once: what is lost is made again side by side.)"""
    links = zray.get([chain.links[-1] for chain in chains])
    arrays = zray.get([array for chain in chains for array in chain.arrays])
    wanted = [float(number) for number in range(1, CHAIN + 1)]
    of_each = [arrays[start : start + CHAIN] for start in range(0, len(arrays), CHAIN)]
    return sum(
        link != CHAIN or any(bool((array != number).any()) for array, number in zip(found, wanted, strict=True))
        for link, found in zip(links, of_each, strict=True)
    )


def read_ends(path: Path, began: float) -> list[End]:
    """Of each task; the chains that warm up are left out."""
    seen: set[tuple[int, int]] = set()
    ends = []
    for line in path.read_text().splitlines():
        chain, number, node, at = line.split()
        task = int(chain), int(number)
        if task[0] >= 0:
            ends.append(End(float(at) - began, task in seen, task, node))
            seen.add(task)
    return ends
