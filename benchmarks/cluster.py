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
from typing import Any

import zray
from zray.cluster_utils import Cluster, Node
from zray.host import control, nodes

from .timing import compile_zray

REMOTE_RATIO_MAX = 3.0
ROUNDS = 10
JOINS = 50
JOINS_SECONDS_MAX = 10.0
KILLED_SECONDS_MAX = 0.5
FROZEN_SECONDS_MAX = 3.0


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


def in_turns(here: Callable[[], Any], there: Callable[[], Any], count: int) -> tuple[float, float, float]:
    """Median microseconds of both, and the median of how many times as long the second one takes in the same round:
    the machine may be twice as fast a minute later.
    """
    for action in (here, there):
        p50_us(action, 50)
    rounds = [(p50_us(here, count // ROUNDS), p50_us(there, count // ROUNDS)) for _ in range(ROUNDS)]
    ratio = statistics.median(there_us / here_us for here_us, there_us in rounds)
    return statistics.median(us for us, _ in rounds), statistics.median(us for _, us in rounds), ratio


def remote(count: int) -> bool:
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
        finally:
            zray.shutdown()
    for what, (here_us, there_us, ratio) in (("task, submit to result", of_task), ("call on an actor", of_call)):
        times = f"here {here_us:.0f} us, on the other node {there_us:.0f} us: {ratio:.2f} x"
        print(f"a {what}, p50 of {ROUNDS} rounds: {times}")
    return of_task[2] <= REMOTE_RATIO_MAX


def joins(count: int) -> bool:
    """So many nodes that start at the same moment; of a zray whose modules are compiled, as pip leaves it."""
    compile_zray()
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        total = nodes.declared_resources(1, None, None)
        found: list[Node] = []

        def join() -> None:
            found.append(Node(*nodes.start_member(total, 16 << 20, cluster.address, cluster.token, is_bound=True)))

        start = time.perf_counter()
        threads = [threading.Thread(target=join) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cluster.worker_nodes += found
        cluster.wait_for_nodes()
        seconds = time.perf_counter() - start
    print(f"{len(found)} of {count} nodes started at once were members after {seconds:.1f} s")
    return len(found) == count and seconds <= JOINS_SECONDS_MAX * count / JOINS


def deaths(count: int) -> bool:
    """From a signal to a node to the news of its death: the head's list."""
    good = True
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        assert cluster.head_node is not None
        with control.Control(cluster.head_node.session, cluster.head_node.pid) as link:
            for what, number, most in (
                ("killed", signal.SIGKILL, KILLED_SECONDS_MAX),
                ("frozen", signal.SIGSTOP, FROZEN_SECONDS_MAX),
            ):
                times = []
                for _ in range(count):
                    node = cluster.add_node(num_cpus=1)
                    cluster.wait_for_nodes()
                    start = time.perf_counter()
                    os.kill(node.pid, number)
                    while any(fact.node.partition("/")[0] == node.node_id for fact in link.nodes()):
                        time.sleep(0.005)
                    times.append(time.perf_counter() - start)
                    if number == signal.SIGSTOP:
                        os.kill(node.pid, signal.SIGKILL)
                    cluster.remove_node(node)
                median, longest = statistics.median(times), max(times)
                print(f"a node {what}: noticed after {median:.2f} s (median of {count}), {longest:.2f} s at most")
                good = good and longest <= most
    return good


def main(argv: list[str] | None = None) -> int:
    """Print the figures.  Returns 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats, ten joins")
    parser.add_argument("--only", choices=("remote", "joins", "deaths"), action="append")
    options = parser.parse_args(argv)
    figures: dict[str, Callable[[], bool]] = {
        "remote": lambda: remote(200 if options.quick else 2000),
        "joins": lambda: joins(10 if options.quick else JOINS),
        "deaths": lambda: deaths(2 if options.quick else 10),
    }
    outcomes = [figures[name]() for name in options.only or figures]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
