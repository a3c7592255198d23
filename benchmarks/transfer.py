"""Arrays from node to node: two nodes on this machine, all of it encrypted, beside a bare stream of the same bytes.

    python -m benchmarks.transfer [--megabytes 1000 100] [--rounds 5]

A driver on the head puts a float64 array; a task on the other node, to which only the ref is given, times `zray.get` of
it, and looks at every element.  The first round finds the other node's memory fresh: the kernel has to find and zero
each page; later ones reuse it warm.  The floor (floor_stream.py) is measured before and after, in the same run, and its
median taken.  The ratio to reach is that of the warm rounds' median.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import numpy

import zray
from zray.cluster_utils import Cluster

from .floors import run_floor

RATIO_NEEDED = 0.8
STORE_BYTES = 3_000_000_000


@zray.remote
def fetch(box: list[zray.ObjectRef], expected: float) -> float:
    """Seconds that `get` takes here."""
    import time

    start = time.perf_counter()
    (array,) = zray.get(box)
    seconds = time.perf_counter() - start
    assert float(array.sum()) == expected
    return seconds


def rates_between_nodes(megabytes: int, rounds: int) -> list[float]:
    """MB/s of each round."""
    rates = []
    there = fetch.options(resources={"there": 1})
    for number in range(rounds):
        array = numpy.full(megabytes * 1_000_000 // 8, float(number))
        ref = zray.put(array)
        seconds = zray.get(there.remote([ref], float(number) * len(array)), timeout=120)
        rates.append(megabytes / seconds)
        del ref
    return rates


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1000, 100])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    is_reached = True
    for megabytes in options.megabytes:
        floor = run_stream(megabytes)
        with Cluster(True, head_node_args={"num_cpus": 0, "object_store_memory": STORE_BYTES}) as cluster:
            cluster.add_node(num_cpus=1, resources={"there": 1}, object_store_memory=STORE_BYTES)
            with zray.init(address=cluster.address):
                zray.get(fetch.options(resources={"there": 1}).remote([zray.put(numpy.ones(1000))], 1000.0))
                first, *warm = rates_between_nodes(megabytes, options.rounds)
        floor += run_stream(megabytes)
        bare, ours = statistics.median(floor), statistics.median(warm)
        print(f"{megabytes} MB: bare stream {bare:.0f} MB/s ({shown(floor)}); node to node {ours:.0f} ({shown(warm)}),")
        print(f"  fresh memory {first:.0f}; ratio {ours / bare:.2f} (needed {RATIO_NEEDED}), fresh {first / bare:.2f}")
        is_reached = is_reached and ours >= RATIO_NEEDED * bare
    sys.exit(not is_reached)


def run_stream(megabytes: int) -> list[float]:
    """MB/s of each round of the floor."""
    rates: Any = run_floor("floor_stream.py", f"--megabytes={megabytes}")
    return list(rates)


def shown(rates: list[float]) -> str:
    """Each of them."""
    return " ".join(f"{rate:.0f}" for rate in rates)


if __name__ == "__main__":
    main()
