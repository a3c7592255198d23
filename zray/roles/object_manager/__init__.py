"""The object manager: one per node (Ray paper 4.2.3)."""

from .manager import ObjectManager

__all__ = ["ObjectManager"]
