"""`free`, under the name in Ray's private modules."""

from ..internal import free

__all__ = ["free"]
