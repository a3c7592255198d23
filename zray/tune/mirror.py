"""Storage by URL: an experiment runs in a local folder, and a copy of the folder is kept at the URL.

A pass copies the files that have changed, then the journal as it was before the pass, then the list of all copied
files, and deletes at last.  A copy that ends anywhere can therefore be restored: the journal names no checkpoint that
the copy does not have, and a checkpoint whose files differ from the list is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import threading
import time
from typing import Any

from .checkpoint import TEMPORARY
from .errors import NoExperimentError, TuneError
from .folder_lock import LOCK, FolderLock, is_running
from .journal import JOURNAL
from .storage import MARKER, default_storage_path, sync_tree

__all__ = ["Mirror", "MirrorWarning", "fetch", "has_experiment", "local_folder", "local_path", "open_url"]

LISTING = ".zray_mirror.json"
# Seconds between two passes.  After a long pass: ten times its time, so that a tenth of a core is the most.
PASS_SECONDS = 5.0
PASS_SHARE = 10


class MirrorWarning(UserWarning):
    """The copy of an experiment at a URL is not complete."""


def local_path(path: str | os.PathLike[str]) -> str | None:
    """Return the local path meant by a storage path; None: the URL of another storage."""
    text = os.fspath(path)
    if text.startswith(("file://", "local://")):
        text = text.partition("://")[2]
    return os.path.abspath(os.path.expanduser(text)) if "://" not in text else None


def local_folder(url: str) -> str:
    """The local folder below which experiments of a storage at a URL run."""
    scheme = url.partition("://")[0] if "://" in url else "storage"
    return os.path.join(default_storage_path(), f"{scheme}-{hashlib.sha256(url.encode()).hexdigest()[:8]}")


def open_url(url: str, filesystem: Any = None) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in the file system.

    Args:
        filesystem: a file system of fsspec or pyarrow; None: that of the URL.

    Raises:
        TuneError: fsspec, or its part for this storage, is not installed, or the URL is wrong.
    """
    try:
        import fsspec.core

        if filesystem is None:
            found: tuple[Any, str] = fsspec.core.url_to_fs(url)
            return found
        if type(filesystem).__module__.partition(".")[0] == "pyarrow":
            from fsspec.implementations.arrow import ArrowFSWrapper

            filesystem = ArrowFSWrapper(filesystem)
    except ImportError as error:
        raise TuneError(
            f"Storage at {url} needs a package that is not installed: {error}.  Install it, and zray[tune] for fsspec."
        ) from error
    except ValueError as error:
        raise TuneError(f"The storage {url} is not known: {error}.") from error
    return filesystem, filesystem._strip_protocol(url)


class Mirror:
    """Keeps the copy of an experiment's folder.

    Args:
        local: the experiment's folder.
        url: the folder of the copy.
        filesystem: a file system of fsspec or pyarrow; None: that of the URL.
        is_resumed: the copy is of this experiment, so that what it has too much is deleted.
    """

    def __init__(self, local: str, url: str, filesystem: Any = None, *, is_resumed: bool = False) -> None:
        self.local, self.url = local, url
        self._filesystem, self._root = open_url(url, filesystem)
        self._sent: dict[str, tuple[int, int]] = {}  # file -> size and time of change, when it was copied
        self._gone: set[str] = set()  # files that were not there any more at the last pass
        self._journal_size = -1
        self._knows_copy = not is_resumed
        self._ends = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="mirror")

    def start(self) -> None:
        """Copy from now on, in a thread."""
        self._thread.start()

    def _run(self) -> None:
        wait = PASS_SECONDS
        while not self._ends.wait(wait):
            begin = time.monotonic()
            self._try(is_last=False)
            wait = max(PASS_SECONDS, PASS_SHARE * (time.monotonic() - begin))

    def _try(self, *, is_last: bool) -> None:
        try:
            self.copy(is_last=is_last)
            self._problem = None
        except Exception as error:
            if self._problem is None and not is_last:
                print(f"The copy at {self.url} fails, and is tried again: {error!r}", file=sys.stderr)
            self._problem = error

    def close(self) -> Exception | None:
        """Copy the rest.

        Returns:
            Why the copy is not complete; None: it is.
        """
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        self._try(is_last=True)
        return self._problem

    def copy(self, *, is_last: bool) -> None:
        """Make a pass.  is_last: nothing changes any more."""
        if not self._knows_copy:
            self._sent = dict.fromkeys(_listing(self._filesystem, self._root), (-1, -1))
            self._knows_copy = True
        size = os.path.getsize(os.path.join(self.local, JOURNAL))
        found = _files(self.local)
        made: set[str] = set()
        for name, state in found.items():
            if self._sent.get(name) != state and self._put(name, made):
                self._sent[name] = state
        if size != self._journal_size:
            with open(os.path.join(self.local, JOURNAL), "rb") as file:
                self._write(JOURNAL, file.read(size))
            self._journal_size = size
        gone = set(self._sent) - set(found)
        # What has gone during this pass is kept until the next one: this journal may name it.
        doomed = gone if is_last else gone & self._gone
        self._gone = gone - doomed
        for name in doomed:
            del self._sent[name]
        self._write(LISTING, json.dumps({name: state[0] for name, state in sorted(self._sent.items())}).encode())
        for name in doomed:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.rm_file(f"{self._root}/{name}")
        self._remove_folders({os.path.dirname(name) for name in doomed} - {os.path.dirname(name) for name in found})

    def _put(self, name: str, made: set[str]) -> bool:
        target = f"{self._root}/{name}"
        folder = os.path.dirname(target)
        if folder not in made:
            self._filesystem.makedirs(folder, exist_ok=True)
            made.add(folder)
        try:
            self._filesystem.put_file(os.path.join(self.local, name), target)
        except FileNotFoundError:
            if os.path.exists(os.path.join(self.local, name)):
                raise
            return False
        return True

    def _write(self, name: str, data: bytes) -> None:
        self._filesystem.makedirs(self._root, exist_ok=True)
        self._filesystem.pipe_file(f"{self._root}/{name}", data)

    def _remove_folders(self, folders: set[str]) -> None:
        """Empty folders, where the storage has folders at all."""
        for folder in sorted(folders, key=len, reverse=True):
            with contextlib.suppress(OSError, NotImplementedError):
                self._filesystem.rmdir(f"{self._root}/{folder}")


def _files(local: str) -> dict[str, tuple[int, int]]:
    """Return the copied files of an experiment, by their path within the folder, with size and time of change."""
    found = {}
    for folder, names, files in os.walk(local):
        names[:] = [name for name in names if not name.endswith(".unfinished") and not name.startswith(TEMPORARY)]
        for name in files:
            if name.endswith(".unfinished") or name in (MARKER, LOCK, JOURNAL, LISTING):
                continue
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                state = os.stat(path)
                found[os.path.relpath(path, local)] = (state.st_size, state.st_mtime_ns)
    return found


def has_experiment(url: str, filesystem: Any = None) -> bool:
    """Whether a URL holds an experiment."""
    files, root = open_url(url, filesystem)
    return bool(files.exists(f"{root}/{JOURNAL}"))


def fetch(url: str, filesystem: Any, local: str) -> None:
    """Make the local folder of an experiment from its copy, unless the local one is further.

    Raises:
        NoExperimentError: the URL holds no experiment.
        JournalInUse: the experiment is running, and the local folder is to be replaced.
    """
    files, root = open_url(url, filesystem)
    try:
        journal: bytes = files.cat_file(f"{root}/{JOURNAL}")
    except FileNotFoundError:
        raise NoExperimentError(f"{url} holds no experiment: it has no {JOURNAL}.") from None
    own = _read(os.path.join(local, JOURNAL))
    if own is not None and own.startswith(journal):
        return
    if is_running(local):
        FolderLock(local)  # raises, and names the process
    if own is not None and not journal.startswith(own):
        os.rename(local, f"{local}.{int(time.time() * 1000)}.old")
    unfinished = f"{local}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    broken: set[str] = set()  # checkpoints that were being deleted or replaced when the copy ended
    for name, size in _listing(files, root).items():
        target = os.path.normpath(os.path.join(unfinished, name))
        if not target.startswith(unfinished + os.sep):
            raise TuneError(f"The list of files in {url} names {name}, which is outside of the experiment.")
        checkpoint = _checkpoint_of(name)
        if checkpoint not in broken and not _get(files, f"{root}/{name}", target, size) and checkpoint:
            broken.add(checkpoint)
    for checkpoint in broken:
        shutil.rmtree(os.path.join(unfinished, checkpoint), ignore_errors=True)
    with open(os.path.join(unfinished, JOURNAL), "wb") as file:
        file.write(journal)
    sync_tree(unfinished)  # before the former folder goes
    shutil.rmtree(local, ignore_errors=True)
    os.rename(unfinished, local)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _listing(files: Any, root: str) -> dict[str, int]:
    """Return the files of a copy, with their sizes; for a folder copied by hand: all existing files."""
    try:
        listed: dict[str, int] = json.loads(files.cat_file(f"{root}/{LISTING}"))
        return listed
    except FileNotFoundError:
        prefix = files._strip_protocol(root).rstrip("/") + "/"
        found = files.find(root, detail=True)
        return {path.removeprefix(prefix): entry["size"] for path, entry in found.items() if path != prefix + JOURNAL}


def _get(files: Any, source: str, target: str, size: int) -> bool:
    """Copy one file from the storage, and say whether the file is as listed."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        files.get_file(source, target)
        return os.path.getsize(target) == size
    return False


def _checkpoint_of(name: str) -> str:
    """The checkpoint's folder of a file; empty: it belongs to none."""
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 and parts[1].startswith("checkpoint_") else ""
