"""Files of this machine that go to hosts, and files of hosts that come here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import agent
from .hosts_file import Cluster

CHUNK = 1 << 16
# Names of no use on another machine.
EXCLUDED = ("__pycache__", "*.pyc", ".git")


@dataclass
class File:
    """A file that hosts shall have."""

    place: str  # on the hosts
    path: str  # on this machine
    size: int
    mode: int
    digest: str

    def facts(self) -> list[object]:
        """The facts by which a host compares its own file."""
        return [self.place, self.size, self.mode, self.digest]

    def data(self) -> Iterator[bytes]:
        """The content, of the size that was announced."""
        left = self.size
        with open(self.path, "rb") as file:
            while left:
                data = file.read(min(left, CHUNK)) or bytes(min(left, CHUNK))  # it was cut meanwhile
                left -= len(data)
                yield data


def collect(pairs: Sequence[tuple[str, str]], exclude: Sequence[str]) -> list[File]:
    """Return the files of places: (place on the hosts, file or folder here).  Links to folders are not followed.

    Raises:
        OSError: a file cannot be read.
    """
    found: dict[str, File] = {}
    for place, path in pairs:
        names = agent.names_below(path, [*EXCLUDED, *exclude]) if os.path.isdir(path) else [""]
        for name in names:
            source, target = (os.path.join(path, name), os.path.join(place, name)) if name else (path, place)
            status = os.stat(source)
            found[target] = File(target, source, status.st_size, status.st_mode & 0o777, agent.file_digest(source))
    return list(found.values())


def of_cluster(cluster: Cluster) -> list[File]:
    """Return the files that the file of hosts names."""
    return collect(cluster.files, cluster.exclude)


def have(path: str) -> dict[str, list[object]]:
    """Return what a file or folder of this machine has: size and digest by name."""
    if os.path.isfile(path):
        return {"": [os.path.getsize(path), agent.file_digest(path)]}
    names = agent.names_below(path, ()) if os.path.isdir(path) else []
    return {
        name: [os.path.getsize(file), agent.file_digest(file)] for name in names for file in [os.path.join(path, name)]
    }
