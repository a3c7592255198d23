"""Which queued tasks would start sooner elsewhere: arithmetic that is true on its own.

A task is placed by what is believed at that moment: a node that joins later, or is there again, would get nothing of
what waits elsewhere, and where a first guess of what a task takes was wrong, it would stay wrong.  So now and then we
look for nodes with nothing to do (thieves) while others have long queues (victims), and ask these to pass some tasks up
again.

    a thief gets what starts at once there, and what it does in HORIZON_SECONDS: more when it has done that
    a victim keeps what it would have if the work were shared evenly

Nobody is asked, and nothing costs anything, where no node is idle, or no queue is long.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from ...wire.task_spec import RESOURCE_UNIT
from .placement import NodeLoad

# Between two looks: as often as nodes report.
LOOK_SECONDS = 0.1
# What is done before the next reports are here is as good as done: such a node has nothing to do.
IDLE_SECONDS = 0.1
# A shorter wait is not worth two more trips of a task.
LONG_SECONDS = 0.3
HORIZON_SECONDS = 0.5
# Asked of one victim at a time: a turn with so many lasts some 30 ms (local_scheduler/departures).
PORTION_MAX = 128
# What was asked for a thief, and has not been placed there so much later, does not come.
COMING_SECONDS = 0.3


def thefts(
    loads: Iterable[NodeLoad], guess: float, equals: int, now: float
) -> list[tuple[NodeLoad, list[tuple[NodeLoad, int]]]]:
    """Whom to ask for how many tasks, and for which nodes.  guess, equals: as in NodeLoad.estimated_wait_s."""
    members = [load for load in loads if load.kind != "driver" and not load.is_draining and _slots(load) > 0]
    backlogs = {load.node: _backlog_s(load, guess, equals) for load in members}
    thieves = [load for load in members if backlogs[load.node] <= IDLE_SECONDS]
    victims = [load for load in members if backlogs[load.node] >= LONG_SECONDS and load.queue_count]
    if not thieves or not victims:
        return []
    fair = sum(backlogs[load.node] * _slots(load) for load in members) / sum(map(_slots, members))
    # Those first that were not asked for long: one of them may have nothing that thieves could run.
    victims.sort(key=lambda load: (load.asked_at, -backlogs[load.node], load.rank, load.node))
    thieves.sort(key=lambda load: (backlogs[load.node], load.rank, load.node))
    spare = {}
    for victim in victims:
        excess = (backlogs[victim.node] - fair) * _slots(victim) / _seconds(victim, guess)
        spare[victim.node] = min(ceil(excess), victim.queue_count, PORTION_MAX)
    orders: dict[str, list[tuple[NodeLoad, int]]] = {}
    for thief in thieves:
        if now >= thief.coming_until:
            thief.coming_count = 0
        for victim in victims:
            count = min(_room(thief, _seconds(victim, guess), equals), spare[victim.node])
            if count > 0:
                spare[victim.node] -= count
                thief.coming_count += count
                thief.coming_until = now + COMING_SECONDS
                victim.asked_at = now
                orders.setdefault(victim.node, []).append((thief, count))
    return [(victim, orders[victim.node]) for victim in victims if victim.node in orders]


def _slots(load: NodeLoad) -> float:
    """CPUs that its actors leave."""
    return (load.total.get("CPU", 0) - load.held.get("CPU", 0)) / RESOURCE_UNIT


def _seconds(load: NodeLoad, guess: float) -> float:
    """What its tasks take."""
    return load.task_s_mean or guess


def _backlog_s(load: NodeLoad, guess: float, equals: int) -> float:
    """How long what waits there would last."""
    return (load.queue_count + load.waiting_count * equals) * _seconds(load, guess) / max(1.0, _slots(load))


def _room(thief: NodeLoad, seconds: float, equals: int) -> int:
    """How many tasks that take so long it can still have."""
    slots = _slots(thief)
    running = slots - thief.free.get("CPU", 0) / RESOURCE_UNIT
    has = running + thief.queue_count + thief.waiting_count * equals + thief.coming_count
    return int(slots * (1 + HORIZON_SECONDS / max(seconds, 1e-6)) - has)
