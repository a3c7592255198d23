"""The local scheduler: one per node (Ray paper 4.2.2)."""

from .scheduler import LocalScheduler

__all__ = ["LocalScheduler"]
