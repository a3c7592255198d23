"""A process's view of its node's arena: segments are mapped on first use, for as long as the session lasts.

A process that both reads and writes maps a segment twice.  Arrays for the program lie in a mapping without permission
to write, and values are written through the other mapping.  So a write past numpy's own check ends the process
(store/write_faults.py), and no other process reads a wrong value.

A read range is pinned until the last array made from it is gone.  Then `on_release` is called, in any thread and in the
middle of anything, so it only appends to a deque.
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
    """A weak reference that reports its array's death, unless it dies first."""

    __slots__ = ("on_release", "key", "slot")

    on_release: OnRelease
    key: int
    slot: int  # of write_faults


# Pins must live as long as their arrays: a weak reference that is itself gone calls nothing.
_pins: dict[int, _Pin] = {}


def _released(pin: _Pin) -> None:
    if _pins.pop(pin.key, None) is not None:
        write_faults.forget(pin.slot)
        pin.on_release()


# Pins inherited by a forked child are its parent's to release.
os.register_at_fork(after_in_child=_pins.clear)


class ArenaView:
    """The mapped segments of a session."""

    def __init__(self, session: str, files: str = "") -> None:
        """files: the folder of the segments that lie in files: all but the first."""
        self.session = session
        self.files = files
        self._segments: dict[tuple[int, bool], Segment] = {}  # by number, and whether the mapping is writable

    def segment(self, number: int, offset: int, size: int, *, writable: bool = False) -> Segment:
        """Return the segment, mapped on first use.

        If the limit of address space is too low, only the range is mapped, and only for this use.

        Raises:
            ObjectLostError: the session's node is gone, or the segment was removed.
            OSError: there is no address space even for the range; names the limit.
        """
        segment = self._segments.get((number, writable))
        if number and segment is None:
            segment = self._file(number, writable=writable)
        elif segment is None:
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

    def _file(self, number: int, *, writable: bool) -> Segment:
        """Return a segment in a file, which holds one value: it is unmapped with the last array of that."""
        path = os.path.join(self.files, str(number))  # a link: the file may lie in a folder of the user's choice
        try:
            return Segment.open_file(os.path.realpath(path), writable=writable)
        except (FileNotFoundError, ValueError) as error:
            raise ObjectLostError(f"The file {path} of a value of this session is gone: {error}") from None

    def size(self) -> int:
        """Return the size of the first segment in bytes: the store, but for values in files.  0: not mapped yet."""
        segment = self._segments.get((0, True))
        return 0 if segment is None else segment.size

    def leave(self) -> None:
        """Drop the segments at the session's end: each is unmapped with the last array that reads it, or now."""
        self._segments.clear()

    def read(
        self, segment_number: int, offset: int, size: int, on_release: OnRelease | None = None, said: str = ""
    ) -> Any:
        """Return a range as a read-only 1-d uint8 array, for `values.deserialize`.

        on_release: called once, when the array and all arrays made from it are gone.

        said: a text that names the value, for the message of a process that writes into it; kept until that call.

        Raises:
            ObjectLostError: the shared memory was removed or truncated.
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
            is_explained = said and not segment_number
            pin.slot = write_faults.name(segment.address_of(offset), size, said) if is_explained else -1
            _pins[pin.key] = pin
        return array

    def writable(self, segment_number: int, offset: int, size: int) -> memoryview:
        """Return a range to write into, by `values.write_into`; the range must be reserved.

        Raises:
            ObjectLostError: as `read`.
        """
        try:
            return self.segment(segment_number, offset, size, writable=True).writable(offset, size)
        except SegmentCutError as error:
            raise ObjectLostError(f"The value cannot be stored: {error.strerror}") from None
