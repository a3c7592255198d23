"""Dialog: host processes of a cluster, over TCP.

newcomer (token)  JoinCluster -> JoinClusterReply / JoinRefused    all that a token buys: a key of one's own
host              HostHello -> HostWelcome / HostRefused     whose connection this is; then numbered mail
host              HostAside         a second connection, beside its link: a heartbeat, and the answer to one
host              HostGoodbye       an orderly end
host              HostExpelled      the receiver's key is let in no more
host              MessageRefused    not yours to say: counted, and in the end not listened to
host              GetNodes -> NodesReply    at a global scheduler: who is there, and how loaded
reader (token)    GetNodes -> NodesReply / HostRefused    at the head: all that such a token buys
head              HostAdded, HostRemoved    to hosts: a process that hosts roles and is no node

These stand in mail outside the numbering (sequence 0), but for the last two dialogs, which are mail like any other.
"""

from __future__ import annotations

from msgspec import Struct

from .limits import Many, ShortBytes, Table, Text
from .message import Message


class HostHello(Message, tag=130):
    """host -> host.  First on each connection: the key of this connection must be that of `host`."""

    protocol: int
    version: Text
    host: Text


class HostWelcome(Message, tag=131):
    """host -> host.  Mail may come, what was not acknowledged first.

    A head that was started again is another host under the same key: its roles are named after it, but for the
    global schedulers.
    """

    host: Text
    global_schedulers: Many[Text] = []


class HostRefused(Message, tag=132):
    """host -> host.  Says why; nothing else will be heard on this connection."""

    reason: Text


class HostGoodbye(Message, tag=139):
    """host -> host.  It ends; the reason is for logs and users."""

    reason: Text


class HostAside(Message, tag=143):
    """node -> head.  First on a connection beside the sender's link, which heartbeats take while that one is slow."""


class HostExpelled(Message, tag=142):
    """host -> host.  You are let in no more, and this is why: for logs and users."""

    reason: Text


# In the reason why a key is refused: its host was lost, and nobody has said that it must not come back as another one.
WAS_LOST = "the verdict on this host was that it is lost"


class JoinCluster(Message, tag=133):
    """newcomer -> head, with the key of a token.  public_key: drawn by the newcomer, for the host it becomes.

    former: the host that was lost and in whose place it joins, by itself; not where that one's key was revoked.
    """

    protocol: int
    version: Text
    python: Text
    host: Text
    kind: Text  # "node" or "driver"
    public_key: ShortBytes
    former: Text = ""


class JoinClusterReply(Message, tag=134):
    """head -> newcomer.  Where the roles of the cluster are; seen_address: the newcomer's, as the head sees it.

    shards: their logical names, in the order that ids are hashed to.  chains: the chain master, which knows who their
    replicas are.  policy: which tasks are passed up, and where they go (scheduling.POLICIES).  hash_seed: of hash() in
    all tasks, as PYTHONHASHSEED; "": each node has its own.
    """

    head: Text
    monitor: Text
    global_schedulers: Many[Text]
    shards: Many[Text]
    seen_address: Text
    chains: Text
    policy: Text
    hash_seed: Text = ""


class JoinRefused(Message, tag=135):
    """head -> newcomer.  Says why, in words for the user."""

    reason: Text


class MessageRefused(Message, tag=136):
    """host -> host, driver, worker.  What you said is not yours to say (PermissionDenied)."""

    reason: Text


class NodeFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What a global scheduler knows of a node.  Resources in RESOURCE_UNITs; endpoint: HOST:PORT, as others know it.

    death: why it is no member any more; such a node has nothing.
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


class GetNodes(Message, tag=137):
    """host, reader -> global scheduler, head.  Ask for a NodesReply.  with_dead: those that have left lately, too."""

    request: int
    with_dead: bool = False


class NodesReply(Message, tag=138):
    """global scheduler, head -> host, reader.  As of the latest load reports.  stalls: to a reader, as StatusReply."""

    request: int
    nodes: Many[NodeFact]
    stalls: Many[Text] = []


# The endpoint of a host that nobody can call: where it does not call us, we go through the head's relay.
RELAYED = "relay"


class HostAdded(Message, tag=140):
    """head -> host.  There is a host without a node: `kind` is its key's.  is_earlier: connect to it, at
    `endpoint` (RELAYED: through the head); otherwise it comes to you.

    To such a host itself: as said of nodes.  roles: its roles that others talk to, and that its key may speak for.
    node: which runs it, and outlives the head; "": the head.
    """

    host: Text
    kind: Text
    endpoint: Text
    public_key: ShortBytes
    is_earlier: bool
    roles: Many[Text] = []
    node: Text = ""


class HostRemoved(Message, tag=141):
    """head -> host.  It is gone for good."""

    host: Text
    reason: Text
