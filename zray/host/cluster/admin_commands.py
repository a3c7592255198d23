"""Commands of the command line for a head: keys (wire/orders.py), and the drain of nodes (wire/drains.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...roles.effects import DrainOrdered, HostLeft
from ...roles.monitor import DRAINED
from ...store.durable import StoreError
from ...wire.drains import DrainNode, DrainReply, OrderDrain
from ...wire.message import Message
from ...wire.orders import DrawToken, GetKeys, KeyFact, KeysReply, OrderReply, RevokeKey, TokenReply
from ..security.keyring import Key, Token

if TYPE_CHECKING:
    from ..node.node import Node
    from .head import Head

# One year.  Tokens with longer lives are forgotten about.
TOKEN_SECONDS_MAX = 366 * 24 * 3600.0
TOKEN_USES_MAX = 1_000_000
DRAIN_SECONDS_MAX = 1e9


class Orders:
    """The commands of administrators that one node accepts."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def obey(self, message: Any) -> Message:
        """Carry out one command and return the answer."""
        head = self.node.head
        member = self.node.membership
        is_own = type(message) is OrderDrain and message.name == self.node.host
        if is_own and member is not None and member.kind == "node":
            return self._drain_itself(message)
        if head is None:
            return OrderReply(message.request, [], self._whose())
        if type(message) is GetKeys:
            return KeysReply(message.request, self._keys(head))
        if type(message) is RevokeKey:
            return self._revoke(head, message)
        if type(message) is OrderDrain:
            return self._drain(head, message)
        return self._draw_token(head, message)

    def _whose(self) -> str:
        """Return the reason for which this node refuses commands."""
        member = self.node.membership
        if member is None:
            return "this session belongs to no cluster"
        return f"the command is for the head of the cluster: run it on the machine of {member.cluster}"

    # --- keys ---

    def _keys(self, head: Head) -> list[KeyFact]:
        ring, links = head.links.ring, head.links
        found = []
        for key in ring.keys.values():
            seconds = None if key.expires_at == float("inf") else max(0.0, key.expires_at - ring.clock())
            neighbour = links.by_host.get(key.name)
            is_up = neighbour is not None and neighbour.is_up
            seen_at = neighbour.seen_at if neighbour is not None else ""
            refusal = ring.why_not(key.public)
            found.append(KeyFact(key.name, key.kind, key.public, seconds, key.uses_left, refusal, seen_at, is_up))
        return found

    def _revoke(self, head: Head, message: RevokeKey) -> OrderReply:
        keys = [key for key in head.links.ring.keys.values() if not key.is_revoked]
        found = [key for key in keys if key.name == message.name]
        found = found or [key for key in keys if message.name and key.name.startswith(message.name)]
        if len({key.name for key in found}) != 1:
            what = "several keys have names that begin so" if found else "no valid key has this name"
            if message.name and not found and self.node.host.startswith(message.name):
                return OrderReply(message.request, [], f"{self.node.host} is the head: end it by `zray stop`")
            return OrderReply(message.request, [], f"{message.name[:80]!r}: {what}; `zray keys list` shows them")
        if found[0].kind in ("replica", "scheduler", "head"):
            text = f"{found[0].name} is the head's own {found[0].kind}: its key ends with its process"
            return OrderReply(message.request, [], text)
        for key in found:
            self._let_in_no_more(head, key)
        return OrderReply(message.request, [f"{key.kind} {key.name}" for key in found])

    def _let_in_no_more(self, head: Head, key: Key) -> None:
        """Revoke a key at once: all hosts are told and cut their links to its owner."""
        reason = "its key was revoked"
        head.state.roster.revoke(key)
        head.links.log(f"{key.kind} {key.name}: {reason}")
        if f"{key.name}/local" in head.monitor.nodes:
            self.node.reactor.deliver(head.monitor.address, HostLeft(f"{key.name}/local", reason))
        elif key.kind not in ("joiner", "reader"):
            head.links.forget(key.name, reason)

    # --- nodes ---

    def _drain(self, head: Head, message: OrderDrain) -> Message:
        """Start the drain of a node, or report its progress."""
        monitor, request = head.monitor, message.request
        gone = [node for node in monitor.lost if message.name and node.startswith(message.name)]
        there = [node for node in monitor.nodes if message.name and node.startswith(message.name)]
        if len(there) != 1:
            if not there and len(gone) == 1:
                verdict = head.state.roster.lost.get(
                    gone[0], "it was declared dead; the reason is not recorded any more"
                )
                reason = "" if verdict == DRAINED else verdict
                return DrainReply(request, gone[0].partition("/")[0], [], True, reason)
            what = "several nodes have ids that begin so" if there else "no node has an id that begins so"
            return OrderReply(request, [], f"{message.name[:80]!r}: {what}; `zray status` shows them")
        (node,) = there
        member = monitor.nodes[node]
        if member.facts.kind != "node":
            what = "the head: end it by `zray stop`" if member.facts.kind == "head" else "of a program"
            return OrderReply(request, [], f"{node.partition('/')[0]} is {what}")
        draining = member.draining
        seconds = message.seconds if 0 < message.seconds < DRAIN_SECONDS_MAX else 0.0
        if draining is None or draining.seconds != seconds:
            self.node.reactor.deliver(monitor.address, DrainOrdered(node, seconds))
        waits_for = draining.waits_for if draining is not None else ["its answer"]
        return DrainReply(request, node.partition("/")[0], waits_for)

    def _drain_itself(self, message: OrderDrain) -> Message:
        """Have this node leave: its reports tell the monitor (roles/local_scheduler/membership/drain.py)."""
        self.node.reactor.deliver(self.node.local.address, DrainNode())
        return DrainReply(message.request, self.node.host, [])

    # --- tokens ---

    def _draw_token(self, head: Head, message: DrawToken) -> Message:
        if not 0 < message.seconds <= TOKEN_SECONDS_MAX or not 0 < message.uses <= TOKEN_USES_MAX:
            days = TOKEN_SECONDS_MAX / 86_400
            text = f"a token is valid for at most {days:g} days, and from 1 to {TOKEN_USES_MAX:,} joins"
            return OrderReply(message.request, [], text)
        if message.kind not in ("joiner", "reader"):
            return OrderReply(message.request, [], f"there are no tokens of the kind {message.kind[:40]!r}")
        token = Token.draw(head.links.keys.public)
        key = token.key(head.links.ring.clock(), message.seconds, message.uses)
        if message.kind == "reader":
            key = Key(key.public, "reader", f"reader-{key.public.hex()[:8]}", key.expires_at)
        try:
            head.state.roster.enter(key)
        except StoreError as error:
            return OrderReply(message.request, [], f"the change cannot be recorded: {error}")
        return TokenReply(message.request, token.encode(), head.endpoint)
