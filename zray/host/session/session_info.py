"""Content of a session's node.json.

Separate from session.py, which must not import msgspec: a node launches its fork server before that import (main.py).
"""

from __future__ import annotations

import msgspec


class SessionInfo(msgspec.Struct):
    """Facts about a node, for a driver or the command line to join or name it."""

    session: str
    node_pid: int
    fork_server_pid: int = 0
    is_embedded: bool = True
    driver_pid: int = 0
    cluster: str = ""  # HOST:PORT of the head of the node's cluster; "": none
    kind: str = ""  # in the cluster: "head", "node", "driver"; "returning": a lost node, without a process so far
    endpoint: str = ""  # where other nodes reach this node
    node_id: str = ""
    notice: str = ""  # a text about the node's address, or why a returning node is not back yet
    called: str = ""  # the session that `zray start` named, if this one has joined again in its place

    def as_bytes(self) -> bytes:
        """Return the facts as written to the file."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, written: bytes) -> SessionInfo | None:
        """Return the facts in a file's bytes; None for anything else."""
        try:
            return msgspec.json.decode(written, type=cls)
        except msgspec.MsgspecError:
            return None
