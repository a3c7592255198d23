"""Algorithms: one file each, in the order of its paper."""

from typing import Any


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from ...ray_names import absent
    from .registry import modules

    own = name.removesuffix("Config")
    if own in modules():
        return getattr(import_module(f"{__name__}.{modules()[own]}"), name)
    if name in ("Algorithm", "AlgorithmConfig"):
        return getattr(import_module(f"{__name__}.algorithm"), name)
    raise absent.attribute_error(__name__, name)
