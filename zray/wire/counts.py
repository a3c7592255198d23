"""Dialog: the number of global schedulers, where it may change (roles/scheduler_count.py).

scheduler count     WatchLoad -> SchedulerLoad    to each global scheduler: how many there are; how busy this one is
"""

from .message import Message, Natural, routed


class WatchLoad(Message, tag=routed(310, "counts -> global")):
    """The order to report from now on, every `seconds`.  `equals` is the number of global schedulers."""

    equals: Natural
    seconds: float


class SchedulerLoad(Message, tag=routed(311, "global -> counts")):
    """A regular report, in seconds and cores.

    `busy` is the share of a core that the scheduler's process has taken since the last report.  `oldest_s` is the age
    of the oldest request.  `placing_s` is the longest mean time from a spill to its placement, of those that nodes have
    reported.
    `free_nodes` counts the nodes with a free CPU.  `idle_cores` are those of the scheduler's machine.
    """

    busy: float
    oldest_s: float
    placing_s: float
    free_nodes: Natural
    idle_cores: float
