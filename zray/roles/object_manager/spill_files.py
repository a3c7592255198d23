"""Copies of a node's objects on disk: the spill files of its object manager.

    local scheduler    SpillObjects    write them -> ObjectsSpilled, with a reason if the disk refuses
    local scheduler    EvictObjects    their ranges in the arena are free; the copies on disk stay
    local scheduler    FetchObject     a copy on disk is restored into the arena, checked by its checksum (pulls.py)

Objects are written in order into files of up to FILE_BYTES_MAX, so that small ones share a file.  A copy on disk stays
while its object lives: an object that was restored leaves the arena again without another write.  A file of which less
than half is still wanted is copied, so that the disk does not fill with values that nobody refers to.  A copy that
cannot be read is lost, like a copy on a node that is lost.

Rule 1: A part is in `by_object` from the end of its write until its object is freed, or its copy is lost.

Rule 2: A file is removed when no object has a part in it.  The host performs orders for files one after the other, so
a restore that was ordered before still finds the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..effects import RangeRestored, RemoveSpillFile, RestoreRange, SpillFileWritten, WriteSpillFile
from ..role import on
from ..work_effects import EvictObjects, ObjectsSpilled, SpilledCopyLost, SpillObjects
from .ranges import padded

if TYPE_CHECKING:
    from .manager import ObjectManager, Stored
    from .pulls import Pull

# Small objects share a file of this size: few files, each written in one sweep.  As Ray's min_spilling_size.
FILE_BYTES_MAX = 100 << 20
# A file with less than this share of its bytes in use is copied.
IN_USE_MIN = 0.5


class SpillFile(Struct, eq=False):
    """A file of the spill folder."""

    number: int
    size: int  # bytes
    in_use: int = 0  # bytes of the parts whose objects live
    parts: dict[bytes, Part] = {}
    is_copied: bool = False  # its parts are being written into another file


class Part(Struct, eq=False, gc=False):
    """The copy of an object in a file."""

    file: SpillFile
    position: int
    size: int
    checksum: int


class Writing(Struct, eq=False):
    """A file that is being written, from the arena or from another file."""

    file: SpillFile
    objects: list[Stored]  # in the order of the parts; for a copied file, none
    copied: dict[bytes, Part] = {}


class SpillFiles:
    """The spill files of a node."""

    PASSING = {"by_object files writing restoring by_pull": None, "evicting": "manager.objects"}

    def __init__(self, manager: ObjectManager) -> None:
        self.manager = manager
        self.by_object: dict[bytes, Part] = {}
        self.files: dict[int, SpillFile] = {}
        self.number = 0  # of the latest file
        self.token = 0  # of the latest order
        self.writing: dict[int, Writing] = {}  # by token
        self.restoring: dict[int, tuple[Pull, Part, int]] = {}  # by token: with the token of the copy into the arena
        self.by_pull: dict[bytes, Pull] = {}  # the pulls of those, by object
        self.refusal = ""  # why the last file could not be written
        self.bytes = 0  # of all files
        self.evicting: dict[bytes, None] = {}  # their ranges are free when no other node pulls them

    def has(self, object_id: bytes) -> bool:
        """Whether a copy of the object is on disk."""
        return object_id in self.by_object

    @property
    def is_busy(self) -> bool:
        """Whether writes are under way: the arena has free space soon."""
        return bool(self.writing)

    # --- writing ---

    @on(SpillObjects)
    def on_spill_objects(self, message: SpillObjects) -> None:
        """SpillObjects: the sealed ones among the objects are written, in files of up to FILE_BYTES_MAX."""
        batch: list[Stored] = []
        size = 0
        known: list[bytes] = []
        gone: list[bytes] = []
        for object_id in message.object_ids:
            stored = self.manager.objects.get(object_id)
            if stored is None or stored.process or object_id in self.by_object:
                (known if object_id in self.by_object else gone).append(object_id)
                continue
            if batch and size + padded(stored.place.size) > FILE_BYTES_MAX:
                self._write(batch, size)
                batch, size = [], 0
            batch.append(stored)
            size += padded(stored.place.size)
        if batch:
            self._write(batch, size)
        if known or gone:
            self.manager.send(self.manager.local_scheduler, ObjectsSpilled(known, gone))

    def _new_file(self, size: int) -> SpillFile:
        self.number += 1
        self.token += 1
        self.bytes += size
        file = self.files[self.number] = SpillFile(self.number, size)
        return file

    def _write(self, batch: list[Stored], size: int) -> None:
        file = self._new_file(size)
        self.writing[self.token] = Writing(file, batch)
        for stored in batch:
            self.manager.keep_range(stored)
        # Parts begin at multiples of ALIGNMENT: a process may map them in place (overflow.py).
        places = [(stored.place.segment, stored.place.offset, padded(stored.place.size)) for stored in batch]
        self.manager.perform(WriteSpillFile(file.number, places, self.token))

    @on(SpillFileWritten)
    def on_written(self, message: SpillFileWritten) -> None:
        """SpillFileWritten."""
        writing = self.writing.pop(message.token)
        file = writing.file
        if not message.checksums:
            del self.files[file.number]
            self.bytes -= file.size
            self.refusal = message.reason
            for source in {part.file.number: part.file for part in writing.copied.values()}.values():
                source.is_copied = False
        else:
            self.refusal = ""
            self._enter(writing, message.checksums)
        for stored in writing.objects:
            self.manager.keep_range_no_more(stored)
        if writing.objects:
            written = [stored.object_id for stored in writing.objects if not stored.is_gone]
            gone = [stored.object_id for stored in writing.objects if stored.is_gone]
            self.manager.send(self.manager.local_scheduler, ObjectsSpilled(written, gone, message.reason))

    def _enter(self, writing: Writing, checksums: list[int]) -> None:
        file, position = writing.file, 0
        if writing.copied:
            for object_id, part in writing.copied.items():
                if self.by_object.get(object_id) is part:  # else its object was freed meanwhile
                    self._leave(object_id)
                    self._add(file, object_id, position, part.size, part.checksum)
                position += part.size
        else:
            for stored, checksum in zip(writing.objects, checksums, strict=True):
                if not stored.is_gone:
                    self._add(file, stored.object_id, position, padded(stored.place.size), checksum)
                position += padded(stored.place.size)
        self._look(file)

    def _add(self, file: SpillFile, object_id: bytes, position: int, size: int, checksum: int) -> None:
        self.by_object[object_id] = file.parts[object_id] = Part(file, position, size, checksum)
        file.in_use += size

    # --- the end of a copy ---

    def forget(self, object_id: bytes) -> None:
        """Drop the copy of an object that is freed."""
        self.evicting.pop(object_id, None)
        if object_id in self.by_object:
            self._look(self._leave(object_id))

    def _leave(self, object_id: bytes) -> SpillFile:
        part = self.by_object.pop(object_id)
        del part.file.parts[object_id]
        part.file.in_use -= part.size
        if part.file.is_copied and not part.file.parts:
            self._remove(part.file)
        return part.file

    def _remove(self, file: SpillFile) -> None:
        if self.files.pop(file.number, None) is not None:
            self.bytes -= file.size
            self.refusal = ""  # there is space again
            self.manager.overflow.freed()
            self.manager.perform(RemoveSpillFile(file.number))

    def _look(self, file: SpillFile) -> None:
        """Remove a file that is not needed, or copy the parts of one that is needed in part."""
        if not file.parts:
            self._remove(file)
        elif file.in_use < IN_USE_MIN * file.size and not file.is_copied:
            file.is_copied = True
            copied = dict(file.parts)
            new = self._new_file(file.in_use)
            self.writing[self.token] = Writing(new, [], copied)
            parts = [(part.position, part.size, part.checksum) for part in copied.values()]
            self.manager.perform(WriteSpillFile(new.number, parts, self.token, file.number))

    @on(EvictObjects)
    def on_evict_objects(self, message: EvictObjects) -> None:
        """EvictObjects."""
        self.evicting.update(dict.fromkeys(message.object_ids))

    def evict(self) -> None:
        """Free the ranges of evicted objects that no other node pulls from here."""
        for object_id in list(self.evicting):
            if not self.manager.gives.is_giving(object_id):
                del self.evicting[object_id]
                self.manager.free(object_id)

    def is_still_here(self, object_id: bytes) -> bool:
        """Whether an evicted object that is wanted again has not left the arena: it stays."""
        return self.evicting.pop(object_id, self) is None and object_id in self.manager.objects

    # --- restoring ---

    def restore(self, pull: Pull) -> None:
        """Read a copy from disk into the reserved range of a pull, once all its pages are there."""
        if pull.place is None or pull.reserved < pull.place.size or self.by_pull.get(pull.object_id) is pull:
            return
        self.by_pull[pull.object_id] = pull
        part = self.by_object[pull.object_id]
        copy = self.manager.begin_copy(self.manager.objects[pull.object_id])
        self.token += 1
        self.restoring[self.token] = (pull, part, copy)
        place = pull.place
        order = RestoreRange(
            part.file.number, part.position, place.segment, place.offset, part.size, part.checksum, self.token
        )
        self.manager.perform(order)

    @on(RangeRestored)
    def on_restored(self, message: RangeRestored) -> None:
        """RangeRestored: the pull is over, or goes on with other nodes if the copy cannot be read."""
        pull, part, copy = self.restoring.pop(message.token)
        object_id, pulls = pull.object_id, self.manager.pulls
        self.manager.end_copy(copy)
        if self.by_pull.get(object_id) is pull:
            del self.by_pull[object_id]
        if message.reason and self.by_object.get(object_id) is part:
            self._look(self._leave(object_id))
            self.manager.send(self.manager.local_scheduler, SpilledCopyLost(object_id, message.reason))
        if pulls.coming.get(object_id) is not pull:
            return
        if message.reason:
            pulls.go_on(pull)
        else:
            pulls.restored(pull)

    def check_everything(self) -> None:
        """Assert that parts, files and their sizes agree."""
        for object_id, part in self.by_object.items():
            assert part.file.parts[object_id] is part and self.files[part.file.number] is part.file
        for file in self.files.values():
            assert file.in_use == sum(part.size for part in file.parts.values()) <= file.size
        assert self.bytes == sum(file.size for file in self.files.values())
