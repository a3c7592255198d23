"""A worker's descriptor 2: a file beside its log, for output of C code and child processes to standard error.

Text of sys.stderr goes into the log nevertheless (worker_output.py), so that its order with text of sys.stdout is kept.
A mark in the log ahead of each text of Python's streams notes the file's length at the time.  A program may redirect
its descriptors 1 and 2; then text of sys.stderr follows descriptor 2, as in any program.
"""

from __future__ import annotations

import os

from ..session.log_marks import upto_mark


class ErrorFile:
    """Descriptor 2 of this process."""

    def __init__(self) -> None:
        self.descriptors = (1, 2)
        self.log: tuple[int, int] | None = None
        self.errors: tuple[int, int] | None = None  # None: descriptor 2 leads into the log too
        self.marked = 0  # bytes

    def begin(self, output: int, error: int) -> None:
        """Note the files behind the descriptors."""
        self.descriptors = output, error
        log, errors = os.fstat(output), os.fstat(error)
        if _file(log) != _file(errors):
            self.log, self.errors, self.marked = _file(log), _file(errors), errors.st_size

    def lead(self, log_path: str, errors_path: str) -> None:
        """Redirect descriptor 2 into a separate file, if descriptor 1 leads into the log."""
        try:
            if _file(os.fstat(1)) != _file(os.stat(log_path)):
                return
            errors = os.open(errors_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return  # no log, or the disk is full: descriptor 2 stays as descriptor 1
        os.dup2(errors, 2)
        os.close(errors)
        self.begin(1, 2)

    def is_elsewhere(self) -> bool:
        """Return whether the program has redirected one of the descriptors."""
        try:
            return self.errors is not None and (self.log, self.errors) != tuple(
                _file(os.fstat(descriptor)) for descriptor in self.descriptors
            )
        except OSError:
            return True  # closed

    def new_mark(self) -> bytes:
        """Return the mark for the log if the file has grown since the last mark; else b""."""
        if self.errors is None:
            return b""
        try:
            status = os.fstat(self.descriptors[1])
            if status.st_size == self.marked or _file(status) != self.errors:
                return b""
            if _file(os.fstat(self.descriptors[0])) != self.log:
                return b""
        except OSError:
            return b""
        self.marked = status.st_size
        return upto_mark(status.st_size)


def _file(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
