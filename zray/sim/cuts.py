"""Hosts cut off for a while: both ways or one, from all others or one, repeatedly; and a program outside the cluster,
whose node sleeps, or is cut off, for up to the permitted time.

The program outside must not notice: its result is the same as without a fault.  In some worlds it stays away for longer
in the end: then it is declared dead, and nothing of it is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..roles.effects import HostLinkChanged
from ..roles.monitor import NODES_MIN

if TYPE_CHECKING:
    from .node import Node
    from .simulator import Simulator

GUEST = "guest"
# Pause between faults of the guest: messages waiting on its links have to arrive.
BETWEEN_SECONDS = (0.05, 2.0)
# Below its permitted silence: its last heartbeat before the fault, the first one after.
MARGIN_SECONDS = 1.5
# If a message may take 0.4 s: the extra time of a heartbeat and its answer.
FAR_SECONDS = 1.0
# The effect of a clock jump on its lease (roles/local_scheduler/membership/lease.py).
JUMP_SECONDS = 1.0
# The time beyond the permitted silence.
TOO_LONG_SECONDS = (3.0, 10.0)
# Silence of a connection that counts as a break (host/links/dialer.py).
SILENCE_SECONDS = (5.0, 6.5)
# How long a flap takes: cut, whole, cut ...
FLAP_SECONDS = 0.5
FLAPS_MAX = 12
# Two nodes whose connection to each other alone is cut.
PAIR_SECONDS = (0.3, 8.0)
# A node whose line to or from the head is dead: if nodes may be lost, for longer than a declaration of death takes;
# else for less than any lease, whatever else delays its messages.
LONG_SECONDS, SHORT_SECONDS = (0.1, 6.0), (0.05, 0.4)
# The head: in total for less than its nodes wait for it (60 s).
HEAD_SECONDS = (0.3, 45.0)
# A node with a flapping line is never silent for as long as a lease.
KINDS_OF_GUEST = ("sleeps", "is cut off", "is not heard", "does not hear", "flaps")


class Cuts:
    """The cuts of a world."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.one_way: set[tuple[str, str]] = set()  # messages from the first to the second are held
        self.one_way_machines: dict[
            tuple[str, str], int
        ] = {}  # the same between machines, with a count of overlapping cuts
        self.alone_until = 0.0  # the head

    @property
    def guest(self) -> Node | None:
        """The node of the program outside, while alive."""
        return self.world.nodes.get(GUEST)

    def start(self) -> None:
        """Draw the faults with fixed times; no fault begins after the last of them."""
        options, world = self.world.options, self.world
        random = world.random
        when = world.now
        far = FAR_SECONDS if options.delay == "far" else 0.0
        longest = options.driver_wait - MARGIN_SECONDS - far - (JUMP_SECONDS if options.clock_jumps else 0.0)
        for number in range(options.guest_cuts):
            is_last = number == options.guest_cuts - 1
            kind = random.choice(KINDS_OF_GUEST)
            seconds = random.choice((random.uniform(0.1, 2.0), random.uniform(0.1, longest), longest))
            if is_last and options.guest_is_lost:
                kind = random.choice(KINDS_OF_GUEST[:-1])
                seconds = options.driver_wait + random.uniform(*TOO_LONG_SECONDS)
            when += far + random.uniform(*BETWEEN_SECONDS)
            world.call_at(when, self._trouble_guest, kind, seconds)
            when += max(seconds, 2 * FLAP_SECONDS * FLAPS_MAX if kind == "flaps" else 0.0)
        counted = (
            (options.pair_cuts, self._cut_pair),
            (options.node_flaps, self._flap_node),
            (options.one_way_pairs, self._silence_pair),
            (options.one_way_nodes, self._silence_node),
        )
        last = when
        for _ in range(options.head_cuts):
            at = world.now + random.random() * options.fault_seconds
            seconds = random.uniform(HEAD_SECONDS[0], HEAD_SECONDS[1] / options.head_cuts)
            world.call_at(at, self._cut_off_head, seconds)
            last = max(last, at + seconds)
        for count, begin in counted:
            for _ in range(count):
                at = world.now + random.random() * options.fault_seconds
                world.call_at(at, begin)
                last = max(last, at)
        options.fault_seconds = max(options.fault_seconds, last)

    # --- the program outside ---

    def _trouble_guest(self, kind: str, seconds: float) -> None:
        world, node = self.world, self.guest
        if node is None:
            return
        world.trace.event(world.now, GUEST, f"{kind} ({seconds:.1f} s)")
        if seconds > world.options.driver_wait:
            world.faults.troubled.add(GUEST)
        if kind == "flaps":
            self._flap(GUEST, world.random.randint(1, FLAPS_MAX))
            return
        if kind == "sleeps":
            world.faults.freeze(node, seconds)
        elif kind == "is cut off":
            for other in self._others(GUEST):
                world.faults.partition(GUEST, other)
                world.call_later(seconds, world.faults.repair, GUEST, other)
        else:
            pairs = [(GUEST, other) if kind == "is not heard" else (other, GUEST) for other in self._others(GUEST)]
            for source, target in pairs:
                self._stop(source, target)
                world.call_later(seconds, self._let_go, source, target)
        silence = world.random.uniform(*SILENCE_SECONDS)
        if silence < seconds:
            world.call_later(silence, world.faults.tell_monitor, HostLinkChanged(node.scheduler.address, False))
            world.call_later(seconds, world.faults.tell_monitor, HostLinkChanged(node.scheduler.address, True))

    # --- all ---

    def _others(self, name: str) -> list[str]:
        return [other for other in (*self.world.nodes, *self.world.hosts_beside()) if other != name]

    def _cut_pair(self) -> None:
        """Cut two members, neither of them the head, from each other."""
        world = self.world
        names = [name for name in world.nodes if name != world.heads.name]
        if len(names) > 1:
            first, second = world.random.sample(names, 2)
            seconds = world.random.uniform(*PAIR_SECONDS)
            world.trace.event(world.now, first, f"is cut off from {second} for {seconds:.1f} s")
            world.faults.partition(first, second)
            world.call_later(seconds, world.faults.repair, first, second)

    def _flap_node(self) -> None:
        world = self.world
        if names := self._ordinary():
            name = world.random.choice(names)
            world.trace.event(world.now, name, "its line flaps")
            self._flap(name, world.random.randint(1, FLAPS_MAX))

    def _flap(self, name: str, count: int) -> None:
        """Each 500 ms."""
        world = self.world
        if name not in world.nodes or not count or world.faults.are_over:
            return
        for other in self._others(name):
            if not world.faults.is_cut(name, other):
                world.faults.partition(name, other)
                world.call_later(FLAP_SECONDS, world.faults.repair, name, other)
        world.call_later(2 * FLAP_SECONDS, self._flap, name, count - 1)

    def _cut_off_head(self, seconds: float) -> None:
        """Cut the head off: no node is lost by that, if the head had heartbeats of several others."""
        world, head = self.world, self.world.heads.name
        is_cut = world.now < self.alone_until
        if is_cut or not world.heads.is_alive:
            return
        known = world.heads.monitor.nodes
        if sum(world.nodes[name].scheduler.address in known for name in self._ordinary()) < NODES_MIN:
            return
        world.trace.event(world.now, head, f"is cut off from all others for {seconds:.1f} s")
        if world.options.loses_nodes or world.options.one_way_nodes:
            world.faults.troubled.update(world.nodes)  # a node lost meanwhile cannot be told apart from these
        self.alone_until = world.now + seconds
        for inside, outside in self._pairs_of_machine(head):
            world.faults.partition(inside, outside)
        world.call_later(seconds, self._plug_in, head)
        for name in self._ordinary():
            world.faults.news_of_link(world.nodes[name], seconds)

    def _pairs_of_machine(self, node: str) -> list[tuple[str, str]]:
        """Return each host on the machine, paired with each host outside."""
        machine = self.world.weather.machine
        hosts = {name: machine(name) == node for name in (*self.world.nodes, *self.world.hosts_beside())}
        inside = [name for name, is_there in hosts.items() if is_there]
        return [(first, second) for first in inside for second, is_there in hosts.items() if not is_there]

    def _plug_in(self, head: str) -> None:
        """Repair the connections of the head, including hosts started meanwhile on either side."""
        for inside, outside in self._pairs_of_machine(head):
            if self.world.faults.is_cut(inside, outside):
                self.world.faults.repair(inside, outside)

    def is_alone(self, first: str, second: str) -> bool:
        """Return whether exactly one of these is on the head's machine, and the head is cut off now."""
        if self.world.now >= self.alone_until:
            return False
        machine, head = self.world.weather.machine, self.world.heads.name
        return (machine(first) == head) != (machine(second) == head)

    # --- one-way faults ---

    def is_stopped(self, source: str, target: str) -> bool:
        """Return whether messages from one to the other are held now."""
        machine = self.world.weather.machine
        if self.one_way_machines and (machine(source), machine(target)) in self.one_way_machines:
            return True
        return (source, target) in self.one_way or self.world.weather.is_clogged(source, target)

    def _silence_pair(self) -> None:
        """Hold messages from the first to the second node; all other directions work, also with the head."""
        names = self._ordinary()
        if len(names) > 1:
            first, second = self.world.random.sample(names, 2)
            self._silence([(first, second)], self.world.random.uniform(*PAIR_SECONDS))

    def _silence_node(self) -> None:
        """A node that hears others and is not heard, or the other way round: all, the head, or all but the head."""
        world, random = self.world, self.world.random
        head = world.heads.name
        who = random.choice(("all", "the head", "all but the head"))
        if who != "all but the head" and world.options.loses_nodes:
            node = world.faults.choose_node()
            name, seconds = node.name if node is not None else "", random.uniform(*LONG_SECONDS)
        else:
            name = random.choice(self._ordinary() or [""])
            seconds = random.uniform(*(PAIR_SECONDS if who == "all but the head" else SHORT_SECONDS))
        others = [other for other in world.nodes if other != name and (other == head or who != "the head")]
        others = [other for other in others if other != head or who != "all but the head"]
        if name:
            is_deaf = random.random() < 0.5
            self._silence([(other, name) if is_deaf else (name, other) for other in others], seconds)

    def _ordinary(self) -> list[str]:
        return [name for name in self.world.nodes if name not in (self.world.heads.name, GUEST)]

    def _silence(self, pairs: list[tuple[str, str]], seconds: float) -> None:
        for source, target in pairs:
            self.world.trace.event(self.world.now, source, f"is not heard by {target} for {seconds:.1f} s")
            self.one_way_machines[source, target] = self.one_way_machines.get((source, target), 0) + 1
        self.world.weather.apply()
        self.world.call_later(seconds, self._hear_again, pairs)

    def _hear_again(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            self.one_way_machines[pair] -= 1
            if not self.one_way_machines[pair]:
                del self.one_way_machines[pair]
        self.world.weather.apply()

    def _stop(self, source: str, target: str) -> None:
        self.one_way.add((source, target))
        for connection in self.world.faults.between(source, target):
            for end in connection.ends.values():
                if self.world.homes[end.name].name == source:
                    connection.hold(end.name)

    def _let_go(self, source: str, target: str) -> None:
        self.one_way.discard((source, target))
        for connection in self.world.faults.between(source, target):
            for end in connection.ends.values():
                if self.world.homes[end.name].name == source and not self.is_stopped(source, target):
                    connection.release(end.name)
