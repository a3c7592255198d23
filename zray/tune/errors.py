"""Errors of Tune."""

from __future__ import annotations

__all__ = ["NoExperimentError", "StorageError", "TuneError"]


class TuneError(Exception):
    """An experiment cannot be run as it is asked for, or trials have failed."""


class StorageError(TuneError):
    """The experiment's folder cannot be written."""


class NoExperimentError(TuneError, FileNotFoundError):
    """A folder, or a URL, holds no experiment."""
