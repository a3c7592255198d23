"""The global scheduler (Ray paper 4.2.2)."""

from .scheduler import GlobalScheduler

__all__ = ["GlobalScheduler"]
