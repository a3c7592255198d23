"""Objects that other nodes may know of, as one node sees them: who holds them, and where copies are.

    the shard's view of this node:   HELD <-> RELEASED
    this node's own copy:            AWAITED -> FETCHING -> AWAITED       it is here, or another place is looked for
                                     AWAITED -> ON_DISK -> FETCHING       a spill file of this node has it
                                     AWAITED -> LOST -> AWAITED           an error stands in its place, until it is made

Whether the value is here is said by the entry's `value` alone; LOST names an error that stands there.  An order of the
object manager outlives the entry (`fetches.ordered`), and so does a question to a shard (`remote.subscribed`).

Rule 1: A node that has RELEASED an object takes no part in the count that frees its copies.
Rule 2: An object that is FETCHING is on order, or was a moment ago and is given up (`fetches.begin`).
Rule 3: Nothing outside of this file changes what is known of a shared object.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct


class Copy(IntEnum):
    """The copy of a shared object that this node has, or is to have."""

    AWAITED = 0  # made here or elsewhere, or known to lie elsewhere (`locations`); nothing is ordered
    FETCHING = 1
    LOST = 2  # the value here says so, and is no copy of it
    ON_DISK = 3  # in a spill file of this node, and not in the arena


class Event(IntEnum):
    """Events that move the copy on."""

    ORDERED = 0  # of the object manager
    ENDED = 1  # the order: its copy is here, or it failed
    LOST = 2  # no node has it, or it has no room here
    FORGOTTEN = 3  # the error goes: the value is made again
    SPILLED = 4  # it left the arena, or stays on disk though it was ordered


AWAITED, FETCHING, LOST, ON_DISK = Copy
TRANSITIONS = {
    (AWAITED, Event.ORDERED): FETCHING,
    (FETCHING, Event.ENDED): AWAITED,
    (AWAITED, Event.ENDED): AWAITED,  # an order from before the object was held anew
    (AWAITED, Event.LOST): LOST,
    (FETCHING, Event.LOST): LOST,
    (LOST, Event.FORGOTTEN): AWAITED,
    (AWAITED, Event.SPILLED): ON_DISK,
    (ON_DISK, Event.ORDERED): FETCHING,
    (ON_DISK, Event.LOST): LOST,  # there is no room for it, in the arena or in a file
    (ON_DISK, Event.ENDED): AWAITED,  # another copy has come, or the file is lost
}


class Shared(Struct, gc=False, eq=False):
    """Knowledge of an object beyond itself, where other nodes may know the object too."""

    is_released: bool = False  # this node has told the shard that it no longer holds it
    copy: Copy = AWAITED
    locations: tuple[str, ...] = ()  # the other nodes that are known to have a copy
    size: int = -1  # bytes, once known
    is_quiet: bool = False  # only the node that had its task placed here knows what that returns

    @property
    def is_fetching(self) -> bool:
        """Whether a copy is on its way here."""
        return self.copy is FETCHING

    @property
    def is_on_disk(self) -> bool:
        """Whether the value lies in a spill file of this node, and nothing is ordered."""
        return self.copy is ON_DISK

    def _enter(self, event: Event) -> None:
        self.copy = TRANSITIONS[self.copy, event]

    # --- the shard's view of this node ---

    def holds(self) -> bool:
        """Hold it; return whether the shard has heard the opposite."""
        was_released, self.is_released = self.is_released, False
        return was_released

    def releases(self) -> None:
        """Let go of it: the shard is to hear so."""
        self.is_released = True

    # --- this node's copy ---

    def ordered(self) -> None:
        """A copy is on order."""
        self._enter(Event.ORDERED)

    def came(self) -> None:
        """The ordered copy is here."""
        self._enter(Event.ENDED)

    def failed(self) -> None:
        """The order ended without a copy: the places that were known are none."""
        self._enter(Event.ENDED)
        self.locations = ()

    def spilled(self) -> None:
        """The copy of this node lies on disk alone."""
        self._enter(Event.SPILLED)

    def lost(self) -> None:
        """An error stands in its place here."""
        self._enter(Event.LOST)

    def loss_forgotten(self) -> None:
        """The error goes: the value is made again."""
        self._enter(Event.FORGOTTEN)

    # --- copies of other nodes ---

    def lies_at(self, places: Iterable[str], size: int | None = None) -> None:
        """Set the other nodes that are known to have copies, and the size in bytes if that is known."""
        self.locations = tuple(places)
        if size is not None:
            self.size = size

    def node_lost(self, place: str) -> bool:
        """Forget the copy of a node; return whether it had one."""
        if place not in self.locations:
            return False
        self.locations = tuple(other for other in self.locations if other != place)
        return True

    # --- results that one other node alone waits for ---

    def told_to(self, *, origin_alone: bool) -> None:
        """Say who hears of it: the node alone that had its task placed here, or the shards, as of others."""
        self.is_quiet = origin_alone
