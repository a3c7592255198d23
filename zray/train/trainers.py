"""Trainers of Ray, and helpers of theirs: absent, and each says what to do instead."""

from __future__ import annotations

from typing import Any

__path__: list[str] = []


def __getattr__(name: str) -> Any:
    from ..ray_names import absent

    return absent.placeholder(f"zray.train.{name}", __name__)
