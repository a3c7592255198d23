"""Callbacks of other libraries, under Ray's names: an absent callback names the alternative."""

from __future__ import annotations

from typing import Any

__path__: list[str] = []


def __getattr__(name: str) -> Any:
    from ..ray_names import absent

    return absent.placeholder(f"zray.tune.integration.{name}", __name__)
