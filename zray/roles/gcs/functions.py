"""Code at a shard: kept for the jobs that published it, and for a while after their end.

    PublishFunction     names the owner: a job by its home, or its remaining part on a node (detached actors)
    ReleaseFunctions    the owner has ended
    NodeLost            all owners named by this node have ended

Functions without owner are *orphans*, a cache by least recent use: an actor that outlives its job may still be on its
way to a node that will name it as owner.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX, Function
from ..kept import Latest

# Orphans, by count and bytes: as much as a few programs have.
ORPHANS_COUNT_MAX = 10_000
ORPHANS_BYTES_MAX = 256 << 20
# Number of remembered ended owners: messages about them arrive long before so many others end.
ENDED_MAX = 10_000

# The local scheduler that reports the end, and the job; and the publishing node: no node fills another's share.
Job = tuple[str, bytes]
Owner = tuple[str, bytes, str]


class Published(Struct):
    """The functions of an owner.  size: bytes of code."""

    LASTING = {"functions": "FUNCTIONS_COUNT_MAX", "size": "FUNCTIONS_BYTES_MAX"}

    functions: dict[bytes, None] = {}
    size: int = 0

    def add(self, function_ids: Iterable[bytes], size: int) -> None:
        """Add functions, of so many bytes in all."""
        self.functions.update(dict.fromkeys(function_ids))
        self.size += size


class FunctionTable:
    """The functions of a shard."""

    LASTING = {"by_id": None, "owners": ..., "orphans": "ORPHANS_COUNT_MAX", "orphan_bytes": "ORPHANS_BYTES_MAX"}

    def __init__(self) -> None:
        self.by_id: dict[bytes, Function] = {}
        self.owners: dict[Owner, Published] = {}
        self.orphans: dict[bytes, None] = {}
        self.orphan_bytes = 0
        self.ended: Latest[Job, None] = Latest(ENDED_MAX)

    def publish(self, function: Function, owner: Owner, *, is_over: bool) -> None:
        """Record a function.  is_over: the end of this owner will not be reported any more."""
        function_id = function.function_id
        known = self.by_id.setdefault(function_id, function)
        if not is_over and self._is_owned_by(known, owner):
            return
        if not any(function_id in published.functions for published in self.owners.values()):
            self._orphan(known)

    def _is_owned_by(self, function: Function, owner: Owner) -> bool:
        """Add a function to its owner's, if there is space.  Returns whether the owner has it."""
        published = self.owners.get(owner)
        if published is None:
            published = self.owners[owner] = Published()
        function_id, size = function.function_id, published.size + len(function.code)
        if function_id in published.functions:
            return True
        # The node refuses it itself; functions from other nodes have no owner.
        if len(published.functions) >= FUNCTIONS_COUNT_MAX or size > FUNCTIONS_BYTES_MAX:
            return False
        published.add((function_id,), len(function.code))
        if function_id in self.orphans:
            del self.orphans[function_id]
            self.orphan_bytes -= len(function.code)
        return True

    def release(self, job: Job) -> None:
        """Release the functions of an ended owner."""
        self.ended[job] = None
        released: dict[bytes, None] = {}
        for owner in [owner for owner in self.owners if owner[:2] == job]:
            released |= self.owners.pop(owner).functions
        if released:
            still = set().union(*(other.functions for other in self.owners.values()))
            for function_id in released:
                if function_id not in still:
                    self._orphan(self.by_id[function_id])

    def node_lost(self, node: str) -> None:
        """Release the functions of owners whose end a lost node would have reported."""
        for job in dict.fromkeys(owner[:2] for owner in self.owners if owner[0] == node):
            self.release(job)

    def find(self, function_id: bytes) -> Function | None:
        """Return the function; None: not published yet, or forgotten."""
        function = self.by_id.get(function_id)
        if function is not None and function_id in self.orphans:
            del self.orphans[function_id]
            self.orphans[function_id] = None
        return function

    def _orphan(self, function: Function) -> None:
        """Make a function an orphan, as the most recent."""
        if function.function_id in self.orphans:
            del self.orphans[function.function_id]
        else:
            self.orphan_bytes += len(function.code)
        self.orphans[function.function_id] = None
        while len(self.orphans) > ORPHANS_COUNT_MAX or self.orphan_bytes > ORPHANS_BYTES_MAX:
            oldest = next(iter(self.orphans))
            del self.orphans[oldest]
            self.orphan_bytes -= len(self.by_id.pop(oldest).code)

    def check_everything(self) -> None:
        """Each is somebody's, or an orphan; the bytes add up."""
        owned: dict[bytes, None] = {}
        for published in self.owners.values():
            size = sum(len(self.by_id[function_id].code) for function_id in published.functions)
            assert published.size == size, "bytes of an owner"
            owned |= published.functions
        assert not owned.keys() & self.orphans.keys(), "an orphan that somebody has"
        assert self.by_id.keys() == owned.keys() | self.orphans.keys(), "a function that is nobody's"
        assert self.orphan_bytes == sum(len(self.by_id[name].code) for name in self.orphans), "bytes of orphans"
