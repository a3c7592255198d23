"""All runs of a program: with several numbers of workers, and with deaths of workers."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from .comparison import Comparison, Difference, compare
from .program import COMMAND
from .records import lines_of
from .trees import Tree, tree_of
from .wrapping import mentions_of

__all__ = ["Plan", "Refused", "Result", "Run", "Verdict", "run_all"]

END_SECONDS = 10.0  # for a program to end after an interrupt
OUTPUT_BYTES_MAX = 16 << 20  # that are compared
TAIL_LINES, TAIL_BYTES = 5, 4_096
# Variables that would lead the program to a session whose CPUs cannot be chosen.
LEFT_OUT = ("ZRAY_ADDRESS", "ZRAY_LOCAL", "RAY_ADDRESS")


class Refused(Exception):
    """The program cannot be compared; the message says why."""


@dataclass(frozen=True)
class Plan:
    """The order of a comparison: the program, and its runs.

    Args:
        program: path and arguments.
        workers: CPUs of each run.
        kills: deaths in a further run; 0: no such run.
        kill_workers: CPUs of that run.
        seed: of the choice of deaths.
        timeout: seconds of a run.
        hash_seeds: each run has a hash seed of its own.
        ignores_output: standard output is not compared.
    """

    program: tuple[str, ...]
    workers: tuple[int, ...] = (1, 2, 4)
    kills: int = 3
    kill_workers: int = 2
    seed: int = 0
    timeout: float = 600.0
    hash_seeds: bool = False
    ignores_output: bool = False


@dataclass
class Run:
    """A run that has ended.

    Args:
        number: from 1.
        kills, happened: deaths that were asked for, and those that happened, in words.
        status: exit status; None: it took too long.
        result: in words, for the table.
    """

    number: int
    workers: int
    kills: int = 0
    happened: list[str] = field(default_factory=list)
    tasks: int = 0
    seconds: float = 0.0
    status: int | None = 0
    result: str = "first"
    errors: str = ""


@dataclass
class Result:
    """The facts of one run, for the comparison."""

    run: Run
    tree: Tree
    output: bytes


@dataclass
class Verdict:
    """The result of all runs.

    Args:
        first: the first task that differs; None: none does.
        shown: its value in each run, by number.
        outcome: of what differs beside tasks, in words.
        notes: what is no difference by itself.
    """

    runs: list[Run] = field(default_factory=list)
    first: Difference | None = None
    shown: dict[int, str] = field(default_factory=dict)
    outcome: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether no run differs from the first one."""
        return self.first is None and not self.outcome


def run_all(plan: Plan, tell: Callable[[str], None]) -> Verdict:
    """Run a program as planned, and compare each run with the first one.

    Args:
        plan: the runs.
        tell: is given a line about each run that begins.

    Raises:
        Refused: the program cannot be compared, or fails in each run.
        TooManyTasks: a run has too many tasks.
        KeyboardInterrupt: the program has ended too.
    """
    verdict = Verdict()
    mentions = _mentions(plan.program[0])
    todo = [(workers, 0) for workers in plan.workers] + [(plan.kill_workers, plan.kills)][: bool(plan.kills)]
    first: Result | None = None
    found: list[tuple[Run, Difference]] = []
    comparisons: list[Comparison] = []
    for number, (workers, kills) in enumerate(todo, 1):
        chosen = _kills(kills, first.tree.runs, plan.seed) if first is not None else {}
        run = Run(number, workers, len(chosen))
        with_kills = f", {kills} death{'s' * (kills > 1)} of workers" if kills else ""
        tell(f"run {number} of {len(todo)}: {workers} CPU{'s' * (workers > 1)}{with_kills}")
        result = _run(plan, run, chosen)
        verdict.runs.append(run)
        if first is None:
            first = result
            _note_first(verdict, result)
            continue
        comparison = compare(first.tree, result.tree, mentions)
        comparisons.append(comparison)
        outcome = _outcome(first, result, plan)
        verdict.outcome += outcome
        run.result = "differs" if comparison.first or outcome else "same"
        if comparison.first is not None:
            found.append((run, comparison.first))
    assert first is not None
    if all(run.status != 0 for run in verdict.runs) and len({run.status for run in verdict.runs}) == 1:
        raise Refused(f"The program fails in each run: it {_status(first.run.status)}.\n{first.run.errors}".rstrip())
    _choose(verdict, found)
    _note(verdict, comparisons)
    return verdict


def _note_first(verdict: Verdict, result: Result) -> None:
    asked = {cpus for cpus in result.tree.asked_cpus if cpus is not None}
    if asked:
        numbers = ", ".join(f"{cpus:g}" for cpus in sorted(asked))
        verdict.notes.append(f"The program asks for num_cpus={numbers}; each run has its own number of CPUs.")
    if not result.tree.tasks and result.run.status == 0:
        verdict.notes.append("The program runs no tasks: its output alone is compared.")


def _choose(verdict: Verdict, found: list[tuple[Run, Difference]]) -> None:
    """Take the first of all differences, and the runs that have it."""
    if not found:
        return
    run, first = min(found, key=lambda each: each[1].order)
    verdict.first = first
    key = first.name, first.index, first.path, first.kind
    same = [(run, each) for run, each in found if (each.name, each.index, each.path, each.kind) == key]
    verdict.shown = {1: first.here, **{run.number: each.there for run, each in same}}
    for _, each in same:
        first.hints += [hint for hint in each.hints if hint not in first.hints]


def _note(verdict: Verdict, comparisons: list[Comparison]) -> None:
    texts = {
        "unfinished": "Number of tasks that have a value in one run only, as the program ended before or did not wait",
        "reordered": "Number of tasks that were submitted in another order",
        "incomparable": "Number of tasks whose values cannot be pickled, and are not compared",
    }
    if verdict.first is not None and verdict.first.kind == "killed":
        del texts["unfinished"]  # what waited for it has none
    for name, text in texts.items():
        if count := max((getattr(each, name) for each in comparisons), default=0):
            verdict.notes.append(f"{text}: {count:,}.")
    for run in verdict.runs:
        if len(run.happened) < run.kills:
            verdict.notes.append(f"{len(run.happened)} of {run.kills} deaths happened in run {run.number}.")


def _kills(count: int, begins: int, seed: int) -> dict[int, str]:
    """Return the begins of tasks at which a worker dies, and whether before or after the function."""
    chance = random.Random(seed)
    numbers = chance.sample(range(1, begins + 1), min(count, begins))
    return {number: chance.choice(("begin", "end")) for number in sorted(numbers)}


def _mentions(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return mentions_of(compile(file.read(), path, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return []  # Python says so in the first run


def _run(plan: Plan, run: Run, kills: dict[int, str]) -> Result:
    """Run the program once."""
    with _folder() as folder:
        with open(os.path.join(folder, "counts"), "w") as file:
            file.write("{}")
        orders = json.dumps({"folder": folder, "num_cpus": run.workers, "kills": kills})
        variables = {name: text for name, text in os.environ.items() if name not in LEFT_OUT}
        variables["PYTHONHASHSEED"] = str(run.number if plan.hash_seeds else 0)
        paths = [os.path.join(folder, name) for name in ("output", "errors")]
        began = time.monotonic()
        with open(paths[0], "wb") as output, open(paths[1], "wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, orders, *plan.program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=variables,
                start_new_session=True,
            )
            run.status = _wait(process, plan.timeout)
        run.seconds = time.monotonic() - began
        tree = tree_of(lines_of(folder))
        if tree.refusal:
            raise Refused(tree.refusal)
        run.tasks, run.errors = tree.tasks, _tail(paths[1])
        run.happened = [f"{kill.name}, {kill.when} (task {kill.task})" for kill in tree.kills]
        with open(paths[0], "rb") as file:
            return Result(run, tree, file.read(OUTPUT_BYTES_MAX))


@contextmanager
def _folder() -> Iterator[str]:
    """A folder for the files of a run."""
    folder = tempfile.mkdtemp(prefix="zray-determinism-")
    try:
        yield folder
    finally:
        ended = f"{folder}-ended"
        os.rename(folder, ended)  # a process that has not ended yet makes no further files
        shutil.rmtree(ended)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait for the program, and end it where that takes too long or is interrupted."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(END_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()


def _tail(path: str) -> str:
    """Return the last lines of a file."""
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - TAIL_BYTES, 0))
        lines = file.read().decode("utf-8", "replace").rstrip().splitlines()
    return "\n".join(lines[-TAIL_LINES:])


def _status(status: int | None) -> str:
    if status is None:
        return "takes too long (--timeout)"
    return f"ends by signal {-status}" if status < 0 else f"ends with exit status {status}"


def _outcome(first: Result, other: Result, plan: Plan) -> list[str]:
    """Return what differs between two runs beside their tasks."""
    found = []
    number = other.run.number
    if first.run.status != other.run.status:
        words = [f"run {each.run.number} {_status(each.run.status)}" for each in (first, other)]
        failed = next((each.run for each in (first, other) if each.run.status), None)
        last = failed.errors.rpartition("\n")[2] if failed is not None else ""
        found.append(f"Exit status: {', '.join(words)}.  {last}".rstrip())
    elif first.output != other.output and not plan.ignores_output:
        line, here, there = _first_line(first.output, other.output)
        found.append(f"Output: line {line} is {here!r} in run 1, and {there!r} in run {number}.")
    return found


def _first_line(one: bytes, two: bytes) -> tuple[int, str, str]:
    """Return the first line that differs."""
    lines: Sequence[list[str]] = [text.decode("utf-8", "replace").splitlines() for text in (one, two)]
    count = max(map(len, lines))
    padded = [each + [""] * (count - len(each)) for each in lines]
    for number, (here, there) in enumerate(zip(*padded, strict=True), 1):
        if here != there:
            return number, here[:80], there[:80]
    return count, "", ""
