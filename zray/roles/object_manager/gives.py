"""Objects that other nodes pull from this node.

At most `gives_max` nodes pull an object from this node at a time.  Each has a *slot* until the puller gives the slot
back, or is lost.  A further puller is redirected to a node that has a slot, in turn.  A puller serves each chunk as
soon as the chunk has arrived.  So a broadcast is a tree: no node sends more than `gives_max` copies at once, and the
last node has the object little later than the first.  A puller that takes only a complete copy waits for a slot
instead.

The link of a program outside the cluster may be much slower than the links between nodes.  So such a program sends an
object once, as far as possible.  The first puller has a slot.  All others are redirected to that puller, also after the
pull is complete and the slot is free.  A puller has a slot too only when the redirection failed and the puller comes
back.  Pullers are not redirected to a node that was much slower than another: the slow link is then the node's.

While any node has a slot, the range stays allocated and unchanged, also after the object is freed: a chunk may be read
later, and read again after a broken connection.

Small values, which the local scheduler keeps, are given at once to every puller.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...wire import objects
from ...wire.message import Bulk
from ..effects import RangeRead, ReadRange
from ..kept import Latest
from ..role import on
from .pulls import HERE, Pull
from .sources import WINDOW_BYTES_MAX

if TYPE_CHECKING:
    from .manager import ObjectManager, Stored

# With 1, a broadcast would be a chain; with many, the first holder's link would be shared by as many pullers.  The
# total time is that of `gives_max` copies over a link, plus the time of a chunk per level of the tree.
GIVES_MAX = 2
# The orders of a puller that waits for a slot: as many as it may have chunks under way.
ORDERS_MAX = 64
# The number of adjacent chunks sent as one piece: larger pieces exceed the caches.
PIECE_CHUNKS = 8
# A node is slow if it takes this many times as long as another, when both took more than the first few chunks.
SLOW_FACTOR = 4
PACED_BYTES_MIN = 1 << 20
PACES_MAX = 1_000  # nodes of which that is known, the last so many: more do not pull from one program at a time
NOTHING = Bulk(b"")


class Give(Struct, eq=False):
    """An object pulled by other nodes."""

    LASTING = {"orders of one node": (lambda it: map(len, it.waiting.values()), "ORDERS_MAX")}

    slots: dict[str, int] = {}  # who pulls it, and on what ticket
    since: dict[str, float] = {}  # those of them that had nothing of it: when they began
    turn: int = 0  # counts those sent on
    # Pullers that wait for a slot: their orders, each with the refs inside the object if they were asked for.
    waiting: dict[str, list[tuple[objects.PullObject, tuple[bytes, ...]]]] = {}
    later: dict[int, dict[str, None]] = {}  # chunk that is not here yet -> who has asked for it


class Gives:
    """The pulls served by a node."""

    PASSING = {"asked reading": None, "by_object": "manager.objects"} | {
        "ending": lambda it: it.gives_max * len(it.manager.retired)
    }
    LASTING = {"given": "manager.objects", "by_object": ...} | {
        "orders that wait for a value": (lambda it: map(len, it.asked.values()), "ORDERS_MAX"),
        "nodes that pull one object": (lambda it: (len(give.slots) for give in it.by_object.values()), "gives_max"),
    }

    def __init__(self, manager: ObjectManager, gives_max: int, *, is_outside: bool) -> None:
        self.manager = manager
        self.gives_max = gives_max
        self.is_outside = is_outside
        # From outside: the last one that had an object from here altogether; and how fast each node had its last one.
        self.given: dict[bytes, str] = {}
        self.paces: Latest[str, float] = Latest(PACES_MAX)  # bytes/s
        self.token = 0  # of the latest ReadRange
        self.by_object: dict[bytes, Give] = {}
        # Slots in what has been freed: puller and ticket -> whose range is kept until the ticket comes back.
        self.ending: dict[tuple[str, int], Stored] = {}
        # Orders of a puller that wait for the local scheduler: it has the object restored from disk first.
        self.asked: dict[tuple[bytes, str], list[objects.PullObject]] = {}
        # By token: the puller and the chunk that is being read.
        self.reading: dict[int, tuple[str, objects.ObjectChunk]] = {}

    def is_giving(self, object_id: bytes) -> bool:
        """Whether other nodes pull the object from here, or are about to."""
        return object_id in self.by_object

    # --- orders ---

    @on(objects.PullObject)
    def give(self, message: objects.PullObject) -> None:
        """PullObject."""
        object_id, puller = message.object_id, self.manager.sender
        if message.offset and object_id in self.manager.objects:
            self._find_slot(puller, message, ())
        elif object_id in self.manager.pulls.coming:
            self._find_slot(puller, message, self.manager.pulls.coming[object_id].contained)
        else:
            # The local scheduler knows the refs inside, and whether the value is small.
            orders = self.asked.get((object_id, puller))
            if orders and orders[0].ticket == message.ticket:  # more pages are there at the puller
                if len(orders) < ORDERS_MAX:
                    orders.append(message)
                return
            self.asked[object_id, puller] = [message]
            self.manager.send(self.manager.local_scheduler, objects.ReadInline(object_id, puller))

    @on(objects.InlineRead)
    def inline_read(self, message: objects.InlineRead) -> None:
        """InlineRead."""
        orders = self.asked.pop((message.object_id, message.puller), [])
        if orders and message.value is not None:
            value = objects.ObjectInline(message.object_id, orders[0].ticket, message.value, message.contained)
            self.manager.send(message.puller, value)
            return
        for order in orders:
            self._find_slot(message.puller, order, message.contained)

    def _find_slot(self, puller: str, order: objects.PullObject, contained: tuple[bytes, ...]) -> None:
        """Give the puller a slot, redirect the puller, queue the order, or refuse."""
        object_id = order.object_id
        stored = self.manager.objects.get(object_id)
        pull = self.manager.pulls.coming.get(object_id)
        is_whole = stored is not None and pull is None and stored.process in ("", self.manager.address)
        is_partial = stored is not None and pull is not None and not order.whole_only
        if stored is None or not (is_whole or is_partial) or order.offset >= stored.place.size:
            self.manager.send(puller, objects.PullRefused(object_id, order.ticket))
            return
        give = self.by_object.get(object_id) or Give()
        if puller not in give.slots:
            source = self._other_for(puller, order, give)
            if source:
                self.manager.send(puller, objects.PullElsewhere(object_id, order.ticket, source))
                return
            if len(give.slots) >= self.gives_max:
                orders = give.waiting.setdefault(puller, [])
                if len(orders) < ORDERS_MAX:
                    orders.append((order, contained))
                return
            stored.is_read()
            if not order.whole_only:
                give.since[puller] = self.manager.now
        self.by_object[object_id] = give
        give.slots[puller] = order.ticket
        self._serve(give, puller, order, stored, contained)

    def _other_for(self, puller: str, order: objects.PullObject, give: Give) -> str:
        """Return the node to which a puller without a slot is redirected, or "" for none."""
        if order.whole_only or self.given.get(order.object_id) == puller:
            self.given.pop(order.object_id, None)  # it may have come back from there
        if order.whole_only:
            return ""
        others, has_slot = list(give.slots), len(give.slots) < self.gives_max
        if self.is_outside:
            known = self.given.get(order.object_id)
            good = [other for other in ([known] if known else others) if not self._is_slow(other)]
            others = good if good or has_slot else others
        elif has_slot:
            return ""
        give.turn += 1
        return others[give.turn % len(others)] if others else ""

    def _is_slow(self, node: str) -> bool:
        return self.paces.get(node, inf) * SLOW_FACTOR < max(self.paces.values(), default=0.0)

    def _has_taken(self, give: Give, puller: str, stored: Stored) -> None:
        """Record an outside program's object as complete at the puller, and redirect waiting pullers."""
        self.given[stored.object_id] = puller
        seconds = self.manager.now - give.since.get(puller, inf)
        if seconds > 0.0 and stored.place.size >= PACED_BYTES_MIN:
            self.paces[puller] = stored.place.size / seconds
        for other, orders in give.waiting.items():
            self.manager.send(other, objects.PullElsewhere(stored.object_id, orders[0][0].ticket, puller))
        give.waiting.clear()

    def _serve(
        self, give: Give, puller: str, order: objects.PullObject, stored: Stored, contained: tuple[bytes, ...]
    ) -> None:
        pull = self.manager.pulls.coming.get(order.object_id)
        step = self.manager.chunk_bytes
        end = min(stored.place.size, order.offset + min(order.length, WINDOW_BYTES_MAX))
        here: list[int] = []
        for index in range(order.offset // step, -(-end // step)):
            if pull is not None and pull.chunks[index] != HERE:
                give.later.setdefault(index, {})[puller] = None
            else:
                here.append(index)
        self._read_all(give, stored, puller, here, contained)

    def _read_all(
        self, give: Give, stored: Stored, puller: str, indices: list[int], contained: tuple[bytes, ...]
    ) -> None:
        """Read chunks for a puller; adjacent chunks are read as one piece."""
        step, start = self.manager.chunk_bytes, 0
        for position in range(1, len(indices) + 1):
            count = position - start
            # Short ones first: the line, and whoever is at its other end, have something to do the sooner.
            most = min(PIECE_CHUNKS, max(1, indices[start] // 4))
            if position == len(indices) or indices[position] != indices[start] + count or count == most:
                offset = indices[start] * step
                size = min(stored.place.size, (indices[start] + count) * step) - offset
                self._read(give, stored, puller, offset, size, () if offset else contained)
                start = position

    def _read(
        self, give: Give, stored: Stored, puller: str, offset: int, size: int, contained: tuple[bytes, ...]
    ) -> None:
        place = stored.place
        self.token += 1
        chunk = objects.ObjectChunk(stored.object_id, give.slots[puller], place.size, offset, NOTHING, contained)
        self.reading[self.token] = (puller, chunk)
        self.manager.perform(ReadRange(place.segment, place.offset + offset, size, self.token))

    @on(RangeRead)
    def read(self, message: RangeRead) -> None:
        """RangeRead: the chunk is sent, if the puller's ticket is still current."""
        puller, chunk = self.reading.pop(message.token)
        give = self.by_object.get(chunk.object_id)
        if give is not None and give.slots.get(puller) == chunk.ticket:
            self.manager.send(puller, replace(chunk, data=message.data))

    def chunks_are_here(self, pull: Pull, indices: range) -> None:
        """Send newly arrived chunks of a pull to the waiting nodes."""
        give = self.by_object.get(pull.object_id)
        stored = self.manager.objects.get(pull.object_id)
        if give is None or stored is None:
            return
        wanted: dict[str, list[int]] = {}
        for index in indices:
            for puller in give.later.pop(index, ()):
                wanted.setdefault(puller, []).append(index)
        for puller, chunks in wanted.items():
            self._read_all(give, stored, puller, chunks, pull.contained)

    # --- slots ---

    @on(objects.PullDone)
    def done(self, message: objects.PullDone) -> None:
        """PullDone."""
        puller = self.manager.sender
        self.asked.pop((message.object_id, puller), None)
        stored = self.ending.pop((puller, message.ticket), None)
        if stored is not None:
            self.manager.end_reading(stored)
            return
        give = self.by_object.get(message.object_id)
        if give is None or give.slots.get(puller, message.ticket) != message.ticket:
            return
        if self.is_outside and message.is_whole and puller in give.slots:
            self._has_taken(give, puller, self.manager.objects[message.object_id])
        self._free_slot(message.object_id, puller)

    def _free_slot(self, object_id: bytes, puller: str) -> None:
        give = self.by_object[object_id]
        give.waiting.pop(puller, None)
        give.since.pop(puller, None)
        if give.slots.pop(puller, None) is None:
            return
        self.manager.end_reading(self.manager.objects[object_id])
        for index, pullers in list(give.later.items()):
            pullers.pop(puller, None)
            if not pullers:
                del give.later[index]
        if not give.waiting:
            if not give.slots:
                del self.by_object[object_id]
            return
        following = next(iter(give.waiting))
        for order, contained in give.waiting.pop(following):
            self._find_slot(following, order, contained)

    def forget(self, stored: Stored) -> None:
        """Refuse all pullers of an object that is freed, or will never arrive."""
        self.given.pop(stored.object_id, None)
        give = self.by_object.pop(stored.object_id, None)
        if give is None:
            return
        for puller, ticket in give.slots.items():
            self.ending[puller, ticket] = stored
            self.manager.send(puller, objects.PullRefused(stored.object_id, ticket))
        for puller, orders in give.waiting.items():
            self.manager.send(puller, objects.PullRefused(stored.object_id, orders[0][0].ticket))

    def node_lost(self, gone: str) -> None:
        """Drop the slots and orders of a lost node's object manager."""
        self.given = {object_id: source for object_id, source in self.given.items() if source != gone}
        self.paces.pop(gone, None)
        for object_id in list(self.by_object):
            self._free_slot(object_id, gone)
        for puller, ticket in list(self.ending):
            if puller == gone:
                self.manager.end_reading(self.ending.pop((puller, ticket)))
        for object_id, puller in list(self.asked):
            if puller == gone:
                del self.asked[object_id, puller]

    def check_everything(self) -> None:
        """Assert that no more copies are sent at once than agreed, and only nodes with a slot wait for chunks."""
        for give in self.by_object.values():
            assert 0 < len(give.slots) <= self.gives_max, "more copies at once than agreed, or none"
            assert not give.waiting or len(give.slots) == self.gives_max, "somebody waits though there is a slot"
            assert all(puller in give.slots for pullers in give.later.values() for puller in pullers)
