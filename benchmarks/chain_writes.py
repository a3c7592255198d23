"""How many writes per second a shard takes, by number of its replicas: the shard is what there is too little of (E6).

    python -m benchmarks.chain_writes [--seconds 2] [--remote]

A cluster of one shard, without tasks.  A host of its own keeps so many writes under way that the shard is never without
one: each holds an object that is new, and is acknowledged when all replicas have it.  --remote: all replicas but the
first are processes of other nodes (on this machine).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zray.cluster_utils import Cluster
from zray.roles.role import on
from zray.wire.gcs import HeartbeatReply, HoldAtNode, HoldAtNodeReply

from .chain_failover import READY_SECONDS, Asker, Probe, machines, object_of, process_of
from .figures.emulated import cpu_seconds
from .timing import compile_zray

UNDER_WAY = 1_000  # writes; a client says no more than 2,000 ahead of what is done
WARM_UP_SECONDS = 0.5


class Writer(Asker):
    """Asks anew for each answer."""

    def __init__(self, address: str, member: Any, reader: str) -> None:
        super().__init__(address, member, reader)
        self.done = 0

    def ask(self) -> None:
        """The first ones."""
        for _ in range(UNDER_WAY):
            self._write()

    @on(HoldAtNodeReply)
    def on_held(self, message: HoldAtNodeReply) -> None:
        self.done += 1
        if self.is_asking:
            self._write()

    def _write(self) -> None:
        self.asked += 1
        self.send(self.shard, HoldAtNode(self.address, [object_of(self.asked)], self.asked))

    @on(HeartbeatReply)
    def on_heartbeat_reply(self, message: HeartbeatReply) -> None:
        pass


@dataclass
class Rate:
    """Of one cluster."""

    writes: float  # per second
    busiest: float  # seconds of CPU time per second of the replica that takes most
    writer: float  # of the writer, likewise


def of_process(pid: int) -> float:
    """Seconds of CPU time, of that process alone."""
    return cpu_seconds([pid], with_children=False)


def rate_of(replicas: int, seconds: float, *, is_remote: bool = False) -> Rate:
    """In a cluster of its own."""
    with Cluster(True, head_node_args={"num_cpus": 0, "gcs_replicas": replicas}) as cluster:
        nodes = 1
        if is_remote:
            nodes = replicas
            for _ in range(1, replicas):
                cluster.add_node(num_cpus=0)
        probe = Probe(cluster, Writer)
        deadline = time.monotonic() + READY_SECONDS
        while len(probe.client.members) != replicas or machines(cluster) != (replicas, nodes):
            probe.run(0.05)
            assert time.monotonic() < deadline, f"the chain is {probe.client.members}"
        probe.run(WARM_UP_SECONDS)
        writer = probe.asker
        assert isinstance(writer, Writer)
        hosts = [member.partition("/")[0] for member in probe.client.members]
        assert cluster.head_node is not None
        # A single replica is the head's own process.
        pids = [cluster.head_node.pid if host == probe.member.head else process_of(cluster, host) for host in hosts]
        before = writer.done, [of_process(pid) for pid in pids], time.process_time(), time.monotonic()
        probe.run(seconds)
        took = time.monotonic() - before[3]
        used = [(of_process(pid) - was) / took for pid, was in zip(pids, before[1], strict=True)]
        found = Rate((writer.done - before[0]) / took, max(used), (time.process_time() - before[2]) / took)
        probe.close()
    return found


def measure(replicas: Iterable[int], seconds: float, *, is_remote: bool = False) -> dict[int, Rate]:
    """By number of replicas."""
    compile_zray()
    return {count: rate_of(count, seconds, is_remote=is_remote) for count in replicas}


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--remote", action="store_true", help="replicas on other nodes")
    given = parser.parse_args()
    for count, found in measure((1, 2, 3), given.seconds, is_remote=given.remote).items():
        print(
            f"{count} replica(s): {found.writes:,.0f} writes/s; CPU of the busiest of them {found.busiest:.0%} of a "
            f"core, of the writer {found.writer:.0%}"
        )


if __name__ == "__main__":
    main()
