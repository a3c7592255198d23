"""Errors of Tune."""

from __future__ import annotations

__all__ = ["CheckpointError", "NoExperimentError", "StorageError", "TuneError"]


class TuneError(Exception):
    """An experiment cannot be run as it is asked for, or trials have failed."""


class StorageError(TuneError):
    """The experiment's folder cannot be written."""


class CheckpointError(TuneError):
    """The checkpoint of a trial cannot be taken."""


class NoExperimentError(TuneError, FileNotFoundError):
    """A folder, or a URL, holds no experiment."""
