"""The one mapping of ids to shards of the GCS, by the remainder of a part that a task and its returns share.

Records on disk follow the mapping, so it is the same for the life of a cluster (docs/design/counts.md).
"""

from __future__ import annotations


def shard_number(any_id: bytes, shards: int) -> int:
    """Return the number of the shard responsible for a task, an object or an actor, of `shards`."""
    return int.from_bytes(any_id[6:16], "big") % shards
