"""The one mapping of ids to shards of the GCS: by slots, of which each belongs to one shard (docs/design/counts.md).

The slot of an id is the remainder of a part that a task and its returns share.  The number of slots is a multiple of
the number of shards at the birth of the cluster.  So each id begins at the shard of its remainder by that number, which
records on disk follow.

A table of slots never changes.  A change of owners is a new table, of the next epoch.

scheduler of counts    SlotsChanged        to every shard: the table of the next epoch
GCS shard              SlotsMoved          to whoever asked by an older table (chain.py)
local scheduler        AwaitReturns -> AwaitReturnsReply    to a shard that has lost slots: have all requests come back?
"""

# No `from __future__ import annotations` in modules of messages (message.py).

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct

from .limits import Several
from .message import Message, Natural, routed

# A cluster has at most so many slots, unless it is born with more shards.
SLOTS_MAX = 256
# A table for so many shards is made of a number that stands in a message; `--gcs-shards` allows fewer.
SHARDS_MAX = 1_000
ShardCount = Annotated[int, Meta(ge=0, le=SHARDS_MAX)]


class SlotTable(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The shards that own the slots, by number.

    Raises:
        ValueError: there is no slot, or one of a shard that there never was.
    """

    owners: Several[Natural]  # slot -> the number of its shard
    epoch: Natural  # the number of changes so far
    shards: Natural  # that there ever were: the number of the next one, for none is used twice

    def __post_init__(self) -> None:
        if not self.owners or max(self.owners) >= self.shards:
            raise ValueError("no table of slots: one has a shard that there never was, or there is none")

    @classmethod
    def at_birth(cls, shards: int) -> "SlotTable":
        """Return the first table of a cluster.  shards: how many it begins with."""
        return _at_birth(shards)

    def slot(self, any_id: bytes) -> int:
        """Return the slot of a task, an object or an actor: the same for ever."""
        return int.from_bytes(any_id[6:16], "big") % len(self.owners)

    def owner(self, any_id: bytes) -> int:
        """Return the number of the shard responsible for a task, an object or an actor."""
        owners = self.owners
        return owners[int.from_bytes(any_id[6:16], "big") % len(owners)]

    def slots_of(self, shard: int) -> tuple[int, ...]:
        """Return the slots of a shard, in order."""
        return tuple(slot for slot, owner in enumerate(self.owners) if owner == shard)

    def in_use(self) -> tuple[int, ...]:
        """Return the numbers of the shards that own any slot, in order."""
        return tuple(sorted(Counter(self.owners)))

    def split(self, shard: int, slots: Iterable[int]) -> "SlotTable":
        """Give some slots of a shard to a new one, whose number is `shards`.

        Raises:
            ValueError: no slot moves, all do, or one is not of that shard.
        """
        moved = frozenset(slots)  # membership only
        own = self.slots_of(shard)
        if not moved or not moved < frozenset(own):
            raise ValueError(f"shard {shard} cannot give {len(moved)} slots of its {len(own)} to another")
        return self._with(moved, self.shards)

    def merge(self, shard: int, into: int) -> "SlotTable":
        """Give all slots of a shard to another.

        Raises:
            ValueError: one of them has no slots, or they are the same.
        """
        moved = frozenset(self.slots_of(shard))  # membership only
        if shard == into or not moved or into not in self.owners:
            raise ValueError(f"shard {shard} cannot give its {len(moved)} slots to shard {into}")
        return self._with(moved, into)

    def _with(self, moved: frozenset[int], owner: int) -> "SlotTable":
        owners = tuple(owner if slot in moved else before for slot, before in enumerate(self.owners))
        return SlotTable(owners, self.epoch + 1, max(self.shards, owner + 1))


@lru_cache(maxsize=16)
def _at_birth(shards: int) -> SlotTable:
    slots = shards * max(1, SLOTS_MAX // shards)
    return SlotTable(tuple(slot % shards for slot in range(slots)), 0, shards)


class SlotsChanged(Message, tag=routed(312, "counts -> gcs, shard")):
    """The owners of all slots from now on."""

    table: SlotTable


class AwaitReturns(Message, tag=routed(314, "local -> gcs")):
    """A request that is answered after all earlier ones, returned or not."""

    number: Natural


class AwaitReturnsReply(Message, tag=routed(315, "gcs -> local")):
    """The answer to AwaitReturns."""

    number: Natural
