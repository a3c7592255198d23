"""Every figure of zray, beside what it must reach and the floor of the machine under it.

    python -m benchmarks.microbenchmark [--only tasks] [--quick] [--json PATH]

A machine is not equally fast all day.  What a floor binds is measured in rounds, each between two measurements of
that floor: a round's ratio is to their mean, and the medians of the rounds are printed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json as json_module
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import floors as floor
from .runner import Outcome, run_group
from .table import BOUND, Figure, Group, chosen_groups
from .timing import FULL, QUICK, ROUND

MODULE = "zray"
ROUNDS = 5
LEGEND = (
    f"floor: what this machine does at best without zray; ratio: to the floor, median of {ROUNDS} rounds in turns; "
    "needed: the ratio that binds, the target where there is none; limit: whether that is kept"
)
MISSED = (
    "{missed} of {limits} limits are missed.  They hold for an idle machine: other work on this one slows zray, or the "
    "floor beside it.  Nothing is broken."
)
QUICK_HINT = "  Each figure was measured once and for a short time; `zray microbenchmark` measures for long."


@dataclass(frozen=True)
class Round:
    """Figures, and what the floors were meanwhile."""

    outcome: Outcome
    floors: dict[str, float]


@dataclass
class Report:
    """All that one run has measured."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    floors: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # by group, one of each round
    errors: dict[str, str] = field(default_factory=dict)  # by workload

    def add(self, group: Group, rounds: list[Round]) -> None:
        self.floors[group.name] = {
            name: [round.floors[name] for round in rounds if round.floors] for name in rounds[0].floors
        }
        for round in rounds:
            self.errors |= round.outcome.errors
        for figure in group.figures:
            found = [round for round in rounds if figure.name in round.outcome.values]
            if found:
                self.rows.append(row_of(group, figure, found))

    def as_json(self) -> dict[str, Any]:
        return {
            "figures": {row["name"]: row for row in self.rows},
            "floors": self.floors,
            "errors": self.errors,
        } | circumstances()


def row_of(group: Group, figure: Figure, rounds: list[Round]) -> dict[str, Any]:
    """Medians of the rounds that have the figure."""
    values = [round.outcome.values[figure.name] for round in rounds]
    measured, below, ratios = statistics.median(values), None, []
    if figure.floor:
        floors = [round.floors[figure.floor] for round in rounds]
        below, ratios = statistics.median(floors), [value / under for value, under in zip(values, floors, strict=True)]
    ratio = statistics.median(ratios) if ratios else None
    return {
        "group": group.name,
        "name": figure.name,
        "what": figure.what,
        "unit": figure.unit,
        "better": figure.better,
        "measured": measured,
        "target": figure.target,
        "floor": below,
        "floor_name": figure.floor,
        "ratio": ratio,
        "ratios": ratios,
        "needed_ratio": figure.ratio,
        "ok": figure.reached(measured, ratio),
    }


def circumstances() -> dict[str, Any]:
    """Machine, versions and commit: what a figure means nothing without."""
    return {
        "machine": {
            "processor": processor_name(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "system": f"{platform.system()} {platform.release()}",
        },
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "version": version_of(MODULE),
        "commit": commit(),
    }


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the tree that this file lies in, `-dirty` behind it if files differ; None outside of one."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def measure_group(report: Report, group: Group, quick: bool) -> None:
    """What floors bind in rounds between measurements of them; then the rest, once."""
    print(f"{group.name}", file=sys.stderr, flush=True)
    zray = importlib.import_module(MODULE)
    bound = group.only(lambda workload: workload.__name__ in BOUND)
    rest = group.only(lambda workload: workload.__name__ not in BOUND)
    rounds = []
    if bound.shared or bound.fresh:
        before = floor.measure(bound.floors)
        for _ in range(1 if quick else ROUNDS):
            outcome = run_group(zray, bound, QUICK if quick else ROUND)
            after = floor.measure(bound.floors)
            rounds.append(Round(outcome, {name: (before[name] + after[name]) / 2 for name in before}))
            before = after
    if rest.shared or rest.fresh:
        rounds.append(Round(run_group(zray, rest, QUICK if quick else FULL), {}))
    report.add(group, rounds)


def shown(value: float | None) -> str:
    """Three digits that count, thousands apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def missed_in_words(report: Report, quick: bool) -> str:
    """A sentence on the limits that are missed; "": there are none."""
    found = [row["ok"] for row in report.rows if row["ok"] is not None]
    if all(found):
        return ""
    return MISSED.format(missed=found.count(False), limits=len(found)) + (QUICK_HINT if quick else "")


def print_table(report: Report, quick: bool = False) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "what", title="zray microbenchmark", title_justify="left")
    for column in ("measured", "target", "floor", "ratio", "needed"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("limit")
    marks = {True: "[green]kept[/]", False: "[yellow]missed[/]", None: ""}
    for row in report.rows:
        sign = {"higher": ">= ", "lower": "<= "}[row["better"]] if row["needed_ratio"] else ""
        table.add_row(
            row["name"],
            row["what"],
            f"{shown(row['measured'])} {row['unit']}",
            shown(row["target"]),
            shown(row["floor"]),
            shown(row["ratio"]),
            sign + shown(row["needed_ratio"]),
            marks[row["ok"]],
        )
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    if said := missed_in_words(report, quick):
        console.print(said, soft_wrap=True, highlight=False)
    console.print(LEGEND, soft_wrap=True, highlight=False)
    for workload, error in report.errors.items():
        console.print(f"[red]{workload}[/]: ", end="")
        console.print(error, markup=False)


def main(json: str | None = None, only: list[str] | None = None, quick: bool = False) -> Report:
    """Measure the groups or workloads named in `only` (all when empty); print the table, or write JSON.

    `json` is a path, or "-" for standard output, which then carries nothing else.
    """
    report = Report()
    for group in chosen_groups(only or []):
        measure_group(report, group, quick)
    text = json_module.dumps(report.as_json(), indent=2)
    if json == "-":
        print(text)
        return report
    print_table(report, quick)
    if json:
        Path(json).write_text(text + "\n")
    return report


def command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="PATH", help="write the figures as JSON; - is standard output")
    parser.add_argument("--only", action="append", default=[], help="a group or a workload; repeatable")
    parser.add_argument("--quick", action="store_true", help="few repeats, and not the slowest figures")
    options = parser.parse_args()
    main(options.json, options.only, options.quick)


if __name__ == "__main__":
    command_line()
