"""The folder of a node's spill files, and the threads that write and read them.

    <session folder>/spilled/           by default, unless that lies in memory (tmpfs)
    <directory>/zray-spilled-<uid>/<session>/    if the user names a directory
        lock      held while the node lives: the next node with this directory removes folders of dead ones, and so does
                  the last process of the session, which a link in the session's folder leads there
        N         the file of that number; N.new until it is complete

A file is written under another name, and renamed when it is complete.  It need not survive the machine, so nothing is
synced.  One thread writes; another one reads and removes, so that no restore waits for a write.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from ...roles import effects
from ...store.segment import Segment
from ...store.sweeper import SPILLED_AT, check_private, lock_session, remove_if_dead
from ..session.session import SEGMENTS

# Bytes written, read and checked at a time: a piece is still in the processor's cache when its checksum is computed.
PIECE_BYTES = 1 << 20
# Bytes whose pages are mapped at a time, without the interpreter's lock.
MAPPED_BYTES = 16 << 20
# A step on a slow disk ends within this time.
END_SECONDS = 5.0
# A disk that is filled by more than this takes no spill files.  As Ray's local_fs_capacity_threshold.
DISK_FILLED_MAX = 0.95
# Effects that the writing thread performs.
WRITES = (effects.WriteSpillFile, effects.CreateSegmentFile)


class SpillFolder:
    """The spill files of a node.

    Args:
        directory: as `checked_directory` returns it, and not "".
        session_name, session_folder: the node's.
        segments: mapped segments by number.
        deliver: passes an outcome to a role, from any thread.
    """

    def __init__(
        self,
        directory: str | None,
        session_name: str,
        session_folder: str,
        segments: dict[int, Segment],
        deliver: Callable[[str, Any], None],
    ) -> None:
        self.segments = segments
        self.links = os.path.join(session_folder, SEGMENTS)
        self.way = os.path.join(session_folder, SPILLED_AT)
        self.linked: set[int] = set()  # segments that are spill files
        self.deliver = deliver
        self.lock = -1
        self.is_in_session = directory is None
        if directory is None:
            self.folder = os.path.join(session_folder, "spilled")
            self.root = ""
        else:
            self.root = os.path.join(directory, f"zray-spilled-{os.getuid()}")
            self.folder = os.path.join(self.root, session_name)
        self.threads: list[threading.Thread] = []
        self.is_over = False
        self.to_write: SimpleQueue[Any] = SimpleQueue()
        self.to_read: SimpleQueue[Any] = SimpleQueue()

    def order(self, role: str, effect: Any) -> None:
        """Perform an effect of SPILL_EFFECTS in a thread; the outcome comes back as a message."""
        if not self.threads:
            for name, orders in (("zray-spill", self.to_write), ("zray-restore", self.to_read)):
                self.threads.append(threading.Thread(target=self._run, args=(orders,), name=name, daemon=True))
                self.threads[-1].start()
        orders = self.to_write if type(effect) in WRITES else self.to_read
        orders.put((role, effect))

    def _run(self, orders: SimpleQueue[Any]) -> None:
        while not self.is_over:
            role, effect = orders.get()
            if self.is_over:
                return
            if type(effect) is effects.WriteSpillFile:
                self.deliver(role, self._write(effect))
            elif type(effect) is effects.RestoreRange:
                self.deliver(role, self._restore(effect))
            elif type(effect) is effects.CreateSegmentFile:
                self.deliver(role, self._create_segment(effect))
            elif type(effect) is effects.RemoveSegmentFile:
                self._remove_segment(effect.segment)
            else:
                self._remove_file(effect.file)

    def _remove_file(self, number: int) -> None:
        with suppress(OSError):
            os.unlink(self._path(number))

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, str(number))

    # --- writing ---

    def _make(self) -> None:
        """Make the folder, locked, and remove those of dead sessions beside it."""
        if os.path.isdir(self.folder):
            return
        if self.root:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            check_private(self.root)
            _sweep(self.root)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        if self.root:
            self.lock = lock_session(self.folder)
            with suppress(FileExistsError):
                os.symlink(self.folder, self.way)

    def _write(self, effect: effects.WriteSpillFile) -> effects.SpillFileWritten:
        path = self._path(effect.file)
        size = sum(part[1] if effect.source else part[2] for part in effect.parts)
        try:
            self._make()
            if full := self._why_full(size):
                return effects.SpillFileWritten(effect.token, [], full)
            descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                write = partial(self._write_all, descriptor)
                checksums = self._copy(effect, descriptor) if effect.source else self._dump(effect, write)
            finally:
                os.close(descriptor)
            os.rename(f"{path}.new", path)
            return effects.SpillFileWritten(effect.token, checksums)
        except OSError as error:
            with suppress(OSError):
                os.unlink(f"{path}.new")
            return effects.SpillFileWritten(effect.token, [], f"{path}: {error.strerror or error}")

    def _why_full(self, size: int) -> str:
        """Return why the disk takes no file of `size` bytes; "": it does."""
        try:
            disk = shutil.disk_usage(self.folder)
        except OSError:
            return ""
        if disk.used + size <= DISK_FILLED_MAX * disk.total and size <= disk.free:
            return ""
        return (
            f"the disk of {self.folder} has {disk.free:,} of {disk.total:,} bytes free, and spill files fill it up to "
            f"{DISK_FILLED_MAX:.0%} at most"
        )

    def _dump(self, effect: effects.WriteSpillFile, write: Callable[[memoryview], object]) -> list[int]:
        checksums = []
        for segment, offset, size in effect.parts:
            arena, checksum = self.segments[segment], new_checksum()
            data = arena.bytes_of(offset, size)
            for start in range(0, size, PIECE_BYTES):
                if start % MAPPED_BYTES == 0 and size >= PIECE_BYTES:
                    arena.map_range(offset + start, min(MAPPED_BYTES, size - start))
                piece = data[start : start + PIECE_BYTES]
                checksum.update(piece)
                write(piece)
            checksums.append(checksum.intdigest())
        return checksums

    def _copy(self, effect: effects.WriteSpillFile, descriptor: int) -> list[int]:
        source = os.open(self._path(effect.source), os.O_RDONLY | os.O_CLOEXEC)
        try:
            for position, size, _ in effect.parts:
                while size:
                    piece = os.pread(source, min(size, PIECE_BYTES), position)
                    if not piece:
                        raise OSError(0, "the file is too short")
                    self._write_all(descriptor, memoryview(piece))
                    position, size = position + len(piece), size - len(piece)
        finally:
            os.close(source)
        return [checksum for _, _, checksum in effect.parts]

    def _write_all(self, descriptor: int, data: memoryview) -> None:
        while data:
            if self.is_over:
                raise OSError(errno.ECANCELED, "the session ends")
            data = data[os.write(descriptor, data) :]

    # --- segments in files ---

    def _create_segment(self, effect: effects.CreateSegmentFile) -> effects.SegmentFileCreated:
        try:
            self._make()
            if not effect.is_for_read and (full := self._why_full(effect.size)):
                return effects.SegmentFileCreated(effect.segment, full)
            os.makedirs(self.links, mode=0o700, exist_ok=True)
            path = os.path.join(self.folder, f"segment-{effect.segment}")
            offset = effect.position if effect.file and self._link(effect, path) else 0
            if effect.segment not in self.linked:
                self.segments[effect.segment] = Segment.create_file(path, effect.size)
            os.symlink(path, os.path.join(self.links, str(effect.segment)))
        except OSError as error:
            return effects.SegmentFileCreated(effect.segment, f"{self.folder}: {error.strerror or error}")
        return effects.SegmentFileCreated(effect.segment, "", offset)

    def _link(self, effect: effects.CreateSegmentFile, path: str) -> bool:
        """Make the segment a link to the spill file; return False where there is no whole file, or no link."""
        with suppress(OSError):
            source = self._path(effect.file)
            if os.stat(source).st_size >= effect.position + effect.size:
                os.link(source, path)
                self.segments[effect.segment] = Segment.open_file(path, writable=True)
                self.linked.add(effect.segment)
                return True
        return False

    def _remove_segment(self, number: int) -> None:
        segment = self.segments.pop(number, None)
        self.linked.discard(number)
        if segment is not None:
            segment.close_descriptor()
        for path in (os.path.join(self.links, str(number)), os.path.join(self.folder, f"segment-{number}")):
            with suppress(OSError):
                os.unlink(path)

    # --- reading ---

    def _restore(self, effect: effects.RestoreRange) -> effects.RangeRestored:
        path = self._path(effect.file)
        try:
            arena, checksum, done, mapped = self.segments[effect.segment], new_checksum(), 0, 0
            target = arena.writable(effect.offset, effect.size)
            # A value that stays where it lies is only checked: a full disk may refuse to write a block again.
            spare = memoryview(bytearray(PIECE_BYTES)) if effect.segment in self.linked else None
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                while done < effect.size:
                    if done == mapped and spare is None:
                        mapped = min(done + MAPPED_BYTES, effect.size)
                        arena.map_range(effect.offset + done, mapped - done)
                    piece = spare[: effect.size - done] if spare else target[done : min(done + PIECE_BYTES, mapped)]
                    count = os.preadv(descriptor, [piece], effect.position + done)
                    if not count:
                        return effects.RangeRestored(effect.token, f"the spill file {path} was cut off")
                    checksum.update(piece[:count])
                    done += count
            finally:
                os.close(descriptor)
        except OSError as error:
            return effects.RangeRestored(effect.token, f"the spill file {path} cannot be read ({error.strerror})")
        return self._checked(effect, path, checksum)

    def _checked(self, effect: effects.RestoreRange, path: str, checksum: Any) -> effects.RangeRestored:
        """Return the outcome of a read: its checksum is compared with the recorded one."""
        if checksum.intdigest() != effect.checksum:
            return effects.RangeRestored(effect.token, f"the spill file {path} is damaged: its checksum is wrong")
        return effects.RangeRestored(effect.token)

    # --- the end ---

    def remove(self) -> None:
        """Remove the folder and its files, and the folder of all sessions if it is empty.

        A file that is being written is given up within a step: nothing is made behind the removal.
        """
        self.is_over = True
        for orders in (self.to_write, self.to_read):
            orders.put(("", None))
        for thread in self.threads:
            thread.join(END_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.root:
            with suppress(OSError):
                os.rmdir(self.root)


def new_checksum() -> Any:
    """Return an XXH3 hash without data: a CRC-32 would take longer than to read the file."""
    from xxhash import xxh3_64  # most nodes never spill

    return xxh3_64()


def _sweep(root: str) -> None:
    """Remove the folders of nodes that were killed before they could remove them."""
    for name in os.listdir(root):
        remove_if_dead(os.path.join(root, name))
