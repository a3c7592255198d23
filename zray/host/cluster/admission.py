"""Admission to a cluster: a head starts to listen, and admits hosts that show a token (membership.py).

A head that starts on the state folder of an earlier head has the same key, port, tokens and key ring, but a new host
id.  Nodes that still run find the head at the old address (host_links.py), and register again.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from ...exceptions import ZrayError
from ...roles.local_scheduler.addresses import Addresses
from ...store.durable import StoreError
from ...wire import hosts, scheduling
from ...wire.message import Message
from ..links.compatibility import what_differs, why_not
from ..links.host_links import Neighbours
from ..links.listener import Listener
from ..process.interpreter import checked_hash_seed
from ..security.keyring import KEY_BYTES, Key, require_curve, write_secret
from ..session.session import Session
from .head_state import POLL_SECONDS, StateFolder
from .membership import Membership, addresses_of, shard_names
from .membership_log import Roster

HEAD_PORT = 6379
# How long a restarted head waits for its port.
PORT_SECONDS = 5.0
HOST_ID_LENGTH = 16
# Why a host is refused whose version fits, but whose request names no host (doctor.py).
NEEDS_NEW = "a new host id and a new key are needed"


def found_cluster(
    session: Session, host: str, state: StateFolder, port: int | None, log: Callable[[str], None]
) -> Membership:
    """Found a cluster as its head: listen, and admit the hosts of the recorded state.  The token for others is written
    to the session's folder too.

    port: the requested port (0: any; None: the usual port, or any).  The port in the state, if any, is used again.

    Raises:
        ZrayError: CURVE is absent, the state cannot be used, or the address is not available.
    """
    require_curve()
    keys, plan = state.head_keys(), state.plan
    token = state.token(keys.public)
    addresses = addresses_of(host, host, [], plan.shards)
    admission = Admission(host, state.roster, addresses)
    neighbours = Neighbours(host, keys, state.roster.ring, log, on_join=admission.join)
    admission.neighbours = neighbours
    membership = Membership("head", host, neighbours, addresses, host)
    membership.policy = admission.policy = plan.policy
    plan.hash_seed = membership.hash_seed = admission.hash_seed = checked_hash_seed(plan.hash_seed)
    is_usual = port is None and not plan.port
    try:
        port = bind_head(neighbours.listener, state, port)
    except OSError as error:
        raise ZrayError(f"This head cannot listen where it should: {error.strerror or error}.") from error
    if is_usual and port != HEAD_PORT:
        membership.notice = f"Port {HEAD_PORT} is taken, so this head listens on port {port}; --port names another one."
    state.settle(port)
    neighbours.welcome = lambda: hosts.HostWelcome(host, list(addresses.global_schedulers))
    membership.cluster = membership.endpoint = f"{plan.host}:{port}"
    write_secret(session.token_path, token.encode().encode())
    log(f"head of a cluster at {membership.cluster}")
    if membership.notice:
        log(membership.notice)
    return membership


def bind_head(listener: Listener, state: StateFolder, asked: int | None) -> int:
    """Return the port.

    Raises:
        OSError: no port is available.
    """
    plan = state.plan
    if plan.port or asked is not None:
        is_former = plan.port and plan.port == state.former_port
        deadline = time.monotonic() + (PORT_SECONDS if is_former else 0.0)
        while True:
            try:
                return listener.bind(plan.host, plan.port)
            except OSError as error:
                # A connection to the former head may hold the port for a moment.
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)
    try:
        return listener.bind(plan.host, HEAD_PORT)
    except OSError:
        return listener.bind(plan.host, 0)


class Admission:
    """The head's side of joining."""

    neighbours: Neighbours

    def __init__(self, host: str, roster: Roster, addresses: Addresses) -> None:
        self.host = host
        self.roster = roster
        self.addresses = addresses  # the head's own
        self.policy = scheduling.BOTTOM_UP
        self.hash_seed = ""

    def join(self, message: hosts.JoinCluster, token: Key, seen_address: str) -> Message:
        """Return the answer to JoinCluster."""
        key = Key(message.public_key, message.kind, message.host)
        is_again = self._asks_again(key)
        refusal = self._why_not(message, is_again=is_again)
        if refusal:
            return hosts.JoinRefused(refusal)
        try:
            if not is_again:
                self.roster.join(token, key, seen_address)
        except StoreError as error:
            self.neighbours.log(f"{message.kind} {message.host} cannot join: {error}")
            return hosts.JoinRefused(f"the head cannot record that this host joins ({error})")
        self.neighbours.meet(message.host, key, "")
        again = ", once more" * is_again
        self.neighbours.log(f"{message.kind} {message.host} joins from {seen_address} with {token.name}{again}")
        if notice := what_differs("cluster", message.kind, message.version):
            self.neighbours.log(notice)
        at = self.addresses
        shards = shard_names(len(at.shards))
        chains = f"{self.host}/chains"
        schedulers = list(at.global_schedulers)
        where = (self.host, at.monitor, schedulers, shards, seen_address, chains)
        return hosts.JoinClusterReply(*where, self.policy, self.hash_seed)

    def _asks_again(self, key: Key) -> bool:
        """Return whether that key was admitted but no host has connected with it: the first answer was lost."""
        neighbour = self.neighbours.by_host.get(key.name)
        return neighbour is not None and neighbour.key == key and not neighbour.seen_at

    def _why_not(self, message: hosts.JoinCluster, *, is_again: bool) -> str:
        refusal = why_not("cluster", "newcomer", message.protocol, message.version, message.python or "unknown")
        if refusal:
            return refusal
        is_id = len(message.host) == HOST_ID_LENGTH and set(message.host) <= set("0123456789abcdef")
        known = message.host in self.neighbours.by_host or message.host in self.neighbours.gone
        if is_again:
            return ""
        if not is_id or known or message.host == self.host or len(message.public_key) != KEY_BYTES:
            return NEEDS_NEW
        if message.public_key in self.roster.ring.keys:
            return "that key is known already"
        if message.former and not self._may_return(message.former):
            return f"the key of host {message.former[:HOST_ID_LENGTH]}, in whose place it would join, was revoked"
        return "" if message.kind in ("node", "driver") else f"a {message.kind[:40]!r} cannot join"

    def _may_return(self, host: str) -> bool:
        """Return whether the only mark against a host is that the cluster lost it.  A restarted head may not know the
        host.
        """
        keys = self.roster.ring.keys.values()
        return any(key.name == host and (key.is_lost or not key.is_revoked) for key in keys)
