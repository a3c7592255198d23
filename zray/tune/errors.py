"""Errors of Tune, and warnings at the line of the program."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

from zray.exceptions.printable import escaped

__all__ = ["CheckpointError", "NoExperimentError", "StorageError", "TuneError", "warn_program"]

# Frames that are no lines of a program: zray's own, and those of its `with` statements.
_PASSED = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, contextlib.__file__)


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


def warn_program(words: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the program that called Tune, however many calls lie in between."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, category, stacklevel=level)
