"""Helpers on the public API, under Ray's names."""

from ..api import as_completed
from ..store.values import deregister_serializer, register_serializer

__all__ = ["as_completed", "deregister_serializer", "register_serializer"]
