"""The journal of an experiment: an append-only file of events, from which everything that decides is restored.

    file    = magic, record*
    record  = length (u32, little endian), CRC-32 of the body (u32), body: an event in msgpack

A record is written before the actions that follow from it are carried out: a kill at any moment loses no decision that
has acted.  A record cut short by a kill is dropped when the file is opened again.  A record with a wrong checksum ends
the reading: its offset is named, and all records before it are kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import zlib
from collections.abc import Iterable
from struct import Struct as Layout
from typing import Any

import msgspec

from .events import Event

__all__ = ["JOURNAL", "Journal", "JournalInUse", "read_journal"]

# The journal's name in the experiment's folder.
JOURNAL = "journal.zray"

MAGIC = b"zray-tune-journal-1\n"
_HEAD = Layout("<II")
# The disk has the records after this time at the latest: that matters when a machine loses power, not after a kill.
SYNC_SECONDS = 1.0


class JournalInUse(RuntimeError):
    """Another process runs the experiment."""


class JournalWarning(UserWarning):
    """A journal is damaged."""


def _encode_other(value: Any) -> Any:
    """Values of results that msgpack does not have: numbers of numpy and torch; other ones as text."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "size", 1) == 1:
        with contextlib.suppress(Exception):
            return item()
    to_list = getattr(value, "tolist", None)
    if to_list is not None and getattr(value, "size", 0) <= 1000:
        with contextlib.suppress(Exception):
            return to_list()
    return str(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_other)
_decoder = msgspec.msgpack.Decoder(Event)


def read_journal(path: str) -> tuple[list[Event], int, str]:
    """The events of a journal.

    Returns:
        (events, offset behind the last good record, what is wrong there; empty: nothing).
    """
    with open(path, "rb") as file:
        data = file.read()
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data):
            return [], 0, ""
        return [], 0, "the file does not begin as a journal"
    events: list[Event] = []
    place = len(MAGIC)
    while place < len(data):
        if place + _HEAD.size > len(data):
            break
        length, checksum = _HEAD.unpack_from(data, place)
        body = data[place + _HEAD.size : place + _HEAD.size + length]
        if len(body) < length:
            break
        if zlib.crc32(body) != checksum:
            return events, place, "the checksum is wrong"
        try:
            events.append(_decoder.decode(body))
        except msgspec.MsgspecError as error:
            return events, place, f"the record cannot be read: {error}"
        place += _HEAD.size + length
    return events, place, ""


class Journal:
    """The journal, open for appending by one process.

    Args:
        path: the file; made if it is not there.
        offset: behind the last good record; what follows is cut off.  None: append at the end.

    Raises:
        JournalInUse: another process has it open.
    """

    def __init__(self, path: str, offset: int | None = None) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise JournalInUse(
                f"Another process runs the experiment in {os.path.dirname(path)}.  Wait for its end, or take another "
                "name."
            ) from None
        if offset is not None:
            self._file.truncate(offset)
        self._end = self._file.seek(0, os.SEEK_END)  # behind the last whole record
        self._synced_at = 0.0
        if self._end == 0:
            try:
                self._write(MAGIC)
            except OSError:
                self._file.close()
                raise

    def append(self, events: Iterable[Any]) -> None:
        """Write events; they survive the end of this process when this returns.

        Raises:
            OSError: they cannot be written; the journal is as it was before.
        """
        parts: list[bytes] = []
        for event in events:
            body = _encoder.encode(event)
            parts += (_HEAD.pack(len(body), zlib.crc32(body)), body)
        self._write(b"".join(parts))
        now = time.monotonic()
        if now - self._synced_at >= SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced_at = now

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        """Write all to the disk, and give the lock back."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()
