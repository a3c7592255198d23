"""Dialog: a process joins its node, and leaves the node.

driver, worker    Hello           identity of the process, and the protocol version
node              Welcome         address of the process, and settings of the session
                  HelloRefused    reason of the refusal
driver, worker    Goodbye         orderly end: everything that the process holds is released
node              GoodbyeReply
driver, worker, command line    GetStatus -> StatusReply
command line      StopSession     the session ends
node              ProcessDropped  the node drops the process, or the node ends; with the reason
"""

from .limits import Many, ShortBytes, Table, Text
from .message import Message, routed
from .scheduling import JobFacts


class Hello(Message, tag=routed(1, "driver, worker, command -> node")):
    """The first message on a connection."""

    protocol: int
    version: Text
    kind: Text  # "driver", "worker" or "command"; a command asks and orders, and has no job
    pid: int
    worker_id: int = 0  # workers: as given by the node when it ordered the start
    job_id: ShortBytes = b""  # drivers: drawn by the driver
    python: Text = ""
    facts: JobFacts = JobFacts()  # drivers: all facts but `home`


class Welcome(Message, tag=routed(2, "node -> driver, worker, command")):
    """The answer to Hello."""

    address: Text
    node_id: ShortBytes
    session: Text
    inline_bytes_max: int
    version: Text = ""


class HelloRefused(Message, tag=routed(3, "node -> driver, worker, command")):
    """The refusal of a Hello, with a reason in words for the user.  The connection is over."""

    reason: Text


class Goodbye(Message, tag=routed(4, "driver, worker, command -> host")):
    """An orderly end.  Everything that a driver holds is released."""

    reason: Text = ""


class GoodbyeReply(Message, tag=routed(5, "host -> driver, worker, command")):
    """All messages before the Goodbye have been handled."""


class GetStatus(Message, tag=routed(6, "driver, worker, command -> host")):
    """A request for a StatusReply."""

    request: int = 0


class StatusReply(Message, tag=routed(7, "host -> driver, worker, command")):
    """Resources in RESOURCE_UNITs, and counts of the present state.

    `trouble` says in words that the node has no contact with the head of its cluster; "" while contact exists.
    `stalls` names, in words too, the GCS shards whose disks accept no writes.
    `programs` has the pids of the drivers on this node.
    `notes` has further lines for people: at the head, counts of processes that may change.
    """

    request: int
    node_id: ShortBytes
    session: Text
    total: Table[Text, int]
    free: Table[Text, int]
    counts: Table[Text, int]
    trouble: Text = ""
    stalls: Many[Text] = []
    programs: Many[int] = []
    notes: Many[Text] = []


class StopSession(Message, tag=routed(8, "command -> host")):
    """The order to end the session: workers, segments, sockets, folder."""


class Ack(Message, tag=routed(9, "driver, worker, command -> host -> driver, worker, command; neighbour -> neighbour")):
    """An acknowledgement in the envelope, and nothing else."""


class ProcessDropped(Message, tag=routed(21, "host -> driver, worker, command")):
    """The link is over for the reason given: bad frames, or the end of the node itself."""

    reason: Text
