"""Digests of local files and folders that a request for packages names: a changed one is another request."""

from __future__ import annotations

import os
import re
from hashlib import sha256

# More than that in one folder is data: of what lies beyond, size and time stand for the bytes.
BYTES_MAX = 64 << 20
# Builders write these beside the code, and they are made of it.
MADE = re.compile(r"(\.git|\.hg|__pycache__|build|.*\.egg-info|.*\.pyc)$")
_PATH_OF_LINE = re.compile(
    r"(?:(?:-e|--editable|-f|--find-links|-c|--constraint)[ =]\s*)?(?:.*@\s*)?(?:file://)?(/\S*)"
)


def digest_of(line: str) -> tuple[str, str] | None:
    """(path, digest) of what a line of a request names; None: nothing on this machine."""
    found = _PATH_OF_LINE.match(line)
    path = found[1].partition("[")[0] if found is not None else ""  # extras of a folder are in brackets
    if not path or not os.path.exists(path):
        return None
    digest, left = sha256(), BYTES_MAX
    for place in sorted(_files_of(path)):
        digest.update(f"{os.path.relpath(place, path)}\0".encode("utf-8", "surrogateescape"))
        try:
            status = os.stat(place)
            if status.st_size > left:
                digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
                continue
            left -= status.st_size
            with open(place, "rb") as file:
                digest.update(sha256(file.read()).digest())
        except OSError:
            digest.update(b"unreadable")
    return path, digest.hexdigest()


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not MADE.match(name)]
        found += [os.path.join(folder, name) for name in names if not MADE.match(name)]
    return found
