"""E8 (OSDI Fig 10b): the memory of the GCS while finished lineage is flushed to disk, and while it is not."""

from __future__ import annotations

from typing import Any

from ..flushing import ARGUMENT_BYTES, run_apart
from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series, linear_fit

# Of what is allowed: pages are under way while more comes.
SLACK = 1.5
# Of what the process is given, as far as it is resident when last looked at: what is asked for in the end is not.
AT_CAP = 0.75
MB = 1e6


def measure(figure: Figure, effort: Effort) -> None:
    """One replica in a process of its own, told of a line of tasks; with a set memory for their specs, and without.
    Either way the process may take no more than `cap`: that is too little for what is kept of all of them, and enough
    where it is flushed.
    """
    tasks, limit, cap = (60_000, 16 << 20, 64 << 20) if effort.quick else (400_000, 64 << 20, 384 << 20)
    kept, flushed = run_apart(tasks, 0, cap), run_apart(tasks, limit, cap)
    judge(figure, (tasks, limit, cap), kept, flushed)


def judge(figure: Figure, plan: tuple[int, int, int], kept: dict[str, Any], flushed: dict[str, Any]) -> None:
    """The rows of E8.  plan: tasks; bytes that specs may take where they are flushed; and the process, either way."""
    tasks, limit, cap = plan
    lines = {
        name: [(float(count), resident / MB) for count, resident, _ in found["points"]]
        for name, found in (("nothing is flushed", kept), ("flushed", flushed))
    }
    slope, _, fit = linear_fit(lines["nothing is flushed"])
    # Once it is at what is allowed: the second half.
    half = [point for point in lines["flushed"] if point[0] >= tasks / 2]
    stays = max(linear_fit(half)[0], 1 / MB)
    figure.add(
        "without: memory grows with the tasks, R2 of a line",
        fit,
        "",
        MEASURED,
        paper="linear until it stalls",
        at_least=0.98,
    )
    figure.add("without: memory per task", slope * MB, "bytes", MEASURED)
    last = lines["nothing is flushed"][-1][1]
    how = f"ends with {kept['error']}" if kept["error"] else "goes on"
    figure.add_fact(
        f"without, where the process is given {cap / MB:.0f} MB: it grows up to that, and ends with an error",
        bool(kept["error"]) and last >= AT_CAP * cap / MB,
        f"{how} after {kept['records']:,} of {tasks:,} tasks; {last:.0f} MB were resident when last looked at",
        MEASURED,
        paper="stalls",
    )
    most = max(resident for _, resident in lines["flushed"])
    figure.add_fact(
        "with, where it is given no more: it stays below that, and finishes",
        not flushed["error"] and most <= cap / MB and flushed["records"] == tasks,
        f"{flushed['records']:,} of {tasks:,} tasks, {most:.0f} MB resident at most{', ' * bool(flushed['error'])}"
        + flushed["error"],
        MEASURED,
        paper="finishes",
    )
    weight = max(weight for _, _, weight in flushed["points"])
    figure.add(
        f"with {limit / MB:.0f} MB allowed: what the specs in memory weigh at most",
        weight / MB,
        "MB",
        MEASURED,
        paper="under the set level",
        at_most=SLACK * limit / MB,
    )
    figure.add("with: memory per task that stays, as an index", stays * MB, "bytes", MEASURED)
    figure.add("memory per task without / with", slope / stays, "", MEASURED, paper="capped", at_least=2.0)
    for name, found in (("without", kept), ("with", flushed)):
        figure.add(f"{name}: tasks recorded per second", found["records"] / found["seconds"], "1/s", MEASURED)
    figure.add_fact(
        "the first task, flushed long ago, is run again from what the disk holds",
        flushed["rebuilt"] and flushed["flushed"] > 0,
        "its spec is as it was" if flushed["rebuilt"] else "no",
        MEASURED,
    )
    series = [Series(name, MEASURED, points) for name, points in lines.items()]
    figure.plots.append(Plot("Memory of a GCS shard", "tasks recorded", "MB more than at the start", series))
    figure.notes.append(
        f"The process may take {cap / MB:.0f} MB beside what it has at the start (RLIMIT_DATA), flushed or not. "
        f"Each of {tasks:,} tasks takes the result of the one before and {ARGUMENT_BYTES:,} bytes of arguments; the "
        "last result lives, so that all may have to run again. Tasks whose results nobody holds leave no lineage at "
        "all. What stays in memory of a flushed task is its record, without the spec: with the tasks that live it "
        "still grows, and the memory as a whole is not capped."
    )
