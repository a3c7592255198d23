"""E8 (OSDI Fig 10b): the memory of the GCS while finished lineage is flushed to disk, and while it is not."""

from __future__ import annotations

from ..timing import Effort
from .results import Figure


def measure(figure: Figure, effort: Effort) -> None:
    """Not built yet."""
    raise NotImplementedError("a shard does not flush finished lineage to disk under a set memory yet")
