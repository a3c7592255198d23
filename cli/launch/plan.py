"""The work to do on a host, from the file of hosts and the state found there.  No input, no output."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from . import start_options
from .hosts_file import Cluster, Host
from .troubles import Trouble

PYTHON_MIN = (3, 10)


@dataclass
class Session:
    """A lasting session of the user on a host."""

    name: str
    kind: str  # "head", "node", "returning"
    cluster: str  # HOST:PORT of its head
    node_id: str = ""
    called: str = ""  # its first name, if it has joined again

    def is_called(self, name: str) -> bool:
        """Whether the session, or the one that it replaces, has this name."""
        return bool(name) and name in (self.name, self.called)


@dataclass
class Found:
    """The state of a host."""

    python: str  # "3.11"
    zray: str  # "0.1.0"; "": not installed
    zray_error: str = ""
    sessions: list[Session] = field(default_factory=list)
    # The record that an earlier `zray up` left: the session, and digests of its options and of the set-up.
    session: str = ""
    options: str = ""
    setup: str = ""
    differing: list[str] = field(default_factory=list)  # places of files that are absent or other

    @classmethod
    def from_reply(cls, reply: dict[str, Any]) -> Found:
        """Return what an agent has told of its host."""
        record = reply["record"]
        return cls(
            python=reply["python"],
            zray=reply["zray"],
            zray_error=reply["zray_error"],
            sessions=[Session(**session) for session in reply["sessions"]],
            session=str(record.get("session", "")),
            options=str(record.get("options", "")),
            setup=str(record.get("setup", "")),
            differing=reply["differing"],
        )


@dataclass
class Start:
    """The fate of the session of a host."""

    # "keep": it runs as it should.  "start": none runs.  "restart": it runs with other options.
    action: str
    session: Session | None = None
    stale: list[Session] = field(default_factory=list)  # to be stopped at once: of a head that is gone


def digest(value: Any) -> str:
    """Return a digest of data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def options_digest(host: Host) -> str:
    """Return a digest of all that a session of the host is started with; paths of the cluster aside."""
    return digest([start_options.arguments(host.options, is_head=host.is_head), host.address])


def needs_setup(host: Host, found: Found) -> bool:
    """Whether the commands of the set-up differ from those that ran."""
    return bool(host.setup) and found.setup != digest(host.setup)


def check_versions(host: Host, found: Found, zray: str, python: str) -> None:
    """Compare the versions of a host with those that the cluster has.  python: "" for any.

    Raises:
        Trouble: another minor version of zray or of Python, or none.
    """
    if tuple(map(int, found.python.split("."))) < PYTHON_MIN:
        raise Trouble(
            f"{host.python} is Python {found.python}, and zray needs {'.'.join(map(str, PYTHON_MIN))} or newer",
            "name a newer Python that has zray: `venv:` or `python:`",
        )
    if not found.zray:
        raise Trouble(
            f"zray is not installed for {host.python}" + (f" ({found.zray_error})" if found.zray_error else ""),
            f"install it there (Python {python or found.python}), or name the Python that has it: `venv:` or `python:`",
        )
    if _minor(found.zray) != _minor(zray):
        raise Trouble(f"zray {found.zray} is installed there, and {zray} here", "install the same version on all hosts")
    if python and found.python != python:
        raise Trouble(
            f"its Python is {found.python}, that of the head is {python}",
            f"name a Python {python} with zray by `python:` or `venv:`",
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def head_start(host: Host, found: Found) -> Start:
    """Return what must be done for the head.

    Raises:
        Trouble: it runs with other options.
    """
    for session in found.sessions:
        if session.kind == "head" and session.is_called(found.session):
            if found.options not in ("", options_digest(host)):
                raise Trouble(
                    "the head runs with other options than those of the file, and its restart would end the cluster",
                    "`zray down`, then `zray up`; or write the former options",
                )
            return Start("keep", session)
    return Start("start")


def node_start(host: Host, found: Found, cluster: str, *, is_new_head: bool) -> Start:
    """Return what must be done for a node that is not the head.

    cluster: the head's address.  is_new_head: the head has no memory of nodes that joined an earlier one.
    """
    ours = [s for s in found.sessions if s.kind != "head" and (s.cluster == cluster or s.is_called(found.session))]
    if is_new_head:
        return Start("start", stale=ours)
    current = [session for session in ours if session.cluster == cluster]
    stale = [session for session in ours if session.cluster != cluster]
    if not current:
        return Start("start", stale=stale)
    recorded = [session for session in current if session.is_called(found.session)]
    session = (recorded or current)[0]
    is_other = bool(recorded) and found.options not in ("", options_digest(host))
    return Start("restart" if is_other else "keep", session, stale)


def sessions_to_end(found: Found, cluster: str) -> list[Session]:
    """Return the sessions of a host that `zray down` ends: that of the record, and all of the cluster."""
    return [s for s in found.sessions if s.is_called(found.session) or (cluster and s.cluster == cluster)]


def start_arguments(host: Host, cluster: str = "") -> list[str]:
    """Return the arguments of `zray start` for a host.  cluster: the head's address, for other hosts."""
    options = start_options.arguments(host.options, is_head=host.is_head)
    where = ["--host", host.address] if host.address else []
    if host.is_head:
        return ["start", "--head", *where, *options]
    return ["start", "--address", cluster, "--token-stdin", *where, *options]


def removed_hosts(cluster: Cluster, recorded: list[Host]) -> list[Host]:
    """Return the hosts of an earlier `zray up` that the file does not name any more."""
    return [host for host in recorded if not any(host.is_same(named) for named in cluster.hosts)]
