"""Ends of environments: each is closed once, also when the program ends without `algo.stop()`."""

from __future__ import annotations

import atexit
import logging
import weakref
from collections.abc import Iterable
from typing import Any

__all__ = ["RESTARTS_MAX", "close_all", "close_at_end", "closed"]

logger = logging.getLogger("zray.rllib")

# Environments that are made anew, one after another, without a step between.
RESTARTS_MAX = 5
# What holds environments in this process: with a method `close`, which closes each of them once.
_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def close_at_end(holder: Any) -> None:
    """Close the environments of a holder when the program ends, unless its `close` is called before."""
    _holders.add(holder)


def closed(holder: Any) -> None:
    """Note that a holder has closed all its environments."""
    _holders.discard(holder)


def close_all(envs: Iterable[Any], name: str) -> None:
    """Close environments; an error of one does not keep the others open."""
    for env in envs:
        try:
            env.close()
        except Exception as error:
            logger.warning("close of environment %s raised %s: %s.", name, type(error).__name__, error)


def _close_rest() -> None:
    for holder in list(_holders):
        holder.close()


atexit.register(_close_rest)
