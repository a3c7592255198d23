"""Models of your own, in Ray's spellings: a catalog of names, and base classes."""

from typing import Any

from .catalog import MODEL_DEFAULTS, ModelCatalog
from .modelv2 import ModelV2
from .preprocessors import Preprocessor

__all__ = ["MODEL_DEFAULTS", "ModelCatalog", "ModelV2", "Preprocessor"]


def __getattr__(name: str) -> Any:
    from ...ray_names import absent

    raise absent.attribute_error(__name__, name)
