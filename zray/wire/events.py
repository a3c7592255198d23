"""Dialog: event records and metrics of processes, for programs that look at what ran, when, and how much.

driver, worker     ListEvents -> EventsListed    to its local scheduler
local scheduler    ListEvents -> EventsListed    to each other local scheduler, on behalf of the process
"""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct

from .limits import Many, Text
from .message import Message, Natural, routed

# Bytes of records in an answer: those of 300,000 runs.  A node of a cluster answers with its share of them.
BYTES_MAX = 16 << 20
# Bytes of one ring: store/event_ring.py has less.
RING_BYTES_MAX = 2 << 20
# Shorter waits have no records: short tasks cost nothing.
LONG_SECONDS = 0.01


class Stage(IntEnum):
    """What a task, a call or an actor waits for at a node."""

    ARGUMENTS = 1  # to be made, or to come here
    QUEUE = 2  # resources, a worker, or earlier calls of its actor
    PLACING = 3  # a global scheduler, and the node that it names
    ROOM = 4  # room on any node
    FITTING_NODE = 5  # a node that could ever run it
    GROUP = 6  # the place of its placement group
    WORKER = 7  # an actor that has all else: a process
    PACKAGES = 8  # likewise, a process with the packages of its environment


class Thing(IntEnum):
    """What enters a state."""

    NODE = 1
    WORKER = 2
    JOB = 3
    ACTOR = 4
    GROUP = 5


class State(IntEnum):
    """A state of an actor, a worker, a program, a placement group or a node."""

    PENDING = 1  # it waits for a place or a process
    STARTING = 2  # its process, or its constructor
    ALIVE = 3
    RESTARTING = 4
    DEAD = 5
    RUNNING = 6  # a program
    FINISHED = 7
    DRAINING = 8  # a node that is to leave
    DRAINED = 9
    SUSPENDED = 10  # a node that does not hear the head
    CREATED = 11  # a group: its bundles are on their nodes
    RESCHEDULING = 12
    UNSCHEDULABLE = 13
    REMOVED = 14


# States that nothing leaves.
FINAL = frozenset((State.DEAD, State.FINISHED, State.REMOVED, State.DRAINED))


class EventRingFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The ring of a process, as store/event_ring.py writes it; or a page of metrics, as store/metric_page.py does."""

    node: Text
    data: Annotated[bytes, Meta(max_length=RING_BYTES_MAX)]


class ListEvents(Message, tag=routed(296, "driver, worker, local -> local")):
    """A request for the latest records, of at most so many bytes; or, with `are_metrics`, for the pages of metrics."""

    request: int
    bytes_max: Annotated[int, Meta(ge=0, le=BYTES_MAX)] = BYTES_MAX
    are_metrics: bool = False


class EventsListed(Message, tag=routed(297, "local -> driver, worker, local")):
    """The rings of all processes, also of those that ended lately; or the pages.

    `left_out` counts rings that did not fit.  `silent` lists nodes that have not answered in time.
    """

    request: int
    rings: Many[EventRingFact]
    left_out: Natural = 0
    silent: Many[Text] = []
