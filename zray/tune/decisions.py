"""The decision of a scheduler about a trial, with the reason."""

from __future__ import annotations

from typing import Any

__all__ = ["CONTINUE", "NOOP", "PAUSE", "STOP", "UNEXPLAINED", "Decision"]

CONTINUE, PAUSE, STOP, NOOP = "CONTINUE", "PAUSE", "STOP", "NOOP"
# Reasons of decisions without one, behind the name of the scheduler.
UNEXPLAINED = {
    "STOP": "has stopped it, and gives no reason",
    "PAUSE": "has paused it, and gives no reason",
    "UNPAUSE": "lets it go on, and gives no reason",
    "EXPLOIT": "lets it go on from another trial's checkpoint, and gives no reason",
}


class Decision(str):
    """A decision after a result.  It is the text of its action, as in Ray: `decision == TrialScheduler.STOP`.

    Args:
        action: CONTINUE, PAUSE or STOP.
        reason: one sentence with the numbers; empty: nothing to explain.
        save: whether a class trainable writes a checkpoint before it goes on.
    """

    reason: str
    save: bool

    def __new__(cls, action: str = CONTINUE, reason: str = "", save: bool = False) -> Decision:
        """The decision."""
        made = super().__new__(cls, action)
        made.reason, made.save = reason, save
        return made

    @property
    def action(self) -> str:
        """CONTINUE, PAUSE or STOP."""
        return str(self)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.reason, self.save
