"""The experiment's folder: visibility, errors of writing, and checkpoints that travel as bytes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Iterator

from .errors import CheckpointError, StorageError

__all__ = [
    "MARKER",
    "default_storage_path",
    "is_shared",
    "loose_folder",
    "mark",
    "pack",
    "prefix",
    "process_folder",
    "receive",
    "refusal",
    "sweep",
    "sync_folder",
    "sync_tree",
    "temporary_folder",
    "temporary_prefix",
    "unpack",
    "write_aside",
    "writing",
]

_PROCESS_PREFIX = "zray-tune-"
_LOOSE = "loose"  # the name of folders of trainables outside of experiments
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
    # Links are followed: what they name is not there on the other machine.
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as archive:
        try:
            archive.add(folder, arcname=".")
        except OSError as error:
            raise OSError(
                error.errno,
                f"The checkpoint cannot be sent to the program's machine: {_reason(error)}.  Links in a checkpoint "
                "name files that are there.",
            ) from error
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


def receive(data: bytes, path: str) -> None:
    """Make a folder of the files of `pack`, in place of former files.

    Raises:
        CheckpointError: they cannot be written.
    """
    unfinished = f"{path}.unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unpack(data, unfinished)
        shutil.rmtree(path, ignore_errors=True)
        os.rename(unfinished, path)
    except Exception as error:  # an archive that leads out of its folder, or is damaged: tarfile has many errors
        shutil.rmtree(unfinished, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise  # all trials would fail by it: it ends the experiment
        raise CheckpointError(
            f"The checkpoint that the trial has sent cannot be written to {path} on the program's machine: "
            f"{type(error).__name__}: {error}"
        ) from error


def sync_folder(path: str) -> None:
    """Wait until the disk has a folder's names, or a file's contents."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot
            raise
    finally:
        os.close(file)


def sync_tree(path: str) -> None:
    """Wait until the disk has a folder with all its files, and the folder's own name."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            if not os.path.islink(place := os.path.join(folder, name)):
                sync_folder(place)
        sync_folder(folder)
    sync_folder(os.path.dirname(path) or os.curdir)


def write_aside(path: str, data: bytes, mode: int = 0o644) -> None:
    """Replace a file's contents: the new contents are on the disk before the old ones are removed.

    Raises:
        OSError: they cannot be written; the file is as it was before.
    """
    unfinished = f"{path}.unfinished"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
        sync_folder(os.path.dirname(path) or ".")
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        raise


def temporary_folder(name: str) -> str:
    """Return a new folder for the current process, removed by `sweep` after a kill of the process."""
    import tempfile

    return tempfile.mkdtemp(prefix=temporary_prefix(name))


def temporary_prefix(name: str) -> str:
    """The beginning of the names of such folders."""
    return f"{prefix()}{os.getpid()}-{name}-"


def prefix() -> str:
    """Return the prefix of such names: different in each container, since several may share the temporary folder."""
    return f"{_PROCESS_PREFIX}{os.stat('/proc/self/ns/pid').st_ino:x}-"


def loose_folder() -> str:
    """Return a new folder for a trainable outside of an experiment."""
    sweep()
    return temporary_folder(_LOOSE)


def process_folder(name: str) -> str:
    """Return a new folder of the process on a machine without access to the program's folder.

    Only its user may enter the folder, and no other user can know the name before.
    """
    return temporary_folder(name)


def sweep() -> None:
    """Remove such folders of the user's ended processes; those of loose trainables only if they are empty."""
    import tempfile

    base, own = tempfile.gettempdir(), prefix()
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(base)
    for name in names:
        pid = name.removeprefix(own).partition("-")[0]
        if name.startswith(own) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            path = os.path.join(base, name)
            with contextlib.suppress(OSError):
                if os.lstat(path).st_uid != os.getuid():
                    continue
                if name.startswith(f"{own}{pid}-{_LOOSE}-"):  # it may hold a checkpoint, or files of the user
                    os.rmdir(path)
                else:
                    shutil.rmtree(path, ignore_errors=True)


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


def refusal(path: str, error: OSError, *, is_own: bool = False) -> OSError:
    """Return the error of a trial with an unwritable checkpoint.  is_own: the program has named the folder."""
    if is_own and _number(error) not in _FULL:
        words = f"The checkpoint {path} cannot be written: {_reason(error)}.  Make it writable, or save elsewhere."
        return type(error)(_number(error) or errno.EIO, words)
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
