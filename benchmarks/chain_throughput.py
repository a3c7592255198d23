"""What a second replica of the GCS costs in throughput of tasks (E6).

    python -m benchmarks.chain_throughput [--rounds 5] [--tasks 20000] [--remote]

No-op tasks on the head of a cluster, submitted and gathered by one driver: with one replica and with two, by turns, in
clusters that are both there all the time.  --remote: each has a node without CPUs too, and there the second replica
lives.  A round lasts long enough for lineage to go to the shard.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable

import zray
from zray.cluster_utils import Cluster

from .chain_failover import READY_SECONDS, machines

LIMIT = 0.10
KEEP_SECONDS = 1.0  # long enough for lineage to be sent


@zray.remote
def nothing() -> None:
    """A no-op."""


def rate(cluster: Cluster, count: int) -> float:
    """Tasks per second."""
    cluster.connect()
    try:
        zray.get([nothing.remote() for _ in range(1_000)])
        started = time.perf_counter()
        done = 0
        while done < count or time.perf_counter() - started < KEEP_SECONDS:
            refs = [nothing.remote() for _ in range(count)]
            zray.get(refs)
            done += count
        return done / (time.perf_counter() - started)
    finally:
        zray.shutdown()


def measure(
    rounds: int, tasks: int, *, is_remote: bool = False, replicas: Iterable[int] = (1, 2)
) -> dict[int, list[float]]:
    """Tasks per second by number of replicas, by turns."""
    rates: dict[int, list[float]] = {count: [] for count in replicas}
    clusters = {count: Cluster(True, head_node_args={"num_cpus": 2, "gcs_replicas": count}) for count in rates}
    try:
        if is_remote:
            for cluster in clusters.values():
                cluster.add_node(num_cpus=0)
            wait_for_spread(clusters[2])
        for number in range(rounds):
            for count, cluster in sorted(clusters.items(), reverse=bool(number % 2)):
                rates[count].append(rate(cluster, tasks))
    finally:
        for cluster in clusters.values():
            cluster.shutdown()
    return rates


def cost(rates: dict[int, list[float]], replicas: int = 2) -> float:
    """The part of its tasks that all replicas but the first one take: the median of the rounds, for the machine may be
    twice as fast a minute later.
    """
    return 1 - statistics.median(more / one for one, more in zip(rates[1], rates[replicas], strict=True))


def wait_for_spread(cluster: Cluster) -> None:
    """Until the chain is on both nodes."""
    deadline = time.monotonic() + READY_SECONDS
    while machines(cluster) != (2, 2):
        assert time.monotonic() < deadline, f"(members, nodes): {machines(cluster)}"
        time.sleep(0.05)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--remote", action="store_true", help="the second replica is another node's")
    given = parser.parse_args()
    rates = measure(given.rounds, given.tasks, is_remote=given.remote)
    for count, found in rates.items():
        print(f"{count} replica(s): median {statistics.median(found):,.0f} tasks/s of {[round(x) for x in found]}")
    print(f"cost of the second, in the median round: {cost(rates):.1%} (target: < {LIMIT:.0%})")
    sys.exit(cost(rates) >= LIMIT)


if __name__ == "__main__":
    main()
