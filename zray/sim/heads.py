"""The head of a simulated cluster: the roles of the first node beside its own, killed and restarted.

In worlds with head_kills the shards are roles of the head with logs, and the head's roles are named after it, since the
next head has other names.  The roster and the records ordered by its effects (`Disk`) outlive a head.  A killed head is
followed by another on that state; each node finds the new head by itself, some time later.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..roles import effects as e
from ..roles.gcs.chain import ChainMember
from ..roles.gcs.client import ChainClient
from ..roles.gcs.master import ChainMaster
from ..roles.global_scheduler import GlobalScheduler
from ..roles.hosting import ReplicaKeeper
from ..roles.monitor import Monitor
from ..roles.work_effects import HeadIsAlone
from ..wire.gcs import NodeLost, RegisterNode
from .cuts import GUEST
from .node import Node

if TYPE_CHECKING:
    from .simulator import Simulator

WRITE_SECONDS = (20e-6, 5e-3)
# Time until the next head starts, and until a node has found it.
START_SECONDS = (5e-3, 3.0)
FIND_SECONDS = (1e-4, 1.0)


class Disk:
    """The content of a log, and pending write orders.  Pages of specs lie beside it."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.page = 0  # the last one
        self.snapshot: list[bytes] = []
        self.records: list[bytes] = []
        self.coming: list[bytes] = []  # a snapshot of the state after the first records
        self.coming_at = 0  # their number
        self.orders: deque[Any] = deque()
        self.is_full = False

    def work(self) -> Any:
        """Carry out the next order.  Returns its outcome."""
        order = self.orders.popleft()
        if type(order) is e.ReadPage:
            return e.PageRead(order.page, self.pages[order.page])
        if self.is_full:
            is_page = type(order) is e.WritePage
            return (e.PageRefused if is_page else e.LogRefused)(order.token, "no space left on device")
        if type(order) is e.WritePage:
            self.page += 1
            self.pages[self.page] = order.data
            return e.PageWritten(order.token, self.page)
        if type(order) is e.SaveSnapshot:
            self._save(order)
        else:
            self.records += order.records
        return e.LogAppended(order.token)

    def _save(self, order: e.SaveSnapshot) -> None:
        if order.number == 1:
            self.coming, self.coming_at = [], len(self.records)
        self.coming.append(order.part)
        if order.is_last:
            self.snapshot, self.records = self.coming, self.records[self.coming_at :]
            keep = dict.fromkeys(order.pages)
            self.pages = {page: data for page, data in self.pages.items() if page in keep or page > order.newest_page}


class Heads:
    """The head of a world, and its successors."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.name = "n1"  # of the head, alive or not
        self.count = 1
        self.kills = 0
        self.alone_count = 0  # how often a head has heard of nobody
        self.has_lost_actors = False  # some were on a killed head
        self.disks: dict[str, Disk] = {}  # by shard
        self.members: dict[str, RegisterNode] = {}
        self.lost: dict[str, str] = {}
        self.known: dict[str, str] = {}  # node -> the head known to it
        self.monitor: Monitor

    @property
    def are_killed(self) -> bool:
        """Whether heads are killed in this world."""
        return self.world.options.head_kills > 0

    def note_loneliness(self, effect: HeadIsAlone) -> None:
        """HeadIsAlone."""
        self.alone_count += effect.is_so

    @property
    def node(self) -> Node:
        """The head, while alive."""
        return self.world.nodes[self.name]

    @property
    def is_alive(self) -> bool:
        return self.name in self.world.nodes

    @property
    def home(self) -> str:
        """The node of the drivers: never a head that is killed; or outside the cluster."""
        if self.world.options.has_guest:
            return GUEST
        return "n2" if self.are_killed else "n1"

    def role(self, name: str) -> str:
        """Return the address of a role of the head."""
        return f"{self.name}/{name}" if self.are_killed else name

    def known_master(self, node: str) -> str:
        """Return the chain master known to a node."""
        return f"{self.known.get(node, 'n1')}/chains" if self.are_killed else "chains"

    def schedulers(self) -> list[str]:
        """The global schedulers."""
        if self.world.schedulers.are_apart:
            return self.world.schedulers.names()
        count = self.world.options.global_schedulers
        return [self.role(f"global-{number}") for number in range(1, count)] + [self.role("global")]

    # --- setting up ---

    def add_to(self, node: Node, shards: list[str]) -> None:
        """Add the head's roles to its node, except the shards."""
        are_apart = self.world.schedulers.are_apart
        schedulers, policy = [] if are_apart else self.schedulers(), self.world.options.policy
        for scheduler in schedulers:
            node.add_role(GlobalScheduler(scheduler, shards, policy=policy, equals=len(schedulers)))
        listeners = [*schedulers, *shards]
        if self.world.shards.are_replicated:
            listeners += [self.role("chains"), self.role("services"), self.role("hosting")]
        elif are_apart:
            listeners.append(self.role("services"))
        members, lost = list(self.members.values()), list(self.lost)
        hosting = self.role("hosting") if self.world.shards.are_replicated else ""
        self.monitor = Monitor(
            self.role("monitor"),
            listeners,
            former=members,
            lost=lost,
            hosting=hosting,
            driver_wait=self.world.options.driver_wait,
        )
        node.add_role(self.monitor)

    def note(self, node: Node, effect: e.NoteMember | e.NoteLost) -> None:
        """Record a member or a loss for good, at once."""
        if type(effect) is e.NoteMember:
            self.members[effect.node.node] = effect.node
        elif type(effect) is e.NoteLost:
            self.members.pop(effect.node, None)
            self.lost[effect.node] = effect.reason

    def write(self, node: Node, member: str, order: Any) -> None:
        """Queue a disk order; a disk works on one at a time."""
        disk = self.world.shards.disk(node, member)
        disk.orders.append(order)
        if len(disk.orders) == 1:
            self._write_next(node, member, disk)

    def _write_next(self, node: Node, member: str, disk: Disk) -> None:
        seconds = self.world.random.uniform(*WRITE_SECONDS) + self.world.weather.draw_stall()
        self.world.call_later(seconds, self._written, node, member, disk)

    def _written(self, node: Node, member: str, disk: Disk) -> None:
        if not node.is_alive:
            return
        if self.world.shards.faults.breaks(node):
            disk.orders.clear()
            node.arrive("host", member, e.LogBroken("fsync: input/output error"))
            return
        node.arrive("host", member, disk.work())
        if disk.orders:
            self._write_next(node, member, disk)

    # --- faults ---

    def maybe_kill(self, address: str) -> None:
        """Kill the head, perhaps, before or after a frame from or to this role."""
        options, world = self.world.options, self.world
        if self.kills >= options.head_kills or not self.is_alive or world.faults.are_over:
            return
        if address.partition("/")[0] == self.name and world.random.random() < options.head_kill_probability:
            self.kills += 1
            self._kill()

    def _kill(self) -> None:
        world, node = self.world, self.node
        self.has_lost_actors = self.has_lost_actors or bool(node.scheduler.calls.actors)
        for disk in self.disks.values():
            # The first part of its pending writes may be on disk.
            for _ in range(world.random.randint(0, len(disk.orders))):
                disk.work()
            disk.orders.clear()
        world.faults.end_node(node, "the head is killed")
        for pair in [pair for pair in world.faults.cuts if node.name in pair]:
            world.faults.cuts.discard(pair)
        world.call_later(world.random.uniform(*START_SECONDS), self._start_again)

    def _start_again(self) -> None:
        """Start the next head on the recorded state."""
        world = self.world
        former, self.count = self.name, self.count + 1
        self.name = f"n1-{self.count}"
        world.trace.event(world.now, self.name, "is started on the state of the head")
        self.note(world.lost_nodes[former], e.NoteLost(f"{former}/local", "the head was killed"))
        for other in world.nodes:
            world.faults.partition(self.name, other)
            world.call_later(world.random.uniform(*FIND_SECONDS), self._found_by, other, self.name)
        for host in world.shards.hosts.values():
            if host.is_alive:
                world.faults.partition(self.name, host.name)
                world.call_later(world.random.uniform(*FIND_SECONDS), self._found_by_replica, host.name, self.name)
        world.add_node(self.name, {"room": 0})
        node = self.node
        starting: list[Any] = [
            role for role in node.roles.values() if type(role) in (ChainMember, ChainClient, Monitor)
        ]
        for role in starting:
            role.now = node.now
            role.start()
            node._perform_all(role, role.take_effects())
        for lost, reason in self.lost.items():
            for shard in node.scheduler.addresses.shards:
                node.arrive(self.monitor.address, shard, NodeLost(lost, reason))
        node.turn()

    def _found_by(self, name: str, head: str) -> None:
        """Connect a node to the new head, if both still exist."""
        world = self.world
        node = world.nodes.get(name)
        if node is None or head not in world.nodes:
            return
        former = self.known.get(name, "n1")
        self.known[name] = head
        for connection in world.faults.between(name, former):
            connection.close()
        node.outgoing = {key: sent for key, sent in node.outgoing.items() if key[1].partition("/")[0] != former}
        changed = e.HeadChanged(former, head, self.schedulers())
        for role in node.roles.values():
            if role is node.scheduler or type(role) in (ChainClient, ReplicaKeeper):
                node.arrive("host", role.address, changed)
        world.faults.repair(name, head)
        if not node.is_frozen:
            world.faults.tell_monitor(e.HostLinkChanged(node.scheduler.address, True))

    def _found_by_replica(self, name: str, head: str) -> None:
        """Connect a replica on another node to the new head, if both still exist."""
        world = self.world
        host = world.shards.hosts[name]
        if not host.is_alive or head not in world.nodes or name not in world.shards.let_in:
            return  # a key that the former head has not written down is nobody's to the next one
        former = self.known.get(name, "n1")
        self.known[name] = head
        for connection in world.faults.between(name, former):
            connection.close()
        host.outgoing = {key: sent for key, sent in host.outgoing.items() if key[1].partition("/")[0] != former}
        host.arrive("host", host.member.address, e.HeadChanged(former, head, []))
        world.faults.repair(name, head)

    def is_found_by_all(self) -> bool:
        """Return whether the head is alive, and known to all nodes."""
        others = [name for name in self.world.nodes if name != self.name]
        return self.is_alive and all(self.known.get(name, "n1") == self.name for name in others)

    def all_have_met(self) -> bool:
        """Return whether all nodes have met, and the guest's node knows its permitted silence."""
        nodes = self.world.nodes
        guest = nodes.get(GUEST)
        if guest is not None and guest.scheduler.members.lease.seconds != self.world.options.driver_wait:
            return False
        return self.is_alive and all(
            {*node.scheduler.members.peers, node.scheduler.address} >= {f"{name}/local" for name in nodes}
            for node in nodes.values()
        )

    # --- shards of the head ---

    def add_shards_to(self, node: Node, names: list[str]) -> ChainMaster:
        """Add the shards to the head as roles, on their logs."""
        shards = self.world.shards
        master = ChainMaster(
            self.role("chains"),
            replicas=max(1, self.world.options.replicas),
            former=shards.notes.values(),
            machines={
                f"{replica.host}/{replica.shard}": shards.hosts[replica.host].machine
                for replica in shards.let_in.values()
            },
        )
        node.add_role(master)
        for shard in names:
            limit = self.world.options.lineage_bytes
            member = ChainMember(f"{node.name}/{shard}", shard, master.address, is_durable=True, lineage_bytes=limit)
            disk = self.disks.setdefault(shard, Disk())
            member.recover(disk.snapshot, disk.records)
            node.add_role(member)
        return master
