"""Allreduce of two ranks on this machine: a group of zray, bare sockets, torch's gloo and OpenMPI, in turns.

    python -m benchmarks.collective [--mpi FOLDER] [--rounds 5] [--sizes 1000 10000000] [--json FILE]
    python -m benchmarks.collective --mbit 1000 [--ranks 2] ...      each rank in a network of its own (needs root)

FOLDER is a virtual environment with `openmpi`, `mpi4py` and numpy; without it, `mpirun` of the PATH is taken.  A peer
that is not installed is a line that says so.  In each round all of them measure all sizes, one after the other:
machines have moods, so ratios count, not milliseconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import zray
from zray.util import collective

from . import collective_peer

SIZES = [0, 1_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
PEER_SECONDS = 120
PEER = str(Path(collective_peer.__file__))
Measured = dict[int, float]


class Rank:
    """Member of a group of two."""

    def measure(self, rank: int, sizes: collective_peer.Sizes, ranks: int = 2) -> Measured:
        """Return the milliseconds by size."""
        collective.init_collective_group(ranks, rank)
        try:
            return collective_peer.measure(sizes, self.wait, self.add)
        finally:
            collective.destroy_collective_group()

    def wait(self) -> None:
        """Wait for the other rank."""
        collective.barrier()

    def add(self, array: numpy.ndarray) -> None:
        """Add up an array of both ranks."""
        collective.allreduce(array)


def of_zray(sizes: list[int]) -> Measured:
    """Measure a group of two actors."""
    with zray.init(num_cpus=2):
        remote_rank: Any = zray.remote(num_cpus=0)(Rank)
        ranks = [remote_rank.remote() for _ in range(2)]
        found: Measured = zray.get([actor.measure.remote(rank, sizes) for rank, actor in enumerate(ranks)])[0]
        return found


def of_gloo(sizes: list[int]) -> Measured:
    """Measure torch's gloo on loopback."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, PEER, "gloo"]
        ranks = [
            subprocess.Popen(
                [*command, str(rank), "2", f"file://{folder}/meet", json.dumps(sizes)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for rank in range(2)
        ]
        output = [rank.communicate(timeout=PEER_SECONDS)[0] for rank in ranks]
    return parsed(output[0].decode())


def of_sockets(sizes: list[int]) -> Measured:
    """Measure a ring on bare sockets on loopback."""
    return in_ring([[sys.executable, PEER, "sockets", str(rank), "127.0.0.1"] for rank in range(2)], sizes)


def in_ring(commands: list[list[str]], sizes: collective_peer.Sizes, seconds: float = PEER_SECONDS) -> Measured:
    """Measure a ring on bare sockets.  commands: of all ranks, each with the rank's own address at its end."""
    pipe = subprocess.PIPE
    ranks = [subprocess.Popen([*each, json.dumps(sizes)], stdin=pipe, stdout=pipe, text=True) for each in commands]
    try:
        addresses = []
        for command, rank in zip(commands, ranks, strict=True):
            assert rank.stdout is not None
            addresses.append((command[-1], int(rank.stdout.readline())))
        output = []
        for rank in ranks:
            assert rank.stdin is not None
            rank.stdin.write(json.dumps(addresses) + "\n")
            rank.stdin.flush()
        for rank in ranks:
            output.append(rank.communicate(timeout=seconds)[0])
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return parsed(output[0])


def of_mpi(folder: str, tcp: bool) -> Callable[[list[int]], Measured]:
    """Return the measurement of OpenMPI in an environment, in shared memory or over TCP on loopback."""
    run, python = mpi_commands(folder)
    way = ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"] if tcp else []

    def measure(sizes: list[int]) -> Measured:
        options = ["--allow-run-as-root", "--oversubscribe", "-n", "2", "--mca", "mpi_yield_when_idle", "1", *way]
        command = [run, *options, python, PEER, "mpi", json.dumps(sizes)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=PEER_SECONDS, check=True)
        return parsed(result.stdout)

    return measure


def mpi_commands(folder: str) -> tuple[str, str]:
    """Return paths of mpirun and of a Python with mpi4py; "" for what is not there."""
    if folder:
        return f"{folder}/bin/mpirun", f"{folder}/bin/python"
    is_here = importlib.util.find_spec("mpi4py") is not None
    return shutil.which("mpirun") or "", sys.executable if is_here else ""


def parsed(output: str) -> Measured:
    """Return what a peer has printed."""
    return {int(size): milliseconds for size, milliseconds in json.loads(output.strip().splitlines()[-1]).items()}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", default="", metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument(
        "--mbit", type=float, metavar="RATE", help="ranks on nodes of their own, with links of this rate"
    )
    parser.add_argument("--ranks", type=int, default=2, help="with --mbit")
    given = parser.parse_args()
    if given.mbit:
        show(on_links(given.mbit, given.ranks, given.sizes, given.rounds), given.sizes, given.json)
        return
    runs: dict[str, Callable[[list[int]], Measured]] = {"zray": of_zray, "bare sockets": of_sockets}
    if importlib.util.find_spec("torch") is not None:
        runs["gloo"] = of_gloo
    else:
        print("gloo: not measured, install torch")
    if all(mpi_commands(given.mpi)):
        runs |= {"OpenMPI": of_mpi(given.mpi, tcp=False), "OpenMPI, TCP": of_mpi(given.mpi, tcp=True)}
    else:
        print("OpenMPI: not measured, install openmpi and mpi4py, and name their environment by --mpi")
    measured: dict[str, list[Measured]] = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, run in runs.items():
            measured[name].append(run(given.sizes))
    show(measured, given.sizes, given.json)


def on_links(mbit: float, ranks: int, sizes: list[int], rounds: int) -> dict[str, list[Measured]]:
    """Measure ranks on emulated machines, whose links have this rate."""
    from .figures import namespaces, ring_emulated, slow_dispatch
    from .figures.net_node import nodes_on
    from .timing import FULL

    measured: dict[str, list[Measured]] = {}
    with (
        slow_dispatch.slow_nodes() as delay,
        namespaces.network(ranks, mbit) as links,
        nodes_on(links, delay.path) as nodes,
        ring_emulated.ways_in(links, nodes, FULL) as ways,
    ):
        own = {"zray" if name == ring_emulated.GROUP else name: way for name, way in ways.items()}
        for _ in range(rounds):
            for name in sorted(own, key=lambda name: name != "zray"):
                measured.setdefault(name, []).append(own[name](sizes))
    return measured


def show(measured: dict[str, list[Measured]], sizes: list[int], path: str | None) -> None:
    """Print the table, and write all of it to a file, if one is given."""
    print(table(measured, sizes))
    if path:
        Path(path).write_text(json.dumps(measured, indent=1))


def table(measured: dict[str, list[Measured]], sizes: list[int]) -> str:
    """Return the medians of all rounds, [best ones], and the ratio of zray to each peer, as the lines of a table."""
    peers = [name for name in measured if name != "zray"]
    lines = [f"| float32, ms | {' | '.join(measured)} | {' | '.join(f'zray / {name}' for name in peers)} |"]
    lines.append("|---" * (1 + len(measured) + len(peers)) + "|")
    for size in sizes:
        found = {name: [each[size] for each in rounds] for name, rounds in measured.items()}
        own = found["zray"]
        shown = [f"{statistics.median(times):.3g} [{min(times):.3g}]" for times in found.values()]
        ratios = [f"{statistics.median(a / b for a, b in zip(own, found[name], strict=True)):.2f}" for name in peers]
        lines.append(f"| {f'{size:,} bytes' if size else 'barrier'} | {' | '.join(shown)} | {' | '.join(ratios)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
