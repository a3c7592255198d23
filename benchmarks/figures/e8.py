"""E8 (OSDI Fig 10b): the memory of the GCS while finished lineage is flushed to disk, and while it is not."""

from __future__ import annotations

from ..flushing import ARGUMENT_BYTES, run_apart
from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series, linear_fit

# Of what is allowed: pages are under way while more comes.
SLACK = 1.5
MB = 1e6


def measure(figure: Figure, effort: Effort) -> None:
    """One replica in a process of its own, told of a line of tasks; with a set memory, and without."""
    tasks, limit = (60_000, 16 << 20) if effort.quick else (400_000, 64 << 20)
    kept, flushed = run_apart(tasks, 0), run_apart(tasks, limit)
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
    most = max(weight for _, _, weight in flushed["points"])
    figure.add(
        f"with {limit / MB:.0f} MB allowed: what the specs in memory weigh at most",
        most / MB,
        "MB",
        MEASURED,
        paper="under the set level",
        at_most=SLACK * limit / MB,
    )
    figure.add("with: memory per task that stays, as an index", stays * MB, "bytes", MEASURED)
    figure.add("memory per task without / with", slope / stays, "", MEASURED, paper="capped", at_least=2.0)
    rates = " and ".join(f"{tasks / found['seconds']:,.0f}" for found in (kept, flushed))
    is_whole = all(found["records"] == tasks for found in (kept, flushed))
    figure.add_fact(
        "all tasks are recorded", is_whole, f"{rates} tasks/s, without and with", MEASURED, paper="finishes"
    )
    figure.add_fact(
        "the first task, flushed long ago, is run again from what the disk holds",
        flushed["rebuilt"],
        "its spec is as it was" if flushed["rebuilt"] else "no",
        MEASURED,
    )
    series = [Series(name, MEASURED, points) for name, points in lines.items()]
    figure.plots.append(Plot("Memory of a GCS shard", "tasks recorded", "MB more than at the start", series))
    figure.notes.append(
        f"Each of {tasks:,} tasks takes the result of the one before and {ARGUMENT_BYTES:,} bytes of arguments; the "
        "last result lives, so that all may have to run again. Tasks whose results nobody holds leave no lineage at "
        "all. What stays in memory of a flushed task is its record, without the spec: with the tasks that live it "
        "still grows, and the memory as a whole is not capped."
    )
