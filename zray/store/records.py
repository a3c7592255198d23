"""Records in a file: framed, numbered, checksummed; and the classification of remains after a death or a disk fault.

    file      magic "zraylog\\n", version, kind, number of records before this file, CRC-32 of these
    record    magic "ZR", version, flags, length, sequence, CRC-32 of the payload, CRC-32 of these; then the payload

*Torn*: the end of the last append is missing, since its process or its machine died before fsync returned.  The file
then ends inside a record; or a record of the last append has a sector of zeros, which a file system shows for unwritten
data.  The records of an append are a *group*: a group begins only when the former is durable, so nothing of a later
group follows a torn one.

*Damaged*: anything else.  Nothing behind a damaged record can be distinguished from unacknowledged data, so the file is
refused, with the place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import BinaryIO, NamedTuple
from zlib import crc32

from .durable import StoreDamaged

FILE_MAGIC = b"zraylog\n"
FILE_VERSION = 1
RECORD_MAGIC = b"ZR"
RECORD_VERSION = 1
# Kinds of files.
LOG, SNAPSHOT, PAGE = 1, 2, 3
# Flags of records.
BEGINS_GROUP, ENDS_SNAPSHOT = 1, 2
# Far above the size of a turn's data: a longer length is not a record's.
RECORD_BYTES_MAX = 1 << 30

_FILE = Struct("<8sHHQ")
_RECORD = Struct("<2sBBIQI")
_CRC = Struct("<I")
FILE_HEADER_BYTES = _FILE.size + _CRC.size
HEADER_BYTES = _RECORD.size + _CRC.size
SECTOR_BYTES = 512
_READ_BYTES = 1 << 20


class Record(NamedTuple):
    """A whole record; offset: of its header, in bytes."""

    sequence: int
    flags: int
    offset: int
    payload: bytes


def pack_file_header(kind: int, before: int) -> bytes:
    """Return the first bytes of a file; before: the number of earlier records."""
    header = _FILE.pack(FILE_MAGIC, FILE_VERSION, kind, before)
    return header + _CRC.pack(crc32(header))


def pack_records(payloads: Sequence[bytes], first: int, *, last_flags: int = 0) -> bytes:
    """Return a group, numbered from `first`; last_flags: extra flags of its last record.

    Raises:
        ValueError: a payload is too long (definite).
    """
    parts: list[bytes] = []
    flags = BEGINS_GROUP
    last = first + len(payloads) - 1
    for sequence, payload in enumerate(payloads, start=first):
        if len(payload) > RECORD_BYTES_MAX:
            raise ValueError(f"a record of {len(payload)} bytes: at most {RECORD_BYTES_MAX} are possible")
        if sequence == last:
            flags |= last_flags
        header = _RECORD.pack(RECORD_MAGIC, RECORD_VERSION, flags, len(payload), sequence, crc32(payload))
        parts += (header, _CRC.pack(crc32(header)), payload)
        flags = 0
    return b"".join(parts)


class Scan:
    """Reads the records of a file.  Afterwards `end` is the end of the last whole record."""

    def __init__(self, path: str, kind: int, *, may_be_torn: bool) -> None:
        self.path = path
        self.kind = kind
        self.may_be_torn = may_be_torn
        self.before = 0  # of the file header
        self.is_headless = False  # torn inside the file header: empty
        self.size = 0
        self.end = 0
        self.count = 0
        self.is_torn = False
        self.is_ended = False  # a record has marked the end of its snapshot

    def __iter__(self) -> Iterator[Record]:
        """Raises:
        StoreDamaged
        """
        with open(self.path, "rb", buffering=_READ_BYTES) as file:
            self.size = os.fstat(file.fileno()).st_size
            if not self._read_file_header(file):
                return
            while self.end < self.size:
                if self.is_ended:
                    raise StoreDamaged(self.path, self.end, "something follows the last part of the snapshot")
                record = self._read(file, self.before + self.count + 1)
                if record is None:
                    return
                self.count += 1
                self.end = record.offset + HEADER_BYTES + len(record.payload)
                self.is_ended = bool(record.flags & ENDS_SNAPSHOT)
                yield record

    def _read_file_header(self, file: BinaryIO) -> bool:
        header = file.read(FILE_HEADER_BYTES)
        if len(header) < FILE_HEADER_BYTES or not any(header):
            self.is_headless = True
            self._torn(0, "the file ends inside its header")
            return False
        magic, version, kind, self.before = _FILE.unpack_from(header)
        if crc32(header[: _FILE.size]) != _CRC.unpack_from(header, _FILE.size)[0] or magic != FILE_MAGIC:
            raise StoreDamaged(self.path, 0, "this is not the header of a log")
        if version != FILE_VERSION:
            raise StoreDamaged(self.path, 0, f"version {version} of the file is not known, only {FILE_VERSION}")
        if kind != self.kind:
            raise StoreDamaged(self.path, 0, f"a file of kind {kind}, where one of kind {self.kind} belongs")
        self.end = FILE_HEADER_BYTES
        return True

    def _read(self, file: BinaryIO, sequence: int) -> Record | None:
        """Return the record at `end`; None: torn."""
        offset = self.end
        header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            self._torn(offset, "the file ends inside a record")
            return None
        if crc32(header[: _RECORD.size]) != _CRC.unpack_from(header, _RECORD.size)[0]:
            self._hole(file, offset, offset + HEADER_BYTES, "the header of a record is damaged")
            return None
        magic, version, flags, length, found, checksum = _RECORD.unpack_from(header)
        if magic != RECORD_MAGIC or version != RECORD_VERSION:
            raise StoreDamaged(self.path, offset, f"version {version} of a record is not known, only {RECORD_VERSION}")
        if length > RECORD_BYTES_MAX:
            raise StoreDamaged(
                self.path, offset, f"a record of {length} bytes: at most {RECORD_BYTES_MAX} are possible"
            )
        if found != sequence:
            raise StoreDamaged(self.path, offset, f"record {found}, where {sequence} belongs")
        payload = file.read(length)
        if len(payload) < length:
            self._torn(offset, "the file ends inside a record")
            return None
        if crc32(payload) != checksum:
            self._hole(file, offset, offset + HEADER_BYTES + length, "a record is damaged")
            return None
        return Record(sequence, flags, offset, payload)

    def _torn(self, offset: int, reason: str) -> None:
        if not self.may_be_torn:
            raise StoreDamaged(self.path, offset, reason)
        self.is_torn = True

    def _hole(self, file: BinaryIO, offset: int, end: int, reason: str) -> None:
        """Handle a complete but wrong record: torn only if a sector was never written, and no group follows."""
        file.seek(offset)
        if not _has_zero_sector(file.read(end - offset), offset):
            raise StoreDamaged(self.path, offset, reason)
        file.seek(offset)
        if _begins_group_later(file.read()):
            raise StoreDamaged(self.path, offset, f"{reason}, and whole ones follow")
        self._torn(offset, reason)


def _has_zero_sector(data: bytes, offset: int) -> bool:
    """Whether some sector of the file has nothing but zeros in [offset, offset + len(data))."""
    start = 0
    while start < len(data):
        end = start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES
        if not any(data[start:end]):
            return True
        start = end
    return False


def _begins_group_later(data: bytes) -> bool:
    """Return whether a whole header that begins a group lies anywhere behind the first byte."""
    at = data.find(RECORD_MAGIC, 1)
    while at >= 0:
        header = data[at : at + HEADER_BYTES]
        if len(header) == HEADER_BYTES and crc32(header[: _RECORD.size]) == _CRC.unpack_from(header, _RECORD.size)[0]:
            if _RECORD.unpack_from(header)[2] & BEGINS_GROUP:
                return True
        at = data.find(RECORD_MAGIC, at + 1)
    return False
