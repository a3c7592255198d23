"""The object manager: each node has one (Ray paper 4.2.3)."""

from .manager import ObjectManager

__all__ = ["ObjectManager"]
