"""Values that find no space in an arena full of values in use: each lies in a file that processes map.

A program may hold more arrays than the store has bytes.  One value, or the arguments of one task, may be larger than
the store.  Where spilling is on, such a value gets a segment of its own, in a file on the disk.  The page cache of the
machine is then its memory.  The file goes with the value.  Ray calls this fallback allocation.

    writer, pull      no space, and nothing was evicted for a while     CreateSegmentFile -> ObjectAllocated
    writer, pull      larger than the whole store                       the same, at once
    pull of a value on disk      the file is a link to the spill file: the disk may be full
    free              RemoveSegmentFile
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...wire import objects, task_spec
from ..effects import CreateSegmentFile, RemoveSegmentFile, SegmentFileCreated
from ..role import on
from .ranges import padded

if TYPE_CHECKING:
    from .manager import ObjectManager, Stored

# How long a value waits for space that others may leave.  As Ray's oom_grace_period_s.
GRACE_SECONDS = 2.0
# For so long a writer without space in the store or on the disk asks again, whenever some has become free meanwhile.
ASKS_AGAIN_SECONDS = 10.0


class Wanted(Struct, eq=False, gc=False):
    """A value for which a file is being created."""

    process: str
    object_id: bytes
    size: int
    since: float
    frees: int  # of the node, until it was ordered
    has_waited: bool  # for GRACE_SECONDS


class Overflow:
    """The segments in files of a node."""

    PASSING = {"creating refused": None}

    def __init__(self, manager: ObjectManager) -> None:
        self.manager = manager
        self.number = 0  # of the latest segment; the arena is number 0
        self.creating: dict[int, Wanted] = {}
        self.bytes = 0  # of all files
        self.is_usual = False  # one has waited in vain since a range was free last: others need not wait
        self.frees = 0  # ranges and files so far
        self.refused: set[str] = set()  # processes that were refused since then: membership only

    def allocate(
        self, process: str, object_id: bytes, size: int, *, since: float | None = None, has_waited: bool = True
    ) -> None:
        """Have a file made for a value; the writer is answered when it is there.

        since: the time of the writer's request.  has_waited: it need not wait for the space of others.
        """
        self.number += 1
        since = self.manager.now if since is None else since
        self.creating[self.number] = Wanted(process, object_id, size, since, self.frees, has_waited)
        is_for_read = process == self.manager.address
        part = self.manager.spill_files.by_object.get(object_id) if is_for_read else None
        file, position = (part.file.number, part.position) if part is not None else (0, 0)
        self.manager.perform(CreateSegmentFile(self.number, padded(size), is_for_read, file, position))

    def is_at_once(self, process: str) -> bool:
        """Return whether a writer need not wait: others, or the process itself, have waited in vain."""
        return self.is_usual or process in self.refused

    def waited_in_vain(self, process: str, object_id: bytes, size: int, since: float | None = None) -> None:
        """Have a file made for a value for which nothing has left the arena in GRACE_SECONDS."""
        self.is_usual = self.manager.growing is None
        self.allocate(process, object_id, size, since=since)

    def freed(self) -> None:
        """Count a range or a file that is free again."""
        self.frees += 1
        self.refused.clear()

    def _asks_again(self, wanted: Wanted) -> bool:
        """Return whether a writer without space waits once more."""
        if self.manager.now - wanted.since > ASKS_AGAIN_SECONDS:
            return False
        if wanted.frees != self.frees:
            return True
        if wanted.has_waited or wanted.process in self.refused:
            self.refused.add(wanted.process)
            return False
        self.is_usual = False
        return True

    def is_coming(self, object_id: bytes) -> bool:
        """Whether a file for the value is being created."""
        return any(wanted.object_id == object_id for wanted in self.creating.values())

    @on(SegmentFileCreated)
    def on_created(self, message: SegmentFileCreated) -> None:
        """SegmentFileCreated: the writer, or the pull, goes on; or it is refused."""
        wanted = self.creating.pop(message.segment)
        manager = self.manager
        if message.reason:
            if wanted.process not in ("", manager.address) and self._asks_again(wanted):
                manager.queue(wanted.process, wanted.object_id, wanted.size, wanted.since)
            elif wanted.process:
                text = f"{message.reason}.  {manager.explain(wanted.size)}"
                answer = objects.AllocateRefused(wanted.object_id, wanted.size, text, True)
                manager.tell(wanted.process, answer)
            return
        if not wanted.process or wanted.object_id in manager.objects:
            manager.perform(RemoveSegmentFile(message.segment))  # it is not wanted any more
            if wanted.process not in ("", manager.address):
                manager.queue(wanted.process, wanted.object_id, wanted.size)  # its value came back from disk meanwhile
            return
        self.bytes += wanted.size
        manager.enter(
            wanted.object_id, task_spec.StoredValue(message.segment, message.offset, wanted.size), wanted.process
        )

    def abandoned(self, process: str, object_id: bytes = b"") -> None:
        """Create no file for a writer that is gone, or for the value that it no longer writes."""
        if not object_id:
            self.refused.discard(process)
        for wanted in self.creating.values():
            if wanted.process == process and (not object_id or wanted.object_id == object_id):
                wanted.process = ""

    def retire(self, stored: Stored) -> None:
        """Remove the file of a value that is freed."""
        self.bytes -= stored.place.size
        self.manager.perform(RemoveSegmentFile(stored.place.segment))

    def check_everything(self) -> None:
        """Assert that files and values agree."""
        manager = self.manager
        stored: list[Any] = [*manager.objects.values(), *manager.retired.values()]
        assert self.bytes == sum(each.place.size for each in stored if each.place.segment)
