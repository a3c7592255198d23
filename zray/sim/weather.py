"""Benign faults: lines that clog, frames that arrive twice, nodes slow for a while, clocks that differ and jump, memory
or disks filled by another program.

None of these may cost work: a working node stays a member.  Exceptions are full stores, where a put may be refused, and
long clogs, in worlds that lose nodes anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .heads import Disk
    from .node import Node
    from .simulator import Simulator

# Uptime of a machine: a role has no other clock.
UP_SECONDS_MAX = 1e6
# A cheap quartz is off by less (0.02 %), a clock under correction too.
PACE = 0.001
# A suspended virtual machine, by the clock after its resumption.
JUMP_SECONDS = (0.5, 1.5, 30.0, 3_600.0, 86_400.0)
# Length of a swizzle.  Short ones end before any lease, whatever else delays messages.
SHORT_SECONDS, LONG_SECONDS = 0.4, 6.0
# A repeated frame arrives a little later.
REPEAT_SECONDS = (1e-5, 0.1)
# A slow node: extra time per turn, and a factor for its processes.
TURN_SECONDS = (1e-3, 50e-3)
DRAG = (3.0, 10.0)
# Lifetime of another program's file.
FILL_SECONDS = (1e-3, 1.0)
# Time for which a disk does nothing.
STALL_SECONDS_MAX = 2.0
# Pages left over.
PAGES_LEFT_MAX = 4


class Weather:
    """The benign faults of a world."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.clogged: dict[str, None] = {}  # machines without connection to others
        self.clogs_until = 0.0  # the last line is about to be clogged then

    def start(self) -> None:
        """Draw the faults with fixed times."""
        options, world = self.world.options, self.world
        random, now = world.random, world.now
        span = max(0.0, options.fault_seconds - now)
        for _ in range(options.clogs):
            world.call_at(now + random.random() * span, self._swizzle)
        for _ in range(options.slow_nodes):
            world.call_at(now + random.random() ** 2 * span, self._slow_down)
        for _ in range(options.fills):
            world.call_at(now + random.random() ** 2 * span, self._fill)
        for _ in range(options.disk_fills):
            world.call_at(now + random.random() ** 2 * span, self._fill_disk)
        jumping = random.sample(list(world.nodes), min(options.clock_jumps, len(world.nodes)))
        lid = random.random() * span  # all were asleep, and wake at once
        for name in jumping:
            world.call_at(now + (lid if options.clocks_differ else random.random() * span), self._jump, name)

    # --- clocks ---

    def clock(self) -> tuple[float, float]:
        """Return a machine's clock: its offset, and its pace."""
        if not self.world.options.clocks_differ:
            return 0.0, 1.0
        random = self.world.random
        return random.choice((0.0, random.random() * UP_SECONDS_MAX)), random.uniform(1.0 - PACE, 1.0 + PACE)

    def _jump(self, name: str) -> None:
        world = self.world
        seconds = world.random.choice(JUMP_SECONDS)
        if name in world.nodes:
            world.trace.event(world.now, name, f"its clock jumps by {seconds:g} s")
            hosts = (*world.nodes.values(), *world.shards.hosts.values(), *world.schedulers.hosts.values())
            for host in hosts:
                if self.machine(host.name) == name:
                    host.ahead += seconds

    # --- lines ---

    def is_clogged(self, first: str, second: str) -> bool:
        """Return whether nothing gets through between these two hosts."""
        if not self.clogged:
            return False
        machines = self.machine(first), self.machine(second)
        return machines[0] != machines[1] and (machines[0] in self.clogged or machines[1] in self.clogged)

    def machine(self, name: str) -> str:
        """Return the node on whose machine a host runs."""
        host = self.world.shards.hosts.get(name)
        if name in self.world.schedulers.hosts:
            return self.world.heads.name
        return (host.machine or self.world.heads.name) if host is not None else name

    def _swizzle(self) -> None:
        """Clog the lines of some nodes one by one, and free them in another order."""
        world, random, faults = self.world, self.world.random, self.world.faults
        is_long = world.options.loses_nodes and random.random() < 0.5
        count = random.randint(1, max(1, len(world.nodes) - 1))
        if is_long:
            chosen = [node.name for node in [faults.choose_node() for _ in range(count)] if node is not None]
        else:
            chosen = random.sample(list(world.nodes), count)
        seconds = random.uniform(0.0, LONG_SECONDS if is_long else SHORT_SECONDS)
        begins = sorted(random.uniform(0.0, seconds) for _ in chosen)
        ends = [random.uniform(begin, seconds) for begin in begins]
        self.clogs_until = max(self.clogs_until, world.now + max(begins, default=0.0))
        for name, begin, end in zip(chosen, begins, ends, strict=True):
            world.call_later(begin, self._clog, name)
            world.call_later(end, self._unclog, name)

    def _clog(self, name: str) -> None:
        self.world.trace.event(self.world.now, name, "its line is clogged")
        self.clogged[name] = None
        self.apply()

    def _unclog(self, name: str) -> None:
        self.world.trace.event(self.world.now, name, "its line is free again")
        self.clogged.pop(name, None)
        self.apply()

    def apply(self) -> None:
        """Hold and release connections after a change of the clogged lines."""
        world = self.world
        for pair, connection in list(world.between_nodes.items()):
            for source, target in (pair, pair[::-1]):
                is_stopped = world.faults.lines.is_stopped(world.homes[source].name, world.homes[target].name)
                if is_stopped and not connection.ends[source].is_held:
                    connection.hold(source)
                elif not is_stopped and connection.ends[source].is_held:
                    connection.release(source)

    def draw_repeat(self) -> float:
        """Return the delay of a repeated frame; 0: no repetition."""
        world = self.world
        probability = world.options.repeat_probability
        if probability and not world.faults.are_over and world.random.random() < probability:
            return world.random.uniform(*REPEAT_SECONDS)
        return 0.0

    # --- nodes ---

    def _slow_down(self) -> None:
        world, random = self.world, self.world.random
        node = world.nodes[random.choice(list(world.nodes))]
        if node.turn_seconds:
            return
        node.turn_seconds, node.drag = random.uniform(*TURN_SECONDS), random.uniform(*DRAG)
        world.trace.event(world.now, node.name, f"is slow: {node.turn_seconds:.3f} s more a turn")
        world.call_at(world.now + random.random() * (world.options.fault_seconds - world.now), self._speed_up, node)

    def _speed_up(self, node: Node) -> None:
        node.turn_seconds, node.drag = 0.0, 1.0

    def _fill(self) -> None:
        """Fill the rest of a machine's shared memory, or nearly so, and free it later."""
        world, random = self.world, self.world.random
        node = world.nodes[random.choice(list(world.nodes))]
        if node.arena.pages_max < world.options.pages_max:
            return
        node.arena.pages_max = min(node.arena.pages_max, len(node.arena.pages) + random.randint(0, PAGES_LEFT_MAX))
        world.trace.event(world.now, node.name, "its memory is full")
        world.call_later(random.uniform(*FILL_SECONDS), self._empty, node)

    def draw_stall(self) -> float:
        """How much longer an order to a disk takes."""
        world = self.world
        probability = world.options.stall_probability
        if probability and not world.faults.are_over and world.random.random() < probability:
            return world.random.uniform(0.0, STALL_SECONDS_MAX)
        return 0.0

    def _fill_disk(self) -> None:
        world = self.world
        disks = [*world.heads.disks.values(), *(host.disk for host in world.shards.hosts.values())]
        if disks:
            disk = world.random.choice(disks)
            disk.is_full = True
            world.trace.event(world.now, "weather", "a disk is full")
            world.call_later(world.random.uniform(*FILL_SECONDS), self._empty_disk, disk)

    def _empty_disk(self, disk: Disk) -> None:
        disk.is_full = False

    def _empty(self, node: Node) -> None:
        node.arena.pages_max = self.world.options.pages_max
