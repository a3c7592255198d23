"""The node's side of the session dialog: admission, departure and expulsion of processes.

A malformed frame, or a message that fails its handler, costs its sender: an unknown sender's is counted and dropped; a
joined process gets the reason, and is dropped as if it had ended.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...exceptions import ProtocolError
from ...ids import JOB_ID_BYTES
from ...roles.effects import HeadChanged, ProcessJoined, ProcessLeft, SchedulerGone
from ...roles.inquiries import Inquiries
from ...roles.local_scheduler.scheduler import INLINE_BYTES_MAX
from ...roles.work_effects import SessionEnds
from ...version import __version__
from ...wire import groups, hosts, orders, session
from ...wire.allowed import targets_of_process
from ...wire.codec import decode
from ...wire.message import PROTOCOL_VERSION
from ..cluster.admin_commands import Orders
from ..links.compatibility import protocol_of_hello, why_not
from ..links.process_links import Peer
from ..links.violations import Offences
from .node_resources import fact_of_only_node

if TYPE_CHECKING:
    from .node import Node


class Doorman:
    """The host's own role for the reactor: it handles messages addressed to the node as a host."""

    def __init__(self, node: Node, driver_pid: int) -> None:
        self.node = node
        self.address = f"{node.host}/host"
        self.offences = Offences()
        self.orders = Orders(node)
        self.inquiries = Inquiries()
        self.roles_of_kind: dict[str, dict[type, Any]] = {}
        self.driver_pid = driver_pid  # 0: the session outlives its drivers
        self.owner = ""  # the driver with which the session ends
        self.pidfds: dict[str, int] = {}  # of drivers and commands, by address
        self.lives: dict[str, int] = {}  # of drivers, likewise: pipes that hang up when they become other programs
        self.jobs: dict[str, bytes] = {}  # of drivers, likewise
        self.pids: dict[str, int] = {}  # of drivers, likewise
        self.count = 0

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Goodbye, StopSession, GetStatus and GetNodes; HostAdded and HostRemoved; an Ack needs nothing more."""
        if type(message) is session.Goodbye:
            self.process_left(sender, message.reason or "said goodbye")
            self._say(sender, session.GoodbyeReply())
        elif type(message) is session.StopSession:
            self.node.end("told to stop")
        elif type(message) is session.GetStatus:
            self._say(sender, self._status(message.request))
        elif type(message) is hosts.GetNodes:
            return self._ask_for_nodes(sender, message)
        elif type(message) is hosts.NodesReply:
            self.inquiries.answered(message)
        elif type(message) in orders.ORDERS:
            self._say(sender, self.orders.obey(message))
        elif type(message) is HeadChanged:
            return list(self.inquiries.ask_again(self._scheduler))
        elif type(message) is hosts.HostAdded and self.node.membership is not None:
            self.node.membership.add(message)
        elif type(message) is hosts.HostRemoved and self.node.membership is not None:
            self.node.membership.remove(message)
        return []

    def _ask_for_nodes(self, sender: str, message: hosts.GetNodes) -> list[Any]:
        """Ask a global scheduler for the cluster's nodes; without a cluster, answer with this node."""
        local = self.node.local
        if self.node.membership is None:
            store: Any = self.node.reactor.role_by_address[local.addresses.object_manager]
            fact = fact_of_only_node(local, store.ranges.used_bytes)
            self._say(sender, hosts.NodesReply(message.request, [fact]))
            return []
        return [self.inquiries.ask(self._scheduler, message, lambda reply: self._say(sender, reply))]

    @property
    def _scheduler(self) -> str:
        """The global scheduler to ask."""
        return self.node.local.addresses.global_schedulers[0]

    def scheduler_gone(self, scheduler: str) -> None:
        """Handle the end of a global scheduler alone: repeat its open questions to another one."""
        self.node.tell_local(SchedulerGone(scheduler))
        self.node.reactor._perform(self.address, list(self.inquiries.ask_again(self._scheduler, scheduler)))

    def ask_for_reader(self, message: hosts.GetNodes, answer: Callable[[hosts.NodesReply], None]) -> None:
        """Answer GetNodes of a reader, which is no process of this machine."""

        def answer_all(reply: hosts.NodesReply) -> None:
            answer(hosts.NodesReply(reply.request, reply.nodes, self._stalls()))

        self.node.reactor._perform(self.address, [self.inquiries.ask(self._scheduler, message, answer_all)])

    def _stalls(self) -> list[str]:
        """Describe the shards that do not answer; at the head also its processes, and what its user has accepted."""
        head = self.node.head
        return [*self.node.local.members.stalls(), *(head.troubles if head is not None else ())]

    def _say(self, address: str, message: Any) -> None:
        self.node.reactor.outbox.setdefault(address, []).append(message)

    def _status(self, request: int) -> session.StatusReply:
        """Return the counters of all roles in one reply."""
        node = self.node
        resources = node.local.resources
        total, free = groups.plain(resources.total), groups.plain(resources.free)
        trouble = node.local.members.silence()
        stalls = self._stalls()
        programs = [process.pid for process in node.local.processes.values() if process.kind == "driver"]
        notes = node.head.notes if node.head is not None else []
        return session.StatusReply(
            request, node.node_id, node.session.name, total, free, node.counts(), trouble, stalls, programs, notes
        )

    # --- coming in ---

    def hello(self, identity: bytes, frame: bytes) -> None:
        """The first frame of a connection."""
        node = self.node
        try:
            envelope = decode(frame)
        except ProtocolError as error:
            spoken = protocol_of_hello(frame)
            if spoken is None or spoken == PROTOCOL_VERSION:
                node.peers.bad_frame(identity, str(error))
            else:
                self._refuse(identity, why_not("session", "process", spoken, "", ""))
            return
        hello = envelope.messages[0] if envelope.messages else None
        if type(hello) is not session.Hello or envelope.sequence != 1 or envelope.acknowledged:
            node.peers.bad_frame(identity, "not a Hello")
            return
        refusal = self._why_not(hello)
        if refusal:
            self._refuse(identity, refusal)
            return
        if hello.kind == "worker":
            address = self._worker_address(hello)
            node.workers.joined(address)
        else:
            self.count += 1
            address = f"{hello.kind}-{self.count}"
            self._watch(address, hello)
            if hello.kind == "driver" and hello.pid == self.driver_pid and not self.owner:
                self.owner = address
        self._let_in(Peer(address, identity, self._roles_for(hello.kind)), hello, frame)

    def _roles_for(self, kind: str) -> dict[type, Any]:
        """Return the role that receives each message type of such a process."""
        found = self.roles_of_kind.get(kind)
        if found is None:
            local = self.node.local
            targets = {"local": local.address, "objects": local.addresses.object_manager, "host": self.address}
            by_address = self.node.reactor.role_by_address
            table = targets_of_process(kind, targets)
            found = self.roles_of_kind[kind] = {message: by_address[address] for message, address in table.items()}
        return found

    def _let_in(self, peer: Peer, hello: session.Hello, frame: bytes) -> None:
        node, address = self.node, peer.address
        peer.link.unpack(frame)
        node.peers.add(peer)
        self._say(address, session.Welcome(address, node.node_id, node.session.name, INLINE_BYTES_MAX, __version__))
        if hello.kind == "command":
            return  # a command asks and orders, without a job
        if hello.kind == "driver":
            self.jobs[address], self.pids[address] = hello.job_id, hello.pid
        node.tell_local(ProcessJoined(address, hello.kind, hello.pid, hello.job_id, hello.worker_id, hello.facts))

    def _refuse(self, identity: bytes, reason: str) -> None:
        self.node.log(f"refused: {reason}")
        self.node.peers.refuse(identity, session.HelloRefused(reason))

    def _worker_address(self, hello: session.Hello) -> str:
        return f"{self.node.local.pool.prefix}{hello.worker_id}"

    def _why_not(self, hello: session.Hello) -> str:
        # A command carries no values: `zray stop` of a newer zray still ends an older session.
        version = hello.version if hello.kind != "command" else ""
        refusal = why_not("session", hello.kind[:40], hello.protocol, version, hello.python)
        if refusal:
            return refusal
        try:
            os.close(os.pidfd_open(hello.pid))
        except (OSError, OverflowError):
            return f"no process {hello.pid} on this machine"
        if hello.kind == "worker":
            address = self._worker_address(hello)
            is_ordered = address in self.node.workers.windows and address not in self.node.peers.by_address
            return "" if is_ordered else "a worker that was not ordered"
        if hello.kind == "driver" and len(hello.job_id) != JOB_ID_BYTES:
            return "a driver without a job id"
        return "" if hello.kind in ("driver", "command") else f"a {hello.kind!r} is not known here"

    # --- leaving ---

    def _watch(self, address: str, hello: session.Hello) -> None:
        pidfd = self.pidfds[address] = os.pidfd_open(hello.pid)
        self.node.reactor.watch(pidfd, lambda: self.process_left(address, "process has ended"))
        if hello.kind == "driver" and (life := self.node.session.follow_life(hello.job_id)) is not None:
            self.lives[address] = life
            self.node.reactor.watch(life, lambda: self.process_left(address, "program has ended"))

    def process_left(self, address: str, reason: str) -> None:
        """A driver or a command is gone, or leaves."""
        pidfd = self.pidfds.pop(address, None)
        if pidfd is None:
            return
        for descriptor in (pidfd, self.lives.pop(address, None)):
            if descriptor is not None:
                self.node.reactor.unwatch(descriptor)
                os.close(descriptor)
        if address.startswith("command-"):
            self.node.reactor.leaving.append(address)
            return
        self.node.workers.process_ended(self.pids.pop(address))
        if address == self.owner:
            self.owner_left(reason)  # nobody needs to undo what it had submitted: all of it ends
        else:
            self.node.tell_local(ProcessLeft(address, reason))
            self.node.session.remove_job(self.jobs.pop(address))

    def starter_ended(self) -> None:
        """End after the starting program: the node's driver, or the program to which the node is bound."""
        if self.driver_pid:
            self.owner_left("has ended")
        else:
            self.node.end("the program that started it has ended")

    def owner_left(self, reason: str) -> None:
        """End the session with the program that began it; tell the other joined programs."""
        if not self.node.session_end.reason:
            self.farewell(f"the program that began the session (process {self.driver_pid}) has left, which ends it")
        self.node.end(f"its driver {reason}")

    def drop(self, peer: Peer, error: Exception) -> None:
        """Drop a process that sent a malformed message, or a message that fails its role: tell it, and treat it as
        dead.
        """
        if peer.address not in self.node.peers.by_address:
            return  # dropped already, in this turn
        if not isinstance(error, ProtocolError):
            self.node.log("".join(traceback.format_exception(error)))
        reason = f"the node could not handle what this process sent ({type(error).__name__}: {error})"
        self.node.log(f"dropped {peer.address}: {reason}")
        self.node.peers.send(peer.address, [session.ProcessDropped(reason)])
        self.node.peers.remove(peer.address)
        if peer.address in self.pidfds:
            self.process_left(peer.address, "was dropped: it sent a message that cannot be handled")
        else:
            self.node.workers.kill(peer.address)

    def stuck(self, peer: Peer) -> None:
        """Drop a process that sends requests without reading the answers."""
        self.drop(peer, ProtocolError("it sends requests and does not read the answers"))

    def offend(self, peer: Peer, message: Any) -> None:
        """Handle a forbidden message: count, reply; drop the process after too many."""
        reason = f"PermissionDenied: {peer.address} may not send {type(message).__name__}"
        if self.offences.note(peer.address, time.monotonic()):
            self.drop(peer, ProtocolError(f"{reason}, and too many such messages came before"))
            return
        self.node.peers.bad_frame(peer.identity, reason)
        self._say(peer.address, hosts.MessageRefused(reason))

    def farewell(self, reason: str) -> None:
        """Tell the remaining processes why the node ends."""
        for address in self.pidfds:
            self.node.peers.send(address, [session.ProcessDropped(reason)])


class SessionEnd:
    """End of the session of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.reason = ""  # why, once the session ends
        self.is_told_by_signal = False

    def begin(self, reason: str) -> None:
        """Begin the end: after this turn, or after actors have stopped."""
        if self.reason or self.node.reactor.ended:
            return
        self.reason = reason
        if self.node.local.ends.are_due():
            self.node.tell_local(SessionEnds())
        else:
            self.complete()

    def complete(self) -> None:
        """End after this turn, without any further wait."""
        self.node.reactor.ended = self.node.reactor.ended or self.reason

    def on_signal(self) -> None:
        """Handle SIGTERM, at any point of the code.  A second signal does not wait for actors."""
        if self.is_told_by_signal:
            self.node.reactor.end_soon("told to by a second signal")
        self.is_told_by_signal = True
        self.node.reactor.deliver_from_thread(self.node.doorman.address, session.StopSession())
