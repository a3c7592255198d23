"""The start of a node's fork server: before anything else, since its imports take longest (numpy)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from types import MappingProxyType

from ..session.session import CONNECTION_DESCRIPTOR, NODE_DESCRIPTOR, REQUEST_DESCRIPTOR, Session
from .interpreter import HASH_SEED_VARIABLE
from .spawn import spawn

# Argument of a fork server that imports the modules of workers with the first of these.
LATER = "later"


def launch_fork_server(session: Session, hash_seed: str, *, is_idle: bool = False) -> tuple[int, socket.socket]:
    """Start the fork server; return its pid, and the node's end of the connection.

    hash_seed: of workers (interpreter.py).  is_idle: the node has no CPU, so perhaps it never starts a worker.
    """
    return _launch(session, hash_seed, "zray.host.process.fork_server", "fork-server", (LATER,) * is_idle)


def launch_environment_server(
    session: Session, log: str, hash_seed: str, packages: str, idle_seconds: float
) -> tuple[int, socket.socket]:
    """Start the fork server of an environment, which installs the packages first (environment_main.py).

    packages: the text of the request, passed in a file without a name, since addresses in it may have passwords.
    """
    request = os.memfd_create("zray-request", os.MFD_CLOEXEC)
    try:
        with open(request, "wb", closefd=False) as file:
            file.write(packages.encode())
        os.lseek(request, 0, os.SEEK_SET)
        more = {request: REQUEST_DESCRIPTOR}
        return _launch(session, hash_seed, "zray.host.code.environment_main", log, (str(idle_seconds),), more)
    finally:
        os.close(request)


def _launch(
    session: Session,
    hash_seed: str,
    module: str,
    log_name: str,
    arguments: tuple[str, ...] = (),
    descriptors: Mapping[int, int] = MappingProxyType({}),
) -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Inherited open, so that the server detects the node's end even if the node ends first.
    node_pidfd = os.pidfd_open(os.getpid())
    log = session.open_log(session.log_path(log_name))
    pid = spawn(
        module,
        [session.name, os.path.dirname(session.folder), *arguments],
        output=log,
        descriptors={theirs.fileno(): CONNECTION_DESCRIPTOR, node_pidfd: NODE_DESCRIPTOR, **descriptors},
        runs_user_code=True,
        variables={HASH_SEED_VARIABLE: hash_seed},
    )
    os.close(log)
    os.close(node_pidfd)
    theirs.close()
    return pid, ours
