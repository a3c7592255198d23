"""File with the record of a whole run: frames that are appended while the run goes on.

    0     magic, number of the format, length of the version of zray, that version
    ...   frames: length and CRC-32 of what follows, and a zlib stream of a msgpack list [kind, content]

A file that ends early, as that of a killed program, is read up to its last whole frame.  The kinds:

    header    facts on the program, the machine and the start
    nodes     time, facts on each node
    memory    time, bytes in use on each node
    rings     new records of processes, as store/event_ring.py has them
    end       time, kind of the exception that ended the program, and what is missing
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgpack

__all__ = ["MAGIC", "FrameWriter", "frames", "is_record"]

MAGIC = b"zray-rec"
FORMAT = 1
HEAD = struct.Struct("<8sHH")
FRAME = struct.Struct("<II")
# Records deflate to a third at this level, for a fifth of the time of the default.
LEVEL = 1
# Bytes of the content of a frame; the writer makes smaller ones.
CONTENT_BYTES_MAX = 256 << 20


class FrameWriter:
    """The writing end of a record.

    Args:
        path: the file, which is emptied.
        source: what has named the file, for errors: "record" or "ZRAY_RECORD".
        version: of zray.

    Raises:
        OSError: the file cannot be written, or another program writes it.
    """

    def __init__(self, path: str, source: str, version: str) -> None:
        self.path = path
        try:
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _in_words(error, path, source) from None
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self.descriptor, 0)
        except OSError as error:
            os.close(self.descriptor)
            raise _in_words(error, path, source) from None
        text = version.encode()
        self._append(HEAD.pack(MAGIC, FORMAT, len(text)) + text)

    def write(self, kind: str, content: Any) -> None:
        """Append a frame.

        Raises:
            OSError: there is no room for it.
        """
        packed = zlib.compress(msgpack.packb([kind, content]), LEVEL)
        self._append(FRAME.pack(len(packed), zlib.crc32(packed)) + packed)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)


def _in_words(error: OSError, path: str, source: str) -> OSError:
    folder = os.path.dirname(path) or "."
    if error.errno in (errno.EACCES, errno.EAGAIN) and isinstance(error, BlockingIOError):
        why = "another program writes its record there: give each program a file of its own (%p becomes the pid)"
    elif isinstance(error, FileNotFoundError):
        why = f"there is no folder {folder!r}: make it, or give a file in another folder"
    elif isinstance(error, IsADirectoryError):
        why = "that is a folder: give a file in it"
    elif isinstance(error, PermissionError):
        why = "this user may not write there: give a file in another folder"
    else:
        why = f"{error.strerror}: give another file"
    return type(error)(f"{source}={path!r}: {why}.")


def is_record(path: str) -> bool:
    """Whether a file is a record of a run."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def frames(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the kind and the content of each frame of a record, up to the last whole one.

    Raises:
        ValueError: the file is no record, or has another format.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size or not head.startswith(MAGIC):
            raise ValueError(f"{path} is no record of a run: ZRAY_RECORD={path} makes one when the program runs.")
        _, number, length = HEAD.unpack(head)
        version = file.read(length).decode("utf-8", "replace")
        if number != FORMAT:
            raise ValueError(
                f"{path} has format {number} of records, written by zray {version}, and this zray reads format "
                f"{FORMAT}: read it with zray {version}."
            )
        while len(head := file.read(FRAME.size)) == FRAME.size:
            length, checksum = FRAME.unpack(head)
            packed = file.read(min(length, CONTENT_BYTES_MAX))
            if len(packed) < length or zlib.crc32(packed) != checksum:
                return
            kind, content = msgpack.unpackb(zlib.decompressobj().decompress(packed, CONTENT_BYTES_MAX))
            yield kind, content
