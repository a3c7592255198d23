"""Spill files of a node in a file system of fsspec: an object store, or another machine.

    <url>/zray-spilled-<host>-<uid>-<sessions>/<session>/N     the file of that number

`<sessions>` stands for the folder of this machine's sessions: files of sessions that are gone from it are removed by
the next node that spills there.  A file is complete before its number is known, so none is renamed.  Values that
processes map lie in the session's folder, since no URL can be mapped.
"""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...roles import effects
from ...store.segment import Segment
from ..session.spill_directory import file_system_of, is_in_memory
from .spill_folder import SpillFolder, new_checksum

# Bytes read by one request.
READ_BYTES = 16 << 20


class SpillUrl(SpillFolder):
    """The spill files of a node behind a URL.  Arguments: as of SpillFolder, with a URL as the directory."""

    def __init__(
        self,
        directory: str,
        session_name: str,
        session_folder: str,
        segments: dict[int, Segment],
        deliver: Callable[[str, Any], None],
    ) -> None:
        super().__init__(None, session_name, session_folder, segments, deliver)
        self.system, path = file_system_of(directory, "object_spilling_directory")
        self.sessions = os.path.dirname(session_folder)
        place = f"{socket.gethostname()}-{os.getuid()}-{zlib.crc32(self.sessions.encode()):08x}"
        self.url_root = f"{path.rstrip('/')}/zray-spilled-{place}"
        self.url_folder = f"{self.url_root}/{session_name}"
        self.is_made = False

    def _url(self, number: int) -> str:
        return f"{self.url_folder}/{number}"

    def _make_remote(self) -> None:
        if not self.is_made:
            self._sweep_remote()
            self.system.makedirs(self.url_folder, exist_ok=True)
            self.is_made = True

    def _sweep_remote(self) -> None:
        """Remove files of sessions that are gone from this machine."""
        with suppress(Exception):  # other sessions may remove them too
            for path in self.system.ls(self.url_root, detail=False):
                if not os.path.isdir(os.path.join(self.sessions, path.rstrip("/").rpartition("/")[2])):
                    self.system.rm(path, recursive=True)

    def _write(self, effect: effects.WriteSpillFile) -> effects.SpillFileWritten:
        path = self._url(effect.file)
        try:
            self._make_remote()
            with self.system.open(path, "wb") as file:
                if effect.source:
                    source, checksums = self._url(effect.source), [checksum for _, _, checksum in effect.parts]
                    for position, size, _ in effect.parts:
                        for start in range(position, position + size, READ_BYTES):
                            file.write(self._read(source, start, min(READ_BYTES, position + size - start)))
                else:
                    checksums = self._dump(effect, file.write)
            return effects.SpillFileWritten(effect.token, checksums)
        except Exception as error:  # each file system has errors of its own
            with suppress(Exception):
                self.system.rm_file(path)
            return effects.SpillFileWritten(effect.token, [], f"{path}: {type(error).__name__}: {error}")

    def _read(self, path: str, start: int, size: int) -> bytes:
        data: bytes = self.system.cat_file(path, start=start, end=start + size)
        if len(data) != size:
            raise EOFError("it was cut off")
        return data

    def _restore(self, effect: effects.RestoreRange) -> effects.RangeRestored:
        path = self._url(effect.file)
        try:
            target, checksum = self.segments[effect.segment].writable(effect.offset, effect.size), new_checksum()
            for start in range(0, effect.size, READ_BYTES):
                piece = self._read(path, effect.position + start, min(READ_BYTES, effect.size - start))
                checksum.update(piece)
                target[start : start + len(piece)] = piece
        except Exception as error:
            reason = f"the spill file {path} cannot be read ({type(error).__name__}: {error})"
            return effects.RangeRestored(effect.token, reason)
        return self._checked(effect, path, checksum)

    def _remove_file(self, number: int) -> None:
        with suppress(Exception):
            self.system.rm_file(self._url(number))

    def _create_segment(self, effect: effects.CreateSegmentFile) -> effects.SegmentFileCreated:
        if is_in_memory(self.sessions):
            reason = f"a value that is mapped needs a disk, and the session's folder {self.sessions} lies in memory"
            return effects.SegmentFileCreated(effect.segment, reason)
        return super()._create_segment(effect)

    def remove(self) -> None:
        """Remove the files, and the folder of this session."""
        super().remove()
        if self.is_made:
            with suppress(Exception):
                self.system.rm(self.url_folder, recursive=True)
