"""Room in the store of this node, when a writer or a value on its way finds none: what goes then.

    what is kept, in case a result has to be made again (puts)        all of it
    copies of what nobody here holds any more, and others still do    those of which the shard knows another copy
    copies of what nobody holds any more                              all: they were kept for tasks that took them

Such a copy stays while there is room: whoever wants the value next may have it from here, or have lost the other.
Who finds no room waits for it, and others let go meanwhile: so it is looked again, ever less often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ids import ObjectID
from ....wire.gcs import OfferCopies
from ....wire.limits import portions
from ....wire.task_spec import StoredValue
from ...role import on
from ...work_effects import RoomWanted

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .table import ObjectEntry

# Many may find no room at once: what was offered a moment ago is not offered again.  The next time is so much later,
# the one after that twice as much, and so on, as long as anybody may wait.
AGAIN_SECONDS = 0.1
WANTED_SECONDS = 5.0
# So many copies are known before those that have gone are thrown out.
COPIES_MIN = 1_000


class MakingRoom:
    """Of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.copies: dict[ObjectID, None] = {}  # that nobody here holds; some have gone since
        self.count_max = COPIES_MIN
        self.offered_at = self.wanted_at = -WANTED_SECONDS
        self.number = 0  # of the timer that counts
        self.seconds = AGAIN_SECONDS  # until the next time

    def let_go(self, entry: ObjectEntry) -> None:
        """Nobody here holds it any more."""
        if type(entry.value) is StoredValue:
            self.copies[entry.object_id] = None
            if len(self.copies) > self.count_max:
                self._forget_those_that_have_gone()
                self.count_max = max(COPIES_MIN, 2 * len(self.copies))

    def _forget_those_that_have_gone(self) -> None:
        entries = self.node.objects.entries
        self.copies = {
            object_id: None
            for object_id in self.copies
            if (entry := entries.get(object_id)) is not None and entry.is_released and type(entry.value) is StoredValue
        }

    @on(RoomWanted)
    def on_room_wanted(self, message: RoomWanted) -> None:
        """RoomWanted."""
        node = self.node
        node.recovery.puts.let_go_of_all()
        self.wanted_at = node.now
        self.seconds = AGAIN_SECONDS
        since = node.now - self.offered_at
        if since < AGAIN_SECONDS:
            self._set_timer(AGAIN_SECONDS - since)
        else:
            self._offer()

    def _set_timer(self, seconds: float) -> None:
        self.number += 1
        self.node.after(seconds, self.offer_again, self.number)

    def offer_again(self, number: int) -> None:
        """Make the next offer; of the timers, the one with the last number counts."""
        if number == self.number and self.node.now - self.wanted_at < WANTED_SECONDS:
            self.node.recovery.puts.let_go_of_all()
            self._offer()

    def _offer(self) -> None:
        node = self.node
        self.offered_at = node.now
        self._forget_those_that_have_gone()
        for shard, object_ids in node.addresses.by_shard(list(self.copies)).items():
            for portion in portions(object_ids):
                node.send(shard, OfferCopies(node.address, portion))
        self._set_timer(self.seconds)
        self.seconds *= 2
