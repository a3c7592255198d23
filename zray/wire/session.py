"""Dialog: a process joins its node, and leaves it.

driver, worker    Hello       who I am, and what I speak
node              Welcome     your address and the session's settings
                  HelloRefused    why not
driver, worker    Goodbye     an orderly end: what I hold is let go
node              GoodbyeReply
driver, worker, command line    GetStatus -> StatusReply
command line      StopSession     the session ends
node              ProcessDropped  it has nothing more to do with you, or ends; says why
"""

from __future__ import annotations

from .limits import Many, ShortBytes, Table, Text
from .message import Message
from .scheduling import JobFacts


class Hello(Message, tag=1):
    """driver, worker, command line -> node.  The first message on a connection."""

    protocol: int
    version: Text
    kind: Text  # "driver", "worker" or "command": the last asks and orders, and has no job
    pid: int
    worker_id: int = 0  # workers: as given by the node when it ordered the start
    job_id: ShortBytes = b""  # drivers: drawn by them
    python: Text = ""
    facts: JobFacts = JobFacts()  # drivers: all but their home


class Welcome(Message, tag=2):
    """node -> driver, worker.  Answer to Hello."""

    address: Text
    node_id: ShortBytes
    session: Text
    inline_bytes_max: int
    version: Text = ""


class HelloRefused(Message, tag=3):
    """node -> driver, worker.  Says why in words for the user; the connection is over."""

    reason: Text


class Goodbye(Message, tag=4):
    """driver, worker -> node.  An orderly end; everything that a driver holds is let go."""

    reason: Text = ""


class GoodbyeReply(Message, tag=5):
    """node -> driver, worker.  All before it has been handled."""


class GetStatus(Message, tag=6):
    """driver, worker, command line -> node.  Ask for a StatusReply."""

    request: int = 0


class StatusReply(Message, tag=7):
    """node -> driver, worker, command line.  Resources in RESOURCE_UNITs; counts of what is there now.

    trouble: that the head of its cluster is not heard of, in words; "" while it is.  stalls: in words too, the shards
    of its GCS whose disks take nothing.
    """

    request: int
    node_id: ShortBytes
    session: Text
    total: Table[Text, int]
    free: Table[Text, int]
    counts: Table[Text, int]
    trouble: Text = ""
    stalls: Many[Text] = []


class StopSession(Message, tag=8):
    """command line -> node.  End the session: workers, segments, sockets, folder."""


class Ack(Message, tag=9):
    """either side of a link -> the other.  Nothing but the envelope's acknowledgement."""


class ProcessDropped(Message, tag=21):
    """node -> driver, worker.  The link is over for the reason given: bad frames, or the node itself ends."""

    reason: Text
