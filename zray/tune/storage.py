"""Folders as bytes: checkpoints that travel between machines without a common file system."""

from __future__ import annotations

import io
import os
import tarfile

__all__ = ["MARKER", "default_storage_path", "is_shared", "mark", "pack", "unpack"]

# The file by which a worker knows that it sees the experiment's folder of the program.
MARKER = ".zray_experiment"


def default_storage_path() -> str:
    """The folder of experiments: TUNE_RESULT_DIR, or ~/ray_results, where programs and tools look for it."""
    return os.environ.get("TUNE_RESULT_DIR") or os.path.join(os.path.expanduser("~"), "ray_results")


def mark(path: str, identity: str) -> None:
    """Leave a mark in the experiment's folder."""
    with open(os.path.join(path, MARKER), "w") as file:
        file.write(identity)


def is_shared(path: str, identity: str) -> bool:
    """Whether this machine sees the experiment's folder of the program."""
    try:
        with open(os.path.join(path, MARKER)) as file:
            return file.read() == identity
    except OSError:
        return False


def pack(folder: str) -> bytes:
    """The files of a folder as bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def unpack(data: bytes, folder: str) -> None:
    """Write the files of `pack` into a folder; no file is written outside of it."""
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
            return
        root = os.path.realpath(folder)
        for member in archive.getmembers():  # Pythons before the filter
            target = os.path.realpath(os.path.join(root, member.name))
            if not (member.isfile() or member.isdir()) or os.path.commonpath([root, target]) != root:
                raise ValueError(f"The archive holds {member.name}, which is no plain file of its folder.")
        archive.extractall(folder)
