"""Code at a shard: kept for the jobs that have published it, and for a while after they have ended.

    PublishFunction     whose it is: a job by its home, or what goes on of one on a node (its detached actors there)
    ReleaseFunctions    that has ended
    NodeLost            so have all that were named by this node

What is nobody's any more are *orphans*, a cache by least recent use: an actor that outlives its job may still be on its
way to a node that will name it.
"""

from __future__ import annotations

from msgspec import Struct

from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX, Function
from ..latest import Latest

# Orphans, by count and bytes: as much as a few programs have.
ORPHANS_COUNT_MAX = 10_000
ORPHANS_BYTES_MAX = 256 << 20
# Owners that have ended are remembered, the last so many: what nodes publish for them travels for less than that.
ENDED_MAX = 10_000

# The local scheduler that says when it ends, and the job; and who has published it: nobody fills another's share.
Job = tuple[str, bytes]
Owner = tuple[str, bytes, str]


class Published(Struct):
    """What one owner has.  size: bytes of code."""

    LASTING = {"functions": "FUNCTIONS_COUNT_MAX", "size": "FUNCTIONS_BYTES_MAX"}

    functions: dict[bytes, None] = {}
    size: int = 0


class FunctionTable:
    """The functions of one shard."""

    LASTING = {"by_id": None, "owners": ..., "orphans": "ORPHANS_COUNT_MAX", "orphan_bytes": "ORPHANS_BYTES_MAX"}

    def __init__(self) -> None:
        self.by_id: dict[bytes, Function] = {}
        self.owners: dict[Owner, Published] = {}
        self.orphans: dict[bytes, None] = {}
        self.orphan_bytes = 0
        self.ended: Latest[Job, None] = Latest(ENDED_MAX)

    def publish(self, function: Function, owner: Owner, *, is_over: bool) -> None:
        """is_over: nobody will say any more that this owner has ended."""
        function_id = function.function_id
        known = self.by_id.setdefault(function_id, function)
        if not is_over and self._is_owned_by(known, owner):
            return
        if not any(function_id in published.functions for published in self.owners.values()):
            self._orphan(known)

    def _is_owned_by(self, function: Function, owner: Owner) -> bool:
        """Whether there is room for it among what is the owner's: there it is now."""
        published = self.owners.get(owner)
        if published is None:
            published = self.owners[owner] = Published()
        function_id, size = function.function_id, published.size + len(function.code)
        if function_id in published.functions:
            return True
        # The node refuses it itself; what one that does not sends us is nobody's.
        if len(published.functions) >= FUNCTIONS_COUNT_MAX or size > FUNCTIONS_BYTES_MAX:
            return False
        published.functions[function_id] = None
        published.size = size
        if function_id in self.orphans:
            del self.orphans[function_id]
            self.orphan_bytes -= len(function.code)
        return True

    def release(self, job: Job) -> None:
        """It has ended."""
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
        """It says of nothing any more that it has ended."""
        for job in dict.fromkeys(owner[:2] for owner in self.owners if owner[0] == node):
            self.release(job)

    def find(self, function_id: bytes) -> Function | None:
        """None: nobody has published it yet, or it was forgotten."""
        function = self.by_id.get(function_id)
        if function is not None and function_id in self.orphans:
            del self.orphans[function_id]
            self.orphans[function_id] = None
        return function

    def _orphan(self, function: Function) -> None:
        """Nobody's now, and the latest of those."""
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
