"""E10 on emulated machines: ranks in network namespaces, whose links the kernel shapes; and other libraries there."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import collective
from ..timing import Effort
from . import ring_calls
from .namespaces import BUSY, BusyShare, Network, network
from .net_node import Nodes, nodes_on
from .results import EMULATED, Figure, Plot, Series
from .ring_measured import GROUP, ONE_STREAM, PAPER, RING, SOCKETS, BySize, mpi_folder, mpi_version
from .ring_simulated import bound
from .slow_dispatch import slow_nodes

NEAR_BOUND = 2.0
PORT = 29_500
CALLS = 3  # of each size
SECONDS = 120.0
Ways = dict[str, Callable[[list[int]], BySize]]


@dataclass(frozen=True)
class Shape:
    """Ranks, and the rate of their links."""

    ranks: int
    mbit: float
    sizes: tuple[int, ...]


@dataclass
class Found:
    """Measurements of a shape.  mbit: rate of the links in the end."""

    shape: Shape
    mbit: float
    line: float  # bytes/s of payload
    busy: float = 0.0
    by_way: dict[str, list[BySize]] = field(default_factory=dict)

    @property
    def largest(self) -> int:
        """The largest size."""
        return self.shape.sizes[-1]

    def median(self, way: str, size: int) -> float:
        """Milliseconds of a way."""
        return statistics.median(each[size] for each in self.by_way[way])


FULL = (
    Shape(2, 1_000, (1_000_000, 10_000_000, 100_000_000)),
    Shape(4, 1_000, (1_000_000, 10_000_000, 100_000_000)),
    Shape(8, 200, (1_000_000, 10_000_000)),
)
QUICK = (Shape(2, 1_000, (24_000_000,)), Shape(4, 1_000, (24_000_000,)), Shape(8, 200, (2_000_000,)))


def measure(figure: Figure, effort: Effort) -> list[Found]:
    """Rows of all shapes; one row that says why where there are none."""
    try:
        found = [one_shape(shape, effort) for shape in (QUICK if effort.quick else FULL)]
    except NotImplementedError as error:
        figure.leave_out("ranks in network namespaces", str(error), paper=PAPER)
        return []
    for each in found:
        judge(figure, each)
    figure.notes.append(
        "Emulated: each rank is on a node of its own, in a network namespace, with a link to a switch that the kernel "
        "shapes (tbf). The bound is 2 (n - 1) / n of the array over the payload of a link, which is "
        "1,448 of 1,514 bytes. All machines share the cores of this one: where these were more than "
        f"{BUSY:.0%} busy, links have half of their rate. zray encrypts; the others do not."
    )
    return found


def one_shape(shape: Shape, effort: Effort) -> Found:
    """Measure all ways, in turns.  A quick run leaves out gloo, and OpenMPI on eight machines: they start slowly."""
    rounds = 1 if effort.quick else 3
    with slow_nodes() as delay, network(shape.ranks, shape.mbit) as links, nodes_on(links, delay.path) as nodes:
        busy = BusyShare()
        nodes.ask("ring", [shape.sizes[-1]], ring_calls.MANY_PIECES, 1)
        if (share := busy.share()) > BUSY:
            links.shape(shape.mbit / 2)
        found = Found(shape, links.mbit, links.bytes_per_second, share)
        with ways_in(links, nodes, effort) as ways:
            for number in range(rounds):
                for name in ways if number % 2 else reversed(ways):
                    found.by_way.setdefault(name, []).append(ways[name](list(shape.sizes)))
    return found


@contextlib.contextmanager
def ways_in(links: Network, nodes: Nodes, effort: Effort) -> Iterator[Ways]:
    """Return what can be measured there, by name."""
    ways: Ways = {
        RING: lambda sizes: nodes.by_size("ring", sizes, ring_calls.MANY_PIECES, CALLS),
        ONE_STREAM: lambda sizes: nodes.by_size("ring", sizes, ring_calls.ONE_PIECE, CALLS),
        GROUP: lambda sizes: nodes.by_size("group", sizes, CALLS),
        SOCKETS: lambda sizes: with_sockets(links, sizes),
    }
    if importlib.util.find_spec("torch") is not None and len(links.machines) == 2 and not effort.quick:
        ways[f"gloo of torch {importlib.metadata.version('torch')}"] = lambda sizes: with_gloo(links, sizes)
    with tempfile.TemporaryDirectory(prefix="zr") as folder:
        version = mpi_version(mpi_folder())
        if version and not (effort.quick and len(links.machines) > 4):
            ways[f"OpenMPI {version}, TCP"] = lambda sizes: with_mpi(links, Path(folder), sizes)
        yield ways


def with_sockets(links: Network, sizes: list[int]) -> BySize:
    """A ring on bare sockets."""
    command = [sys.executable, collective.PEER, "sockets"]
    commands = [machine.inside(*command, str(rank), machine.address) for rank, machine in enumerate(links.machines)]
    return collective.in_ring(commands, dict.fromkeys(sizes, CALLS), SECONDS)


def with_gloo(links: Network, sizes: list[int]) -> BySize:
    """Gloo of torch."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    ranks, url = len(links.machines), f"tcp://{links.machines[0].address}:{PORT}"
    command, pipe = [sys.executable, collective.PEER, "gloo"], subprocess.PIPE
    processes = [
        subprocess.Popen(
            machine.inside(*command, str(rank), str(ranks), url, json.dumps(dict.fromkeys(sizes, CALLS))),
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        for rank, machine in enumerate(links.machines)
    ]
    try:
        output = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return collective.parsed(output[0].decode())


# mpirun starts its daemon on each other machine with it, in place of ssh: HOST, then a command.
AGENT = """#!/bin/sh
host=$1
shift
case $host in
{cases}
esac
exec {nsenter} unshare --uts sh -c "hostname m$number; $*"
"""


def with_mpi(links: Network, folder: Path, sizes: list[int]) -> BySize:
    """OpenMPI over TCP.  Its machines have host names of their own, without which it hangs."""
    mpirun, python = collective.mpi_commands(mpi_folder())
    pids = {machine.address: machine.holder.pid for machine in links.machines}
    cases = [f"{address}) pid={pid} number={number};;" for number, (address, pid) in enumerate(pids.items())]
    enter = "nsenter --net=/proc/$pid/ns/net --"  # the agent finds the other machines among our processes
    agent, hosts = folder / "agent", folder / "hosts"
    agent.write_text(AGENT.format(cases="\n".join(cases), nsenter=enter))
    agent.chmod(0o700)
    hosts.write_text("".join(f"{machine.address} slots=1\n" for machine in links.machines))
    subnet = links.machines[0].address.rpartition(".")[0] + ".0/24"
    options = ["--allow-run-as-root", "--hostfile", str(hosts), "--map-by", "node", "-n", str(len(links.machines))]
    options += ["--prtemca", "plm_ssh_agent", str(agent), "--mca", "mpi_yield_when_idle", "1"]
    options += ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", subnet, "--mca", "pml", "ob1"]
    command = [mpirun, *options, python, collective.PEER, "mpi", json.dumps(dict.fromkeys(sizes, CALLS))]
    first = links.machines[0]
    enter_first = enter.replace("$pid", str(first.holder.pid)).split()
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        [*enter_first, "unshare", "--uts", "sh", "-c", 'hostname m0; exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
    )
    if done.returncode:
        raise RuntimeError(f"mpirun has ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return collective.parsed(done.stdout)


def name_of(found: Found) -> str:
    """Return a shape in words."""
    rate = f"{found.mbit:g} Mbit/s a link"
    if found.mbit < found.shape.mbit:
        rate += f" (halved: cores {found.busy:.0%} busy)"
    return f"{found.shape.ranks} ranks, {rate}"


def judge(figure: Figure, found: Found) -> None:
    """Rows and the plot of one shape."""
    where, size = name_of(found), found.largest
    least = bound(found.shape.ranks, size, found.line)
    what = f"{size / 1e6:g} MB, {where}"
    for way, rounds in found.by_way.items():
        times = [each[size] for each in rounds]
        figure.add(f"{what}: {way}", statistics.median(times), "ms", EMULATED, paper=PAPER, runs=times)
        for each_size in found.shape.sizes:
            values = [each[each_size] for each in rounds]
            figure.keep(f"{each_size:,} bytes, {where}: {way}", values, "ms", EMULATED)
        limit = NEAR_BOUND if way in (RING, GROUP) else None
        label = f"{what}: {way}, to the bound of {least:.0f} ms"
        figure.add(label, statistics.median(times) / least, "x", EMULATED, at_most=limit, paper="3.3 x at 100 MB")

    def compare(own: str, peer: str) -> None:
        ratios = [a[size] / b[size] for a, b in zip(found.by_way[own], found.by_way[peer], strict=True)]
        label = f"{what}: {own}, to {peer}"
        figure.add(label, statistics.median(ratios), "x", EMULATED, at_most=1.0, paper="1.5 x faster", runs=ratios)

    if ring_calls.pieces_of(size, found.shape.ranks, ring_calls.MANY_PIECES) > 1:
        compare(RING, ONE_STREAM)
    for peer in found.by_way:
        if peer.startswith("OpenMPI"):
            compare(RING, peer)
    lines = [
        Series(way, EMULATED, [(float(each), found.median(way, each)) for each in found.shape.sizes])
        for way in found.by_way
    ]
    bounds = [(float(each), bound(found.shape.ranks, each, found.line)) for each in found.shape.sizes]
    lines.append(Series("bound", EMULATED, bounds))
    figure.plots.append(Plot(f"Allreduce of {where}", "bytes", "ms, median", lines, log_x=True, log_y=True))
