"""Pickles of configurations and of checkpoints."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

__all__ = ["dump", "dumps"]

# The protocol that writes large arrays as they are: the default of Python 3.10 to 3.13 copies each one twice.
_PROTOCOL = 5


def dumps(value: Any) -> bytes:
    """The pickle of a configuration, by value where it must be."""
    try:
        return pickle.dumps(value)
    except Exception:
        import cloudpickle

        data: bytes = cloudpickle.dumps(value)
        return data


def dump(value: Any, file: BinaryIO) -> None:
    """Write the pickle of a checkpoint into an empty file, by value where it must be.

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
