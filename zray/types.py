"""Types for annotations."""

from .object_ref import ObjectRef

__all__ = ["ObjectRef"]
