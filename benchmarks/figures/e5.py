"""E5 (OSDI Fig 11b): actors lost with their nodes, with and without checkpoints."""

from __future__ import annotations

from ..timing import Effort
from .results import Figure


def measure(figure: Figure, effort: Effort) -> None:
    """Not built yet."""
    raise NotImplementedError("actors do not recover from a checkpoint and a log of their calls yet")
