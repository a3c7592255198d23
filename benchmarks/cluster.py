"""What a cluster on this machine costs: tasks and calls on another node, joins, and how soon a death is noticed.

    python -m benchmarks.cluster [--quick] [--only remote|joins|deaths]

Each node is a real one (`zray.cluster_utils.Cluster`), on loopback, encrypted as between machines.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import zray
from zray.cluster_utils import Cluster, Node
from zray.host.client import control
from zray.host.process import node_processes

from .timing import compile_zray

REMOTE_RATIO_MAX = 3.0
ROUNDS = 10
JOINS = 50
JOINS_SECONDS_MAX = 10.0
KILLED_SECONDS_MAX = 0.5
FROZEN_SECONDS_MAX = 3.0
TASK, CALL = "task, submit to result", "call on an actor"
SIGNALS = {"killed": (signal.SIGKILL, KILLED_SECONDS_MAX), "frozen": (signal.SIGSTOP, FROZEN_SECONDS_MAX)}


class Trips(NamedTuple):
    """Median microseconds here and on the other node, and how many times as long those take."""

    here_us: float
    there_us: float
    ratio: float


@zray.remote
def nothing() -> None:
    """A no-op task."""


class Nothing:
    """A no-op actor."""

    def call(self) -> None:
        """A no-op call."""


def p50_us(action: Callable[[], Any], count: int) -> float:
    """Median microseconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def in_turns(here: Callable[[], Any], there: Callable[[], Any], count: int) -> Trips:
    """Of both; the ratio is the median of those of the same round: the machine may be twice as fast a minute later."""
    for action in (here, there):
        p50_us(action, 50)
    rounds = [(p50_us(here, count // ROUNDS), p50_us(there, count // ROUNDS)) for _ in range(ROUNDS)]
    ratio = statistics.median(there_us / here_us for here_us, there_us in rounds)
    return Trips(statistics.median(us for us, _ in rounds), statistics.median(us for _, us in rounds), ratio)


def remote(count: int) -> dict[str, Trips]:
    """One task, one call: here, and on the other node."""
    with Cluster(True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=1, resources={"far": 1})
        zray.init(address=cluster.address)
        try:
            far = nothing.options(num_cpus=0, resources={"far": 0.01})
            of_task = in_turns(lambda: zray.get(nothing.remote()), lambda: zray.get(far.remote()), count)
            actor: Any = zray.remote(num_cpus=0)(Nothing)
            near, other = actor.remote(), actor.options(resources={"far": 0.01}).remote()
            of_call = in_turns(lambda: zray.get(near.call.remote()), lambda: zray.get(other.call.remote()), count)
            return {TASK: of_task, CALL: of_call}
        finally:
            zray.shutdown()


def joins(count: int) -> tuple[int, float]:
    """(how many became members, seconds until the last one was) of so many nodes that start at the same moment; of a
    zray whose modules are compiled, as pip leaves it.
    """
    compile_zray()
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        total = node_processes.declared_resources(1, None, None)
        found: list[Node] = []

        def join() -> None:
            found.append(
                Node(*node_processes.start_member(total, 16 << 20, cluster.address, cluster.token, is_bound=True))
            )

        start = time.perf_counter()
        threads = [threading.Thread(target=join) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cluster.worker_nodes += found
        cluster.wait_for_nodes()
        return len(found), time.perf_counter() - start


def joins_seconds_max(count: int) -> float:
    """What so many may take."""
    return JOINS_SECONDS_MAX * count / JOINS


def deaths(count: int) -> dict[str, list[float]]:
    """Seconds from a signal to a node to the news of its death (the head's list), by what was done to it."""
    seconds: dict[str, list[float]] = {what: [] for what in SIGNALS}
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        assert cluster.head_node is not None
        with control.Control(cluster.head_node.session, cluster.head_node.pid) as link:
            for what, (number, _) in SIGNALS.items():
                for _ in range(count):
                    node = cluster.add_node(num_cpus=1)
                    cluster.wait_for_nodes()
                    start = time.perf_counter()
                    os.kill(node.pid, number)
                    while any(fact.node.partition("/")[0] == node.node_id for fact in link.nodes()):
                        time.sleep(0.005)
                    seconds[what].append(time.perf_counter() - start)
                    if number == signal.SIGSTOP:
                        os.kill(node.pid, signal.SIGKILL)
                    cluster.remove_node(node)
    return seconds


def say_remote(count: int) -> bool:
    """Measure, and print it.  False, here and below, where it is not as it must be."""
    found = remote(count)
    for what, trips in found.items():
        times = f"here {trips.here_us:.0f} us, on the other node {trips.there_us:.0f} us: {trips.ratio:.2f} x"
        print(f"a {what}, p50 of {ROUNDS} rounds: {times}")
    return found[TASK].ratio <= REMOTE_RATIO_MAX


def say_joins(count: int) -> bool:
    """See say_remote."""
    joined, seconds = joins(count)
    print(f"{joined} of {count} nodes started at once were members after {seconds:.1f} s")
    return joined == count and seconds <= joins_seconds_max(count)


def say_deaths(count: int) -> bool:
    """See say_remote."""
    found = deaths(count)
    for what, times in found.items():
        median, longest = statistics.median(times), max(times)
        print(f"a node {what}: noticed after {median:.2f} s (median of {count}), {longest:.2f} s at most")
    return all(max(times) <= SIGNALS[what][1] for what, times in found.items())


def main(argv: list[str] | None = None) -> int:
    """Print the figures.  Returns 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats, ten joins")
    parser.add_argument("--only", choices=("remote", "joins", "deaths"), action="append")
    options = parser.parse_args(argv)
    figures: dict[str, Callable[[], bool]] = {
        "remote": lambda: say_remote(200 if options.quick else 2000),
        "joins": lambda: say_joins(10 if options.quick else JOINS),
        "deaths": lambda: say_deaths(2 if options.quick else 10),
    }
    outcomes = [figures[name]() for name in options.only or figures]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
