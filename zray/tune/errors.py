"""Errors of Tune."""

from __future__ import annotations

from zray.exceptions.printable import escaped

__all__ = ["CheckpointError", "NoExperimentError", "StorageError", "TuneError"]


class TuneError(Exception):
    """An experiment cannot be run as it is asked for, or trials have failed.

    Texts of the program in the message, as names of trials, do not act on a terminal.
    """

    def __str__(self) -> str:
        return escaped(super().__str__())


class StorageError(TuneError):
    """The experiment's folder cannot be written."""


class CheckpointError(TuneError):
    """The checkpoint of a trial cannot be taken."""


class NoExperimentError(TuneError, FileNotFoundError):
    """A folder, or a URL, holds no experiment."""
