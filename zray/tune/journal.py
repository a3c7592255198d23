"""The journal of an experiment: an append-only file of events, from which everything that decides is restored.

    file    = magic, record*
    record  = length (u32, little endian), CRC-32 of the length and the body (u32), body: an event in msgpack

A record is written before the actions that follow from it are carried out: a kill at any moment loses no decision that
has acted.  A record cut short by a kill is dropped when the file is opened again.  A damaged record ends the reading:
its offset is named, all records before it are kept, and what is cut off is kept in a file beside the journal.  A record
counts as cut short only if nothing whole stands behind its beginning.

Arrays of numpy in the metrics of a result have the form of msgpack-numpy, see `arrays`.  Integers beyond 64 bits, which
msgpack does not have, have the extension type 1: their bytes, big endian, in two's complement.

The checksums of version 1 are of the body alone; its files are read, and written anew when the experiment goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Iterable
from struct import Struct as Layout
from typing import Any

import msgspec

from . import arrays
from .events import Event, Report
from .folder_lock import FolderLock, JournalInUse
from .metrics import INTEGER_MAX, INTEGER_MIN, clean_texts, encode_other
from .storage import sync_folder, write_aside

__all__ = ["JOURNAL", "Journal", "JournalInUse", "JournalWarning", "read_journal"]

# The journal's name in the experiment's folder.
JOURNAL = "journal.zray"

MAGIC = b"zray-tune-journal-2\n"
_FORMER_MAGIC = b"zray-tune-journal-1\n"
# The body of each record begins with the head of a map, then the key of its tag.
_TAG = b"\xa4type"
_HEAD = Layout("<II")
# The disk has the records after this time at the latest: that matters when a machine loses power, not after a kill.
SYNC_SECONDS = 1.0


class JournalWarning(UserWarning):
    """A journal is damaged."""


def _encode_other(value: Any) -> Any:
    """A value that msgpack does not have: arrays of numpy whole, others as in result.json."""
    found = arrays.encoded(value)
    return encode_other(value) if found is None else found


def _of_extension(code: int, data: memoryview) -> Any:
    """The value of an extension type of msgpack."""
    return int.from_bytes(data, "big", signed=True) if code == _INTEGER else msgspec.msgpack.Ext(code, bytes(data))


def _with_extensions(value: Any) -> Any:
    """A plain value, in which integers beyond 64 bits have their extension type."""
    if isinstance(value, dict):
        return {key: _with_extensions(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_extensions(item) for item in value]
    if type(value) is not int or INTEGER_MIN <= value <= INTEGER_MAX:
        return value
    return msgspec.msgpack.Ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


_INTEGER = 1
_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_other)
_decoder = msgspec.msgpack.Decoder(Event, ext_hook=_of_extension)


def _checksum(length: bytes, body: bytes | memoryview, magic: bytes = MAGIC) -> int:
    return zlib.crc32(body, 0 if magic == _FORMER_MAGIC else zlib.crc32(length))


def _record(event: Any) -> tuple[bytes, bytes]:
    """Head and body of a record."""
    try:
        body = _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError):
        # A text from a name of a file that is no UTF-8, in an error, a parameter or a name; or a long integer.
        plain = msgspec.to_builtins(event, enc_hook=_encode_other, builtin_types=(bytes, bytearray, memoryview))
        body = _encoder.encode(_with_extensions(clean_texts(plain)))
    return _HEAD.pack(len(body), _checksum(len(body).to_bytes(4, "little"), body)), body


def _is_whole(data: bytes, place: int, magic: bytes) -> bool:
    """Whether a record stands at a place."""
    if place < 0 or place + _HEAD.size > len(data):
        return False
    length, checksum = _HEAD.unpack_from(data, place)
    begin = place + _HEAD.size
    return (
        begin + length <= len(data)
        and _checksum(data[place : place + 4], memoryview(data)[begin : begin + length], magic) == checksum
    )


def _is_cut_short(data: bytes, place: int, magic: bytes) -> bool:
    """Whether the record at a place, which runs beyond the end, was not written to its end.

    With a damaged length, the rest is the record itself, or whole records follow.
    """
    rest = data[place + _HEAD.size :]
    if len(data) - place >= _HEAD.size:
        checksum = _HEAD.unpack_from(data, place)[1]
        if rest and _checksum(len(rest).to_bytes(4, "little"), rest, magic) == checksum:
            return False
    found = data.find(_TAG, place + _HEAD.size + 2)
    while found >= 0:
        if _is_whole(data, found - 1 - _HEAD.size, magic):
            return False
        found = data.find(_TAG, found + 1)
    return True


def _event(body: memoryview) -> Event:
    """The event of a record."""
    event = _decoder.decode(body)
    if isinstance(event, Report) and arrays.may_hold_arrays(body):
        event = msgspec.structs.replace(event, metrics=arrays.decoded(event.metrics))
    return event


def read_journal(path: str) -> tuple[list[Event], int, str]:
    """The events of a journal.

    Returns:
        (events, offset behind the last good record, what is wrong there; empty: nothing).
    """
    with open(path, "rb") as file:
        data = file.read()
    magic, problem = data[: len(MAGIC)], ""
    if magic not in (MAGIC, _FORMER_MAGIC):
        if MAGIC.startswith(data):
            return [], 0, ""
        if not _is_whole(data, len(MAGIC), MAGIC):
            return [], 0, "the file does not begin as a journal"
        magic = MAGIC  # its own bytes are damaged, and all records are there
    events: list[Event] = []
    place = len(MAGIC)
    while place < len(data):
        if not _is_whole(data, place, magic):
            is_long = place + _HEAD.size > len(data) or (
                place + _HEAD.size + _HEAD.unpack_from(data, place)[0] > len(data)
            )
            if not is_long:
                problem = "the checksum is wrong"
            elif not _is_cut_short(data, place, magic):
                problem = "the length of the record is damaged"
            break
        length = _HEAD.unpack_from(data, place)[0]
        try:
            events.append(_event(memoryview(data)[place + _HEAD.size : place + _HEAD.size + length]))
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            problem = f"the record cannot be read: {error}"
            break
        place += _HEAD.size + length
    return events, place, problem


class Journal:
    """The journal, open for appending by one process.

    Args:
        path: the file; made if it is not there.
        lock: the lock of its folder; None: it is taken here.

    Raises:
        JournalInUse: another process has it open.
    """

    def __init__(self, path: str, lock: FolderLock | None = None) -> None:
        self.path = path
        self._lock = lock or FolderLock(os.path.dirname(path))
        self._synced_at = 0.0
        self._end = 0  # behind the last whole record
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
            try:
                self._end = self._file.seek(0, os.SEEK_END)
                if self._end == 0:
                    self._write(MAGIC)
                    self.sync()
                    sync_folder(os.path.dirname(path))
            except OSError:
                self._file.close()
                raise
        except OSError:
            self._lock.release()
            raise

    def cut(self, offset: int, problem: str = "") -> None:
        """Continue after the last good record, as found by `read_journal`.

        Args:
            problem: what is wrong behind it: the bytes there are kept in a file beside the journal.
        """
        with open(self.path, "rb") as file:
            data = file.read()
        if problem:
            write_aside(f"{self.path}.{int(time.time() * 1000)}.damaged", data[offset:])
        if offset and data.startswith(MAGIC):
            self._file.truncate(offset)
            self._end = offset
            return
        # A former version, or a damaged beginning.
        events = read_journal(self.path)[0] if offset else []
        whole = b"".join([MAGIC, *(part for event in events for part in _record(event))])
        write_aside(self.path, whole)
        self._file.close()
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        self._end = len(whole)

    def append(self, events: Iterable[Any]) -> None:
        """Write events, which then survive the end of the process.

        Raises:
            OSError: they cannot be written; the journal is as it was before.
        """
        parts: list[bytes] = []
        for event in events:
            parts += _record(event)
        self._write(b"".join(parts))
        if time.monotonic() - self._synced_at >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Wait until the disk has all records."""
        self._synced_at = time.monotonic()
        os.fsync(self._file.fileno())

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
                self._lock.release()
