"""Objects that other nodes may know of, from one node's view: the node's hold, and the places of copies.

    the shard's view of this node:   HELD <-> RELEASED
    this node's own copy:            AWAITED -> FETCHING -> AWAITED       a copy has come, or another place is sought
                                     AWAITED -> ON_DISK -> FETCHING       a spill file of this node has the value
                                     AWAITED -> LOST -> AWAITED           an error is the value, until a reconstruction

Only the entry's `value` says whether the value is on this node; LOST names an error as the value.  An order of the
object manager outlives the entry (`fetches.ordered`), and so does a question to a shard (`remote.subscribed`).

Rule 1: A node that has RELEASED an object takes no part in the count that frees its copies.
Rule 2: An object that is FETCHING is on order, or was a moment ago and is given up (`fetches.begin`).
Rule 3: Nothing outside of this file changes the knowledge of a shared object.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct


class Copy(IntEnum):
    """State of this node's copy of a shared object."""

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
    """Knowledge of an object beyond its entry, where other nodes may know the object too."""

    is_released: bool = False  # this node has told the shard that it no longer holds it
    copy: Copy = AWAITED
    locations: tuple[str, ...] = ()  # the other nodes that are known to have a copy
    size: int = -1  # bytes, once known
    is_quiet: bool = False  # only the node that had its task placed here knows what that returns

    @property
    def is_fetching(self) -> bool:
        """Return whether a copy is on the way to this node."""
        return self.copy is FETCHING

    @property
    def is_on_disk(self) -> bool:
        """Return whether the value lies in a spill file of this node, and nothing is ordered."""
        return self.copy is ON_DISK

    def _enter(self, event: Event) -> None:
        self.copy = TRANSITIONS[self.copy, event]

    # --- the shard's view of this node ---

    def holds(self) -> bool:
        """Hold the object; return whether the shard has heard the opposite."""
        was_released, self.is_released = self.is_released, False
        return was_released

    def releases(self) -> None:
        """Let go of the object: the shard is to hear of the release."""
        self.is_released = True

    # --- this node's copy ---

    def ordered(self) -> None:
        """Note the order of a copy."""
        self._enter(Event.ORDERED)

    def came(self) -> None:
        """Note the arrival of the ordered copy."""
        self._enter(Event.ENDED)

    def made(self) -> None:
        """Note a value that a task or a put has made here, perhaps again, while a copy is on disk or on order."""
        if self.copy is FETCHING or self.copy is ON_DISK:
            self._enter(Event.ENDED)

    def failed(self) -> None:
        """Note the end of an order without a copy: no known place had a copy."""
        self._enter(Event.ENDED)
        self.locations = ()

    def spilled(self) -> None:
        """The copy of this node lies on disk alone."""
        self._enter(Event.SPILLED)

    def lost(self) -> None:
        """Note that an error has replaced the value on this node."""
        self._enter(Event.LOST)

    def loss_forgotten(self) -> None:
        """Forget the error: the value is made again."""
        self._enter(Event.FORGOTTEN)

    # --- copies of other nodes ---

    def lies_at(self, places: Iterable[str], size: int | None = None) -> None:
        """Set the other nodes known to have copies, and the size in bytes if known."""
        self.locations = tuple(places)
        if size is not None:
            self.size = size

    def node_lost(self, place: str) -> bool:
        """Forget the copy of a node; return whether the node had a copy."""
        if place not in self.locations:
            return False
        self.locations = tuple(other for other in self.locations if other != place)
        return True

    # --- results that one other node alone waits for ---

    def told_to(self, *, origin_alone: bool) -> None:
        """Set whether only the task's origin hears of the value; otherwise the shards hear, as usual."""
        self.is_quiet = origin_alone
