"""Checks of each simulated message: its route, and its permission if between hosts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..wire.allowed import NOTHING, ROUTED, Types, allowed_between, kind_of
from ..wire.message import Message


def check_permission(source: str, target: str, message: Any) -> None:
    """Check the permission of a message from another host or a process, which a real host would refuse without."""
    if isinstance(message, Message):
        is_allowed = type(message) in _allowed(source, target)
        assert is_allowed, f"{source} may not send {type(message).__name__} to {target}"


_allowed = lru_cache(maxsize=1 << 14)(allowed_between)


def check_route(source: str, target: str, message: Any, is_here: bool) -> None:
    """Check the route of a role's message; a target of "" is no role.

    is_here: within a host, where the stand-in of a replicated shard poses as the shard.
    """
    if target and isinstance(message, Message):
        is_allowed = type(message) in _routed(source, target, is_here)
        assert is_allowed, f"{type(message).__name__} has no route from {source} to {target}"


@lru_cache(maxsize=1 << 14)  # a world has some hundred addresses
def _routed(source: str, target: str, is_here: bool) -> Types:
    pair = kind_of(source), kind_of(target)
    found = ROUTED.get(pair, NOTHING)
    if is_here and "shard" in pair:
        found |= ROUTED.get((pair[0].replace("shard", "gcs"), pair[1].replace("shard", "gcs")), NOTHING)
    return found
