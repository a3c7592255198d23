"""A process's view of its node's arena: segments are mapped on first use, and stay so while the session lasts.

A process maps a segment twice where it both reads and writes.  Arrays that a program gets lie in a mapping without
permission to write, and values are laid down through the other one.  So a write that goes around numpy's own check ends
the process (store/write_faults.py), and no other process reads a wrong value.

A range that is read is pinned until the last array made from it is gone: then `on_release` is called, which
may happen in any thread and in the middle of anything, so it does no more than append to a deque.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable
from typing import Any

from ..exceptions import ObjectLostError
from . import write_faults
from .segment import Segment, SegmentCutError, segment_name

OnRelease = Callable[[], object]


class _Pin(weakref.ref):  # type: ignore[type-arg]
    """Dies with nothing said unless its array dies first."""

    __slots__ = ("on_release", "key", "slot")

    on_release: OnRelease
    key: int
    slot: int  # of write_faults


# Pins must live as long as their arrays: a weak reference that is itself gone calls nobody.
_pins: dict[int, _Pin] = {}


def _released(pin: _Pin) -> None:
    if _pins.pop(pin.key, None) is not None:
        write_faults.forget(pin.slot)
        pin.on_release()


# The pins that a forked child inherits are its parent's to release.
os.register_at_fork(after_in_child=_pins.clear)


class ArenaView:
    """The mapped segments of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self._segments: dict[tuple[int, bool], Segment] = {}  # by number, and whether the mapping is writable

    def segment(self, number: int, offset: int, size: int, *, writable: bool = False) -> Segment:
        """The segment, mapped if this is the first use.

        Where this process may not have so much address space, only the range is mapped, and only for this use.

        Raises:
            ObjectLostError: the session's node is gone, or somebody has removed it.
            OSError: there is no address space even for the range; names the limit.
        """
        segment = self._segments.get((number, writable))
        if segment is None:
            name = segment_name(self.session, number)
            try:
                try:
                    segment = Segment.open(name, writable=writable)
                except OSError as error:
                    if error.errno != errno.ENOMEM:
                        raise
                    segment = Segment.open(name, writable=writable, part=(offset, size))
                else:
                    segment = self._segments.setdefault((number, writable), segment)
            except (FileNotFoundError, ValueError) as error:  # an empty file cannot be mapped
                raise ObjectLostError(f"The shared memory {name} of this session is gone: {error}") from None
            if not writable:
                segment.explain_writes()
        return segment

    def leave(self) -> None:
        """The session is over: a segment is unmapped with the last array that reads it, here if there is none."""
        self._segments.clear()

    def read(
        self, segment_number: int, offset: int, size: int, on_release: OnRelease | None = None, said: str = ""
    ) -> Any:
        """A range as a read-only 1-d uint8 array, for `values.deserialize`.

        on_release: called once, when the array and all that was made from it are gone.
        said: which value it is, for the message of a process that writes into it; kept until that call.

        Raises:
            ObjectLostError: somebody has removed or truncated the shared memory.
        """
        try:
            segment = self.segment(segment_number, offset, size)
            array = segment.view(offset, size)
        except SegmentCutError as error:
            raise ObjectLostError(f"The value is lost: {error.strerror}") from None
        if on_release is not None:
            pin = _Pin(array, _released)
            pin.on_release = on_release
            pin.key = id(pin)
            pin.slot = write_faults.name(segment.address_of(offset), size, said) if said else -1
            _pins[pin.key] = pin
        return array

    def writable(self, segment_number: int, offset: int, size: int) -> memoryview:
        """A range to write into, by `values.write_into`; it must be reserved.

        Raises:
            ObjectLostError: as `read`.
        """
        try:
            return self.segment(segment_number, offset, size, writable=True).writable(offset, size)
        except SegmentCutError as error:
            raise ObjectLostError(f"The value cannot be stored: {error.strerror}") from None
