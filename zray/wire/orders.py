"""Dialog: questions and orders of the command line to the head of a cluster, through the session's own socket.

command line      GetKeys -> KeysReply         accepted keys
command line      RevokeKey -> OrderReply      end of a key's rights
command line      DrawToken -> TokenReply      a secret that lets others join, or look
node              OrderReply                   also if the node is not the head's, or the order fails: with the reason
"""

from msgspec import Struct

from .drains import OrderDrain
from .limits import Many, ShortBytes, Text
from .message import Message, Natural, routed


class KeyFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A key that is, or was, accepted.  No part of the record is secret."""

    name: Text  # a host's id; or "token-..." for a token
    kind: Text  # "head", "node", "driver", "joiner" (a token), "reader", "replica", "scheduler"
    public: ShortBytes
    seconds_left: float | None  # None: no expiry
    uses_left: int  # -1: no limit applies
    refusal: Text  # why the key is refused; "": accepted
    seen_at: Text  # the address from which the host joined
    is_up: bool  # a connection exists


class GetKeys(Message, tag=routed(190, "command -> host")):
    """A request for a KeysReply."""

    request: int


class KeysReply(Message, tag=routed(191, "host -> command")):
    """All keys of the cluster.  Without keys, a refusal says why."""

    request: int
    keys: Many[KeyFact]


class RevokeKey(Message, tag=routed(192, "command -> host")):
    """The order to revoke keys.  `name` is a host's id, a token's name, or the beginning of either."""

    request: int
    name: Text


class DrawToken(Message, tag=routed(193, "command -> host")):
    """The order to draw a new token.

    A joiner's token lets others join for `seconds`, `uses` times.  A reader's token lets others look, any number of
    times.
    """

    request: int
    seconds: float
    uses: Natural
    kind: Text = "joiner"  # or "reader"


class TokenReply(Message, tag=routed(194, "host -> command")):
    """The token, which is a secret."""

    request: int
    token: Text
    cluster: Text  # HOST:PORT


class OrderReply(Message, tag=routed(195, "host -> command")):
    """The effects of an order, or the reason why nothing was done."""

    request: int
    done: Many[Text]
    refusal: Text = ""


ORDERS = (GetKeys, RevokeKey, DrawToken, OrderDrain)
