"""Errors of Tune."""

from __future__ import annotations

__all__ = ["TuneError"]


class TuneError(Exception):
    """An experiment cannot be run as it is asked for, or trials have failed."""
