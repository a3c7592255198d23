"""Standard output and error: of trials in files of the trial's folder, of a program's classes beside a command's."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["TrialOutput", "names_of", "printed_aside"]

# Text that waits for the next answer where folders are not shared; what is beyond is left out, with a note.
TEXT_MAX = 1 << 20


@contextlib.contextmanager
def printed_aside() -> Iterator[None]:
    """Send what a program's searcher and scheduler print to standard error: standard output is the command's own."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def names_of(log_to_file: Any) -> tuple[str, str] | None:
    """The files' names, for standard output and error; None: there are no files.

    Args:
        log_to_file: False; True: "stdout" and "stderr"; a name: both go there; two names.

    Raises:
        ValueError: something else.
    """
    if log_to_file is None or log_to_file is False:
        return None
    if log_to_file is True:
        return "stdout", "stderr"
    if isinstance(log_to_file, str) and log_to_file:
        return log_to_file, log_to_file
    if (
        isinstance(log_to_file, (tuple, list))
        and len(log_to_file) == 2
        and all(isinstance(s, str) for s in log_to_file)
    ):
        return log_to_file[0], log_to_file[1]
    raise ValueError(f"log_to_file is True, False, a file's name or a tuple of two names, not {log_to_file!r}.")


class _Text:
    """Text that travels to the program, in place of a file."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0

    def write(self, text: str) -> None:
        if self.size <= TEXT_MAX:
            self.size += len(text)
            self.parts.append(text if self.size <= TEXT_MAX else "\n[more than 1 MiB at once: the rest is left out]\n")

    def take(self) -> str:
        text = "".join(self.parts)
        self.parts, self.size = [], 0
        return text

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Tee:
    """A stream whose text goes to a file too."""

    def __init__(self, stream: Any, copy: Any) -> None:
        self._stream, self._copy = stream, copy

    def write(self, text: str) -> int:
        self._copy.write(text)
        self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._copy.flush()
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TrialOutput:
    """Sends a copy of this process's standard output and error to the trial's files, until it is closed.

    Args:
        folder: the trial's folder; None: the program does not share it, and takes the text by `take`.
        names: the files' names, for standard output and error.
    """

    def __init__(self, folder: str | None, names: tuple[str, str]) -> None:
        self._files: dict[str, Any] = {}
        self._former = sys.stdout, sys.stderr
        self._is_shared = folder is not None
        for name in dict.fromkeys(names):
            if folder is None:
                self._files[name] = _Text()
            else:
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                # A line is written at once: the end of the process may come at any time.
                self._files[name] = open(path, "a", errors="backslashreplace", buffering=1)  # noqa: SIM115
        sys.stdout = _Tee(sys.stdout, self._files[names[0]])  # type: ignore[assignment]
        sys.stderr = _Tee(sys.stderr, self._files[names[1]])  # type: ignore[assignment]

    def take(self) -> dict[str, str]:
        """The text since the last call, by the file's name; empty where the folder is shared."""
        if self._is_shared:
            return {}
        return {name: text for name, file in self._files.items() if (text := file.take())}

    def close(self) -> None:
        """Give the streams back, and close the files."""
        sys.stdout, sys.stderr = self._former
        for file in self._files.values():
            file.close()


def append(folder: str, texts: dict[str, str]) -> None:
    """Write what `take` has given into the files of the trial's folder."""
    for name, text in texts.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", errors="backslashreplace") as file:
            file.write(text)
