"""`free`, under the name in Ray's private modules."""

from ..api.freeing import free

__all__ = ["free"]
