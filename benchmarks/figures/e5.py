"""E5 (OSDI Fig 11b): a fifth of all actors is killed; what they had run is run again, with and without checkpoints.

First their processes are killed, all in one moment, and each recovers on its own node; then, as in the paper, a fifth
of the nodes, and they recover on the others; and that in the simulator too, with as many actors as the paper has.
"""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zray
from zray.cluster_utils import Cluster

from ..timing import Effort
from . import actors_simulated
from .emulated import emulated
from .results import EMULATED, MEASURED, Figure, Plot, Series

INTERVAL = 10  # calls from one checkpoint to the next
PAPER = "500 calls run again with checkpoints, 10,000 without: 20 x fewer"
NODE_CPUS = 16  # of each node, one for each actor: the others have room for those of the lost ones


@dataclass(frozen=True)
class Plan:
    """So many actors; those that are lost have run `before` calls each when they are killed.

    Where nodes are killed, they are `nodes_lost` of `nodes`, and lost is whoever lived there.
    """

    actors: int
    lost: int
    calls: int  # of each actor
    before: int
    call_seconds: float
    bin_seconds: float  # of the plot
    nodes: int = 10
    nodes_lost: int = 2

    def seconds_of(self, actor: int) -> float:
        """How long its calls take: not all alike, so that actors are not in step."""
        return self.call_seconds * (1 + 0.1 * (actor % self.lost) / self.lost)


FULL = Plan(40, 8, 300, 200, 0.1, 1.0)
QUICK = Plan(20, 4, 160, 120, 0.02, 0.25, 5, 1)


@dataclass
class Course:
    """What has happened, in seconds from the start."""

    killed_at: float
    ends: list[tuple[int, float, bool]]  # of each call: whose, when, and whether it had ended before
    wrong: int  # results, and states at the end, that are not what they should be
    answers: int
    lost: set[int]  # the actors that were killed

    def again(self) -> int:
        """Calls that were run again."""
        return sum(is_again for _, _, is_again in self.ends)

    def window(self) -> float | None:
        """Seconds until the last of the lost ones has ended a call that had not ended before; None: one had none."""
        firsts: dict[int, float] = {}
        for actor, at, is_again in self.ends:
            if actor in self.lost and at > self.killed_at and not is_again:
                firsts[actor] = min(at, firsts.get(actor, at))
        return max(firsts.values()) - self.killed_at if len(firsts) == len(self.lost) else None


def measure(figure: Figure, effort: Effort) -> None:
    """Once without checkpoints, once with; of processes, and of nodes."""
    plan = QUICK if effort.quick else FULL
    for on_nodes, what, kind in ((False, "processes killed", MEASURED), (True, "nodes killed", EMULATED)):
        without, saved = run(plan, 0, on_nodes=on_nodes), run(plan, INTERVAL, on_nodes=on_nodes)
        judge(figure, what, kind, without, saved)
        for course, title in ((without, "no checkpoints"), (saved, f"a checkpoint every {INTERVAL} calls")):
            lines = [
                Series(name, kind, by_bin(course, plan, is_again=is_again))
                for name, is_again in (("calls", False), ("calls run again", True))
            ]
            title = f"Calls per second, {title}; {what} at {course.killed_at:.1f} s"
            figure.plots.append(Plot(title, "s", "calls/s", lines))
        if on_nodes:
            figure.notes.append(
                f"Nodes killed: {plan.nodes_lost} of {plan.nodes} (SIGKILL), when the actors there have run "
                f"{plan.before} calls each; {len(without.lost)} and {len(saved.lost)} of {plan.actors} actors lived "
                "there, and go on elsewhere."
            )
    figure.notes.append(
        f"Processes killed: {plan.lost} of {plan.actors} actors (SIGKILL) in one moment on one node, after "
        f"{plan.before} calls each, of {plan.call_seconds * 1000:.0f} ms and up to a tenth more, so that they are not "
        "in step."
    )
    actors_simulated.measure(figure, effort)


def judge(figure: Figure, what: str, kind: str, without: Course, saved: Course) -> None:
    """The figure's rows: calls that were run again, without and with checkpoints."""
    wrong = without.wrong + saved.wrong
    words = f"{without.answers + saved.answers} results and states, {wrong} wrong"
    figure.add_fact(f"{what}: each call's effect is in the state once, and no caller notices", wrong == 0, words, kind)
    label = f"{what}: calls run again without checkpoints"
    figure.add(label, without.again(), "", kind, paper="10,000 of 400 actors")
    figure.add(
        f"{what}: calls run again with a checkpoint every {INTERVAL} calls",
        saved.again(),
        "",
        kind,
        paper="500",
        at_most=INTERVAL * len(saved.lost),
    )
    by_actor = without.again() / len(without.lost), max(1, saved.again()) / len(saved.lost)
    label = f"{what}: so many times fewer calls run again"
    figure.add(label, by_actor[0] / by_actor[1], "x", kind, paper=PAPER, at_least=10)
    early = sum(is_again and at < course.killed_at for course in (without, saved) for _, at, is_again in course.ends)
    figure.add_fact(f"{what}: calls run again only after the kill", early == 0, f"{early} before it", kind)
    windows = without.window(), saved.window()
    label = f"{what}: seconds until all lost actors go on"
    if windows[0] is None or windows[1] is None:
        figure.leave_out(label, "some had ended all their calls before they were killed")
    else:
        figure.add(f"{label}, without checkpoints", windows[0], "s", kind)
        figure.add(f"{label}, with checkpoints", windows[1], "s", kind, at_most=windows[0] / 2)


def by_bin(course: Course, plan: Plan, *, is_again: bool) -> list[tuple[float, float]]:
    """Calls per second that ended in each bin."""
    width = plan.bin_seconds
    counts = collections.Counter(int(at / width) for _, at, kind in course.ends if kind == is_again)
    last = int(max(at for _, at, _ in course.ends) / width)
    return [(number * width, counts[number] / width) for number in range(last + 1)]


@contextlib.contextmanager
def session(plan: Plan, *, on_nodes: bool) -> Iterator[Cluster | None]:
    """One node; or a cluster, whose head runs no actors."""
    if on_nodes:
        with emulated(plan.nodes, cpus=NODE_CPUS) as cluster:
            yield cluster
    else:
        with zray.init():
            yield None


def run(plan: Plan, interval: int, *, on_nodes: bool = False) -> Course:
    """Each actor counts; the driver has submitted all calls ahead, and compares what they return."""

    class Counter:
        def __init__(self, path: str) -> None:
            self.path, self.count = path, 0

        def step(self, number: int, seconds: float) -> int:
            time.sleep(seconds)
            self.count += 1
            with open(self.path, "a") as file:
                file.write(f"{number} {time.monotonic()}\n")
            return self.count

        @zray.method(readonly=True)
        def state(self) -> tuple[int, str, int]:
            return os.getpid(), zray.get_runtime_context().get_node_id(), self.count

    cpus = 1 if on_nodes else 0
    counter: Any = zray.remote(checkpoint_interval=interval, num_cpus=cpus, scheduling_strategy="SPREAD")(Counter)
    with tempfile.TemporaryDirectory() as folder, session(plan, on_nodes=on_nodes) as cluster:
        paths = [Path(folder) / str(number) for number in range(plan.actors)]
        actors: list[Any] = [counter.remote(str(path)) for path in paths]
        first = zray.get([actor.state.remote() for actor in actors])
        doomed = {node.node_id: node for node in cluster.worker_nodes[: plan.nodes_lost]} if cluster else {}
        lost = {i for i, (_, node, _) in enumerate(first) if (node in doomed if cluster else i < plan.lost)}
        began = time.monotonic()
        refs = [[actor.step.remote(n, plan.seconds_of(i)) for n in range(plan.calls)] for i, actor in enumerate(actors)]
        zray.get([refs[actor][plan.before - 1] for actor in lost])
        killed_at = time.monotonic() - began
        for node in doomed.values():
            os.kill(node.pid, signal.SIGKILL)
        for node in doomed.values():
            assert cluster is not None
            cluster.remove_node(node)
        for actor in () if cluster else lost:
            os.kill(first[actor][0], signal.SIGKILL)
        expected = list(range(1, plan.calls + 1))
        wrong = sum(got != wanted for one in refs for got, wanted in zip(zray.get(one), expected, strict=True))
        states = zray.get([actor.state.remote() for actor in actors])
        wrong += sum(count != plan.calls for _, _, count in states)
        wrong += sum(states[actor][0] == first[actor][0] for actor in lost)  # it was to be another process
        ends = read_ends(paths, began)
    return Course(killed_at, ends, wrong, plan.actors * (plan.calls + 1), lost)


def read_ends(paths: list[Path], began: float) -> list[tuple[int, float, bool]]:
    """What each actor has written down."""
    ends = []
    for actor, path in enumerate(paths):
        seen: set[str] = set()
        for line in path.read_text().splitlines():
            number, at = line.split()
            ends.append((actor, float(at) - began, number in seen))
            seen.add(number)
    return ends
