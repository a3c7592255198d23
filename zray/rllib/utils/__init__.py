"""Small helpers that programs import from here."""

from ..doors import names_of
from .annotations import override
from .framework import try_import_torch

__all__ = ["override", "try_import_torch"]

__getattr__ = names_of(__name__)
