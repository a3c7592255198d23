"""Dialog: host processes of a cluster, over TCP.

newcomer (token)  JoinCluster -> JoinClusterReply / JoinRefused    the only right of a token: a key of one's own
host              HostHello -> HostWelcome / HostRefused     the owner of this connection; then numbered mail
host              HostAside         a second connection, beside its link: a heartbeat, and the answer to a heartbeat
host              HostGoodbye       an orderly end
host              HostExpelled      the receiver's key is no longer accepted
host              MessageRefused    a protocol violation: counted; after too many the sender is disconnected
host              GetNodes -> NodesReply    at a global scheduler: nodes and their load
reader (token)    GetNodes -> NodesReply / HostRefused    at the head: the only right of such a token
head              HostAdded, HostRemoved    to hosts: a process that hosts roles and is no node

These messages stand in mail outside the numbering (sequence 0).  The last two dialogs are the exception, as mail like
any other.
"""

from msgspec import Struct

from .limits import Many, ShortBytes, Table, Text
from .message import Message, routed


class HostHello(Message, tag=routed(130, "neighbour -> neighbour")):
    """The first message on each connection.  The key of the connection must belong to `host`."""

    protocol: int
    version: Text
    host: Text


class HostWelcome(Message, tag=routed(131, "neighbour -> neighbour")):
    """Mail may come, unacknowledged mail first.

    A head that was started again is another host under the same key.  The roles are named after the new host, except
    for the global schedulers.
    """

    host: Text
    global_schedulers: Many[Text] = []


class HostRefused(Message, tag=routed(132, "neighbour -> neighbour; head -> reader")):
    """The reason of a refusal.  Nothing else will be accepted on this connection."""

    reason: Text


class HostGoodbye(Message, tag=routed(139, "neighbour -> neighbour")):
    """The sender ends.  The reason is for logs and users."""

    reason: Text


class HostAside(Message, tag=routed(143, "neighbour -> neighbour")):
    """The first message on a connection beside the sender's link.

    Heartbeats take this connection while the link is slow.
    """


class HostExpelled(Message, tag=routed(142, "neighbour -> neighbour")):
    """The receiver is no longer accepted.  The reason is for logs and users."""

    reason: Text


# Reason for which a key is refused: its host was declared dead, and may return as another host.
WAS_LOST = "the host of this key was declared dead"


class JoinCluster(Message, tag=routed(133, "joiner -> head")):
    """A request to join, with the key of a token.

    The newcomer draws `public_key` for the host that it becomes.  `former` is the lost host that the newcomer replaces
    without a user's order.  A revoked key of the former host forbids this.
    """

    protocol: int
    version: Text
    python: Text
    host: Text
    kind: Text  # "node" or "driver"
    public_key: ShortBytes
    former: Text = ""


class JoinClusterReply(Message, tag=routed(134, "head -> joiner")):
    """The addresses of the cluster's roles.

    `seen_address` is the newcomer's address, as the head sees it.  `shards` are logical names, in the order to which
    ids are hashed.  `chains` is the chain master, which knows the replicas of the shards.

    `policy` decides which tasks are spilled, and the nodes on which they are placed (scheduling.POLICIES).

    `hash_seed` is the PYTHONHASHSEED of all tasks; "" means a seed of each node's own.
    """

    head: Text
    monitor: Text
    global_schedulers: Many[Text]
    shards: Many[Text]
    seen_address: Text
    chains: Text
    policy: Text
    hash_seed: Text = ""


class JoinRefused(Message, tag=routed(135, "head -> joiner")):
    """The reason of a refusal, in words for the user."""

    reason: Text


class MessageRefused(Message, tag=routed(136, "neighbour -> neighbour; host -> driver, worker, command")):
    """The sender of a message had no permission for it (PermissionDenied)."""

    reason: Text


class NodeFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The facts about a node that a global scheduler knows.

    Resources are in RESOURCE_UNITs.  `endpoint` is the HOST:PORT under which others know the node.  `death` says why
    the node is no longer a member.  Such a node has no resources, and left `lost_seconds` ago.
    """

    node: Text
    kind: Text
    total: Table[Text, int]
    free: Table[Text, int]
    queue_count: int
    labels: Table[Text, Text] = {}
    is_draining: bool = False
    endpoint: Text = ""
    hostname: Text = ""
    death: Text = ""
    lost_seconds: float = 0.0


class GetNodes(Message, tag=routed(137, "driver, worker, command -> host -> global; reader -> head")):
    """A request for a NodesReply.

    `with_dead` asks for nodes that have left lately, too.
    """

    request: int
    with_dead: bool = False


class NodesReply(Message, tag=routed(138, "global -> host -> driver, worker, command; head -> reader")):
    """The nodes, as of the latest load reports.

    `stalls` is for readers, as in StatusReply.
    """

    request: int
    nodes: Many[NodeFact]
    stalls: Many[Text] = []


# Endpoint of a host that accepts no connections.  Unless such a host connects, the head's relay is used.
RELAYED = "relay"


class HostAdded(Message, tag=routed(140, "services -> host")):
    """A host without a node exists.  `kind` is the kind of its key.

    With `is_earlier`, the receiver connects to the host at `endpoint` (RELAYED: through the head).  Otherwise the host
    connects to the receiver.

    A host without a node receives the same message about nodes.

    `roles` are the host's roles that others talk to, and for which its key may speak.  `node` runs the host, which then
    outlives the head; "" means that the head runs it.
    """

    host: Text
    kind: Text
    endpoint: Text
    public_key: ShortBytes
    is_earlier: bool
    roles: Many[Text] = []
    node: Text = ""


class HostRemoved(Message, tag=routed(141, "services -> host")):
    """The host is gone for good."""

    host: Text
    reason: Text
