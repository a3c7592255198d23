"""Saves into a folder that may hold a checkpoint already: after a kill, the folder has all files of one save.

    <folder>.unfinished             the new checkpoint, until it is whole and on the disk
    <folder>.former.unfinished      the former one, from then until the new one has its name

So a folder that is absent beside both is one between two renames, and `complete_save` does the second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from .storage import sync_folder, sync_tree

__all__ = ["complete_save", "saving_aside"]


@contextlib.contextmanager
def saving_aside(target: str) -> Iterator[str]:
    """A folder beside a checkpoint's; it takes the name of the former one when all files are written.

    Args:
        target: the folder of the checkpoint; other files that it has stay.

    Raises:
        OSError: it cannot be written; what was there is as it was before.
    """
    target = os.path.realpath(target)
    unfinished, former = _beside(target)
    complete_save(target)
    for each in (former, unfinished):  # left by a killed process
        shutil.rmtree(each, ignore_errors=True)
    try:
        os.makedirs(unfinished)
        yield unfinished
        if not os.path.isdir(target):
            os.rename(unfinished, target)
        elif os.path.commonpath([target, os.getcwd()]) == target:
            _replace_files(unfinished, target)  # a renamed folder would still be the working directory
        elif not os.listdir(target):
            shutil.copymode(target, unfinished)
            os.rename(unfinished, target)
        else:
            _keep_others(target, unfinished)
            sync_tree(unfinished)  # before the former files go
            os.rename(target, former)
            os.rename(unfinished, target)
            sync_folder(os.path.dirname(target))
    except BaseException:
        if os.path.exists(former) and not os.path.exists(target):
            os.rename(former, target)
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    for each in (former, unfinished):
        shutil.rmtree(each, ignore_errors=True)


def complete_save(path: str) -> str:
    """Give a checkpoint's folder its name, if a kill has ended its save between two renames.

    Returns:
        The path.

    Raises:
        OSError: it cannot be renamed, and the message says where its files are.
    """
    target = os.path.realpath(path)
    unfinished, former = _beside(target)
    if os.path.exists(target) or not (os.path.isdir(former) and os.path.isdir(unfinished)):
        return path
    try:
        os.rename(unfinished, target)
    except OSError as error:
        if not os.path.isdir(target):  # else the process that saves, or another one that loads, has done it
            raise type(error)(
                error.errno,
                f"The checkpoint {target} was being replaced when its program ended, and {unfinished} holds it, but "
                f"cannot be renamed: {error.strerror}.  Rename it, or make {os.path.dirname(target)} writable.",
            ) from error
    else:
        shutil.rmtree(former, ignore_errors=True)
    return path


def _beside(target: str) -> tuple[str, str]:
    """The folders of the new and of the former checkpoint during a save."""
    return f"{target}.unfinished", f"{target}.former.unfinished"


def _keep_others(target: str, folder: str) -> None:
    """Add the files of the former folder that the new one lacks, as links."""
    for place, folders, names in os.walk(target):
        own = os.path.normpath(os.path.join(folder, os.path.relpath(place, target)))
        if os.path.lexists(own) and (os.path.islink(own) or not os.path.isdir(own)):
            folders.clear()
            continue
        os.makedirs(own, exist_ok=True)
        shutil.copymode(place, own)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in (*names, *links):
            source, copy = os.path.join(place, name), os.path.join(own, name)
            if os.path.lexists(copy):
                continue
            try:
                os.link(source, copy, follow_symlinks=False)
            except OSError:  # a file system without links, or a file of another user
                shutil.copy2(source, copy, follow_symlinks=False)


def _replace_files(folder: str, target: str) -> None:
    """Move the files one by one."""
    sync_tree(folder)  # before the former files go
    for place, _, names in os.walk(folder):
        own = os.path.normpath(os.path.join(target, os.path.relpath(place, folder)))
        os.makedirs(own, exist_ok=True)
        for name in names:
            os.replace(os.path.join(place, name), os.path.join(own, name))
