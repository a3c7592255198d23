"""The durability of checkpoints: a power cut loses at most the last second of writes.

A thread waits for the disk and deletes, so that trials do not.  Once a second it syncs the new checkpoints that are
still wanted, then the journal, which names them, and only then deletes those that they replace.  A checkpoint that is
replaced before the disk has it is deleted soon: it would be lost in a power cut anyway, and the one that the disk has
stays.  While the files are in memory, the thread takes their checksum too, for the journal: by it a restore recognises
a checkpoint that was damaged on the disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
import zlib
from collections.abc import Iterable, Iterator

from .journal import Journal
from .storage import sync_tree

__all__ = ["Durability", "digest_of", "size_of"]

PASS_SECONDS = 1.0
# A slow disk is busy with syncs for a tenth of the time at most: at most one checkpoint a trial waits to be deleted.
PASS_SHARE = 10
_CHUNK = 1 << 17  # read from a cache of the processor
# The metadata of a checkpoint, which programs may change later.
_CHANGING = ".metadata.json"


def _files(path: str) -> Iterator[tuple[str, str]]:
    """(name in the folder, path) of all files, in a fixed order."""
    for folder, names, files in os.walk(path):
        names.sort()
        for name in sorted(files):
            if name != _CHANGING:
                place = os.path.join(folder, name)
                yield os.path.relpath(place, path), place


def size_of(path: str) -> int:
    """The number of bytes in a checkpoint's files; -1: it cannot be read."""
    try:
        return sum(os.stat(place).st_size for _, place in _files(path))
    except OSError:
        return -1


def digest_of(path: str) -> int:
    """The checksum of a checkpoint's files and their names, at least 1.

    Raises:
        OSError: it cannot be read.
    """
    found = 0
    for name, place in _files(path):
        found = zlib.crc32(os.fsencode(name), found)
        with open(place, "rb") as file:
            while data := file.read(_CHUNK):
                found = zlib.crc32(data, found)
    return found or 1


class Durability:
    """Writes checkpoints to the disk, and deletes surplus ones.

    Args:
        journal: what names the checkpoints.
        known: folders of the checkpoints that are there already.
    """

    def __init__(self, journal: Journal, known: Iterable[str] = ()) -> None:
        self._journal = journal
        self._known = set(known)
        self._lock = threading.Lock()  # of the four below
        self._superseded: list[str] = []  # to be deleted soon
        self._new: dict[str, None] = {}
        self._doomed: dict[str, None] = {}
        self._digests: dict[str, int] = {}
        self._wakes = threading.Event()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="durability")
        self._has_begun = False

    def keep(self, path: str) -> None:
        """A new checkpoint is one of the trial's."""
        with self._lock:
            self._known.add(path)
            self._new[path] = None
        self._begin()

    def delete(self, path: str) -> None:
        """Delete a checkpoint when its replacement is on the disk; a checkpoint not on the disk yet, soon."""
        with self._lock:
            is_there = path in self._known and path not in self._new
            self._known.discard(path)
            self._new.pop(path, None)
            if is_there:
                self._doomed[path] = None
            else:
                self._superseded.append(path)
        if not is_there:
            self._wakes.set()
        self._begin()

    def take_digests(self) -> dict[str, int]:
        """The checksums of checkpoints that the disk has, since the last call."""
        if not self._digests:
            return {}
        with self._lock:
            found, self._digests = self._digests, {}
        return found

    def close(self) -> None:
        """Do the rest; before the journal is closed."""
        self._is_ending = True
        self._wakes.set()
        if self._has_begun:
            self._thread.join()
        self.work()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._thread.start()

    def _run(self) -> None:
        due = time.monotonic() + PASS_SECONDS
        while not self._is_ending:
            self._wakes.wait(max(0.0, due - time.monotonic()))
            self._wakes.clear()
            self._delete_superseded()
            begin = time.monotonic()
            if begin < due:
                continue
            self.work()
            now = time.monotonic()
            due = now + max(PASS_SECONDS, PASS_SHARE * (now - begin))

    def _delete_superseded(self) -> None:
        with self._lock:
            paths, self._superseded = self._superseded, []
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)

    def work(self) -> None:
        """Sync the new checkpoints and the journal, then delete the replaced ones."""
        self._delete_superseded()
        with self._lock:
            new, self._new = self._new, {}
            doomed, self._doomed = self._doomed, {}
        for path in new:
            with contextlib.suppress(FileNotFoundError):  # it is one too many by now
                try:
                    sync_tree(path)
                    digest = digest_of(path)
                except FileNotFoundError:
                    raise
                except OSError:  # the disk refuses: what it has is not deleted
                    with self._lock:
                        self._new = {**new, **self._new}
                        self._doomed = {**doomed, **self._doomed}
                    return
                with self._lock:
                    if path in self._known:
                        self._digests[path] = digest
        if not doomed:
            return
        with contextlib.suppress(OSError, ValueError):  # the journal's errors are of those who write to it
            self._journal.sync()
            for path in doomed:
                shutil.rmtree(path, ignore_errors=True)
