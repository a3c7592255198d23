"""E1 on one node, beside its throughput: with more programs that submit, and with tasks that take a while."""

from __future__ import annotations

import time

import zray

from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series

CPUS = 2
SUBMITTERS = (1, 2, 4)
WAVE = 1_000  # of each submitter
MILLISECONDS = (0, 1, 5, 10, 100)
SHORTEST = 0.1  # ms: where a task of 0 ms stands on an axis that is logarithmic


def measure(figure: Figure, effort: Effort) -> None:
    """Two plots; what they say has no limit of its own."""
    seconds = 0.3 if effort.quick else 2.0
    with zray.init(num_cpus=CPUS):
        rates = [(float(count), submitted_by(count, seconds)) for count in SUBMITTERS]
        taking = [(float(ms), of_length(ms, seconds)) for ms in MILLISECONDS]
    line = [Series("zray", MEASURED, rates)]
    title = "No-op tasks per second on one node, by how many submit"
    figure.plots.append(Plot(title, "submitting workers", "tasks/s", line))
    found = [(max(ms, SHORTEST), rate) for ms, rate in taking]
    best = [(ms, CPUS * 1e3 / ms) for ms, _ in taking if ms]
    lines = [Series("zray", MEASURED, found), Series("two CPUs without a pause", MEASURED, best)]
    title = "Tasks per second on one node of two CPUs, by how long they sleep"
    figure.plots.append(Plot(title, f"ms (no-ops at {SHORTEST:g})", "tasks/s", lines, log_x=True, log_y=True))
    by_count = ", ".join(f"{count:g}: {rate:,.0f}" for count, rate in rates)
    by_length = ", ".join(f"{ms:g} ms: {rate:,.0f}" for ms, rate in taking)
    figure.notes.append(
        f"One node: no-op tasks/s by how many workers submit them, {by_count}; tasks/s by how long each sleeps, "
        f"{by_length}."
    )


def submitted_by(count: int, seconds: float) -> float:
    """No-op tasks per second that so many tasks submit and fetch side by side, beside the CPUs that the no-ops have."""

    @zray.remote(num_cpus=0)
    def submit(seconds: float) -> tuple[int, float]:
        @zray.remote
        def nothing() -> None:
            pass

        zray.get([nothing.remote() for _ in range(WAVE)])
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            zray.get([nothing.remote() for _ in range(WAVE)])
            done += WAVE
        return done, time.perf_counter() - started

    return sum(done / took for done, took in zray.get([submit.remote(seconds) for _ in range(count)]))


def of_length(milliseconds: int, seconds: float) -> float:
    """Tasks per second that each sleep for so long."""

    @zray.remote
    def nap(seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    wave = max(2 * CPUS, int(seconds * CPUS * 1e3 / milliseconds)) if milliseconds else 10 * WAVE
    zray.get([nap.remote(0.0) for _ in range(2 * CPUS)])
    started = time.perf_counter()
    zray.get([nap.remote(milliseconds / 1e3) for _ in range(wave)])
    return wave / (time.perf_counter() - started)
