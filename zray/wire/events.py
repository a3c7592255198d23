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
