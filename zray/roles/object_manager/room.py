"""The pull in front, when the store is full for it.

What lies in the store goes when nobody refers to it any more, which is for the local scheduler to see: it is told every
ROOM_SECONDS how long the one in front has waited, while nothing else comes either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.objects import FetchWaits
from ..work_effects import RoomWanted

if TYPE_CHECKING:
    from .pulls import Pull, Pulls

# As long as a writer is held back in a full store (manager.FULL_SECONDS).
ROOM_SECONDS = 5.0


class Room:
    """For the pulls of one node."""

    def __init__(self, pulls: Pulls) -> None:
        self.pulls = pulls
        self.waiting: Pull | None = None  # the one in front, the last time that there was no room
        self.number = 0  # of its wait
        self.since = 0.0
        self.said = 0  # the wait of which the local scheduler was told that there is no room

    def is_missing(self, pull: Pull) -> None:
        """For this one, which is in front."""
        if pull is not self.waiting:
            self.waiting, self.since = pull, self.pulls.manager.now
            self.number += 1
            self._set_timer()
        manager = self.pulls.manager
        if manager.growing is None and self.said != self.number:  # else there are pages soon
            self.said = self.number
            manager.send(manager.local_scheduler, RoomWanted())

    def _set_timer(self) -> None:
        self.pulls.manager.after(ROOM_SECONDS, self.look, self.number)

    def look(self, number: int) -> None:
        """Look whether there is room by now: in wait `number`."""
        pull, pulls = self.waiting, self.pulls
        if pull is None or number != self.number:
            return
        if pulls.queue.get(pull.object_id) is not pull:
            self.waiting = None
            return
        manager = pulls.manager
        if len(pulls.coming) > len(pulls.queue):
            self.since = manager.now  # others come, and whoever waits for them goes on
        else:
            seconds = manager.now - self.since
            manager.send(manager.local_scheduler, FetchWaits(pull.object_id, seconds, manager.explain(pull.size)))
        self._set_timer()
