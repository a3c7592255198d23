"""Arrays from node to node: two nodes on this machine, all of it encrypted, beside a bare stream of the same bytes.

    python -m benchmarks.transfer [--megabytes 1000 100] [--rounds 7]

A driver on the head puts a float64 array; a task on the other node, to which only the ref is given, times `zray.get` of
it, and looks at every element.  Before each such round the floor (floor_stream.py) carries as many bytes: machines have
moods, so what counts is the median of the rounds' ratios.  The first round finds the other node's memory fresh: the
kernel has to find and zero each page while it arrives.  It is told apart, and not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

import zray
from zray.cluster_utils import Cluster

from .floors import HERE

RATIO_NEEDED, MEGABYTES_NEEDED = 0.8, 1000  # of less, what comes before the first byte is a larger share
STORE_BYTES = 3_000_000_000
ROUND_SECONDS = 120


@zray.remote
def fetch(box: list[zray.ObjectRef], expected: float) -> float:
    """Seconds that `get` takes here."""
    start = time.perf_counter()
    (array,) = zray.get(box)
    seconds = time.perf_counter() - start
    assert float(array.sum()) == expected
    return seconds


@contextmanager
def bare_stream() -> Iterator[Any]:
    """A function from bytes to MB/s."""
    command = [sys.executable, str(HERE / "floor_stream.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as floor:

        def measure(size: int) -> float:
            assert floor.stdin is not None and floor.stdout is not None
            floor.stdin.write(f"{size}\n")
            floor.stdin.flush()
            return float(floor.stdout.readline())

        yield measure


def node_to_node(size: int, number: int) -> float:
    """MB/s of one array, of which all elements are `number`."""
    array = numpy.full(size // 8, float(number))
    there = fetch.options(resources={"there": 1})
    seconds = zray.get(there.remote([zray.put(array)], float(number) * len(array)), timeout=ROUND_SECONDS)
    return size / 1e6 / seconds


def measure(megabytes: int, rounds: int, stream: Any) -> list[tuple[float, float]]:
    """(MB/s of the bare stream, MB/s of ours) of each round; before them one into fresh memory."""
    size = megabytes * 1_000_000
    with Cluster(True, head_node_args={"num_cpus": 0, "object_store_memory": STORE_BYTES}) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 1}, object_store_memory=STORE_BYTES)
        with zray.init(address=cluster.address):
            node_to_node(8_000_000, 0)  # the worker has its code, numpy and so on
            return [(stream(size), node_to_node(size, number)) for number in range(1 + rounds)]


def ratio_of(pairs: list[tuple[float, float]]) -> float:
    """The median of the rounds' ratios, without the one into fresh memory."""
    return statistics.median(ours / bare for bare, ours in pairs[1:])


def say(megabytes: int, pairs: list[tuple[float, float]]) -> bool:
    """Print the ratio with what it is made of.  False where it is not as it must be."""
    for name, which in (("fresh", pairs[:1]), ("warm", pairs[1:])):
        shown = "  ".join(f"{ours:.0f}/{bare:.0f}" for bare, ours in which)
        print(f"{megabytes} MB, {name} memory, MB/s of ours/bare stream: {shown}")
    ratio, fresh = ratio_of(pairs), pairs[0][1] / pairs[0][0]
    needed = f" (needed {RATIO_NEEDED})" if megabytes >= MEGABYTES_NEEDED else ""
    print(f"{megabytes} MB: ratio {ratio:.2f}{needed}, into fresh memory {fresh:.2f}", flush=True)
    return ratio >= RATIO_NEEDED or not needed


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1000, 100])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with bare_stream() as stream:
        good = [say(megabytes, measure(megabytes, options.rounds, stream)) for megabytes in options.megabytes]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
