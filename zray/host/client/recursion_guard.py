"""Python's stack: enough of it for zray's own calls, and as much for a task inside a wait as for any other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# More than any of our calls needs, handlers and nested receives included.
RESERVED_FRAMES = 80
# A thread less deep has enough frames (Python's default limit is 1,000); this check takes a seventh of the time.
SHALLOW_FRAMES = 60


def require_room() -> None:
    """Fail user code that is deep in a recursion, before any message is sent or taken.

    An error in the midst of a receive would lose the message in hand, and a caller would wait for ever.

    Raises:
        RecursionError: the stack is all but full.
    """
    try:
        sys._getframe(SHALLOW_FRAMES)
    except ValueError:
        return
    _reach(RESERVED_FRAMES)


def _reach(frames: int) -> None:
    if frames:
        _reach(frames - 1)


@contextmanager
def as_deep_as_any() -> Iterator[None]:
    """Let a task inside the wait of another task recurse as deep as if it ran alone."""
    limit = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth += 1
        frame = frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(max(limit, depth + _OWN_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


_OWN_LIMIT = sys.getrecursionlimit()
