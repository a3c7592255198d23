"""The experiment's folder: who sees it, errors of writing to it, and checkpoints that travel as bytes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Iterator

from .errors import StorageError

__all__ = [
    "MARKER",
    "default_storage_path",
    "is_shared",
    "mark",
    "pack",
    "process_folder",
    "refusal",
    "sweep",
    "unpack",
    "writing",
]

_PROCESS_PREFIX = "zray-tune-"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

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
    import tarfile  # here: each process of a trial would load it, and few checkpoints travel

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def unpack(data: bytes, folder: str) -> None:
    """Write the files of `pack` into a folder; no file is written outside of it."""
    import tarfile

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


def process_folder(name: str) -> str:
    """A folder of this process on a machine that does not see the program's folder."""
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"{_PROCESS_PREFIX}{os.getpid()}-{name}")


def sweep() -> None:
    """Remove such folders of processes that were killed."""
    import tempfile

    base = tempfile.gettempdir()
    for name in os.listdir(base):
        pid = name.removeprefix(_PROCESS_PREFIX).partition("-")[0]
        if name.startswith(_PROCESS_PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)


@contextlib.contextmanager
def writing(path: str, *, is_begun: bool) -> Iterator[None]:
    """Errors of files as `StorageError`.

    Args:
        path: the experiment's folder.
        is_begun: whether there is something to go on from.
    """
    try:
        yield
    except (TimeoutError, ConnectionError):  # of the session, not of files
        raise
    except OSError as error:
        after = ", then go on with Tuner.restore" if is_begun else ""
        raise StorageError(
            f"The experiment's folder {path} cannot be written: {_reason(error)}.  {_advice(error)}{after}."
            f"{'  All that was recorded before is kept.' if is_begun else ''}"
        ) from error


def refusal(path: str, error: OSError) -> OSError:
    """The error of a trial whose checkpoint cannot be written."""
    return OSError(
        _number(error) or errno.EIO, f"The checkpoint {path} cannot be written: {_reason(error)}.  {_advice(error)}."
    )


def _number(error: OSError) -> int | None:
    if isinstance(error, shutil.Error):  # a list of (source, target, text), without numbers
        return next((number for number in _FULL if os.strerror(number) in str(error)), None)
    return error.errno


def _reason(error: OSError) -> str:
    number = _number(error)
    text = os.strerror(number) if number else str(error)
    return f"{text} ({error.filename})" if error.filename else text


def _advice(error: OSError) -> str:
    if _number(error) in _FULL:
        return "Free space, or keep fewer checkpoints (num_to_keep)"
    return "Make it writable, or choose another storage_path"
