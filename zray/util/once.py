"""Messages that appear once for all processes of a program."""

from __future__ import annotations

from ..host import context

__all__ = ["is_first"]

_said: set[str] = set()  # by this process


def is_first(key: str) -> bool:
    """Whether no process of the program on the machine has asked for the key before."""
    if key in _said:
        return False
    _said.add(key)
    runtime = context.runtime
    paths = getattr(runtime, "paths", None)  # local mode, and a program without a session, have this process only
    return paths is None or runtime is None or bool(paths.is_first(runtime.job_id, key))
