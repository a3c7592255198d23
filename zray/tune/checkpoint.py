"""A checkpoint: a folder that a trial can start from.

The checkpoint of a paused trial is such a folder too, and its files are not synced to the disk.  The operating system
keeps new files in memory while there is room, and a process that resumes the trial reads them from there.  This memory
is shared by the processes of a node.  Its bound is the free memory, and no copy has to be released.

An object of the store, beside the files or in their place, was measured and left out.  Of a pause and a resume, the
writing and reading of 10 MB in files takes about 10 ms; an object would take 3 ms.  An object alone is lost by a kill
of the program, while the journal says that the trial has a checkpoint.  An object beside the files saves 1 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

from .pickles import dump, load
from .saving import complete_save
from .storage import temporary_folder

__all__ = ["Checkpoint"]

METADATA = ".metadata.json"
# The file of a checkpoint that was made from a dict.
DICT_FILE = "dict_checkpoint.pkl"
# The same of a class, whose `save_checkpoint` has returned a dict.
CLASS_DICT_FILE = "checkpoint_dict.pkl"
# The beginning of the names of folders of `tune.checkpoint_dir`, which the next report takes.
TEMPORARY = ".checkpoint-"


class Checkpoint:
    """A folder with what a trial has saved.

    Args:
        path: the folder.
        filesystem: accepted for Ray's programs; a local path is meant.

    Example:
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            tune.report({"loss": loss}, checkpoint=tune.Checkpoint.from_directory(folder))
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        self._path = os.fspath(path)
        self.filesystem = filesystem
        self._data: dict[str, Any] | None = None  # of a checkpoint that has no folder yet
        self._is_temporary = False  # the folder ends when the checkpoint is reported

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in the folder `path`; its files are copied when the checkpoint is reported."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checkpoint:
        """Make a checkpoint of the dict `data`, which is pickled into a folder at the report."""
        checkpoint = cls("")
        checkpoint._data = data
        return checkpoint

    @property
    def path(self) -> str:
        """The folder."""
        if not self._path and self._data is not None:
            self._path = temporary_folder("checkpoint")
            self._is_temporary = True
            self._write_data(self._path)
        elif not os.path.exists(self._path):
            complete_save(self._path)
        return self._path

    def _write_data(self, folder: str) -> None:
        with open(os.path.join(folder, DICT_FILE), "wb") as file:
            dump(self._data, file)

    def to_dict(self) -> dict[str, Any]:
        """The dict of `from_dict`, or the dict that `save_checkpoint` of a class returned; else files by name."""
        if self._data is not None:
            return self._data
        for name in (DICT_FILE, CLASS_DICT_FILE):
            if os.path.exists(whole := os.path.join(self.path, name)):
                found: dict[str, Any] = load(whole)
                return found
        contents: dict[str, Any] = {}
        for folder, _, names in os.walk(self.path):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    contents[os.path.relpath(path, self.path)] = file.read()
        return contents

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files into a folder.

        Args:
            path: the folder, which is made if it is not there; None: a new temporary one, which the caller removes.

        Returns:
            The path of the folder.
        """
        target = os.fspath(path) if path is not None else _temporary_folder()
        shutil.copytree(self.path, target, dirs_exist_ok=True)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """The path of the folder, to read from: `with checkpoint.as_directory() as folder:`; no file is copied."""
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """The metadata of `set_metadata`, or an empty dict."""
        try:
            with open(os.path.join(self.path, METADATA)) as file:
                found: dict[str, Any] = json.load(file)
            return found
        except FileNotFoundError:
            return {}

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata by the dict `metadata`, which JSON can hold."""
        with open(os.path.join(self.path, METADATA), "w") as file:
            json.dump(metadata, file)

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Add the dict `metadata` to the metadata."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Checkpoint(path={self.path!r})"


def _temporary_folder() -> str:
    import tempfile  # here: each process of a trial would load it

    return tempfile.mkdtemp(prefix="zray-checkpoint-")


def check(checkpoint: Any) -> None:
    """Refuse a value that is no valid checkpoint of a report.

    Raises:
        TypeError: it is none.
        FileNotFoundError: its folder is not there.
    """
    if not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint is a tune.Checkpoint, not {type(checkpoint).__name__}.  Use Checkpoint.from_dict(state) or "
            "Checkpoint.from_directory(folder)."
        )
    if checkpoint._data is None and not os.path.exists(checkpoint._path):
        raise FileNotFoundError(
            f"The folder of the reported checkpoint is not there: {checkpoint._path}.  Report a checkpoint before its "
            "temporary folder is removed."
        )


def check_folder(path: str) -> None:
    """Refuse a path that is no folder, with which a function would begin.

    Raises:
        FileNotFoundError: it is a file, or nothing is there.
    """
    if not os.path.isdir(path):
        kind = "is a file" if os.path.exists(path) else "is not there"
        raise FileNotFoundError(
            f"The checkpoint {path} {kind}, and a trainable function begins with the folder of one.  Give restore= the "
            "folder that a checkpoint was written into."
        )


def persist(checkpoint: Checkpoint | str, target: str) -> None:
    """Put a checkpoint into a trial's folder: under another name first, so a kill leaves no partial checkpoint."""
    source = Checkpoint(checkpoint) if isinstance(checkpoint, str) else checkpoint
    unfinished = f"{target}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _fill(unfinished, source)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    source._path, source._is_temporary = target, False


def _fill(unfinished: str, source: Checkpoint) -> None:
    """Make a folder with a checkpoint's files."""
    if source._data is not None and not source._path:
        os.makedirs(unfinished)
        source._write_data(unfinished)
    elif source._is_temporary:
        shutil.move(source.path, unfinished)
    elif os.path.isdir(source.path):
        shutil.copytree(source.path, unfinished)
    else:
        os.makedirs(unfinished)
        shutil.copy2(source.path, unfinished)
