"""The nemesis: chooses faults and their times, all drawn from the seed, none after `fault_seconds`.

kill a worker, a driver, or a fork server (all workers of a node at once) before or after any delivery to or from it;
workers that fail to start, or die before their Hello; slow workers; links that break and heal; kill a whole node before
or after any delivery to or from it; stop a node for a while, or cut it off from all others: for longer than a
declaration of death takes, or shorter
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..roles.effects import DrainOrdered, Finding, HostLinkChanged
from ..roles.work_effects import MemoryUse
from ..wire.gcs import NodeLost
from .cuts import Cuts

if TYPE_CHECKING:
    from .network import Connection
    from .node import Node
    from .process import Process
    from .simulator import Simulator

HEAL_SECONDS = (1e-4, 0.3)
# No node is lost before this: the nodes must have met.
MEETING_SECONDS = 0.3
# How long a node is stopped or cut off; a declaration of death takes less than three seconds.
TROUBLE_SECONDS = (0.1, 6.0)
# Delay until the first node is told of a node's end: its connections are closed.
NODE_EXIT_SECONDS = (10e-6, 20e-3)
# Interval of checks whether a draining node still lives.
DRAIN_AGAIN_SECONDS = 1.0
# In tests of transfers, nodes rather die in the middle of one.
TRANSFER_KILL_FACTOR = 8
# Chance that no connection is closed, as when the machine has lost power.
SILENT_DEATH_PROBABILITY = 0.3
# Chance of a shortage of memory, at each delivery of a worker's.
SHORTAGE_PROBABILITY = 0.02
# Interval of attempts of a cut-off host to reach the head.
DENIED_SECONDS = 1.0


class Faults:
    """The faults of a run."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.kills = 0  # workers killed so far
        self.shortages = 0  # of memory, so far
        self.start_failures = 0
        self.found_no_room: set[bytes] = set()  # actors for which a store was too full; membership only
        self.driver_kills = 0
        self.fork_server_kills = 0
        self.node_kills = 0
        self.drained: set[str] = set()  # nodes with a drain order: membership only
        self.troubled: set[str] = set()  # nodes that were stopped or cut off: membership only
        self.stopped_until: dict[str, float] = {}
        self.silent_deaths: set[str] = set()  # nodes whose machines went too: membership only
        self.cuts: set[tuple[str, str]] = set()  # pairs of nodes, sorted; membership only
        self.lines = Cuts(world)

    @property
    def are_over(self) -> bool:
        """No fault begins any more."""
        return self.world.now >= self.world.options.fault_seconds

    def start(self) -> None:
        """Draw the faults with fixed times."""
        options, random, world = self.world.options, self.world.random, self.world
        span = options.fault_seconds
        for _ in range(options.breaks):
            world.call_at(random.random() ** 3 * span, self._break_something)
        for _ in range(options.node_freezes):
            world.call_at(world.now + random.random() * (span - world.now), self._freeze_node)
        for _ in range(options.node_partitions):
            world.call_at(world.now + random.random() * (span - world.now), self._cut_off_node)
        for _ in range(options.node_drains):
            world.call_at(world.now + random.random() ** 2 * (span - world.now), self._drain_node)
        if options.kills_fork_server:
            world.call_at(random.random() ** 3 * span, self._kill_fork_server)
        if options.kills_driver:
            world.call_at(random.random() ** 3 * span, self._kill_driver)
        self.lines.start()
        self.world.weather.start()

    # --- processes ---

    def draw_slowness(self) -> float:
        """Return the factor for all durations in a new process."""
        probability = self.world.options.slow_worker_probability
        if probability and self.world.random.random() < probability:
            return self.world.random.choice((3.0, 30.0, 300.0))
        return 1.0

    def fails_to_start(self) -> bool:
        """Whether the worker being forked is not."""
        probability = self.world.options.start_failure_probability
        if not probability or self.are_over or self.world.random.random() >= probability:
            return False
        self.start_failures += 1
        return True

    def dies_at_birth(self) -> bool:
        """Return whether the worker dies before its Hello."""
        return self.fails_to_start()

    def before_delivery(self, source: str, target: str) -> None:
        """A frame is about to be handled."""
        self._maybe_kill(source)
        self._maybe_kill(target)
        if self.world.options.memory_shortages:
            self._maybe_lack_memory(source)
        if self.world.options.driver_kills or self.world.options.fork_server_kills:
            self._maybe_crash(source)
            self._maybe_crash(target)
        self._maybe_kill_node(source)
        self._maybe_kill_node(target)
        if self.world.shards.are_replicated:
            self.world.shards.faults.maybe_kill(source)
            self.world.shards.faults.maybe_kill(target)
        if self.world.schedulers.are_apart:
            self.world.schedulers.maybe_kill(source)
            self.world.schedulers.maybe_kill(target)

    def after_delivery(self, source: str, target: str) -> None:
        """A frame has been handled."""
        self._maybe_kill(target)
        if self.world.options.driver_kills or self.world.options.fork_server_kills:
            self._maybe_crash(target)
        self._maybe_kill_node(target)
        if self.world.shards.are_replicated:
            self.world.shards.faults.maybe_kill(target)
        if self.world.heads.are_killed:
            self.world.heads.maybe_kill(target)
        if self.world.schedulers.are_apart:
            self.world.schedulers.maybe_kill(target)

    def _maybe_kill(self, address: str) -> None:
        options = self.world.options
        if self.kills >= options.kills or not options.kill_probability or self.are_over:
            return
        if "/worker-" in address and self.world.random.random() < options.kill_probability:
            process = self._find(address)
            if process is not None:
                self.kill(process)

    def _maybe_crash(self, address: str) -> None:
        """Kill a driver, or the fork server of a node that sends or receives a message, perhaps."""
        options, world = self.world.options, self.world
        if self.are_over:
            return
        if self.driver_kills < options.driver_kills and "/driver-" in address:
            driver = self._find(address)
            if driver is not None and driver.is_alive and world.random.random() < options.driver_kill_probability:
                self.driver_kills += 1
                self.kill(driver)
        if self.fork_server_kills < options.fork_server_kills:
            node = world.nodes.get(address.partition("/")[0])
            if node is not None and world.random.random() < options.fork_server_kill_probability:
                self.fork_server_kills += 1
                self._kill_fork_server_of(node)

    def _maybe_lack_memory(self, address: str) -> None:
        """Have a node find its memory short, with any part of it in each of its workers, perhaps."""
        random, node = self.world.random, self.world.nodes.get(address.partition("/")[0])
        if self.shortages >= self.world.options.memory_shortages or self.are_over or "/worker-" not in address:
            return
        if node is not None and not node.is_frozen and random.random() < SHORTAGE_PROBABILITY:
            self.shortages += 1
            sizes = {worker: random.choice((1, 10, 100)) for worker in node.scheduler.pool.workers}
            node.arrive("host", node.scheduler.address, MemoryUse(99, 95, 100, by_worker=sizes))

    def kill(self, process: Process) -> None:
        """kill -9."""
        if process.is_alive:
            self.kills += process.kind == "worker"
            self.world.end_process(process, "killed by signal 9")

    def _maybe_kill_node(self, address: str) -> None:
        options, world = self.world.options, self.world
        if self.node_kills >= options.node_kills or not options.node_kill_probability or self.are_over:
            return
        node = world.nodes.get(address.partition("/")[0])
        if node is None or node.name in self._spared() or world.now < MEETING_SECONDS:
            return
        probability = options.node_kill_probability
        if options.bandwidth and address.endswith("/objects"):
            probability *= TRANSFER_KILL_FACTOR
        if world.random.random() < probability and world.shards.faults.may_lose(node.name):
            self.node_kills += 1
            self.kill_node(node, "is killed")

    def _spared(self) -> tuple[str, ...]:
        """Return the nodes spared: the head, and the drivers' nodes; if neither need have CPUs, a node with some."""
        heads = self.world.heads
        with_cpus = ("n2",) if self.world.options.has_guest and heads.are_killed else ()
        return (heads.name, heads.home, *with_cpus)

    def kill_node(self, node: Node, how: str) -> None:
        """Kill a node, and perhaps have the monitor told."""
        world = self.world
        self.end_node(node, how)
        if world.random.random() < SILENT_DEATH_PROBABILITY:
            self.silent_deaths.add(node.name)
        else:
            news = HostLinkChanged(node.scheduler.address, False)
            world.call_later(world.random.uniform(*NODE_EXIT_SECONDS), self.tell_monitor, news)

    def tell_monitor(self, news: HostLinkChanged) -> None:
        """Tell the monitor now, if alive; no link comes up while the cable is out."""
        heads = self.world.heads
        if heads.is_alive and not (news.is_up and self.lines.is_alone(heads.name, news.node.partition("/")[0])):
            heads.node.arrive("host", heads.monitor.address, news)

    def end_node(self, node: Node, how: str) -> None:
        """End all of a node at once: its process, its workers, its shared memory."""
        world = self.world
        world.trace.event(world.now, node.name, how)
        if node.name != world.heads.name:
            # The head has seen its connection, registered or not.
            self.tell_monitor(HostLinkChanged(node.scheduler.address, True))
        node.is_alive = False
        del world.nodes[node.name]
        world.lost_nodes[node.name] = node
        for process in list(node.processes.values()):
            process.die()
            process.connection.close()
        world.shards.node_ends(node)
        for other in (*world.nodes, *world.hosts_beside()):
            for connection in self.between(other, node.name):
                # Messages in flight may still arrive, or not.
                if world.random.random() < 0.5:
                    connection.generation += 1
                connection.is_up = False

    def choose_node(self) -> Node | None:
        """Choose a node for a fault, if any had none so far."""
        names = [name for name in self.world.nodes if name not in self._spared() and name not in self.troubled]
        names = [name for name in names if self.world.shards.faults.may_lose(name)]
        if not names:
            return None
        name = self.world.random.choice(names)
        self.troubled.add(name)
        return self.world.nodes[name]

    def _freeze_node(self) -> None:
        """Stop a node's process (SIGSTOP); its workers continue with their tasks."""
        node = self.choose_node()
        if node is not None:
            seconds = self.world.random.uniform(*TROUBLE_SECONDS)
            self.world.trace.event(self.world.now, node.name, f"is stopped for {seconds:.1f} s")
            self.freeze(node, seconds)

    def freeze(self, node: Node, seconds: float) -> None:
        """Stop a node for so many seconds."""
        node.is_frozen = True
        self.stopped_until[node.name] = self.world.now + seconds
        self.world.call_later(seconds, self._thaw, node)

    def _thaw(self, node: Node) -> None:
        node.is_frozen = False
        if node.turn_is_due:
            self.world.call_later(0.0, node.turn)

    def _cut_off_node(self) -> None:
        """Cut a node off from all others; no connection is closed."""
        node = self.choose_node()
        if node is not None:
            seconds = self.world.random.uniform(*TROUBLE_SECONDS)
            self.world.trace.event(self.world.now, node.name, f"is cut off from all others for {seconds:.1f} s")
            hosts = self.world.shards.hosts
            there = [node.name, *(name for name, host in hosts.items() if host.machine == node.name)]
            for name in there:
                for other in [other for other in (*self.world.nodes, *self.world.hosts_beside()) if other not in there]:
                    self.partition(name, other)
                    self.world.call_later(seconds, self.repair, name, other)
            self.news_of_link(node, seconds)

    def news_of_link(self, node: Node, seconds: float) -> None:
        """Have the monitor told of a cut connection, or not."""
        address = node.scheduler.address
        if self.world.random.random() < 0.5:
            self.world.call_later(0.0, self.tell_monitor, HostLinkChanged(address, False))
            self.world.call_later(seconds, self.tell_monitor, HostLinkChanged(address, True))

    def expel(self, name: str, reason: str) -> None:
        """Tell a host that the head has forgotten it; or refuse its key, when it reaches the head again."""
        node = self.world.nodes.get(name)
        head = self.world.heads.name
        if node is None:
            return
        if self.is_cut(name, head) or self.lines.is_stopped(head, name) or self.lines.is_stopped(name, head):
            self.world.call_later(DENIED_SECONDS, self.expel, name, reason)
            return
        lost = NodeLost(node.scheduler.address, reason)
        self.world.call_later(self.world.draw_delay(), node.arrive, "host", node.scheduler.address, lost)

    def _drain_node(self) -> None:
        """Drain a node, as `zray drain`: it leaves in order, after its work."""
        node, heads = self.choose_node(), self.world.heads
        if node is not None and heads.is_alive:
            self.world.trace.event(self.world.now, node.name, "is to leave")
            self.drained.add(node.name)
            self._order_drain(node)

    def _order_drain(self, node: Node) -> None:
        """Order the drain, and repeat the order if a head has died with it."""
        world, heads = self.world, self.world.heads
        if world.nodes.get(node.name) is node:
            if heads.is_alive:
                member = heads.monitor.nodes.get(node.scheduler.address)
                if member is None or member.draining is None:
                    heads.node.arrive("host", heads.monitor.address, DrainOrdered(node.scheduler.address, 0.0))
            world.call_later(DRAIN_AGAIN_SECONDS, self._order_drain, node)

    def node_ends_itself(self, node: Node, reason: str) -> None:
        """EndSession: only where something was wrong."""
        assert node.name in self.troubled, f"{node.name} ended itself: {reason}"
        self.kill_node(node, f"ends itself: {reason}")

    def are_fenced(self) -> bool:
        """Return whether all nodes can reach each other again, and the members are known."""
        if self.cuts or self.lines.one_way or self.lines.one_way_machines or self.world.weather.clogged:
            return False
        if not self.world.heads.is_alive or self.world.now < self.world.weather.clogs_until:
            return False
        members = self.world.heads.monitor.nodes
        if self.world.heads.monitor.strangers:
            return False  # it died before it was a member
        nodes = self.world.nodes.values()
        are_there = {node.scheduler.address for node in nodes if not node.is_frozen}
        return len(are_there) == len(nodes) and are_there == members.keys()

    def _find(self, address: str) -> Process | None:
        node = self.world.nodes.get(address.partition("/")[0])
        return node.processes.get(address) if node is not None else None

    def _kill_fork_server(self) -> None:
        self._kill_fork_server_of(self.world.random.choice(list(self.world.nodes.values())))

    def _kill_fork_server_of(self, node: Node) -> None:
        """Kill a node's fork server and its workers; workers about to start are not born."""
        self.world.trace.event(self.world.now, node.name, "the fork server is killed")
        for process in [process for process in node.processes.values() if process.kind == "worker"]:
            self.kill(process)

    def _kill_driver(self) -> None:
        driver = self.world.random.choice(self.world.drivers)
        if driver.is_alive and not driver.is_done:
            self.kill(driver)

    # --- links ---

    def is_cut(self, first: str, second: str) -> bool:
        """Whether two nodes cannot reach each other now."""
        return (min(first, second), max(first, second)) in self.cuts

    def finding(self, looker: str, host: str) -> Finding:
        """Return the outcome of a probe of a host by another; host: or the name of a role of the first node."""
        name = host if host in self.world.nodes or host in self.world.lost_nodes else self.world.heads.name
        is_one_way = self.lines.is_stopped(looker, name) or self.lines.is_stopped(name, looker)
        if self.is_cut(looker, name) or is_one_way or name in self.silent_deaths:
            return Finding.OUT_OF_REACH
        node = self.world.nodes.get(name)
        if node is None:
            return Finding.ENDED
        return Finding.STANDS_STILL if node.is_frozen else Finding.ANSWERS

    def partition(self, first: str, second: str) -> None:
        """Two nodes cannot reach each other."""
        assert first != second
        self.cuts.add((min(first, second), max(first, second)))
        for connection in self.between(first, second):
            connection.break_()

    def repair(self, first: str, second: str) -> None:
        """Repair the connection between two nodes, and of replicas started on them meanwhile."""
        if self.lines.is_alone(first, second):
            return  # another fault ends
        self.cuts.discard((min(first, second), max(first, second)))
        for node, other in ((first, second), (second, first)):
            for name in self.world.shards.run_by(node):
                if self.is_cut(name, other) and name != other:
                    self.repair(name, other)
        if not {first, second} <= {*self.world.nodes, *self.world.hosts_beside()}:
            return  # a dead host sends nothing any more
        for connection in self.between(first, second) if self.world.schedulers.have_met(first, second) else ():
            connection.repair()

    def between(self, first: str, second: str) -> list[Connection]:
        """Return all connections of roles of these two hosts."""
        return list(self.world.by_hosts.get((min(first, second), max(first, second)), {}).values())

    def _break_something(self) -> None:
        random, world = self.world.random, self.world
        names = [*world.nodes, *world.hosts_beside()]
        heal = random.uniform(*HEAL_SECONDS)
        if len(names) > 1 and random.random() < 0.7:
            first, second = random.sample(names, 2)
            world.trace.event(world.now, first, f"is cut off from {second} for {heal:.4f} s")
            self.partition(first, second)
            world.call_later(heal, self.repair, first, second)
            return
        node = world.nodes[random.choice(list(world.nodes))]
        addresses = [address for address, process in node.processes.items() if process.is_alive]
        if addresses:
            process = node.processes[random.choice(addresses)]
            world.trace.event(world.now, process.address, f"its connection breaks for {heal:.4f} s")
            process.connection.break_()
            world.call_later(heal, self._heal, process)

    def _heal(self, process: Process) -> None:
        if process.is_alive:
            process.connection.repair()
