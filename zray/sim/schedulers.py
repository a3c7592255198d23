"""Global schedulers in separate host processes, beside the head: killed and restarted, or of a number that changes.

Nodes are told of them as in production: by the services, through their host role.  A node receives nothing from a
scheduler before meeting it, nor after forgetting it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ..roles.gcs.client import ChainClient
from ..roles.global_scheduler import GlobalScheduler
from ..roles.replica_effects import CpuMeasured, EndScheduler, ServiceAdded, ServiceEnded, ServiceListens
from ..roles.role import Role
from ..roles.scheduler_count import LIMITS, Limits, SchedulerCount
from ..roles.services import Services
from ..wire.hosts import GetNodes
from .desk import Desk
from .node import Node
from .replica_faults import EXIT_SECONDS

if TYPE_CHECKING:
    from .simulator import Simulator

# Delay until a replacement process starts, and until it can be reached (host/cluster/head_processes.py).
BEGIN_SECONDS = (0.1, 0.2)
READY_SECONDS = (1e-3, 0.3)
# Where time costs nothing, loads are drawn, and last so long.
DRAWN_LOADS, DRAWN_SECONDS = (0.05, 0.5, 0.95), 0.2
DRAWN_LIMITS = Limits(report_s=0.02, up_s=0.06, down_s=0.1, slow_s=-1.0)
STEADY_LOAD = 0.5


class SchedulerHost(Node):
    """The host process of a global scheduler."""

    def __init__(self, world: Simulator, name: str) -> None:
        super().__init__(world, name, pages_max=0)
        head = world.heads.node
        self.ahead, self.pace = head.ahead, head.pace  # of the head's machine
        if world.schedulers.are_counted:
            self.cores = head.cores

    def check(self) -> None:
        for role in self.roles.values():
            role.check_everything()
            self.world.checkers.bounds_are_kept(role.address, role)


class Schedulers:
    """All global schedulers of a world."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.hosts: dict[str, SchedulerHost] = {}  # live ones
        self.met: set[tuple[str, str]] = set()  # a node and a scheduler's host: membership only
        self.desks: dict[str, Desk] = {}
        self.count = 0
        self.kills = 0
        self.changes: list[tuple[float, int]] = []  # when, and how many there are to be
        self.drawn: dict[str, tuple[float, float]] = {}  # of a host: when its clock was read, and what it showed

    @property
    def are_apart(self) -> bool:
        """Whether this world has separate schedulers."""
        return self.world.options.scheduler_kills > 0 or self.are_counted

    @property
    def are_counted(self) -> bool:
        """Whether their number changes."""
        return self.world.options.schedulers_max > 0

    def names(self) -> list[str]:
        """Return the admitted global schedulers, as told to a newcomer."""
        if self.world.now:
            return list(self.world.heads.node.scheduler.addresses.global_schedulers)
        return [f"g{number}/global" for number in range(1, self.world.options.global_schedulers + 1)]

    # --- setting up ---

    def add_to(self, node: Node, *, is_first: bool) -> None:
        """Add the host role to a node, and the services to the head."""
        if not self.are_apart:
            return
        desk = self.desks[node.name] = Desk(self.world, node)
        node.add_role(desk)
        shards, heads = self.world.shards, self.world.heads
        if is_first and not shards.are_replicated:
            counts = heads.role("counts") if self.are_counted else ""
            node.add_role(Services(heads.role("services"), "", node.name, counts=counts))
        if is_first and self.are_counted:
            options = self.world.options
            limits = DRAWN_LIMITS if self.world.costs is None else LIMITS
            count = SchedulerCount(
                heads.role("counts"), options.global_schedulers, options.schedulers_max, limits=limits
            )
            node.add_role(count)

    def start(self) -> None:
        """Start the first schedulers."""
        if self.are_counted:
            role = self.count_role
            role.start()
            self.world.heads.node._perform_all(role, role.take_effects())
        for _ in range(self.world.options.global_schedulers if self.are_apart else 0):
            self._begin()

    @property
    def count_role(self) -> SchedulerCount:
        """The role that changes their number."""
        role = self.world.heads.node.roles[self.world.heads.role("counts")]
        assert type(role) is SchedulerCount
        return role

    def start_one(self, equals: int) -> None:
        """Handle StartScheduler."""
        self.changes.append((self.world.now, equals))
        self.world.call_later(self.world.random.uniform(*BEGIN_SECONDS), self._begin)

    def end_one(self, effect: EndScheduler) -> None:
        """Handle EndScheduler: a host that has just died is gone already."""
        self.changes.append((self.world.now, self.count_role.count))
        host = self.hosts.get(effect.host)
        if host is not None:
            self._kill(host, is_for_good=True)

    def measure(self, node: Node, role: Role) -> None:
        """Handle MeasureCpu."""
        world = self.world
        if node.cores is not None:
            idle = len(node.cores.free_at) * world.now - node.cores.used
            node.arrive("host", role.address, CpuMeasured(node.cpu_seconds, idle))
            return
        load = STEADY_LOAD
        if not world.faults.are_over:
            load = Random(f"zray loads {world.options.seed} {world.now // DRAWN_SECONDS}").choice(DRAWN_LOADS)
        at, shown = self.drawn.get(node.name, (world.now, 0.0))
        shown += load * (world.now - at)
        self.drawn[node.name] = world.now, shown
        node.arrive("host", role.address, CpuMeasured(shown, world.now))

    def _begin(self) -> None:
        world, heads = self.world, self.world.heads
        if not heads.is_alive:
            return
        self.count += 1
        host = self.hosts[f"g{self.count}"] = SchedulerHost(world, f"g{self.count}")
        self.met.add((heads.name, host.name))
        shards = world.shards.addresses(host.name)
        role = GlobalScheduler(
            f"{host.name}/global", shards, policy=world.options.policy, equals=world.options.global_schedulers
        )
        host.add_role(role)
        for name, address in zip(world.shards.names, shards, strict=True) if world.shards.are_replicated else ():
            host.add_role(ChainClient(address, name, heads.role("chains")))
        self._tell_services(ServiceAdded(host.name, "scheduler", b"k" * 32, [role.address]))
        world.call_later(world.random.uniform(*READY_SECONDS), self._is_ready, host)

    def _is_ready(self, host: SchedulerHost) -> None:
        if host.is_alive:
            for role in host.roles.values():
                if type(role) is ChainClient:
                    role.now = host.now
                    role.start()
                    host._perform_all(role, role.take_effects())
            self._tell_services(ServiceListens(host.name, f"{host.name}:1"))
            host.turn()

    def _tell_services(self, news: ServiceAdded | ServiceListens | ServiceEnded) -> None:
        heads = self.world.heads
        heads.node.arrive("host", heads.role("services"), news)

    def meet(self, node: Node, host: str) -> None:
        """Introduce a scheduler's host to a node, so that messages between them leave."""
        self.met.add((node.name, host))
        if not self.world.faults.is_cut(node.name, host) and host in self.hosts:
            for connection in self.world.faults.between(node.name, host):
                connection.repair()

    def have_met(self, first: str, second: str) -> bool:
        """Return whether two hosts know each other; hosts without schedulers always do."""
        strangers = [
            pair for pair in ((first, second), (second, first)) if pair[0] in self.desks and pair[1][:1] == "g"
        ]
        return all(pair in self.met or pair[1] in self.desks for pair in strangers)

    # --- faults ---

    def maybe_kill(self, address: str) -> None:
        """Kill a scheduler, perhaps, before or after a frame from or to this role."""
        options, random = self.world.options, self.world.random
        if self.kills >= options.scheduler_kills or self.world.faults.are_over:
            return
        host = self.hosts.get(address.partition("/")[0])
        if host is not None and random.random() < options.scheduler_kill_probability:
            self.kills += 1
            self._kill(host)

    def _kill(self, host: SchedulerHost, *, is_for_good: bool = False) -> None:
        world, random = self.world, self.world.random
        world.trace.event(world.now, host.name, "is killed")
        for name in (*world.nodes, *world.shards.hosts):
            for connection in world.faults.between(host.name, name):
                # Messages in flight may still arrive, or not; nothing is sent again.
                if random.random() < 0.5:
                    connection.generation += 1
                connection.is_up = False
        host.is_alive = False
        del self.hosts[host.name]
        for node in world.nodes.values():
            if random.random() < 0.5:  # a process asks for the members, while the answer is unknown
                world.call_later(
                    random.uniform(0.0, BEGIN_SECONDS[1]), node.arrive, "host", f"{node.name}/host", GetNodes(1)
                )
        world.call_later(
            random.uniform(*EXIT_SECONDS), self._tell_services, ServiceEnded(host.name, "killed by signal 9")
        )
        if not is_for_good:
            world.call_later(random.uniform(*BEGIN_SECONDS), self._begin)

    # --- looking in from outside ---

    def at_rest(self) -> None:
        """Check that all nodes know the live schedulers, and that no request waits for a dead one."""
        if not self.are_apart:
            return
        living = {f"{name}/global" for name in self.hosts}
        for name in self.world.nodes:
            desk = self.desks[name]
            known = desk.node.scheduler.addresses.global_schedulers
            assert set(known) == living, f"{name} takes {known} for the global schedulers, which are {sorted(living)}"
            assert not desk.inquiries.open, f"a process on {name} asked who is there, and waits"
        for chain in self.world.shards.master.chains.values() if self.world.shards.master is not None else ():
            told = {name.partition("/")[0] for name in chain.followers}
            assert told <= {*self.world.nodes, *self.hosts}, f"the chain master tells {sorted(told)}"
        if self.are_counted:
            count = self.count_role
            assert len(living) == count.count == len(count.watched), f"{sorted(living)}: {count.in_words(0.0)}"
            assert self.world.options.global_schedulers <= count.count <= self.world.options.schedulers_max
        for host in self.hosts.values():
            for role in host.roles.values():
                if type(role) is GlobalScheduler:
                    assert not self.are_counted or role.equals == len(living), f"{role.address} counts {role.equals}"
                    there = {f"{name}/local" for name in self.world.nodes}
                    assert role.loads.keys() == there, f"{role.address} knows {list(role.loads)}"
