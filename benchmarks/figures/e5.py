"""E5 (OSDI Fig 11b): a fifth of all actors is killed; what they had run is run again, with and without checkpoints.

Their processes are killed, all in one moment, not their nodes; each recovers on its own node.
"""

from __future__ import annotations

import collections
import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zray

from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series

INTERVAL = 10  # calls from one checkpoint to the next
PAPER = "500 calls run again with checkpoints, 10,000 without: 20 x fewer"
NOT_BUILT = (
    "actors recover on another node too (tests/api/test_cluster_actor_deaths.py), but this figure kills no node yet"
)


@dataclass(frozen=True)
class Plan:
    """So many actors; those that are lost have run `before` calls each when they are killed."""

    actors: int
    lost: int
    calls: int  # of each actor
    before: int
    call_seconds: float
    bin_seconds: float  # of the plot

    def seconds_of(self, actor: int) -> float:
        """How long its calls take: not all alike, so that actors are not in step."""
        return self.call_seconds * (1 + 0.1 * (actor % self.lost) / self.lost)


FULL = Plan(40, 8, 300, 200, 0.1, 1.0)
QUICK = Plan(20, 4, 160, 120, 0.02, 0.25)


@dataclass
class Course:
    """What has happened, in seconds from the start."""

    killed_at: float
    ends: list[tuple[int, float, bool]]  # of each call: whose, when, and whether it had ended before
    wrong: int  # results, and states at the end, that are not what they should be
    answers: int

    def again(self) -> int:
        """Calls that were run again."""
        return sum(is_again for _, _, is_again in self.ends)

    def window(self, lost: int) -> float | None:
        """Seconds until the last of the lost ones has ended a call that had not ended before; None: one had none."""
        firsts: dict[int, float] = {}
        for actor, at, is_again in self.ends:
            if actor < lost and at > self.killed_at and not is_again:
                firsts[actor] = min(at, firsts.get(actor, at))
        return max(firsts.values()) - self.killed_at if len(firsts) == lost else None


def measure(figure: Figure, effort: Effort) -> None:
    """Once without checkpoints, once with."""
    plan = QUICK if effort.quick else FULL
    without, saved = run(plan, 0), run(plan, INTERVAL)
    judge(figure, plan, without, saved)
    for course, title in ((without, "no checkpoints"), (saved, f"a checkpoint every {INTERVAL} calls")):
        lines = [
            Series(name, MEASURED, by_bin(course, plan, is_again=is_again))
            for name, is_again in (("calls", False), ("calls run again", True))
        ]
        figure.plots.append(
            Plot(f"Calls per second, {title}; killed at {course.killed_at:.1f} s", "s", "calls/s", lines)
        )
    figure.notes.append(
        f"{plan.lost} of {plan.actors} actors are killed (SIGKILL) in one moment on one node, after {plan.before} "
        f"calls each, of {plan.call_seconds * 1000:.0f} ms and up to a tenth more, so that they are not in "
        "step. In the paper it is their nodes that are killed."
    )


def judge(figure: Figure, plan: Plan, without: Course, saved: Course) -> None:
    """By PAPER's rules."""
    wrong = without.wrong + saved.wrong
    words = f"{without.answers + saved.answers} results and states, {wrong} wrong"
    figure.add_fact("each call's effect is in the state once, and no caller notices", wrong == 0, words, MEASURED)
    figure.add("calls run again without checkpoints", without.again(), "", MEASURED, paper="10,000 of 400 actors")
    limit = INTERVAL * plan.lost
    figure.add(
        f"calls run again with a checkpoint every {INTERVAL} calls",
        saved.again(),
        "",
        MEASURED,
        paper="500",
        at_most=limit,
    )
    fewer = without.again() / max(1, saved.again())
    figure.add("so many times fewer calls run again", fewer, "x", MEASURED, paper=PAPER, at_least=10)
    early = sum(is_again and at < course.killed_at for course in (without, saved) for _, at, is_again in course.ends)
    figure.add_fact("calls run again only after the kill", early == 0, f"{early} before it", MEASURED)
    windows = without.window(plan.lost), saved.window(plan.lost)
    label = "seconds until all lost actors go on"
    if windows[0] is None or windows[1] is None:
        figure.leave_out(label, "some had ended all their calls before they were killed")
    else:
        figure.add(f"{label}, without checkpoints", windows[0], "s", MEASURED)
        figure.add(f"{label}, with checkpoints", windows[1], "s", MEASURED, at_most=windows[0] / 2)
    figure.leave_out("actors lost with their nodes, made again on the others", NOT_BUILT)


def by_bin(course: Course, plan: Plan, *, is_again: bool) -> list[tuple[float, float]]:
    """Calls per second that ended in each bin."""
    width = plan.bin_seconds
    counts = collections.Counter(int(at / width) for _, at, kind in course.ends if kind == is_again)
    last = int(max(at for _, at, _ in course.ends) / width)
    return [(number * width, counts[number] / width) for number in range(last + 1)]


def run(plan: Plan, interval: int) -> Course:
    """Each actor counts; the driver has submitted all calls ahead, and compares what they return."""

    @zray.remote(checkpoint_interval=interval)
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
        def state(self) -> tuple[int, int]:
            return os.getpid(), self.count

    with tempfile.TemporaryDirectory() as folder, zray.init():
        paths = [Path(folder) / str(number) for number in range(plan.actors)]
        actors: list[Any] = [Counter.remote(str(path)) for path in paths]
        pids = [pid for pid, _ in zray.get([actor.state.remote() for actor in actors])]
        began = time.monotonic()
        refs = [[actor.step.remote(n, plan.seconds_of(i)) for n in range(plan.calls)] for i, actor in enumerate(actors)]
        zray.get([refs[lost][plan.before - 1] for lost in range(plan.lost)])
        killed_at = time.monotonic() - began
        for pid in pids[: plan.lost]:
            os.kill(pid, signal.SIGKILL)
        expected = list(range(1, plan.calls + 1))
        wrong = sum(got != wanted for one in refs for got, wanted in zip(zray.get(one), expected, strict=True))
        states = zray.get([actor.state.remote() for actor in actors])
        wrong += sum(count != plan.calls for _, count in states)
        wrong += sum(states[lost][0] == pids[lost] for lost in range(plan.lost))  # it was to be another process
        ends = read_ends(paths, began)
    return Course(killed_at, ends, wrong, plan.actors * (plan.calls + 1))


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
