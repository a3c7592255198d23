"""log_once: messages that a loop logs a single time."""

from __future__ import annotations

import time

__all__ = ["disable_log_once_globally", "enable_periodic_logging", "log_once", "reset_log_once"]

# Keys that are remembered; the oldest is forgotten first, and may be logged once more.
KEYS_MAX = 10_000
PERIOD_SECONDS = 60.0

_seen: dict[str, float] = {}
_is_disabled = False
_is_periodic = False


def log_once(key: str) -> bool:
    """Tell whether this is the first call with the key in this process.

        if log_once("slow_disk"):
            logger.warning("The disk is slow.")

    Args:
        key: name of the message.
    """
    if _is_disabled:
        return False
    now = time.monotonic()
    if key in _seen and not (_is_periodic and now - _seen[key] > PERIOD_SECONDS):
        return False
    if len(_seen) >= KEYS_MAX:
        del _seen[next(iter(_seen))]
    _seen[key] = now
    return True


def disable_log_once_globally() -> None:
    """Have log_once() return False from now on."""
    global _is_disabled
    _is_disabled = True


def enable_periodic_logging() -> None:
    """Have log_once() return True once a minute for each key."""
    global _is_periodic
    _is_periodic = True


def reset_log_once(key: str | None = None) -> None:
    """Forget a key, so that log_once() returns True again.

    Args:
        key: name of the message; None forgets all.
    """
    if key is None:
        _seen.clear()
    else:
        _seen.pop(key, None)
