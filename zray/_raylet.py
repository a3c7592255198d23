"""Names of Ray's compiled module that libraries use all the same."""

from .object_ref import ObjectRef

__all__ = ["ObjectRef"]
