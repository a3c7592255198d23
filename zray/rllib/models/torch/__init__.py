"""Base classes and layers of custom models on torch."""

from typing import Any


def __getattr__(name: str) -> Any:
    from ....ray_names import absent

    raise absent.attribute_error(__name__, name)
