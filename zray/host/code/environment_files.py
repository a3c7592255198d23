"""Files of environments on their way to workers: packed once, and put as an object.

The specs of tasks hold that object, so it lives as long as any task may need it.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ...object_ref import ObjectRef
from ...options.runtime_env import is_working_dir
from ...roles.kept import Latest
from ...store.values import serialize
from ...wire.environment import Parcel
from .archives import is_archive, read_archive
from .module_discovery import BUNDLE_BYTES_MAX, File, files_at, files_below, pack

if TYPE_CHECKING:
    from ..client.runtime import Runtime

# Limits of parcels kept for the next task with the same files, and of remembered folders.
PARCELS_MAX = 32

# State of a folder: path, time and size of each file.
Look = tuple[tuple[str, int, int], ...]


class Packer:
    """The parcels of a process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.refs: Latest[bytes, ObjectRef[Any]] = Latest(PARCELS_MAX)  # by digest
        self.known: Latest[tuple[str, str, tuple[str, ...]], tuple[Look, Parcel]] = Latest(PARCELS_MAX)

    def pack(self, field: str, path: str, excludes: tuple[str, ...]) -> Parcel:
        """Pack and put the files of a path.

        Raises:
            ValueError: the files are too large, or no archive.
            ObjectStoreFullError: there is no space for them.
        """
        path = os.path.abspath(path)
        if not (is_working_dir(path) if field == "working_dir" else os.path.exists(path)):
            raise ValueError(f"{field}: the path {path} does not exist on this machine.")
        files = [File("", path)] if is_archive(path) else files_of(field, path, excludes)
        look = tuple((file.source, os.stat(file.source).st_mtime_ns, file.size) for file in files)
        key = field, path, excludes
        known = self.known.get(key)
        if known is not None and known[0] == look:
            ref = self.refs.get(known[1].digest)
            if ref is not None and ref.id == known[1].object_id:
                return known[1]
        if is_archive(path):
            data = pack((), path, read_archive(path, BUNDLE_BYTES_MAX))
        else:
            data = pack(files, f"{field} {path}")
        digest = sha256(data).digest()
        if (ref := self.refs.get(digest)) is None:
            # Not a put of the task in hand, whose puts are counted: a run of the task elsewhere may pack nothing.
            ref = ObjectRef(self.runtime.put_serialized(serialize(data), self.runtime.root))
            self.refs[digest] = ref
        parcel = Parcel(digest, ref.id, len(data), path)
        self.known[key] = look, parcel
        return parcel


def files_of(field: str, path: str, excludes: tuple[str, ...] = ()) -> list[File]:
    """Return the files of a path in `working_dir` or `py_modules`; not for archives."""
    return files_below(path, excludes=excludes) if field == "working_dir" else files_at(path, excludes)
