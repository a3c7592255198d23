"""The directory for the spill files of a node: as the user says, or by default."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Any

IN_MEMORY = ("tmpfs", "ramfs")


def checked_directory(given: str | None) -> str | None:
    """Return the directory for spill files: as given, or ZRAY_SPILL_DIR; "": no spilling; None: the session's folder.

    A URL of fsspec is returned as it is, and `~` is the user's home.

    Raises:
        TypeError: no text.
        ValueError: fsspec knows no such protocol, or no folder can have the name.
        ImportError: a package for the URL is absent; the text names it.
        OSError: the directory cannot be made, or this user cannot write there; names it.
    """
    directory = os.environ.get("ZRAY_SPILL_DIR") if given is None else given
    if directory is None or directory == "":
        return directory
    if not isinstance(directory, (str, os.PathLike)):
        raise TypeError(f"object_spilling_directory must be a path, not {type(directory).__name__}.")
    source = "ZRAY_SPILL_DIR" if given is None else "object_spilling_directory"
    directory = str(os.fspath(directory)).removeprefix("file://")
    if "://" in directory:
        file_system_of(directory, source)
        return directory
    if "\0" in directory:
        raise ValueError(f"{source} is {directory!r}: a name of a folder has no zero byte.")
    directory = os.path.abspath(os.path.expanduser(directory))
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        error.strerror = f"{error.strerror}: {source}, the folder for spilled values, cannot be made"
        raise
    trial = os.path.join(directory, f"zray-{os.urandom(8).hex()}")
    try:  # the bits of a folder do not say all: its file system may refuse
        os.mkdir(trial, 0o700)
        os.rmdir(trial)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            text = f"This user cannot write into {source} {directory}: {error.strerror}."
            raise PermissionError(text) from error
    return directory


def file_system_of(url: str, source: str) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and the path in it.  source: who gave the URL.

    Raises: as `checked_directory`.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        text = f"{source} is {url!r}, and a URL needs fsspec: install zray[storage], or give a folder."
        raise ImportError(text) from None
    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        raise ImportError(f"{source} is {url!r}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{source} is {url!r}: {error}") from None
    return system, str(path)


def is_in_memory(path: str) -> bool:
    """Whether a path lies in a file system without a disk, as far as Linux says."""
    path, found, kind = os.path.realpath(path), "", ""
    with suppress(OSError), open("/proc/self/mounts") as file:
        for line in file:
            _, where, this_kind, *_ = line.split(" ")
            where = where.encode().decode("unicode_escape")
            if (path == where or path.startswith(where.rstrip("/") + "/")) and len(where) >= len(found):
                found, kind = where, this_kind
    return kind in IN_MEMORY
