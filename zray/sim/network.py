"""Connections between simulated processes: real links, real frames, delays, breaks.

A connection has two ends, each with a Link.  Frames arrive in order, each after a delay drawn for it.  The verbs come
in pairs: hold / release, break_ / repair, partition / repair.  Frames in flight are lost when a connection breaks; both
sides send them again after the repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..wire.codec import decode
from ..wire.link import Link
from ..wire.message import Message
from ..wire.objects import ObjectChunk
from ..wire.session import Ack
from .costs import PACK, UNPACK, things_in

if TYPE_CHECKING:
    from .node import Node
    from .simulator import Simulator


class End:
    """A side of a connection."""

    __slots__ = ("arrives_at", "held", "is_held", "link", "name", "receive")

    def __init__(self, name: str, receive: Callable[[Sequence[Any]], None]) -> None:
        self.name = name
        self.receive = receive
        self.link = Link()
        self.arrives_at = 0.0  # arrival of the last frame sent from here; nothing overtakes it
        self.is_held = False  # frames sent from here are held
        self.held: list[bytes] = []


class Connection:
    """Two ends."""

    def __init__(self, world: Simulator, first: End, second: End) -> None:
        self.world = world
        self.ends = {first.name: first, second.name: second}
        self._other = {first.name: second, second.name: first}
        self.generation = 0  # frames of an older generation are lost
        self.is_up = True
        self.is_open = True

    def send(self, source: str, messages: Sequence[Message]) -> None:
        """Send a frame.  Chunks of objects wait until the line is free, so that later messages overtake them."""
        if not self.is_open:
            return
        end = self.ends[source]
        home = self.world.homes.get(source)
        if self.world.options.bandwidth and home is not None and any(type(each) is ObjectChunk for each in messages):
            home.chunks.extend((self, end, each) for each in messages if type(each) is ObjectChunk)
            if others := [each for each in messages if type(each) is not ObjectChunk]:
                self._pack(end, others)
            send_chunks(self.world, home)
        else:
            self._pack(end, messages)

    def _pack(self, end: End, messages: Sequence[Message]) -> None:
        stopwatch = self.world.stopwatch
        begun = stopwatch.clock() if stopwatch is not None else 0.0
        frame = end.link.pack(messages)
        if stopwatch is not None:
            stopwatch.note(PACK, sum(map(things_in, messages)), begun)
        if self.is_up:
            self._carry(end, frame, self.world.bytes_on_line(frame, messages))

    def _carry(self, end: End, frame: bytes, size: int = 0) -> None:
        """Have a frame arrive.  size: bytes on the line; 0: those of the frame."""
        if end.is_held:
            end.held.append(frame)
            return
        world = self.world
        sent_at = world.now
        home = world.homes.get(end.name)
        if world.options.bandwidth and home is not None:
            # A frame after the other, for all destinations.
            sent_at = max(sent_at, home.line_is_free_at) + (size or len(frame)) / world.bandwidth_of(home.name)
            home.line_is_free_at = sent_at
        end.arrives_at = max(end.arrives_at, sent_at + world.delay_of(end.name))
        world.call_at(end.arrives_at, self._arrive, end, frame, self.generation)
        if later := world.weather.draw_repeat():
            world.call_at(end.arrives_at + later, self._arrive, end, frame, self.generation)

    def _arrive(self, source: End, frame: bytes, generation: int) -> None:
        if generation != self.generation or not self.is_open:
            return
        target = self._other[source.name]
        self.world.trace.frame(self.world.now, source.name, target.name, frame)
        stopwatch = self.world.stopwatch
        begun = stopwatch.clock() if stopwatch is not None else 0.0
        was_full = target.link.is_full
        messages = [message for message in target.link.unpack(frame) if type(message) is not Ack]
        if stopwatch is not None:
            stopwatch.note(UNPACK, sum(map(things_in, messages)), begun)
        if target.link.owes_acknowledgement:
            self.send(target.name, [Ack()])
        if messages:
            self.world.faults.before_delivery(source.name, target.name)
            if self.is_open and generation == self.generation:
                target.receive(messages)
            self.world.faults.after_delivery(source.name, target.name)
        elif was_full and not target.link.is_full:
            target.receive([])

    def on_its_way(self, source: str) -> Iterator[Message]:
        """Yield messages sent from there that have not arrived, and are not lost for good."""
        home = self.world.homes.get(source)
        if home is not None and self.is_open:
            yield from (chunk for connection, end, chunk in home.chunks if connection is self and end.name == source)
        received = self._other[source].link.received
        for number, frame in self.ends[source].link.unacknowledged if self.is_open else ():
            if number > received:
                yield from decode(frame).messages

    # --- faults ---

    def break_(self) -> None:
        """Break the connection: frames in flight are lost, later ones wait."""
        self.generation += 1
        self.is_up = False
        for end in self.ends.values():
            end.held.clear()

    def repair(self) -> None:
        """Repair the connection: both sides resend unacknowledged frames."""
        if self.is_up:
            return
        self.is_up = True
        for end in self.ends.values():
            for frame in end.link.resend():
                self._carry(end, frame)

    def hold(self, source: str) -> None:
        """Hold frames sent from there."""
        self.ends[source].is_held = True

    def release(self, source: str) -> None:
        """And goes on."""
        end = self.ends[source]
        end.is_held = False
        held, end.held = end.held, []
        for frame in held:
            self._carry(end, frame)

    def close(self) -> None:
        """Close the connection for good."""
        self.is_open = False


def send_chunks(world: Simulator, home: Node) -> None:
    """Send a node's waiting chunks while its line is free, as host/links/bulk_lane.py does."""
    while home.chunks and home.line_is_free_at <= world.now:
        connection, end, chunk = home.chunks.popleft()
        if connection.is_open:
            connection._pack(end, [chunk])
    if home.chunks and home.looks_at_line < home.line_is_free_at:
        home.looks_at_line = home.line_is_free_at
        world.call_at(home.line_is_free_at, send_chunks, world, home)
