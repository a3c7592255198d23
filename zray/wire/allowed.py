"""The permissions of messages, derived from their routes: for hosts (TCP) and for processes on a node (ipc).

A kind is the part before the number in a role's name: `9f.../gcs-0` is of kind "gcs", `worker-7` of kind "worker".  A
message off its route is refused before any role sees the message, counted, and reported to its sender.
"""

from itertools import pairwise, product

from .codec import MESSAGE_TYPES
from .message import ROUTES, Message

Types = frozenset[type[Message]]

# Roles for which a host may speak, by the kind of its key.
ROLES_OF_KEY: dict[str, frozenset[str]] = {
    "head": frozenset(
        {
            *("local", "objects", "host", "global", "gcs", "shard"),
            *("chains", "services", "monitor", "relay", "hosting", "counts"),
        }
    ),
    "node": frozenset({"local", "objects", "host", "shard", "tunnels", "replicas"}),
    "driver": frozenset({"local", "objects", "host", "shard", "tunnels"}),
    "replica": frozenset({"gcs", "tunnels"}),  # of the one shard that the key is for (host/security/keyring.py)
    "scheduler": frozenset({"global", "shard"}),
    "joiner": frozenset(),  # JoinCluster
    "reader": frozenset(),  # GetNodes, to the head
}

NOTHING: Types = frozenset()


def pairs(route: str) -> list[tuple[str, str]]:
    """The pairs (sender, receiver) of a route: of `a, b -> c -> d; e -> f` (a, c), (b, c), (c, d) and (e, f)."""
    return [
        pair
        for part in route.split("; ")
        for senders, receivers in pairwise(part.split(" -> "))
        for pair in product(senders.split(", "), receivers.split(", "))
    ]


def _by_pair() -> dict[tuple[str, str], Types]:
    by_route: dict[str, list[type[Message]]] = {}  # many messages have the same route
    for tag, message in MESSAGE_TYPES.items():
        by_route.setdefault(ROUTES[tag], []).append(message)
    found: dict[tuple[str, str], list[type[Message]]] = {}
    for route, messages in by_route.items():
        for pair in pairs(route):
            found.setdefault(pair, []).extend(messages)
    return {pair: frozenset(messages) for pair, messages in found.items()}


# (kind of the sender, kind of the receiver) -> messages with this route.
ROUTED = _by_pair()

ROLES = frozenset[str]().union(*ROLES_OF_KEY.values())
SENDERS = ROLES | {"driver", "worker", "command"}  # a process needs permission too
# Roles of one host, which never send messages to these roles of another host.
WITHIN_A_HOST = {
    *(("local", "objects"), ("objects", "local")),
    *(("monitor", "services"), ("monitor", "shard"), ("services", "chains")),
}

# (kind of the sender, kind of the receiver) -> permitted messages.  What a node sends to its own processes needs no
# permission, nor what stands outside the numbering of a link.
ALLOWED: dict[tuple[str, str], Types] = {
    pair: messages
    for pair, messages in ROUTED.items()
    if pair[0] in SENDERS and pair[1] in ROLES and pair not in WITHIN_A_HOST
}


def kind_of(address: str) -> str:
    """The kind of a role: "gcs" of `9f.../gcs-0`, "worker" of `worker-7`."""
    return address.rpartition("/")[2].partition("-")[0]


def allowed_between(source: str, target: str) -> Types:
    """The messages that the role or process `source` may send to `target`."""
    return ALLOWED.get((kind_of(source), kind_of(target)), NOTHING)


def targets_of_process(kind: str, targets: dict[str, str]) -> dict[type[Message], str]:
    """The target of each message that a process of this kind may send.

    targets: kind of role -> address.
    """
    return {message: address for target, address in targets.items() for message in ALLOWED.get((kind, target), NOTHING)}
