"""The same workloads on zray, Ray, Dask and the standard pools, in turns, as the second table of docs/benchmarks.md.

    python -m benchmarks.peers --venv-root FOLDER [--only tasks] [--peers ray,dask] [--quick] [--json PATH]

Each peer lives in a virtual environment of its own under FOLDER, made (and its packages fetched) when it is
not there yet. Group by group, every peer has its turn, so that all see the same machine. No test uses this.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from .microbenchmark import circumstances, shown
from .table import LOWER, Figure, Group, chosen_groups

TURN_SECONDS = 3600
POOL_WORKLOADS = frozenset(
    "tasks_async tasks_with_payload tasks_sync get_in_a_loop wait_loop short_sleeps "
    "round_trip_10_megabytes shared_100_megabytes drain_100k life rest".split()
)
DASK_WORKLOADS = POOL_WORKLOADS | {"chain", "tree_reduce", "calls_sync", "calls_async"}


@dataclass(frozen=True)
class Peer:
    """Something that runs the workloads, through a module with Ray's names."""

    name: str
    module: str
    packages: tuple[str, ...] = ()
    workloads: frozenset[str] | None = None  # those that it can run; all of them when None
    environment: dict[str, str] = field(default_factory=dict)


def pool(name: str, kind: str, *packages: str) -> Peer:
    needed = ("cloudpickle", "numpy", *packages)
    return Peer(name, "peer_pools", needed, POOL_WORKLOADS, {"ZRAY_BENCHMARK_POOL": kind})


ZRAY = Peer("zray", "zray")
PEERS = {
    "ray": Peer("Ray", "ray", ("ray", "numpy"), environment={"RAY_DEDUP_LOGS": "1"}),
    "dask": Peer("Dask", "peer_dask", ("distributed", "numpy"), DASK_WORKLOADS),
    "multiprocessing": pool("multiprocessing.Pool", "multiprocessing"),
    "futures": pool("concurrent.futures", "futures"),
    "loky": pool("loky", "loky", "loky"),
}


@dataclass
class Turn:
    """What one peer did with one group."""

    values: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def python_of(peer: Peer, root: Path) -> str:
    """The interpreter of the peer's environment, which is made if need be. zray runs in this one."""
    if not peer.packages:
        return sys.executable
    folder = root / peer.name.lower()
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        print(f"making {folder.name} with {', '.join(peer.packages)}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *peer.packages], check=True)
        ready.touch()
    return str(python)


def take_turn(peer: Peer, group: Group, root: Path, quick: bool) -> Turn:
    """Run the group's workloads on a peer, in a process of its own."""
    workloads = [workload.__name__ for workload in (*group.shared, *group.fresh)]
    chosen = [name for name in workloads if peer.workloads is None or name in peer.workloads]
    if not chosen:
        return Turn()
    package = __package__ or "benchmarks"
    module = f"{package}.{peer.module}" if peer.module.startswith("peer_") else peer.module
    command = [python_of(peer, root), "-m", f"{package}.runner", module, *(["--quick"] if quick else [])]
    for name in chosen:
        command.append(f"--only={name}")
    above = Path(__file__).resolve().parents[package.count(".") + 1]
    environment = os.environ | peer.environment | {"PYTHONPATH": str(above)}
    print(f"{group.name}: {peer.name}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=TURN_SECONDS)
        return Turn(**json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        return Turn(errors={group.name: f"{type(error).__name__}: {error}"})


def cell(figure: Figure, ours: float | None, theirs: float | None) -> str:
    """A peer's value, and how many times better (x) zray's is."""
    if theirs is None:
        return ""
    if not ours or not theirs:
        return shown(theirs)
    times = theirs / ours if figure.better == LOWER else ours / theirs
    return f"{shown(theirs)} ({shown(times)}x)"


def markdown(groups: list[Group], peers: list[Peer], turns: dict[tuple[str, str], Turn]) -> str:
    """One row a figure, one column a peer."""
    names = [peer.name for peer in peers]
    lines = ["| figure | unit | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    for group in groups:
        for figure in group.figures:
            found = [turns[group.name, name].values.get(figure.name) for name in names]
            if all(value is None for value in found):
                continue
            cells = [shown(found[0]), *(cell(figure, found[0], value) for value in found[1:])]
            lines.append(f"| {figure.what} | {figure.unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv-root", type=Path, required=True, help="where the environments are or shall be")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of " + ", ".join(PEERS))
    parser.add_argument("--only", action="append", default=[], help="a group or a workload; repeatable")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write values and errors too")
    options = parser.parse_args()
    peers = [ZRAY, *(PEERS[name] for name in options.peers.split(",") if name)]
    groups = chosen_groups(options.only)
    root = options.venv_root.resolve()
    for peer in peers:
        python_of(peer, root)
    turns = {(group.name, peer.name): take_turn(peer, group, root, options.quick) for group in groups for peer in peers}
    print(markdown(groups, peers, turns))
    for (group_name, name), turn in turns.items():
        for workload, error in turn.errors.items():
            print(f"{group_name}: {name}: {workload}: {error}", file=sys.stderr)
    if options.json:
        found = {f"{group}/{name}": vars(turn) for (group, name), turn in turns.items()}
        options.json.write_text(json.dumps(circumstances() | {"turns": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
