"""Files of this machine: which clusters `zray up` has started, and a log for each host.

$XDG_STATE_HOME/zray/up/NAME/, or ~/.local/state/zray/up/NAME/     0700
    cluster.json     the file of hosts, the head's address, and all hosts with something on them
    HOST.log         lines that ran on the host, and their output; tokens are left out
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from .hosts_file import Cluster, Host

LOG_BYTES_MAX = 1 << 20
# A token, in a line of any kind.
TOKEN = re.compile(r"(ZRAY_TOKEN=)[^\s']+")


def root() -> str:
    """Return the folder of all clusters."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.local/state"), "zray", "up")


@dataclass
class Record:
    """A cluster that an earlier `zray up` has started, and its hosts."""

    name: str
    path: str = ""  # of the file of hosts
    address: str = ""  # of the head
    hosts: list[Host] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return os.path.join(root(), self.name)

    def log_path(self, host: Host) -> str:
        """The log of a host."""
        return os.path.join(self.folder, f"{host.label}.log")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other commands of this user from changing the cluster meanwhile.

        Raises:
            BlockingIOError: another one changes it.
        """
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        descriptor = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)

    def write(self) -> None:
        """Write the record, whole or not at all."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path = os.path.join(self.folder, "cluster.json")
        facts = {"path": self.path, "address": self.address, "hosts": [asdict(host) for host in self.hosts]}
        with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(facts, file)
        os.replace(f"{path}.new", path)

    def add(self, host: Host) -> None:
        """Note a host on which something may be started."""
        self.hosts = [other for other in self.hosts if not other.is_same(host)] + [host]
        self.write()

    def drop(self, host: Host) -> None:
        """Forget a host on which nothing is left."""
        self.hosts = [other for other in self.hosts if not other.is_same(host)]
        self.write()

    def remove(self) -> None:
        """Remove the record; the logs stay."""
        try:
            os.unlink(os.path.join(self.folder, "cluster.json"))
        except FileNotFoundError:
            pass


def read(name: str) -> Record:
    """Return the record of a cluster; an empty one if there is none."""
    try:
        with open(os.path.join(root(), name, "cluster.json")) as file:
            facts = json.load(file)
        hosts = [Host(**host) for host in facts["hosts"]]
        return Record(name, facts["path"], facts["address"], hosts)
    except FileNotFoundError:
        return Record(name)
    except (ValueError, KeyError, TypeError):
        return Record(name)  # of another version of zray


def all_records() -> list[Record]:
    """Return the records of all clusters that are up."""
    try:
        names = sorted(os.listdir(root()))
    except FileNotFoundError:
        return []
    return [record for name in names if (record := read(name)).path]


def of_cluster(cluster: Cluster) -> Record:
    """Return the record for a file of hosts.

    Raises:
        ValueError: another file has a running cluster of this name.
    """
    record = read(cluster.name)
    path = os.path.abspath(cluster.path)
    if record.path and record.path != path and os.path.exists(record.path):
        raise ValueError(
            f"The cluster {cluster.name!r} is up, by the file {record.path}.  Run `zray down {record.path}`, or write "
            f"another `name:` into {cluster.path}."
        )
    record.path = path
    return record


class Log:
    """The log of a host, for its user alone."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES_MAX:
            shutil.move(path, f"{path}.1")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.file: Any = open(descriptor, "a", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.path = path

    def line(self, text: str) -> None:
        """Write a line with the time."""
        self.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def write(self, text: str) -> None:
        """Write a text as it is, without tokens."""
        self.file.write(TOKEN.sub(r"\1...", text))
        self.file.flush()

    def close(self) -> None:
        self.file.close()
