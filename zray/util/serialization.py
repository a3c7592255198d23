"""Serializers of the program's own types, under the name of Ray's module."""

from ..store.values import deregister_serializer, register_serializer

__all__ = ["deregister_serializer", "register_serializer"]
