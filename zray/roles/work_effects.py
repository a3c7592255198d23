"""How a node's processes are held back, or stopped, and go on: effects (as in effects.py)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class HoldBack(Struct, gc=False):
    """Have our processes say no more than their links hold; or let them go on, when all who asked for it say so."""

    is_held: bool


class StopWorkers(Struct, gc=False):
    """Stop all workers where they are (SIGSTOP), with what they have started; or let them go on (SIGCONT)."""

    are_stopped: bool


class HearAgain(Struct):
    """What a role has kept as it came: have it handle that now, in that order, ahead of anything else.

    kept: (sender, message)
    """

    kept: list[tuple[str, Any]]


WorkEffect = HoldBack | StopWorkers | HearAgain
