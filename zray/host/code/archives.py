"""Archives named by a runtime_env, as the entries of a bundle: .zip files, and wheels.

Nothing is unpacked here.  Names that would leave the folder, links and special files are refused, and no more bytes are
read than an archive declares.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from .cache import FILES_MAX

if TYPE_CHECKING:
    import zipfile

Entry = tuple[str, bool, bytes]  # path, is executable, bytes

ARCHIVES = (".zip", ".whl")
# A wheel's files in these places are imported from its root.
_LIBRARIES = ("purelib", "platlib")


class RefusedArchive(ValueError):
    """A readable archive that is refused."""


def is_archive(path: str) -> bool:
    """Return whether a path is an archive, by its name, and no folder."""
    return path.endswith(ARCHIVES) and not os.path.isdir(path)


def read_archive(path: str, bytes_max: int) -> list[Entry]:
    """Return the archive's files.

    Raises:
        ValueError: the file is no archive, has a name outside of its folder, or too much content.
        OSError: the file cannot be read.
    """
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            total = sum(member.file_size for member in members)
            if len(members) > FILES_MAX or total > bytes_max:
                raise RefusedArchive(
                    f"{path} is {total:,} bytes in {len(members):,} files when unpacked; at most {bytes_max:,} bytes "
                    f"in {FILES_MAX:,} files can be.  Leave some out, or put() data."
                )
            return sorted(_entry(archive, member, path) for member in members)
    except (RefusedArchive, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # zipfile and its decompressors raise a dozen classes for damaged bytes
        raise ValueError(f"{path} cannot be read as an archive: {type(error).__name__}: {error}") from error


def _entry(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> Entry:
    name, mode = member.filename, member.external_attr >> 16
    parts = name.split("/")
    if "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise RefusedArchive(f"{path} has a file of the name {name!r}: it would lie outside of its folder.")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise RefusedArchive(f"{path}: {name!r} is a link or a special file, and only regular files are unpacked.")
    with archive.open(member) as file:
        data = file.read(member.file_size + 1)
    if len(data) != member.file_size:
        raise RefusedArchive(f"{path}: {name!r} has not as many bytes as the archive says.")
    if path.endswith(".whl") and len(parts) > 2 and parts[0].endswith(".data") and parts[1] in _LIBRARIES:
        name = "/".join(parts[2:])
    return name, bool(mode & 0o100), data
