"""The spill folder of a simulated node: files in order, a disk that may be full, and damage."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from ..roles import effects as e

if TYPE_CHECKING:
    from .node import Node


class SpillFolder:
    """The spill files of a node.  Orders are performed one after the other, each after a while."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.files: dict[int, bytes] = {}
        self.linked: dict[int, None] = {}  # segments that are spill files
        self.orders: list[tuple[str, Any]] = []

    def order(self, role: str, effect: Any) -> None:
        """Add an order."""
        self.orders.append((role, effect))
        if len(self.orders) == 1:
            self._soon()

    def _soon(self) -> None:
        world = self.node.world
        world.call_later(world.random.choice((0.0, 50e-6, 2e-3, 20e-3)), self._perform)

    def _perform(self) -> None:
        role, effect = self.orders.pop(0)
        if type(effect) is e.WriteSpillFile:
            self.node.arrive("host", role, self._write(effect))
        elif type(effect) is e.RestoreRange:
            self.node.arrive("host", role, e.RangeRestored(effect.token, self._restore(effect)))
        elif type(effect) is e.CreateSegmentFile:
            self.node.arrive("host", role, self._create(effect))
        elif type(effect) is e.RemoveSegmentFile:
            del self.node.arena.segments[effect.segment]
            self.linked.pop(effect.segment, None)
        else:
            del self.files[effect.file]
        if self.orders:
            self._soon()

    def _write(self, effect: e.WriteSpillFile) -> e.SpillFileWritten:
        if effect.source:
            source = self.files[effect.source]
            parts = [source[position : position + size] for position, size, _ in effect.parts]
            checksums = [checksum for _, _, checksum in effect.parts]
        else:
            parts = [self.node.arena.read(*place) for place in effect.parts]
            checksums = [zlib.crc32(part) for part in parts]
        data = b"".join(parts)
        options = self.node.world.options
        if sum(map(len, self.files.values())) + len(data) > options.spill_bytes_max:
            return e.SpillFileWritten(effect.token, [], "no space left on device")
        self.files[effect.file] = data
        return e.SpillFileWritten(effect.token, checksums)

    def _create(self, effect: e.CreateSegmentFile) -> e.SegmentFileCreated:
        segments = self.node.arena.segments
        if effect.file in self.files:
            self.linked[effect.segment] = None
            segments[effect.segment] = bytearray(self.files[effect.file])
            return e.SegmentFileCreated(effect.segment, "", effect.position)
        own = sum(len(data) for number, data in segments.items() if number and number not in self.linked)
        used = own + sum(map(len, self.files.values()))
        if used + effect.size > self.node.world.options.spill_bytes_max:
            return e.SegmentFileCreated(effect.segment, "no space left on device")
        segments[effect.segment] = bytearray(effect.size)
        return e.SegmentFileCreated(effect.segment)

    def _restore(self, effect: e.RestoreRange) -> str:
        world = self.node.world
        data = self.files[effect.file][effect.position : effect.position + effect.size]
        if world.random.random() < world.options.spill_damage_probability and data and not world.faults.are_over:
            data = bytes([data[0] ^ 1]) + data[1:]
            world.trace.event(world.now, self.node.name, "a spill file is damaged")
        if zlib.crc32(data) != effect.checksum:
            return "its checksum is wrong"
        self.node.arena.write(effect.segment, effect.offset, data)
        return ""
