"""What a scheduler decides about a trial, with the reason."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CONTINUE", "NOOP", "PAUSE", "STOP", "Decision"]

CONTINUE, PAUSE, STOP, NOOP = "CONTINUE", "PAUSE", "STOP", "NOOP"


class Decision(Struct, frozen=True):
    """A decision after a result.

    action: CONTINUE, PAUSE or STOP.  reason: one sentence with the numbers; empty: nothing to explain.
    save: whether a class trainable writes a checkpoint before it goes on.
    """

    action: str = CONTINUE
    reason: str = ""
    save: bool = False
