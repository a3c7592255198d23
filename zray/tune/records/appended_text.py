"""A text file to whose end is written, with one call of the operating system for each flush."""

from __future__ import annotations

import io
import locale

__all__ = ["AppendedText"]

# Texts that wait for a flush, at most: a flush follows each turn of an experiment.
PENDING_MAX = 1_000
ENCODING = locale.getpreferredencoding(False)  # as of `open`, which reads the files again


class AppendedText:
    """A text file that takes lines at its end.

    The file is opened by the first flush.  So a trial of one result costs one open, one write and one close for each
    file; the decoder and the buffers of Python's text files take three times as long.  Characters that the encoding
    lacks are escaped.

    Args:
        path: of the file, which need not exist; its folder does.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: io.FileIO | None = None
        self._pending: list[str] = []
        self._data = b""  # the rest of a failed write: the next flush goes on there

    def write(self, text: str) -> None:
        """Add text, which leaves with the next flush."""
        self._pending.append(text)
        if len(self._pending) >= PENDING_MAX:
            self.flush()

    def flush(self) -> None:
        """Hand over to the operating system.

        Raises:
            OSError: the disk takes no more; the rest is kept for the next flush.
        """
        if self._pending:
            self._data += "".join(self._pending).encode(ENCODING, "backslashreplace")
            self._pending.clear()
        if self._data:
            if self._file is None:
                self._file = io.FileIO(self._path, "ab")
            while self._data:
                self._data = self._data[self._file.write(self._data) :]

    def close(self) -> None:
        """Flush and close; the file is closed also where the flush fails."""
        try:
            self.flush()
        finally:
            if self._file is not None:
                self._file.close()
