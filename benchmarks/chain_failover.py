"""How long the clients of a replicated shard are without an answer when one of its replicas is killed (E7).

    python -m benchmarks.chain_failover [--runs 20] [--remote]

A host of its own joins a cluster of one shard with two replicas, and asks every millisecond: a hold, which is
acknowledged, and a location, which goes along with it.  Beside it every millisecond a client of its own reads, if its
last question is answered (`chain_reads`); what it waits for is no part of what is reported.  A replica is killed with
SIGKILL, the chain's head or its tail, by turns; its successor has caught up before the next one is killed.  Reported:
the longest time from one acknowledgement to the next in the half second that follows each kill.  At the end every
location whose hold was acknowledged must be there, and nothing that was read may have been older than what was read or
acknowledged before.  --remote: the second replica is a process of another node (on this machine), as in a
cluster of several machines.  `zray reproduce E7` kills the middle of a chain of three, too.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import zmq

from zray.cluster_utils import Cluster
from zray.host.client import control
from zray.host.cluster.head import chain_clients
from zray.host.cluster.membership import join_cluster
from zray.host.links.process_links import Peers
from zray.host.reactor import Reactor
from zray.ids import return_id
from zray.roles.gcs.client import ChainClient
from zray.roles.role import Role, on
from zray.wire.gcs import (
    AddLocations,
    Heartbeat,
    HoldAtNode,
    HoldAtNodeReply,
    NodeJoined,
    NodeLost,
    ObjectLocated,
    RegisterNode,
    SubscribeObject,
)
from zray.wire.hosts import HostAdded, HostRemoved
from zray.wire.message import Local

from .chain_reads import COUNTERS, Look, Reader, counter
from .timing import compile_zray

ASK_SECONDS = 0.001
HEARTBEAT_SECONDS = 0.1
SETTLE_SECONDS = 0.5
READY_SECONDS = 30.0  # until a chain is whole again
PORTION = 2_000  # questions at once
LIMIT_MS = 30.0
ENDS, MIDDLE = {"head": 0, "tail": -1}, {"middle": 1}  # of a chain


def object_of(number: int) -> bytes:
    """The object that a question is about."""
    return return_id(number.to_bytes(16, "big"), 1)


class Enough(Local):
    """The time of a run is over."""


class Asker(Role):
    """In the place of a local scheduler.  reader: who reads what it writes."""

    def __init__(self, address: str, member: Any, reader: str) -> None:
        super().__init__(address)
        self.member = member
        self.reader = reader
        self.shard = member.addresses.shards[0]
        self.asked = 0
        self.answers: list[tuple[float, int]] = []  # when, which
        self.located: dict[bytes, list[str]] = {}
        self.is_asking = True

    def start(self) -> None:
        """Join, and ask."""
        keys = self.member.neighbours.keys
        self.send(
            self.member.addresses.monitor, RegisterNode(self.address, {}, "driver", self.member.endpoint, keys.public)
        )
        self.send(self.shard, HoldAtNode(self.address, [counter(number) for number in range(COUNTERS)], 0))
        self.beat()
        self.ask()

    def beat(self) -> None:
        """Heartbeats, regularly."""
        self.send(self.member.addresses.monitor, Heartbeat(self.address))
        self.after(HEARTBEAT_SECONDS, self.beat)

    def ask(self) -> None:
        """Questions, regularly."""
        if self.is_asking:
            self.asked += 1
            object_id = object_of(self.asked)
            # Ahead of the hold, which is acknowledged: so is this.
            self.send(self.shard, AddLocations(self.address, [(counter(self.asked), self.asked)]))
            self.send(self.shard, HoldAtNode(self.address, [object_id], self.asked))
            self.send(self.shard, AddLocations(self.address, [(object_id, 1)]))
            self.send(self.reader, Look())
            self.after(ASK_SECONDS, self.ask)

    @on(HoldAtNodeReply)
    def on_held(self, message: HoldAtNodeReply) -> None:
        self.answers.append((time.monotonic(), message.request))

    def acknowledged(self) -> int:
        """The number of the last write that is known to be done."""
        return self.answers[-1][1] if self.answers else 0

    @on(ObjectLocated)
    def on_located(self, message: ObjectLocated) -> None:
        self.located[message.object_id] = message.holders

    @on(NodeJoined, NodeLost)
    def on_member(self, message: NodeJoined | NodeLost) -> None:
        pass


class Desk(Role):
    """Where the head tells of other hosts."""

    def __init__(self, address: str, member: Any) -> None:
        super().__init__(address)
        self.member = member

    @on(HostAdded)
    def on_host_added(self, message: HostAdded) -> None:
        self.member.add(message)

    @on(HostRemoved)
    def on_host_removed(self, message: HostRemoved) -> None:
        self.member.remove(message)


class Probe:
    """The host that asks.  kind: how."""

    def __init__(self, cluster: Cluster, kind: type[Asker] = Asker) -> None:
        host = os.urandom(8).hex()
        options = {"kind": "driver", "address": cluster.address}
        self.member = join_cluster(host, "", options, cluster.token.encode(), lambda line: None)
        self.asker = kind(f"{host}/local", self.member, f"{host}/local-reader")
        (self.client,) = chain_clients(self.member.addresses, self.member.chains)
        reads = ChainClient(f"{host}/shard-{len(self.member.addresses.shards)}", self.client.shard, self.member.chains)
        self.reader = Reader(f"{host}/local-reader", reads.address, self.asker.acknowledged)
        self.context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self.reactor = Reactor(
            [self.asker, self.client, self.reader, reads, Desk(f"{host}/host", self.member), self.member.neighbours],  # type: ignore[list-item]
            Peers(self.context, "inproc://nobody", print),
            {},
            lambda identity, frame: None,
            lambda peer, error: None,
            lambda peer, message: None,
            self.member.neighbours,
        )
        links = self.member.neighbours
        links.attach(self.reactor, self.reactor.role_by_address)
        assert self.member.head_key is not None
        links.meet(self.member.head, self.member.head_key, self.member.cluster)
        for role in (reads, self.asker, self.client):
            role.start()
            self.reactor._perform(role.address, role.take_effects())

    def close(self) -> None:
        """Its sockets."""
        self.reactor.close()
        self.context.destroy(linger=0)

    def run(self, seconds: float) -> None:
        """Let it ask for so long."""
        self.reactor.ended = ""
        watch = Stop(self.reactor)
        self.reactor.role_by_address.setdefault(watch.address, watch)  # type: ignore[arg-type]
        self.reactor.role_by_address[watch.address] = watch  # type: ignore[assignment]
        self.reactor.set_timer(seconds, watch.address, Enough())
        self.reactor.run()


class Stop:
    """Ends a run."""

    address = "stop"

    def __init__(self, reactor: Reactor) -> None:
        self.reactor = reactor

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        self.reactor.ended = "enough"
        return []


def process_of(cluster: Cluster, host: str) -> int:
    """The pid of a replica, as the log of its node tells."""
    for node in cluster.list_all_nodes():
        with open(node.session.log_path("node"), encoding="utf-8") as file:
            found = re.search(rf"(?:is host {host}, process|-{host} is process) (\d+)", file.read())
        if found:
            return int(found[1])
    raise RuntimeError(f"no node knows host {host}")


def machines(cluster: Cluster) -> tuple[int, int]:
    """(members that have everything, nodes that they are on)."""
    assert cluster.head_node is not None
    with control.Control(cluster.head_node.session, cluster.head_node.pid) as link:
        counts = link.status().counts
    return counts["gcs-0_replicas"], counts["gcs-0_machines"]


def measure(probe: Probe, cluster: Cluster, which: int, nodes: int, replicas: int) -> float:
    """Kill a member: the head (0), the tail (-1); the longest silence around it, in ms."""
    deadline = time.monotonic() + READY_SECONDS
    while len(probe.client.members) != replicas or machines(cluster) != (replicas, nodes):
        probe.run(0.05)
        assert time.monotonic() < deadline, f"the chain is {probe.client.members}"
    probe.run(SETTLE_SECONDS)
    count = len(probe.asker.answers)
    os.kill(process_of(cluster, probe.client.members[which].partition("/")[0]), signal.SIGKILL)
    probe.run(SETTLE_SECONDS)
    # Up to the end: who has no answer yet is without one.
    times = [*(when for when, _ in probe.asker.answers[count - 1 :]), time.monotonic()]
    return max(b - a for a, b in zip(times, times[1:], strict=False)) * 1e3


class Found(NamedTuple):
    """What came of the kills."""

    silences: dict[str, list[float]]  # the longest ones in ms, by who was killed
    acknowledged: int  # requests
    lost: int  # of them
    reads: int
    backwards: int  # reads that were older than one before, or than what was acknowledged


def failovers(runs: int, *, is_remote: bool = False, victims: Mapping[str, int] = ENDS) -> Found:
    """So many kills of each.

    victims: their places in the chain, which is of three members where there is one in the middle.
    """
    compile_zray()
    silences: dict[str, list[float]] = {name: [] for name in victims}
    replicas = 3 if 1 in victims.values() else 2
    with Cluster(True, head_node_args={"num_cpus": 0, "gcs_replicas": replicas}) as cluster:
        if is_remote:
            cluster.add_node(num_cpus=0)
        probe = Probe(cluster)
        for _ in range(runs):
            for name, which in victims.items():
                silences[name].append(measure(probe, cluster, which, 2 if is_remote else 1, replicas))
        acknowledged, lost = look_at_all(probe)
        probe.close()
    return Found(silences, acknowledged, lost, probe.reader.answered, probe.reader.backwards)


def look_at_all(probe: Probe) -> tuple[int, int]:
    """How many requests were acknowledged; how many of those are not in the shard."""
    asker = probe.asker
    asker.is_asking = False
    probe.run(SETTLE_SECONDS)
    held = [request for _, request in asker.answers]
    assert held == list(range(1, asker.asked + 1)), "an acknowledgement is missing, or came twice"
    ids = [object_of(number) for number in held]
    for start in range(0, len(ids), PORTION):
        for object_id in ids[start : start + PORTION]:
            asker.send(asker.shard, SubscribeObject(asker.address, object_id))
        probe.reactor._perform(asker.address, asker.take_effects())
        probe.run(SETTLE_SECONDS)
    return len(ids), sum(asker.located.get(object_id) != [asker.address] for object_id in ids)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="kills of each")
    parser.add_argument("--remote", action="store_true", help="the second replica is another node's")
    given = parser.parse_args()
    result = failovers(given.runs, is_remote=given.remote)
    for name, found in result.silences.items():
        text = f"{name} killed {len(found)} times: longest silence median {statistics.median(found):.1f} ms"
        print(f"{text}, worst {max(found):.1f} ms (target: < {LIMIT_MS:g} ms)")
    print(f"{result.acknowledged} requests acknowledged, {result.lost} of their records lost")
    print(f"{result.reads} reads, {result.backwards} went backwards")
    is_wrong = bool(result.lost or result.backwards)
    sys.exit(is_wrong or max(max(found) for found in result.silences.values()) >= LIMIT_MS)


if __name__ == "__main__":
    main()
