"""CPU time of real processes: of a node and its driver per task and call, of a cluster per spilled task and actor."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import zray
from zray.cluster_utils import Cluster

from ..processes import cpu_seconds, descendants, parent_of

TASKS, SPILLED_TASKS, BURSTS, ACTORS = 20_000, 8_000, 8, 40
# Actors that nobody refers to have ended by then.
SETTLE_SECONDS = 0.6
OTHER = {"other": 0.001}


class Meter:
    """CPU seconds that processes and this one take."""

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self.processes = processes
        self.before: dict[int, float] = {}
        self.own_before = 0.0
        self.read()

    def read(self) -> tuple[float, float]:
        """(of those processes, of this one) since the last look."""
        now, own_now = {process: cpu_seconds(process) for process in self.processes()}, time.process_time()
        spent = sum(seconds - self.before.get(process, 0.0) for process, seconds in now.items())
        own = own_now - self.own_before
        self.before, self.own_before = now, own_now
        return spent, own


def in_bursts(submit: Callable[[], Any], count: int, meter: Meter) -> tuple[float, float]:
    """Submit so many, and fetch the results of each burst; microseconds for each, as a Meter tells: the median burst.

    The first quarter more does not count.  What a burst leaves to do is done in the next one.
    """
    burst = max(10, count // BURSTS)
    readings = []
    for _ in range(BURSTS + BURSTS // 4):
        zray.get([submit() for _ in range(burst)])
        readings.append([seconds / burst * 1e6 for seconds in meter.read()])
    spent, own = zip(*readings[BURSTS // 4 :], strict=True)
    return statistics.median(spent), statistics.median(own)


def no_op_and_fork_server() -> tuple[Any, Any]:
    """Two remote functions: one that does nothing, one that returns the process id of its worker's fork server.

    Inner functions: the workers of an older tree cannot import this module.
    """

    @zray.remote
    def nothing() -> None:
        pass

    @zray.remote
    def fork_server() -> int:
        return os.getppid()

    return nothing, fork_server


def tasks(scale: float) -> dict[str, float]:
    """No-op tasks and calls in bursts, on one node."""
    nothing, fork_server = no_op_and_fork_server()

    class Nothing:
        def call(self) -> None:
            pass

    count = max(200, int(TASKS * scale))
    remote: Any = zray.remote
    with zray.init(num_cpus=2, log_to_driver=False):
        node = parent_of(zray.get(fork_server.remote()))
        actor = remote(Nothing).remote()
        found = {}
        for name, submit in (("task", nothing.remote), ("call", actor.call.remote)):
            found[f"{name}.node"], found[f"{name}.driver"] = in_bursts(submit, count, Meter(lambda: [node]))
    return found


class Control:
    """The control processes of a cluster: all of its nodes' processes but fork servers and what they fork."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.fork_servers: set[int] = set()

    def processes(self) -> set[int]:
        """Their process ids."""
        nodes = descendants([node.pid for node in self.cluster.list_all_nodes()])
        return nodes - descendants(self.fork_servers)


def two_nodes(head_cpus: float) -> Cluster:
    """A head, and a node of two CPUs with a resource of its own."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": head_cpus})
    cluster.add_node(num_cpus=2, resources={"other": 1})
    cluster.wait_for_nodes()
    return cluster


def spilled(scale: float) -> dict[str, float]:
    """No-op tasks that are submitted at a head without CPUs, and run on the other node."""
    nothing, fork_server = no_op_and_fork_server()
    count = max(100, int(SPILLED_TASKS * scale))
    with two_nodes(0) as cluster:
        cluster.connect()
        try:
            control = Control(cluster)
            control.fork_servers.add(zray.get(fork_server.remote()))
            spent, _ = in_bursts(nothing.remote, count, Meter(control.processes))
        finally:
            zray.shutdown()
    return {"spilled.control": spent}


def actors(scale: float) -> dict[str, float]:
    """Actors that are created and called once, here and on the other node."""

    class Place:
        def fork_server(self) -> int:
            return os.getppid()

    count = max(4, int(ACTORS * scale))
    remote: Any = zray.remote
    found = {}
    with two_nodes(2) as cluster:
        cluster.connect()
        try:
            control = Control(cluster)
            for name, options in (("actor.here", {}), ("actor.there", {"resources": OTHER})):
                place = remote(Place).options(num_cpus=0, **options)
                control.fork_servers.add(zray.get(place.remote().fork_server.remote()))
                time.sleep(SETTLE_SECONDS)
                meter = Meter(control.processes)
                made = [place.remote() for _ in range(count)]
                homes = set(zray.get([actor.fork_server.remote() for actor in made]))
                del made
                time.sleep(SETTLE_SECONDS)
                spent, _ = meter.read()
                assert homes <= control.fork_servers, "an actor is on a node that it was not meant for"
                found[name] = spent / count * 1e6
        finally:
            zray.shutdown()
    return found
