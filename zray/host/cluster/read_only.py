"""A reader's key (docs/security.md, S5): it looks at a cluster, on the head's port or from outside, and does no more.

    reader  connects with the key of a token for readers, and says GetNodes outside the numbering
    head  asks a global scheduler, and answers NodesReply

A reader becomes no member, has no host and no roles.  Other messages are refused and counted; too many end the
connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...exceptions import ZrayError
from ...wire.hosts import GetNodes, HostRefused, NodesReply
from ...wire.link import unnumbered
from ...wire.message import Message
from ..links.dialer import DENIED
from ..links.listener import Arrival, Wire
from ..links.probe import why_unreached
from ..security.keyring import READS, Key, Token, require_curve
from .membership import READER_MAY_NOT, ask_once

if TYPE_CHECKING:
    from ..links.host_links import Neighbours

READ_SECONDS = 10.0


class Readers:
    """The head's side.  ask: has GetNodes answered, some time."""

    def __init__(self, links: Neighbours, ask: Callable[[GetNodes, Callable[[NodesReply], None]], None]) -> None:
        self.links = links
        self.ask = ask

    def hear(self, arrival: Arrival, key: Key, message: Message | None) -> None:
        """Handle one frame of a reader."""
        identity, links = arrival.identity, self.links
        if type(message) is GetNodes:
            self.ask(message, lambda reply: links.answer(identity, unnumbered(reply)))
            return
        name = type(message).__name__ if message is not None else "mail"
        links.refuse(identity, key, f"{READER_MAY_NOT} {name}: the key of a reader is for status questions only")
        if links.offences.note(key.name, time.monotonic()):
            Wire(arrival.frame).cut()


def read_cluster(address: str, secret: str) -> NodesReply:
    """Read the state of a cluster at its head, with a token for readers.

    Raises:
        ZrayError: the head refused, or no head answered.
    """
    require_curve()
    try:
        token = Token.decode(secret, READS)
    except ValueError as error:
        raise ZrayError(str(error)) from error
    reply, dealer = ask_once(address, token, GetNodes(1, with_dead=True), READ_SECONDS)
    if type(reply) is NodesReply:
        return reply
    if type(reply) is HostRefused:
        raise ZrayError(
            f"The cluster at {address} refuses that: {reply.reason}.  A reader's token is needed: `zray keys reader` "
            "on the head's machine prints one."
        )
    if dealer.over == DENIED:
        raise ZrayError(
            f"The cluster at {address} does not know this token, or it has expired: `zray keys reader` on the head's "
            "machine prints one."
        )
    why = (dealer.over or f"no answer in {READ_SECONDS:g} s") if dealer.has_connected else why_unreached(address)
    raise ZrayError(f"Cannot read the status of the cluster at {address}: {why}.")
