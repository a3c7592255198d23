"""What a second replica of the GCS costs in throughput of tasks (E6).

    python -m benchmarks.chain_throughput [--rounds 5] [--tasks 20000]

No-op tasks on the head of a cluster, submitted and gathered by one driver: with one replica and with two, by turns, in
clusters that are both there all the time.  A round lasts long enough for lineage to go to the shard.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import zray
from zray.cluster_utils import Cluster

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


def measure(rounds: int, tasks: int) -> dict[int, list[float]]:
    """Tasks per second by number of replicas, by turns."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    clusters = {count: Cluster(True, head_node_args={"num_cpus": 2, "gcs_replicas": count}) for count in rates}
    try:
        for _ in range(rounds):
            for count, cluster in clusters.items():
                rates[count].append(rate(cluster, tasks))
    finally:
        for cluster in clusters.values():
            cluster.shutdown()
    return rates


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=20_000)
    given = parser.parse_args()
    rates = measure(given.rounds, given.tasks)
    one, two = (statistics.median(rates[count]) for count in (1, 2))
    for count, found in rates.items():
        print(f"{count} replica(s): median {statistics.median(found):,.0f} tasks/s of {[round(x) for x in found]}")
    print(f"cost of the second: {1 - two / one:.1%} (target: < {LIMIT:.0%})")
    sys.exit(two < (1 - LIMIT) * one)


if __name__ == "__main__":
    main()
