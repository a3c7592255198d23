"""Runs figures one after the other, and writes the report.

python -m benchmarks.figures.reproduce [--quick] [--out DIR] [E1 ... E18 cluster]
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import sys
import time
from pathlib import Path

from ..floors import measure_pipeline
from ..microbenchmark import circumstances
from ..timing import FULL, QUICK, Effort, deadline
from .report import write_report
from .results import REFERENCE_RATE, Figure

TITLES = {
    "E1": "empty tasks per second, on one node and on more",
    "E2": "load balance by the global scheduler",
    "E3": "object store",
    "E4": "nodes lost and regained: tasks run again",
    "E5": "actors lost: calls that are run again, with and without checkpoints",
    "E6": "what a second replica of the GCS costs",
    "E7": "a member of a chain is killed",
    "E8": "the GCS under a set memory",
    "E9": "placement that knows where arguments lie",
    "E10": "allreduce: a ring of actor calls, zray's group, and other libraries",
    "E11": "allreduce when tasks are dispatched later",
    "E12": "synchronous SGD: a group, parameter servers, and other libraries",
    "E13": "a policy is served, by an actor and over REST",
    "E14": "simulations of uneven length, asynchronous and bulk-synchronous",
    "E15": "evolution strategies: learning, and scaling with and without an aggregation tree",
    "E16": "PPO: asynchronous rollouts and one learner, beside a symmetric program",
    "E17": "a robot is controlled in soft real time",
    "E18": "short simulations and a policy step: serial, on zray, and bulk-synchronous",
    "cluster": "what zray promises of a cluster (no figure of the paper's): transfer, distance, joins, deaths, chaos",
}
FIGURE_SECONDS = 900.0  # after so long a figure is taken to hang
QUICK_FIGURE_SECONDS = 180.0
DEFAULT_FOLDER = "zray-report"
BARE_SECONDS = 0.5  # that the bare pipeline gets, before each figure


def chosen(names: list[str]) -> list[str]:
    """Those, in the paper's order, and what is not the paper's behind it; all when none is named.

    Raises:
        ValueError: there is no such figure.
    """
    by_lower = {name.lower(): name for name in TITLES}
    wanted = {by_lower.get(name.lower(), name) for name in names}
    unknown = sorted(wanted - TITLES.keys())
    if unknown:
        raise ValueError(f"no such figure: {', '.join(unknown)}; there are {', '.join(TITLES)}")
    return [name for name in TITLES if not wanted or name in wanted]


def run_figure(name: str, effort: Effort) -> Figure:
    """What cannot be had is a row that says why, not the end of the run."""
    figure = Figure(name, TITLES[name])
    seconds = QUICK_FIGURE_SECONDS if effort.quick else FIGURE_SECONDS
    figure.pace = bare_rate() / REFERENCE_RATE
    before = os.getloadavg()[0]
    try:
        with deadline(seconds, name):
            importlib.import_module(f".{name.lower()}", __package__).measure(figure, effort)
    except NotImplementedError as error:
        figure.leave_out(TITLES[name], str(error))
    except Exception as error:
        figure.leave_out(TITLES[name], f"the run failed: {type(error).__name__}: {error}")
    figure.notes.append(
        f"Load of the machine: {before:.1f} before the figure, {os.getloadavg()[0]:.1f} after it, on {os.cpu_count()} "
        f"cores. The bare pipeline ran at {figure.pace:.2f} of the speed that limits are meant for."
    )
    return figure


def bare_rate() -> float:
    """How fast this machine is now: tasks/s of a pipeline that does nothing but pass them on."""
    return measure_pipeline(BARE_SECONDS, figures=["async_10k"])["async_10k"]


def machine(quick: bool) -> dict[str, str]:
    """What the figures mean nothing without; no name of a host, no path."""
    found = circumstances()
    memory = found["machine"]["memory_bytes"] / 1e9
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{found['machine']['cores']} cores, {found['machine']['processor']}, {memory:.0f} GB",
        "system": found["machine"]["system"],
        "Python": found["python"],
        "zray": f"{found['version']}, commit {found['commit'] or 'unknown'}",
        "the bare pipeline": f"{bare_rate():,.0f} tasks/s, and {REFERENCE_RATE:,.0f} where limits are meant for",
        "effort": "quick: few repeats, small sizes" if quick else "full",
    }


def main(names: list[str], folder: str = DEFAULT_FOLDER, quick: bool = False) -> tuple[Path, list[Figure]]:
    """The report's path, and what is in it."""
    figures = []
    for name in chosen(names):
        print(f"{name}: {TITLES[name]} ...", file=sys.stderr, flush=True)
        started = time.monotonic()
        figures.append(run_figure(name, QUICK if quick else FULL))
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return write_report(figures, machine(quick), Path(folder)), figures


def in_lines(figures: list[Figure]) -> list[str]:
    """The table, for a terminal."""
    return [
        f"{figure.name}  {row.verdict:13} {row.kind or '-':10} {row.label}: {row.ours}"
        + (f" (needed: {row.needed})" if row.needed else "")
        for figure in figures
        for row in figure.rows
    ]


def command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="E1 ... E18, cluster; all when none is named")
    parser.add_argument("--quick", action="store_true", help="few repeats, small sizes")
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER)
    options = parser.parse_args()
    page, figures = main(options.figures, options.out, options.quick)
    print("\n".join([*in_lines(figures), str(page)]))


if __name__ == "__main__":
    command_line()
