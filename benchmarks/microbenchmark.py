"""Every figure of zray, beside what it must reach and the floor of the machine under it.

    python -m benchmarks.microbenchmark [--only tasks] [--quick] [--json PATH]

The floors are measured directly before and after each group of figures, and their mean is taken: a machine
is not equally fast all day.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json as json_module
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import floors as floor
from .runner import Outcome, run_group
from .table import Figure, Group, chosen_groups

MODULE = "zray"
LEGEND = (
    "floor: what this machine does at best without zray, just before and after; ratio: measured / floor; "
    "needed: the ratio that binds, the target where there is none; no: not reached in this run"
)


@dataclass
class Report:
    """All that one run has measured."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    floors: dict[str, dict[str, float]] = field(default_factory=dict)  # by group
    errors: dict[str, str] = field(default_factory=dict)  # by workload

    def add(self, group: Group, outcome: Outcome, floors: dict[str, float]) -> None:
        self.floors[group.name] = floors
        self.errors |= outcome.errors
        for figure in group.figures:
            if figure.name in outcome.values:
                self.rows.append(row_of(group, figure, outcome.values[figure.name], floors))

    def as_json(self) -> dict[str, Any]:
        return {
            "figures": {row["name"]: row for row in self.rows},
            "floors": self.floors,
            "errors": self.errors,
        } | circumstances()


def row_of(group: Group, figure: Figure, measured: float, floors: dict[str, float]) -> dict[str, Any]:
    below = floors.get(figure.floor) if figure.floor else None
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
        "ratio": measured / below if below else None,
        "needed_ratio": figure.ratio,
        "ok": figure.reached(measured, floors),
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
    """One group between two measurements of its floors."""
    print(f"{group.name}", file=sys.stderr, flush=True)
    before = floor.measure(group.floors, quick)
    outcome = run_group(importlib.import_module(MODULE), group, quick)
    after = floor.measure(group.floors, quick)
    report.add(group, outcome, {name: (before[name] + after[name]) / 2 for name in before})


def shown(value: float | None) -> str:
    """Three digits that count, thousands apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def print_table(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "what", title="zray microbenchmark", title_justify="left")
    for column in ("measured", "target", "floor", "ratio", "needed"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("ok")
    marks = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
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
    print_table(report)
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
