"""The runtime of this process: what the public API talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime import Runtime

runtime: Runtime | None = None
is_forked = False  # this process was forked from one that was in a session, which it is not in itself


def set_runtime(new: Runtime | None) -> None:
    """This process has joined a session, or left it."""
    global runtime, is_forked
    runtime, is_forked = new, False
