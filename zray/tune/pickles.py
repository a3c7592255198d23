"""Pickles of checkpoints."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

__all__ = ["dump", "load"]

# The protocol that writes large arrays as they are: the default of Python 3.10 to 3.13 copies each one twice.
_PROTOCOL = 5


def dump(value: Any, file: BinaryIO) -> None:
    """Write the pickle of a checkpoint into an empty file, by value where necessary.

    The arrays go into the file one by one: bytes of the whole pickle would take its size in new memory, whose pages
    cost several times as much time as the file.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        pickle.dump(value, file, protocol=_PROTOCOL)
    except OSError:
        raise
    except Exception:
        import cloudpickle

        file.seek(0)
        file.truncate()
        cloudpickle.dump(value, file, protocol=_PROTOCOL)


def load(path: str) -> Any:
    """Read the pickle of a checkpoint.

    Raises:
        ValueError: the file is damaged; the message names it.
    """
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except (EOFError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"The file {path} of a checkpoint is damaged: {error}.  Start from an earlier checkpoint."
        ) from error
