"""Membership of a node in a cluster, and how a node joins with a token; admission.py is the head's side.

    newcomer  connects to the head's port with the token's key, and sends JoinCluster with a key of its own
    head      enters the new key into its ring, and answers with the addresses of the roles
    newcomer  opens a port of its own, connects to the head again with its own key, and registers with the monitor
    monitor   tells all nodes of each other (NodeJoined -> MeetHost): the later node connects

The head serves its cluster on one TCP port, and so does every node.  Without a cluster all of this is absent: no port,
no gate, no keys.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import zmq

from ...exceptions import AuthenticationError, ProtocolError, ZrayError
from ...roles.effects import Finding, HeadChanged, MeetHost, ProbeHost, Send
from ...roles.local_scheduler.addresses import Addresses
from ...roles.local_scheduler.membership.lease import HEAD_WAIT_SECONDS
from ...roles.work_effects import HoldBack
from ...version import __version__
from ...wire import gcs, hosting, hosts, scheduling
from ...wire.codec import decode_mail
from ...wire.link import open_unnumbered, unnumbered
from ...wire.message import PROTOCOL_VERSION, Message
from ..links.compatibility import python_version
from ..links.dialer import DENIED, UNANSWERED, WRONG_KEY, Dealer
from ..links.host_link import HELD_BYTES_MAX, Neighbour
from ..links.host_links import Neighbours
from ..links.probe import Probes, why_no_node, why_unreached
from ..links.process_links import Peers
from ..links.relay_tunnel import Tunnels
from ..links.route_selection import Detours
from ..process.interpreter import checked_hash_seed
from ..security.keyring import Key, KeyPair, KeyRing, Token, key_of, require_curve
from .registration import Entrance
from .replica_processes import HostedReplicas

if TYPE_CHECKING:
    from ..reactor import Reactor
    from ..session.session import Session
    from ..session.session_info import SessionInfo

# The head may be busy with many newcomers, or stand still for a moment: the question is repeated meanwhile.
JOIN_SECONDS = 20.0
# The head may be just about to start.
NOBODY_SECONDS = 3.0
# The refusal for a reader that sends more than status questions; and the text for a user who joins with its token.
READER_MAY_NOT = "PermissionDenied: a reader may not send"
TAKES_ANOTHER = (
    "  Joining needs the token that `zray start --head` printed there, or one of `zray keys token`; this token "
    "serves `zray status --address` only."
)
# Probes of a silent head follow each other within a second and a half.
LOOKS_SECONDS = 3.0
BRIEF_SECONDS = 1.0
# Why a program outside the cluster is not admitted again: the head has dropped messages for it.
WAS_SILENT = (
    "the head had no heartbeat of it for too long, or its silence left more data waiting for it than one node keeps, "
    f"{HELD_BYTES_MAX >> 20} MiB"
)


class HeadSilence:
    """Results of probes of a head that answers no heartbeats: one log line for each change."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.log = log
        self.noted: Finding | None = None  # in the present silence
        self.began_at = self.looked_at = float("-inf")

    def looked(self, endpoint: str, finding: Finding, now: float) -> None:
        """Note one probe.  An answering process is logged only if the silence lasts: at a join, or when either side was
        busy, the heartbeat's answer is still on its way.
        """
        if now - self.looked_at > LOOKS_SECONDS:
            self.began_at, self.noted = now, None  # answers came in between
        self.looked_at = now
        is_brief = finding is Finding.ANSWERS and now - self.began_at < BRIEF_SECONDS
        if finding is not self.noted and not is_brief:
            self.log(f"the head at {endpoint} answers no heartbeats: {finding.value}")
            self.noted = finding


class Membership:
    """State of a node as a member of a cluster."""

    def __init__(self, kind: str, host: str, neighbours: Neighbours, addresses: Addresses, head: str) -> None:
        self.kind = kind  # "head", "node", "driver"
        self.host = host
        self.neighbours = neighbours
        self.probes = Probes(host)
        self.tunnels: Tunnels | None = None  # None on the head only
        self.detours: Detours | None = None
        self.entrance: Entrance | None = None
        self.addresses = addresses
        self.head = head  # the head's id
        self.policy = scheduling.BOTTOM_UP  # as in wire/scheduling.POLICIES
        self.hash_seed = ""  # of hash() in all tasks of the cluster
        self.chains = f"{head}/chains"  # the chain master
        self.on_scheduler_gone: Callable[[str], None] = lambda role: None
        self.head_wait = HEAD_WAIT_SECONDS  # how long this node waits for a head that has ended or is suspended
        self.endpoint = ""  # where we listen
        self.advertised = ""  # the address at which others reach this node, if different
        self.cluster = ""  # the address by which the cluster is known
        self.notice = ""  # a text about the addresses, for people
        self.called = ""  # as in SessionInfo
        self.silence = HeadSilence(neighbours.log)
        self.head_key: Key | None = None  # on a newcomer, which connects to the head
        self.hosted: HostedReplicas | None = None  # replica processes that a joined node runs for the cluster

    @property
    def helpers(self) -> list[Any]:
        """The objects that receive timers and messages from the reactor."""
        keeper = self.hosted.keeper if self.hosted is not None else None
        helpers = (self.neighbours, self.probes, self.tunnels, self.detours, self.entrance, keeper)
        return [helper for helper in helpers if helper is not None]

    def describe(self, info: SessionInfo) -> None:
        """Our part of node.json."""
        info.cluster, info.kind, info.called = self.cluster, self.kind, self.called
        info.endpoint, info.notice = self.endpoint, self.notice

    def host_replicas(self, session: Session, *, is_willing: bool) -> Membership:
        """Prepare to run replicas of shards for the head, unless the user forbade it.  The node of a program outside
        the cluster runs none.
        """
        if self.kind == "node":
            self.hosted = HostedReplicas(session, self, self.neighbours.log, is_willing=is_willing)
        return self

    def effects(self, peers: Peers) -> dict[type, Any]:
        """Return the effects performed here, with their functions. peers: the local processes."""
        hosted = self.hosted.effects() if self.hosted is not None else {}
        return {HoldBack: lambda role, effect: peers.hold(role, effect.is_held), **hosted}

    def attach(self, loop: Reactor) -> None:
        """Attach to the reactor's loop, for its roles."""
        self.neighbours.attach(loop, loop.role_by_address)
        self.neighbours.on_given_up = lambda it, reason: self._give_up(loop, it, reason)
        self.probes.attach(loop)
        if (tunnels := self.tunnels) is not None:
            tunnels.attach(loop, lambda message: loop.box(tunnels.address, f"{self.head}/relay").append(message))
        if self.hosted is not None:
            self.hosted.attach(loop)

    def _give_up(self, loop: Reactor, neighbour: Neighbour, reason: str) -> None:
        """Report that this node can no longer reach a host: only the monitor declares a node dead, for the whole
        cluster.

        The node of a program outside the cluster has no vote: it leaves.  The end of the head and of its processes is
        reported by other means.
        """
        local, node = f"{self.host}/local", f"{neighbour.host}/local"
        if neighbour.key.kind == "replica" and neighbour.key.node:
            loop.box(f"{self.host}/host", f"{self.head}/hosting").append(hosting.ReplicaStuck(neighbour.host))
        elif self.kind == "driver" and neighbour.key.kind in ("node", "driver"):
            loop.deliver(local, gcs.NodeLost(local, f"host {neighbour.host} was declared dead by this node: {reason}"))
        elif neighbour.key.kind in ("node", "driver"):
            loop._perform(local, [Send(self.addresses.monitor, gcs.GiveUpNode(node, reason))])

    def close(self) -> None:
        """Close everything that the links do not close."""
        if self.hosted is not None:
            self.hosted.close()
        self.probes.close()
        if self.detours is not None:
            self.detours.close()
        if self.tunnels is not None:
            self.tunnels.close()

    def meet(self, effect: MeetHost) -> None:
        """Handle MeetHost: the monitor has announced another node."""
        host = effect.node.partition("/")[0]
        # Whatever the message claims: the head is the host whose key came with our token.
        key = Key(effect.public_key, "driver" if effect.kind == "driver" else "node", host)
        self.neighbours.meet(host, key, effect.endpoint if effect.is_earlier else "")

    def lose(self, host: str, reason: str) -> None:
        """Drop a node that the monitor declared dead, or that left in order."""
        neighbour = self.neighbours.by_host.get(host)
        kind = neighbour.key.kind if neighbour is not None else "node"
        address = (neighbour.endpoint or neighbour.seen_at) if neighbour is not None else ""
        self.neighbours.log(f"{kind} {host}{f' ({address})' if address else ''} is no member any more: {reason}")
        self.neighbours.forget(host, reason, is_lost=True)

    def add(self, message: hosts.HostAdded) -> None:
        """HostAdded."""
        key = key_of(message)
        self.neighbours.meet(message.host, key, message.endpoint if message.is_earlier else "")
        if message.kind == "scheduler":
            for role in self.addresses.add_schedulers(message.roles, self.neighbours.gone):
                self.on_scheduler_gone(role)  # what it was handed after its end

    def remove(self, message: hosts.HostRemoved) -> None:
        """HostRemoved."""
        self.neighbours.forget(message.host)
        for role in self.addresses.remove_schedulers(message.host):
            self.on_scheduler_gone(role)

    def follow(self, welcome: hosts.HostWelcome) -> HeadChanged:
        """Follow a restarted head: forget the former head's own processes.  Returns the message for the roles."""
        former, self.head = self.head, welcome.host
        self.chains = f"{self.head}/chains"
        if self.tunnels is not None:
            self.tunnels.close()  # the former relay is gone
        for host, neighbour in list(self.neighbours.by_host.items()):
            if neighbour.key.kind in ("replica", "scheduler") and not neighbour.key.node:
                self.neighbours.forget(host)
        return HeadChanged(former, self.head, welcome.global_schedulers)

    def look(self, effect: ProbeHost, on_found: Callable[[Finding], None]) -> None:
        """ProbeHost."""
        host = effect.role.partition("/")[0]
        endpoint = effect.endpoint or self.cluster

        def found(finding: Finding) -> None:
            neighbour = self.neighbours.by_host.get(host)
            seen_at = neighbour.seen_at if neighbour is not None else ""
            if finding is Finding.ENDED and effect.endpoint and endpoint.rpartition(":")[0] != seen_at:
                finding = Finding.OUT_OF_REACH  # somebody else's machine, for all we know
            if not effect.endpoint:
                self.silence.looked(endpoint, finding, time.monotonic())
            on_found(finding)

        self.probes.look(endpoint, found)


def shard_names(count: int) -> list[str]:
    """Return the logical names of the shards, independent of their replicas."""
    return [f"gcs-{number}" for number in range(count)]


def addresses_of(host: str, head: str, schedulers: list[str], shards: int) -> Addresses:
    """Return the addresses of the other roles for a host: shards are reached through the host's own chain clients."""
    clients = [f"{host}/shard-{number}" for number in range(shards)]
    return Addresses(f"{host}/objects", schedulers, clients, f"{head}/monitor")


def join_cluster(
    host: str, folder: str, options: dict[str, Any], secret: bytes, log: Callable[[str], None]
) -> Membership:
    """Join a cluster as a newcomer.

    options: kind, address (HOST:PORT of the head), listen_host ("": the interface towards the head), port, advertise
    (HOST[:PORT] by which others reach this node, if different), head_wait, called (as in SessionInfo), former and why
    (as in nodes.start_member).

    folder: the session's folder.

    Raises:
        ZrayError: the join failed; the text says why.
    """
    require_curve()
    try:
        token = Token.decode(secret.decode("ascii", "replace"))
    except ValueError as error:
        raise AuthenticationError(str(error)) from error
    keys, ring = KeyPair.draw(), KeyRing()
    address, kind = options["address"], options["kind"]
    join = hosts.JoinCluster(
        PROTOCOL_VERSION, __version__, python_version(), host, kind, keys.public, options.get("former") or ""
    )
    reply = ask_head(address, token, join)
    neighbours = Neighbours(host, keys, ring, log)
    listen_host = options.get("listen_host") or address_towards(address)
    try:
        port = neighbours.listener.bind(listen_host, options.get("port") or 0)
    except OSError as error:
        raise ZrayError(f"This node cannot listen where it should: {error.strerror or error}.") from error
    addresses = addresses_of(host, reply.head, reply.global_schedulers, len(reply.shards))
    membership = Membership(kind, host, neighbours, addresses, reply.head)
    membership.endpoint = f"{listen_host}:{port}"
    if advertise := options.get("advertise"):
        membership.advertised = advertise if ":" in advertise else f"{advertise}:{port}"
    elif reply.seen_address != listen_host and not options.get("listen_host"):
        membership.notice = (
            f"The head sees connections of this node from {reply.seen_address}, not from {listen_host}: a router lies "
            f"between.  Nodes that cannot reach {membership.endpoint} go through the head; --advertise names a port of "
            "the router's that leads here, if there is one."
        )
    membership.cluster, membership.policy = address, reply.policy
    membership.hash_seed = checked_hash_seed(reply.hash_seed)
    membership.head_wait = options.get("head_wait") or membership.head_wait
    membership.called = options.get("called") or ""
    membership.tunnels = Tunnels(host, membership.endpoint, folder, log)
    membership.detours = Detours(neighbours, membership.tunnels)
    membership.entrance = Entrance(host)
    # The node was declared dead while no message could reach it.
    why = WAS_SILENT if kind == "driver" else f"the head refuses the key of this node, so {hosts.WAS_LOST}"
    neighbours.on_denied = lambda host: neighbours.on_expelled(host, why)
    membership.head_key = Key(token.head_public, "head", reply.head)
    former = options.get("former")
    place = (
        f", in the place of host {former}, which ended: {options.get('why') or 'the reason is not known'}"
        if former
        else ""
    )
    log(f"{kind} {host} of the cluster at {address}, reached at {membership.advertised or membership.endpoint}{place}")
    if membership.notice:
        log(membership.notice)
    return membership


def address_towards(address: str) -> str:
    """Return the address of this machine from which packets to the given address leave."""
    name, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((name, int(port)))
        found: str = probe.getsockname()[0]
        return found


def ask_head(address: str, token: Token, join: hosts.JoinCluster) -> hosts.JoinClusterReply:
    """Send JoinCluster and wait for the answer.

    Raises:
        ZrayError: the head refused, or no head answered.
    """
    started = time.monotonic()
    context: zmq.Context[Any] = zmq.Context(io_threads=1)
    has_broken_off = False
    try:
        while True:
            dealer = Dealer(context, token.pair, address, token.head_public, unnumbered(join))
            try:
                reply = wait_for_reply(dealer, started + JOIN_SECONDS)
            finally:
                dealer.close()
            if type(reply) is hosts.JoinClusterReply:
                return reply
            if isinstance(reply, (hosts.JoinRefused, hosts.HostRefused)):
                is_reader = reply.reason.startswith(READER_MAY_NOT)
                raise (AuthenticationError if join.former or is_reader else ZrayError)(
                    f"The cluster at {address} refuses this {'program' if join.kind == 'driver' else 'node'}: "
                    f"{reply.reason}." + TAKES_ANOTHER * is_reader
                )
            if dealer.over in (WRONG_KEY, UNANSWERED) and (why := why_no_node(address)):
                raise ZrayError(f"Cannot join the cluster at {address}: {why}.")
            patience = JOIN_SECONDS if dealer.is_let_in or dealer.over == UNANSWERED else NOBODY_SECONDS
            may_ask_again = dealer.is_let_in or dealer.over == UNANSWERED or not dealer.has_connected
            if dealer.over == WRONG_KEY and not has_broken_off:
                may_ask_again = has_broken_off = True  # a head that ends in the middle of the handshake looks the same
            if may_ask_again and time.monotonic() < started + patience:
                select.select([], [], [], 0.1)
                continue
            if dealer.over == DENIED:
                raise AuthenticationError(
                    f"The cluster at {address} does not know this token, or it has expired or been used up: "
                    "take the one that `zray start --head` printed there, or print another there by `zray keys token`."
                )
            if dealer.over == WRONG_KEY:
                raise AuthenticationError(f"Cannot join the cluster at {address} with this token: {WRONG_KEY}.")
            why = f"{dealer.over or UNANSWERED} (in {JOIN_SECONDS:g} s)"
            if not dealer.has_connected:
                why = why_unreached(address)
            doctor = f"`zray doctor --to {address}` tries the way there step by step."
            raise ZrayError(f"Cannot join the cluster at {address}: {why}.  {doctor}")
    except zmq.ZMQError as error:
        raise ZrayError(f"Cannot join the cluster at {address}: {error}.") from error
    finally:
        context.destroy(linger=0)


def ask_once(address: str, token: Token, question: Message, seconds: float) -> tuple[Message | None, Dealer]:
    """Ask the head a question under the token's key.  Returns the answer (None: too late) and the closed connection."""
    context: zmq.Context[Any] = zmq.Context(io_threads=1)
    try:
        dealer = Dealer(context, token.pair, address, token.head_public, unnumbered(question))
        try:
            return wait_for_reply(dealer, time.monotonic() + seconds), dealer
        finally:
            dealer.close()
    finally:
        context.destroy(linger=0)


def wait_for_reply(dealer: Dealer, deadline: float) -> Message | None:
    """Return the answer; None: too late, or the attempt has ended.

    Raises:
        ZrayError: the answer is malformed.
    """
    poll = select.poll()
    for descriptor in dealer.descriptors():
        poll.register(descriptor, select.POLLIN)
    while True:
        for frame, _ in dealer.hear(1):
            try:
                return open_unnumbered(decode_mail(frame))
            except ProtocolError as error:
                raise ZrayError(f"The head sent an answer that this version does not understand: {error}.") from error
        dealer.look()
        left = deadline - time.monotonic()
        if dealer.over or left <= 0:
            return None
        poll.poll(left * 1000)


def read_descriptor(descriptor: int) -> bytes:
    """Return the secret that was handed over; "" if absent."""
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
