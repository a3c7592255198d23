"""Queued tasks that would start sooner on another node: arithmetic without side effects.

Placement uses the loads known at that moment.  So a node that joins later, or comes back, would get no task that is
already queued elsewhere.  Also, a wrong first guess of the task time would have a lasting effect.  Therefore the global
scheduler looks now and then for nodes with nothing to do (thieves) while others have long queues (victims).  Victims
are asked to pass some tasks up again.

    a thief gets tasks that start at once there, and HORIZON_SECONDS of work: more when the work is done
    a victim keeps an even share of the work

While no node is idle, or no queue is long, no message is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from ...wire.task_spec import RESOURCE_UNIT
from .placement import NodeLoad

# Between two looks: as often as nodes report.
LOOK_SECONDS = 0.1
# A queue that ends before the next reports arrive counts as empty.
IDLE_SECONDS = 0.1
# A shorter wait is not worth two more trips of a task.
LONG_SECONDS = 0.3
HORIZON_SECONDS = 0.5
# Asked of one victim at a time: a turn with so many lasts some 30 ms (local_scheduler/departures).
PORTION_MAX = 128
# A stolen task that is not placed at the thief after this time is no longer expected.
COMING_SECONDS = 0.3


def thefts(
    loads: Iterable[NodeLoad], guess: float, equals: int, now: float
) -> list[tuple[NodeLoad, list[tuple[NodeLoad, int]]]]:
    """Return the victims, each with the thieves and the number of tasks for each thief.

    guess, equals: as in NodeLoad.estimated_wait_s.
    """
    members = [load for load in loads if load.kind != "driver" and not load.is_draining and _slots(load) > 0]
    backlogs = {load.node: _backlog_s(load, guess, equals) for load in members}
    thieves = [load for load in members if backlogs[load.node] <= IDLE_SECONDS]
    victims = [load for load in members if backlogs[load.node] >= LONG_SECONDS and load.queue_count]
    if not thieves or not victims:
        return []
    fair = sum(backlogs[load.node] * _slots(load) for load in members) / sum(map(_slots, members))
    # Victims not asked for long come first, because a victim may have no task that thieves could run.
    victims.sort(key=lambda load: (load.asked_at, -backlogs[load.node], load.rank, load.node))
    thieves.sort(key=lambda load: (backlogs[load.node], load.rank, load.node))
    spare = {}
    for victim in victims:
        excess = (backlogs[victim.node] - fair) * _slots(victim) / _seconds(victim, guess)
        spare[victim.node] = min(ceil(excess), victim.queue_count, PORTION_MAX)
    orders: dict[str, list[tuple[NodeLoad, int]]] = {}
    for thief in thieves:
        thief.expects_no_more(now)
        for victim in victims:
            count = min(_room(thief, _seconds(victim, guess), equals), spare[victim.node])
            if count > 0:
                spare[victim.node] -= count
                thief.steals(victim, count, now, now + COMING_SECONDS)
                orders.setdefault(victim.node, []).append((thief, count))
    return [(victim, orders[victim.node]) for victim in victims if victim.node in orders]


def _slots(load: NodeLoad) -> float:
    """Return the CPUs that the node's actors do not hold."""
    return (load.total.get("CPU", 0) - load.held.get("CPU", 0)) / RESOURCE_UNIT


def _seconds(load: NodeLoad, guess: float) -> float:
    """Return the node's mean task time in seconds, or the guess."""
    return load.task_s_mean or guess


def _backlog_s(load: NodeLoad, guess: float, equals: int) -> float:
    """Return how long the node's queued tasks would last, in seconds."""
    return (load.queue_count + load.waiting_count * equals) * _seconds(load, guess) / max(1.0, _slots(load))


def _room(thief: NodeLoad, seconds: float, equals: int) -> int:
    """Return how many more tasks of `seconds` each the thief can take."""
    slots = _slots(thief)
    running = slots - thief.free.get("CPU", 0) / RESOURCE_UNIT
    has = running + thief.queue_count + thief.waiting_count * equals + thief.coming_count
    return int(slots * (1 + HORIZON_SECONDS / max(seconds, 1e-6)) - has)
