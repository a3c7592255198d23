"""Faults of replicas: a host process is killed at any message; and *false verdicts*: a member is declared dead, and
continues until told.

Never all at once: the promise holds for all but the last complete member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..wire.chain import ChainMemberLost

if TYPE_CHECKING:
    from ..roles.gcs.chain import ChainMember
    from ..roles.gcs.master import Chain
    from .node import Node
    from .shards import Shards

# How long the news of a host process's end takes.
EXIT_SECONDS = (10e-6, 20e-3)
# Delay until a replacement process starts.
START_SECONDS = (1e-3, 0.2)


class ReplicaFaults:
    """The faults of replicas in a world."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.world = shards.world
        self.accused: dict[str, None] = {}  # members declared dead, or about to be
        self.kills = 0
        self.broken = 0  # disks

    def maybe_kill(self, address: str) -> None:
        """Kill a replica, perhaps, before or after a frame from or to this role."""
        options, random = self.world.options, self.world.random
        if self.kills >= options.member_kills or self.world.faults.are_over:
            return
        host = self.shards.hosts.get(address.partition("/")[0])
        if host is None or not host.is_alive or random.random() >= options.member_kill_probability:
            return
        if self._may_go(host.member):
            self.kills += 1
            if random.random() < options.false_verdict_probability:
                self.world.trace.event(self.world.now, address, "is declared lost, and lives")
            else:
                self.shards.die(host)
            self.accused[address] = None
            self.world.call_later(random.uniform(*EXIT_SECONDS), self._tell_master, address)
            if not host.machine:
                self.world.call_later(random.uniform(*START_SECONDS), self.shards.add_member, host.member.shard)

    def breaks(self, node: Node) -> bool:
        """Return whether the node's disk fails for good now, in an fsync for example.  Its replica then ends."""
        options, random = self.world.options, self.world.random
        host = self.shards.hosts.get(node.name)
        if host is None or self.broken >= options.broken_disks or self.world.faults.are_over:
            return False
        if random.random() >= options.broken_disk_probability or not self._may_go(host.member):
            return False
        self.broken += 1
        address = host.member.address
        self.world.trace.event(self.world.now, address, "an fsync fails")
        self.accused[address] = None
        if not host.machine:
            # Its last messages may be lost; the parent process sees its end.
            self.world.call_later(random.uniform(*EXIT_SECONDS), self._tell_master, address)
            self.world.call_later(random.uniform(*START_SECONDS), self.shards.add_member, host.member.shard)
        return True

    def _tell_master(self, member: str) -> None:
        heads = self.world.heads
        if heads.is_alive:
            heads.node.arrive("host", heads.role("chains"), ChainMemberLost(member, "killed by signal 9"))

    def _may_go(self, member: ChainMember) -> bool:
        """Return whether a member may be lost: never the last complete one."""
        chain = self.shards.chain(member.shard)
        if member.address in self.accused or chain is None:
            return False
        return self._leaves_enough(chain, lambda name: name == member.address)

    def _leaves_enough(self, chain: Chain, is_lost: Callable[[str], bool]) -> bool:
        """Return whether a complete member surely remains: during a move, a sound member may be taken out."""
        sound = [name for name in chain.full() if not is_lost(name) and self._is_sound(name)]
        # A sound member may make way for a joining member that does not stay.
        joins = bool(chain.joining) and (is_lost(chain.joining) or not self._is_sound(chain.joining))
        return len(sound) > max(0, len(chain.members) + joins - (self.world.options.replicas or 1))

    def _is_sound(self, member: str) -> bool:
        """Return whether a member continues, as far as known."""
        home = self.world.homes[member]
        machine = self.shards.machine(member)
        return home.is_alive and member not in self.accused and machine not in self.world.faults.troubled

    def may_lose(self, node: str) -> bool:
        """Return whether each chain has a complete member elsewhere."""
        chains = [chain for name in self.shards.names if (chain := self.shards.chain(name)) is not None]
        for chain in chains:
            # While there is no member: a new head waits for the logs that may have acknowledged records.
            left = [name for name, place in chain.sources.items() if not place or self._is_sound(name)]
            if chain.sources and all(chain.sources[name] == node for name in left):
                return False
        return all(
            self._leaves_enough(chain, lambda member: self.shards.machine(member) == node)
            for chain in chains
            if any(self.shards.machine(member) for member in chain.members)
        )
