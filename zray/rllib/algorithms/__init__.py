"""Algorithms: one file each, in the order of its paper."""

from typing import Any


def __getattr__(name: str) -> Any:
    from ... import absent

    raise absent.attribute_error(__name__, name)
