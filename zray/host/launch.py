"""How a node starts its fork server: before anything else, since that has the longest way to go (numpy)."""

from __future__ import annotations

import os
import socket

from .hash_seed import VARIABLE
from .session import CONNECTION_DESCRIPTOR, NODE_DESCRIPTOR, Session
from .spawn import spawn


def launch_fork_server(session: Session, hash_seed: str) -> tuple[int, socket.socket]:
    """Run one beside us; its pid, and our end of the connection to it.  hash_seed: its workers' (hash_seed.py)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Handed over open, so that it can tell our end even if we end before it looks.
    node_pidfd = os.pidfd_open(os.getpid())
    log = session.open_log(session.log_path("fork-server"))
    pid = spawn(
        "zray.host.fork_server",
        [session.name, os.path.dirname(session.folder)],
        output=log,
        descriptors={theirs.fileno(): CONNECTION_DESCRIPTOR, node_pidfd: NODE_DESCRIPTOR},
        runs_user_code=True,
        variables={VARIABLE: hash_seed},
    )
    os.close(log)
    os.close(node_pidfd)
    theirs.close()
    return pid, ours
