"""Dialog: what the command line asks and orders of the head of a cluster, through the session's own socket.

command line      GetKeys -> KeysReply         who is let in
command line      RevokeKey -> OrderReply      no more
command line      DrawToken -> TokenReply      what lets others join, or look
node              OrderReply                   also where it is not the head's, or cannot be: says why
"""

from __future__ import annotations

from msgspec import Struct

from .drains import OrderDrain
from .limits import Many, ShortBytes, Text
from .message import Message, Natural


class KeyFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A key that is, or was, let in.  Nothing of it is secret."""

    name: Text  # a host's id; of a token: "token-..."
    kind: Text  # "head", "node", "driver", "joiner" (a token), "reader", "replica", "scheduler"
    public: ShortBytes
    seconds_left: float | None  # None: it does not expire
    uses_left: int  # -1: does not matter
    refusal: Text  # why it is refused; "": it is let in
    seen_at: Text  # the address that its host joined from
    is_up: bool  # there is a connection


class GetKeys(Message, tag=190):
    """command line -> node.  Ask for a KeysReply."""

    request: int


class KeysReply(Message, tag=191):
    """node -> command line.  All keys of the cluster; a refusal says why there are none."""

    request: int
    keys: Many[KeyFact]


class RevokeKey(Message, tag=192):
    """command line -> node.  Let these in no more: a host's id, a token's name, or how they begin."""

    request: int
    name: Text


class DrawToken(Message, tag=193):
    """command line -> node.  A new token lets others join, for so long, so often; or look, however often."""

    request: int
    seconds: float
    uses: Natural
    kind: Text = "joiner"  # or "reader"


class TokenReply(Message, tag=194):
    """node -> command line.  A secret."""

    request: int
    token: Text
    cluster: Text  # HOST:PORT


class OrderReply(Message, tag=195):
    """node -> command line.  What was done; or why nothing was."""

    request: int
    done: Many[Text]
    refusal: Text = ""


ORDERS = (GetKeys, RevokeKey, DrawToken, OrderDrain)
