"""Sessions whose logs are on this machine, running and ended, with the facts of their indexes.

The indexes are written by nodes (host/session/kept_logs.py).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import msgspec

from ..host.output.log_lines import names_in, worker_logs
from ..host.session import kept_logs
from ..host.session.session import live_sessions
from .program_logs import PREFIX

READ_BYTES_MAX = 16 << 20


class LogSession:
    """The logs of one node's session.

    Args:
        name: of the session.
        folder: of its logs.
        is_kept: whether the logs outlive the session.
    """

    def __init__(self, name: str, folder: str, *, is_kept: bool) -> None:
        self.name, self.folder, self.is_kept = name, folder, is_kept
        self.facts: dict[str, Any] = {}
        self.others: dict[str, str] = {}  # further nodes of the cluster -> where they are, as HOST:PORT
        for found in read_lines(os.path.join(folder, kept_logs.INDEX))[0]:
            if node := found.get("node"):
                if found.get("kind") != "driver":
                    self.others[str(node)] = str(found.get("endpoint", ""))
            else:
                self.facts.update(found)
        self.changed = kept_logs.newest_change(folder)

    @property
    def is_running(self) -> bool:
        """Whether its node lives."""
        return kept_logs.is_running(self.folder) if self.is_kept else os.path.isdir(self.folder)

    @property
    def started(self) -> float:
        """When it began, in seconds since 1970."""
        return float(self.facts.get("started", self.changed))

    @property
    def ended(self) -> float:
        """When it ended, or had its last sign of life, in seconds since 1970."""
        return time.time() if self.is_running else float(self.facts.get("ended", self.changed))

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.is_running:
            return "running"
        return str(self.facts.get("reason", "")) or "killed"

    @property
    def node_id(self) -> str:
        """Id of its node."""
        return str(self.facts.get("node_id", ""))

    def workers(self) -> list[str]:
        """Names of the logs of its workers and of submitted programs, as worker-1-4711.log and job-ID-4712.log."""
        programs = [name for name in names_in(self.folder, PREFIX) if name.endswith(".log")]
        return [*worker_logs(self.folder), *programs]

    def files(self) -> list[str]:
        """Names of all its log files."""
        with suppress(OSError):
            return sorted(entry.name for entry in os.scandir(self.folder) if entry.name.endswith((".log", ".err")))
        return []

    def room(self) -> int:
        """Bytes of its logs on disk."""
        return kept_logs.room_of(self.folder)


def read_lines(path: str, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Read facts from whole lines of JSON, and return where the next read starts.  Other lines are left out."""
    found: list[dict[str, Any]] = []
    try:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(READ_BYTES_MAX)
    except OSError:
        return found, start
    upto = data.rfind(b"\n") + 1
    for line in data[:upto].split(b"\n"):
        with suppress(msgspec.DecodeError):
            facts = msgspec.json.decode(line.lstrip(b"\0"))  # zeros stand for what a long file has given back
            if isinstance(facts, dict):
                found.append(facts)
    return found, start + (upto or (len(data) if len(data) == READ_BYTES_MAX else 0))


def log_sessions() -> list[LogSession]:
    """Sessions whose logs are on this machine, the newest first."""
    root = kept_logs.log_root()
    try:
        names = [entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        names = []
    found = {name: LogSession(name, os.path.join(root, name), is_kept=True) for name in names}
    for session in live_sessions():
        if session.name not in found:
            folder = os.path.realpath(session.logs)
            one = found[session.name] = LogSession(session.name, folder, is_kept=os.path.islink(session.logs))
            if not one.facts and (info := session.read_info()) is not None:
                one.facts = {"node_id": info.node_id, "cluster": info.cluster, "kind": info.kind}
    return sorted(found.values(), key=lambda one: one.started, reverse=True)


def grouped(sessions: list[LogSession]) -> list[list[LogSession]]:
    """Put nodes of one cluster on this machine together, the head first; the newest group comes first."""
    groups: list[list[LogSession]] = []
    for one in sessions:
        cluster = one.facts.get("cluster")
        near = (group for group in groups if cluster and group[-1].facts.get("cluster") == cluster)
        group = next((group for group in near if any(one.ended >= other.started for other in group)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    for group in groups:
        group.sort(key=lambda one: (one.facts.get("kind") != "head", one.started))
    return groups


def elsewhere(group: list[LogSession]) -> dict[str, str]:
    """Nodes of the cluster whose logs are not among these: id -> host."""
    here = {one.node_id for one in group}
    return {
        node: place.rpartition(":")[0] or "another machine"
        for one in group
        for node, place in one.others.items()
        if node not in here
    }
