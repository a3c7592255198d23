"""The roles of a cluster's head: the monitor, the chain master, and the GCS and the global scheduler, either in the
head's own process or in others (head_processes.py).

One shard of one replica, and one global scheduler, are roles of the head's own process.  Larger numbers run as
processes.  The own shard's log is read before the head listens: nodes wait long for a head that is absent, but not for
a head that is silent (local_scheduler/membership/lease.py).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...exceptions import ZrayError
from ...roles.effects import NoteLost, NoteMember
from ...roles.gcs.chain import ChainMember
from ...roles.gcs.client import ChainClient
from ...roles.gcs.master import ChainMaster
from ...roles.global_scheduler import GlobalScheduler
from ...roles.hosting import Hosting
from ...roles.local_scheduler.addresses import Addresses
from ...roles.monitor import WAIT_SECONDS, Monitor
from ...roles.relay import Relay
from ...roles.replica_effects import (
    EndScheduler,
    LetInReplica,
    MeasureCpu,
    NoteChain,
    ReplicaLetIn,
    ShutOutReplica,
    StartScheduler,
)
from ...roles.scheduler_count import LIMITS, Limits, SchedulerCount
from ...roles.services import Services
from ...roles.work_effects import HeadIsAlone, OthersUnheard
from ...store.durable import StoreError
from ...wire.gcs import NodeLost, RegisterNode
from ..session.session import Session
from . import cpu_clocks
from .admission import found_cluster
from .head_processes import ServiceProcesses
from .head_state import Plan, StateFolder
from .membership import Membership, shard_names
from .membership_log import key_of_hosted
from .replica_log import ORDERS, ShardLog
from .shard_stores import ShardStore

if TYPE_CHECKING:
    from ..reactor import Reactor

# The log line of a head that receives no heartbeats at all.
ALONE = (
    "no heartbeat comes from any other machine of the cluster, so this one may be cut off itself (a cable, a switch): "
    f"the nodes are declared dead only after {WAIT_SECONDS:g} s"
)


def take_up(
    session: Session,
    host: str,
    cluster: dict[str, Any],
    log: Callable[[str], None],
    deliver: Callable[[str, Any], None],
) -> tuple[Membership, Head]:
    """Found a cluster, or continue one. cluster: options of nodes.start_head; deliver: as in ShardLog.

    Raises:
        ZrayError, OSError: the start failed; no host has been told, and another head may take the state.
    """
    with ExitStack() as undo:
        folder = cluster["state_dir"] or os.path.join(session.folder, "state")
        state = StateFolder(folder, cluster, log, is_lasting=bool(cluster["state_dir"]))
        undo.callback(state.close)
        store = state.shard_store(cluster.get("store_password", ""))
        own = _read_own_shard(host, state, store, log, deliver)
        if own is not None:
            undo.callback(own[1].close)
        member = found_cluster(session, host, state, cluster["port"], log)
        limits = Limits(**cluster.get("scheduler_limits", {}))  # tests set some
        head = Head(session, member, state, store, own, log, limits)
        undo.pop_all()
    return member, head


def _read_own_shard(
    host: str,
    state: StateFolder,
    store: ShardStore,
    log: Callable[[str], None],
    deliver: Callable[[str, Any], None],
) -> tuple[ChainMember, ShardLog] | None:
    """Open the replica that runs in the head's own process, with the content of its log.  None: all are processes.

    Raises:
        ZrayError: the log cannot be used; the text names the place.
    """
    plan = state.plan
    shard, *others = shard_names(plan.shards)
    folder, *copies = state.logs(shard, plan.replicas)
    if others or copies:
        return None
    member = ChainMember(f"{host}/{shard}", shard, f"{host}/chains", is_durable=True, lineage_bytes=plan.lineage_bytes)
    try:
        return member, ShardLog(folder, member, deliver, store.open, is_lasting=state.is_lasting, log=log)
    except StoreError as error:
        raise ZrayError(str(error)) from error


class Head:
    """The part of a node that acts as head. own: the replica in the head's own process, if any, and its log."""

    loop: Reactor

    def __init__(
        self,
        session: Session,
        member: Membership,
        state: StateFolder,
        store: ShardStore,
        own: tuple[ChainMember, ShardLog] | None,
        log: Callable[[str], None],
        limits: Limits = LIMITS,
    ) -> None:
        """limits: of the number of global schedulers, where it may change."""
        self.session = session
        self.links = member.neighbours
        self.endpoint = member.endpoint
        host = member.host
        plan, self.state, self.store = state.plan, state, store
        names = shard_names(plan.shards)
        self.logs = {name: self.state.logs(name, plan.replicas) for name in names}
        self.member = own[0] if own is not None else None
        self.shard_log = own[1] if own is not None else None
        first_offers = {name: len(logs) for name, logs in self.logs.items()}
        roster = state.roster
        self.master = ChainMaster(
            f"{host}/chains",
            replicas=plan.replicas,
            first_offers=first_offers,
            former=[NoteChain(note.shard, note.members, note.full) for note in roster.chains.values()],
            machines={key_of_hosted(record).roles[0]: record.node for record in roster.hosted.values()},
        )
        self.relay = Relay(f"{host}/relay")
        counts = f"{host}/counts" if plan.schedulers_max > plan.schedulers else ""
        self.services = Services(f"{host}/services", self.master.address, host, self.relay.address, counts)
        self.hosting = Hosting(
            f"{host}/hosting",
            names,
            replicas=plan.replicas,
            master=self.master.address,
            services=self.services.address,
            monitor=f"{host}/monitor",
            lineage_bytes=plan.lineage_bytes,
            known=[(record.node, record.replica) for record in roster.hosted.values()],
        )
        self.processes = ServiceProcesses(
            session,
            member,
            {"services": self.services.address, "chains": self.master.address, "shards": names},
            log,
            store.password,
        )
        self.orders = self._orders(plan) if own is None or plan.schedulers > 1 else []
        self.processes.has_begun = not self.orders
        self.own_schedulers: list[GlobalScheduler] = []
        shards = self.shards = member.addresses.shards
        schedulers = [f"{service}/global" for service, order in self.orders if order["kind"] == "scheduler"]
        if not schedulers:
            schedulers = [f"{host}/global"]
            self.own_schedulers = [GlobalScheduler(schedulers[0], shards, policy=plan.policy)]
        self.scheduler_count = self._counted(counts, limits)
        member.addresses.global_schedulers[:] = schedulers
        listeners = [role.address for role in self.own_schedulers]
        # The services come last: each party that they tell of a node has been told of the node by the head before.
        listeners += [*shards, self.master.address, self.relay.address, self.services.address, self.hosting.address]
        self.monitor = Monitor(
            f"{host}/monitor",
            listeners,
            former=self._former_members(),
            lost=list(roster.lost),
            driver_wait=plan.driver_wait,
            hosting=self.hosting.address,
        )

    def _counted(self, address: str, limits: Limits) -> SchedulerCount | None:
        """Return the role that changes the number of global schedulers; None: it is fixed."""
        plan, own = self.state.plan, tuple(role.address for role in self.own_schedulers)
        return SchedulerCount(address, plan.schedulers, plan.schedulers_max, own, limits) if address else None

    def _former_members(self) -> list[RegisterNode]:
        """Return the nodes of an earlier head.  The earlier head itself is recorded as lost."""
        roster = self.state.roster
        for node in [node for node, facts in roster.members.items() if facts.kind == "head"]:
            roster.judged(node, "the head of the cluster has ended, and was started again")
        return list(roster.members.values())

    def _orders(self, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
        """Return (host id, start options) of each process."""
        orders: list[dict[str, Any]] = []
        if self.member is None:
            orders += [
                {
                    "kind": "replica",
                    "shard": shard,
                    "log": log,
                    "is_lasting": self.state.is_lasting,
                    "lineage_bytes": plan.lineage_bytes,
                    **self.store.options(),
                    "name": f"{shard}-{os.path.basename(log)}",
                }
                for shard, logs in self.logs.items()
                for log in logs
            ]
        if (equals := plan.schedulers) > 1:
            orders += [self._scheduler_order(f"global-{number}", equals) for number in range(equals)]
        return [(self.processes.draw_host(), order) for order in orders]

    def _scheduler_order(self, name: str, equals: int) -> dict[str, Any]:
        return {"kind": "scheduler", "policy": self.state.plan.policy, "equals": equals, "name": name}

    @property
    def troubles(self) -> list[str]:
        """Return what of the processes and of the store concerns users, for `zray status`."""
        return [*self.processes.refusals.values(), *self.store.notices]

    @property
    def roles(self) -> list[Any]:
        """The roles of the head, in the order in which they end their turns."""
        chain = [self.member] if self.member is not None else []
        others: list[Any] = [self.monitor, self.relay, self.services, self.hosting, self.processes]
        if self.scheduler_count is not None:
            others.append(self.scheduler_count)
        return [self.master, *chain, *self.own_schedulers, *others]

    def effects(self) -> dict[type, Any]:
        """Return the effects that the head performs, with their functions."""
        roster = self.state.roster
        return {
            **dict.fromkeys(ORDERS, self._on_disk),
            NoteMember: lambda role, effect: roster.registered(effect.node),
            NoteLost: lambda role, effect: roster.judged(effect.node, effect.reason),
            HeadIsAlone: self._note_loneliness,
            NoteChain: lambda role, effect: roster.chained(effect.shard, effect.members, effect.full),
            LetInReplica: self._let_in,
            ShutOutReplica: self._shut_out,
            StartScheduler: self._start_scheduler,
            EndScheduler: self._end_scheduler,
            MeasureCpu: lambda role, effect: self.loop.deliver(role, cpu_clocks.measured()),
        }

    def _note_loneliness(self, role: str, effect: HeadIsAlone) -> None:
        self.links.log(
            ALONE if effect.is_so else "heartbeats of another machine come again, or that machine was declared dead"
        )
        self.loop.deliver(f"{role.partition('/')[0]}/local", OthersUnheard(ALONE if effect.is_so else ""))

    def _start_scheduler(self, role: str, effect: StartScheduler) -> None:
        used = self.processes.names()
        name = next(name for number in itertools.count() if (name := f"global-{number}") not in used)
        self.processes.start(self._scheduler_order(name, effect.equals))

    def _end_scheduler(self, role: str, effect: EndScheduler) -> None:
        if effect.host:
            self.processes.end(effect.host)
        else:
            self.processes.end_unready("scheduler")

    @property
    def notes(self) -> list[str]:
        """Return what else users may want to know, for `zray status`."""
        count = self.scheduler_count
        return [count.in_words(time.monotonic())] if count is not None else []

    def _let_in(self, role: str, effect: LetInReplica) -> None:
        host, refusal = effect.replica.host, ""
        try:
            self.links.meet(host, self.state.roster.let_in(effect.replica, effect.node), "")
        except StoreError as error:
            refusal = f"the head cannot record its admission ({error})"
        self.loop.deliver(role, ReplicaLetIn(host, refusal))

    def _shut_out(self, role: str, effect: ShutOutReplica) -> None:
        self.state.roster.shut_out(effect.host)
        self.links.forget(effect.host, effect.reason)

    def _on_disk(self, role: str, order: Any) -> None:
        assert self.shard_log is not None
        self.shard_log.perform(role, order)

    def start(self, loop: Reactor) -> None:
        """Start the processes and wait for the nodes of an earlier head."""
        self.loop = loop
        self.processes.attach(loop)
        if self.member is not None:
            self.member.start()
            loop._perform(self.member.address, self.member.take_effects())
        for host, order in self.orders:
            self.processes.start(order, host)
        for key, seen_at in self.state.roster.hosts():
            self.links.meet(key.name, key, "")
            self.links.by_host[key.name].seen_at = seen_at
        for record in self.state.roster.hosted.values():
            self.links.meet(record.replica.host, self.links.ring.keys[record.replica.public_key], "")
        self.monitor.start()
        loop._perform(self.monitor.address, self.monitor.take_effects())
        if self.scheduler_count is not None:
            self.scheduler_count.start()
            loop._perform(self.scheduler_count.address, self.scheduler_count.take_effects())
        # The former head may have ended before the shards were told of its lost nodes.
        for node, reason in self.state.roster.lost.items():
            for shard in self.shards:
                loop.local.append((shard, self.monitor.address, NodeLost(node, reason)))

    def close(self, *, in_order: bool) -> None:
        """Finish pending disk orders and release the state folder for another head.

        in_order: all nodes were told that the cluster ends, so a later head on this state need not wait for them.
        """
        for node in self.monitor.nodes if in_order else ():
            self.state.roster.judged(node, "the head of its cluster has ended")
        if self.shard_log is not None:
            self.shard_log.close()
        self.state.close()


def chain_clients(addresses: Addresses, master: str, local: str = "") -> list[ChainClient]:
    """Return a host's chain clients, one per shard. local: the local scheduler that explains waits, or ""."""
    names = shard_names(len(addresses.shards))
    return [ChainClient(shard, name, master, local) for shard, name in zip(addresses.shards, names, strict=True)]
