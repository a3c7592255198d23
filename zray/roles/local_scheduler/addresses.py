"""Where the other roles are, as a local scheduler sees it."""

from __future__ import annotations


class Addresses:
    """Where the roles are that a local scheduler talks to."""

    __slots__ = ("global_schedulers", "monitor", "object_manager", "shards")

    def __init__(self, object_manager: str, global_schedulers: list[str], shards: list[str], monitor: str) -> None:
        self.object_manager = object_manager
        self.global_schedulers = global_schedulers
        self.shards = shards
        self.monitor = monitor

    def shard_of(self, task_or_object_id: bytes) -> str:
        """The shard that is the one authority for a task, its lineage and its objects (DESIGN 5)."""
        if len(self.shards) == 1:
            return self.shards[0]
        return self.shards[int.from_bytes(task_or_object_id[6:16], "big") % len(self.shards)]
