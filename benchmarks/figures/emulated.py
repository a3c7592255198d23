"""Clusters of several nodes on this machine, and the CPU time that all their processes take."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import zray
from zray.cluster_utils import Cluster
from zray.host.process import node_processes


@contextlib.contextmanager
def emulated(count: int, *, cpus: float = 2, head_cpus: float = 0, **head: Any) -> Iterator[Cluster]:
    """As `cluster_of`, and this process is the driver."""
    with cluster_of(count, cpus=cpus, head_cpus=head_cpus, **head) as cluster, connected(cluster):
        yield cluster


@contextlib.contextmanager
def cluster_of(count: int, *, cpus: float = 2, head_cpus: float = 0, **head: Any) -> Iterator[Cluster]:
    """A head and `count` more nodes.  Node i has a resource `node-i`."""
    with Cluster(True, head_node_args={"num_cpus": head_cpus, **head}) as cluster:
        for number in range(count):
            cluster.add_node(num_cpus=cpus, resources={f"node-{number}": 1_000})
        cluster.wait_for_nodes()
        yield cluster


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """This process is a driver of that cluster."""
    cluster.connect()
    try:
        yield
    finally:
        zray.shutdown()


def has_policies() -> bool:
    """Whether a head can be told which policy places tasks."""
    return "policy" in inspect.signature(node_processes.start_head).parameters


def cpu_seconds(roots: Iterable[int], *, with_children: bool = True) -> float:
    """User and system time of these processes; and of all below them, those that have ended among them."""
    ticks, children = 0, children_by_parent() if with_children else {}
    found = list(dict.fromkeys(roots))
    for process in found:
        found += [child for child in children.get(process, ()) if child not in found]
    for process in found:
        with contextlib.suppress(OSError):
            ticks += sum(map(int, fields_of(process)[11 : 15 if with_children else 13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(fields_of(int(entry.name))[1]), []).append(int(entry.name))
    return children


def fields_of(process: int) -> list[str]:
    """Of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def cluster_seconds(cluster: Cluster) -> float:
    """CPU time of this process, which is the driver, and of the nodes with all that descends from them."""
    nodes = cpu_seconds(node.pid for node in cluster.list_all_nodes())
    return nodes + cpu_seconds([os.getpid()], with_children=False)
