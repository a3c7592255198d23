"""A host process without a node: one replica of a shard, or one global scheduler, on a reactor of its own.

The head (head_processes.py) or, for a replica, another node (replica_processes.py) starts the process.  It ends with
its parent: the kernel kills it, and the process watches the parent too.  Neither numpy nor pickle is imported.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import zmq
from msgspec import msgpack

from ...exceptions.printable import printable
from ...roles.effects import EndSession, HeadChanged, Send
from ...roles.gcs.chain import ChainMember
from ...roles.gcs.client import ChainClient
from ...roles.global_scheduler import GlobalScheduler
from ...roles.replica_effects import MeasureCpu
from ...roles.work_effects import HoldBack
from ...store.durable import StoreError, StoreLocked
from ...wire.gcs import GiveUpNode
from ...wire.hosts import HostAdded, HostRemoved, HostWelcome
from ..links.host_link import Neighbour
from ..links.host_links import Neighbours
from ..links.process_links import Peers
from ..links.relay_tunnel import Tunnels
from ..links.route_selection import Detours
from ..process.process_utils import end_with_parent, forbid_unpickling, wait_for_end
from ..process.titles import set_title
from ..reactor import Reactor
from ..security.keyring import KEY_BYTES, Key, KeyPair, KeyRing, key_of
from ..session.session import NODE_DESCRIPTOR, READY_DESCRIPTOR, SECRET_DESCRIPTOR
from . import cpu_clocks
from .head_state import LOCK_SECONDS, POLL_SECONDS
from .replica_log import ORDERS, ShardLog
from .shard_stores import ShardStore

LOG_BYTES_MAX = 8 << 20
LAST_WORDS_MS = 100
SECRET_BYTES_MAX = 8_192  # a key, and the password of a store


class ServiceHost:
    """The process."""

    def __init__(self, options: dict[str, Any], keys: KeyPair, password: str = "") -> None:
        """Raises:
        StoreError: the log cannot be used; says where.
        OSError: no port.
        """
        self.options = options
        self.store = ShardStore(options.get("store", ""), options.get("store_id", ""), password)
        self.host: str = options["host"]
        self.address = f"{self.host}/host"
        self.head: str = options["head"]
        self.log_bytes = 0
        self.is_told_of = False  # whoever started it knows what it listens on
        self.is_linked = False  # to the head
        self.shard_log: ShardLog | None = None
        self.member: ChainMember | None = None
        self.neighbours = Neighbours(self.host, keys, KeyRing(), self.log)
        self.tunnels: Tunnels | None = None  # a replica on a node has them, and no port of its own
        self.detours: Detours | None = None
        if options.get("is_hosted"):
            self.endpoint = self.neighbours.listener.bind_here(os.path.join(options["folder"], "s"))
            self.tunnels = Tunnels(self.host, self.endpoint, options["folder"], self.log)
            self.detours = Detours(self.neighbours, self.tunnels)
        else:
            port = self._listen(options["listen_host"], options["port"])
            self.endpoint = f"{options['listen_host']}:{port}"
        self.clients: list[ChainClient] = []
        roles = self._replica() if options["kind"] == "replica" else self._scheduler()
        helpers = [helper for helper in (self.tunnels, self.detours) if helper is not None]
        context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self.reactor = Reactor(
            [*roles, self, self.neighbours, *helpers],  # type: ignore[list-item]
            Peers(context, "inproc://nobody", self.log),
            {
                **dict.fromkeys(ORDERS, self._on_disk),
                EndSession: lambda role, effect: self.end(effect.reason),
                MeasureCpu: lambda role, effect: self.reactor.deliver(role, cpu_clocks.measured()),
                HoldBack: lambda role, effect: None,  # there are no processes here: tasks that wait are bounded
            },
            lambda identity, frame: None,
            lambda peer, error: None,
            lambda peer, message: None,
            self.neighbours,
        )
        if self.member is not None:
            self._open_log(self.member)

    def _listen(self, host: str, port: int) -> int:
        try:
            return self.neighbours.listener.bind(host, port)
        except OSError:
            return self.neighbours.listener.bind(host, 0)

    def _replica(self) -> list[Any]:
        shard = self.options["shard"]
        chains, limit = self.options["chains"], self.options["lineage_bytes"]
        is_hosted = self.options.get("is_hosted", False)
        self.member = ChainMember(
            f"{self.host}/{shard}", shard, chains, is_durable=True, is_hosted=is_hosted, lineage_bytes=limit
        )
        return [self.member]

    def _scheduler(self) -> list[Any]:
        names = self.options["shards"]
        shards = [f"{self.host}/shard-{number}" for number in range(len(names))]
        self.clients = [
            ChainClient(shard, name, self.options["chains"]) for shard, name in zip(shards, names, strict=True)
        ]
        policy, equals = self.options["policy"], self.options["equals"]
        return [GlobalScheduler(f"{self.host}/global", shards, policy=policy, equals=equals), *self.clients]

    def _open_log(self, member: ChainMember) -> None:
        deadline = time.monotonic() + LOCK_SECONDS
        while self.shard_log is None:
            try:
                self.shard_log = ShardLog(
                    self.options["log"],
                    member,
                    self.reactor.deliver_from_thread,
                    self.store.open,
                    is_lasting=self.options["is_lasting"],
                    log=self.log,
                )
            except StoreLocked:
                # A process that is being killed still holds the lock.
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def _on_disk(self, role: str, order: Any) -> None:
        assert self.shard_log is not None
        self.shard_log.perform(role, order)

    # --- to the reactor: a role, where the head speaks to this host ---

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """HostAdded, HostRemoved."""
        if type(message) is HostAdded:
            key = key_of(message)
            self.neighbours.meet(message.host, key, message.endpoint if message.is_earlier else "")
        elif type(message) is HostRemoved:
            self.neighbours.forget(message.host)
        return []

    def _new_head(self, former: str, welcome: HostWelcome) -> None:
        """Follow a restarted head: the former head's own processes have ended, while this process belongs to a node
        that continues.
        """
        self.head = welcome.host
        if self.tunnels is not None:
            self.tunnels.close()  # the former relay is gone
        for host, neighbour in list(self.neighbours.by_host.items()):
            if neighbour.key.kind in ("replica", "scheduler") and not neighbour.key.node:
                self.neighbours.forget(host)
        if self.member is not None:
            self.reactor.deliver(self.member.address, HeadChanged(former, self.head, welcome.global_schedulers))
            self.reactor.handle_delivered(time.monotonic())  # as in node

    def _give_up(self, neighbour: Neighbour, reason: str) -> None:
        """The verdict is the monitor's."""
        if neighbour.key.kind in ("node", "driver"):
            role = self.member.address if self.member is not None else f"{self.host}/global"
            self.reactor._perform(role, [Send(f"{self.head}/monitor", GiveUpNode(f"{neighbour.host}/local", reason))])

    def end_turn(self, now: float) -> list[Any]:
        """End a replica that is out of its chain, to make way for a new one.

        The head tells all others of this host's address once the address is reported.  This host must know the others
        by then; the head has named them when its link came up.  Otherwise they would be turned away, and retry later
        than a chain admits this replica.
        """
        if self.is_linked and not self.is_told_of:
            self.say_ready()
        if self.member is not None and self.member.is_out:
            self.end("it was taken out of its chain")
        return []

    def end(self, reason: str) -> None:
        """End the process after this turn."""
        self.reactor.ended = self.reactor.ended or reason

    def say_ready(self) -> None:
        """Report the listening address to the parent process."""
        self.is_told_of = True
        os.write(READY_DESCRIPTOR, msgpack.encode([self.endpoint, ""]))
        os.close(READY_DESCRIPTOR)

    def _link_changed(self, host: str, is_up: bool) -> None:
        self.is_linked = self.is_linked or (is_up and host == self.head)

    def log(self, line: str) -> None:
        """Write one line to the log file, up to a size."""
        if self.log_bytes < LOG_BYTES_MAX:
            self.log_bytes += len(line) + 32
            with suppress(OSError):  # a full disk is no reason to end
                print(f"{time.strftime('%H:%M:%S')} {printable(line)}", file=sys.stderr, flush=True)

    # --- the whole ---

    def run(self) -> None:
        """Run until the parent process ends."""
        options, reactor = self.options, self.reactor
        head = self.head
        reactor.watch(NODE_DESCRIPTOR, lambda: self.end("the process that started it has ended"))
        self.neighbours.attach(reactor, reactor.role_by_address)
        if (tunnels := self.tunnels) is not None:
            tunnels.attach(reactor, lambda message: reactor.box(tunnels.address, f"{self.head}/relay").append(message))
        self.neighbours.on_goodbye = lambda host, reason: self.end(reason) if host == self.head else None
        self.neighbours.on_new_head = self._new_head
        self.neighbours.on_link = self._link_changed
        self.neighbours.on_given_up = self._give_up
        self.neighbours.meet(head, Key(options["head_key"], "head", head), options["head_endpoint"])
        for role in (self.member, *self.clients):
            if role is not None:
                role.start()
                reactor._perform(role.address, role.take_effects())
        try:
            reactor.run()
        finally:
            self.log(f"ends: {reactor.ended or 'it failed'}")
            self.close()

    def close(self) -> None:
        """Finish the pending disk orders and close."""
        if self.shard_log is not None:
            self.shard_log.close()
        for helper in (self.detours, self.tunnels):
            if helper is not None:
                helper.close()
        self.reactor.close()


def title_of(options: dict[str, Any]) -> str:
    """The name of the process in `ps`."""
    if options["kind"] != "replica":
        return "zray: global scheduler"
    number = options["shard"].rpartition("-")[2]
    return f"zray: GCS shard {number}{' (hosted)' if options.get('is_hosted') else ''}"


def main() -> None:
    """Run a host process. argv: one msgpack map in hexadecimal (head_processes.py)."""
    options = msgpack.decode(bytes.fromhex(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    if wait_for_end(NODE_DESCRIPTOR, 0):
        os._exit(1)  # the parent ended before: files written into its session's folder would stay
    for descriptor in (READY_DESCRIPTOR, NODE_DESCRIPTOR, SECRET_DESCRIPTOR):
        os.set_inheritable(descriptor, False)
    forbid_unpickling()
    secret = os.read(SECRET_DESCRIPTOR, SECRET_BYTES_MAX)
    keys, password = KeyPair.of_secret(secret[:KEY_BYTES]), secret[KEY_BYTES:].decode(errors="surrogateescape")
    os.close(SECRET_DESCRIPTOR)
    set_title(title_of(options))
    try:
        host = ServiceHost(options, keys, password)
    except (StoreError, OSError) as error:
        os.write(READY_DESCRIPTOR, msgpack.encode(["", str(error)[:2_000]]))
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
    if options.get("is_hosted"):
        host.say_ready()  # the head admits this replica once the address is reported
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    gc.enable()
    host.run()
