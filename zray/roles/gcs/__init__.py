"""The global control store (Ray paper 4.3)."""

from .shard import GcsShard

__all__ = ["GcsShard"]
