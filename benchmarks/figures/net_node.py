"""Nodes of a cluster on emulated machines, and the program that measures there, for E10 to E12.

    python -m benchmarks.figures.net_node head ADDRESS DELAY      DELAY: the file of a Delay (slow_dispatch.py)
    python -m benchmarks.figures.net_node node ADDRESS NUMBER HEAD TOKEN DELAY

Node i has the resource node-i; the head is node 0, and runs the program.  It reads orders, a line of JSON each:
["ring", sizes, pieces, calls], ["group", sizes, calls], ["sgd", way, steps]; and answers each with a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import zray
from zray.cluster_utils import Cluster
from zray.host.process import node_processes

from .. import collective
from . import ring_calls, sgd_sleeping
from .namespaces import Network, end, line_of, python_in
from .slow_dispatch import hooked

STORE_BYTES = 1 << 30
CPUS = 2


class Nodes:
    """Cluster with a node on each machine of a network."""

    def __init__(self, network: Network, head: subprocess.Popen[str]) -> None:
        self.network, self.head = network, head

    def ask(self, *order: Any) -> Any:
        """Have the program on the head carry out an order."""
        assert self.head.stdin is not None
        self.head.stdin.write(json.dumps(order) + "\n")
        self.head.stdin.flush()
        return json.loads(line_of(self.head.stdout))

    def by_size(self, *order: Any) -> dict[int, float]:
        """Have it measure milliseconds by size."""
        return {int(size): milliseconds for size, milliseconds in self.ask(*order).items()}


@contextlib.contextmanager
def nodes_on(network: Network, delay_path: str) -> Iterator[Nodes]:
    """Start the cluster."""
    first, *others = network.machines
    with contextlib.ExitStack() as stack:
        head = stack.enter_context(python_in(first, __name__, "head", first.address, delay_path))
        address, token = json.loads(line_of(head.stdout))
        started = [
            stack.enter_context(
                python_in(machine, __name__, "node", machine.address, str(number), address, token, delay_path)
            )
            for number, machine in enumerate(others, 1)
        ]
        for process in started:
            assert line_of(process.stdout) == "ready"
        try:
            yield Nodes(network, head)
        finally:
            end(head)  # before the others, whose ends it would tell of


def run_head(address: str, delay_path: str) -> None:
    """Run the head, and carry out orders as its driver."""
    with hooked(delay_path):
        head = {"num_cpus": CPUS, "resources": {"node-0": 1_000}, "object_store_memory": STORE_BYTES, "host": address}
        cluster = Cluster(True, head_node_args=head)
    with cluster:
        print(json.dumps([cluster.address, cluster.token]), flush=True)
        members: list[Any] = []
        trainers: list[Any] = []
        for line in sys.stdin:
            kind, *given = json.loads(line)
            if not zray.is_initialized():
                cluster.connect()
            count = len(zray.nodes())
            if kind == "ring":
                members = members or ring_calls.members_of(count, are_apart=True)
                answer: Any = ring_calls.measure(members, *given)
            elif kind == "group":
                answer = of_group(count, *given)
            else:
                trainers = trainers or sgd_sleeping.trainers_of(count)
                answer = sgd_sleeping.seconds_of(trainers, *given)
            print(json.dumps(answer), flush=True)
        zray.shutdown()


def of_group(count: int, sizes: Sequence[int], calls: int) -> dict[int, float]:
    """Measure a group with a rank on each node."""
    rank: Any = zray.remote(num_cpus=0)(collective.Rank)
    ranks = [rank.options(resources={f"node-{number}": 1}).remote() for number in range(count)]
    times = zray.get(
        [each.measure.remote(number, dict.fromkeys(sizes, calls), count) for number, each in enumerate(ranks)]
    )
    found: dict[int, float] = times[0]
    return found


def run_node(address: str, number: str, head: str, token: str, delay_path: str) -> None:
    """Run another node, until the input ends."""
    total = node_processes.declared_resources(CPUS, 0, {f"node-{number}": 1_000}, None)
    with hooked(delay_path):
        session, pid = node_processes.start_member(total, STORE_BYTES, head, token, host=address, is_bound=True)
    print("ready", flush=True)
    sys.stdin.read()
    node_processes.end_node(session, pid, seconds=0.0)


if __name__ == "__main__":
    if sys.argv[1] == "head":
        run_head(*sys.argv[2:])
    else:
        run_node(*sys.argv[2:])
