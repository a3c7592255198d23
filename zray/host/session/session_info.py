"""What is in a session's node.json.

Apart from session.py, which must not import msgspec: a node launches its fork server before it does (main.py).
"""

from __future__ import annotations

import msgspec


class SessionInfo(msgspec.Struct):
    """What a driver or the command line needs to know of a node, to join it or to name it."""

    session: str
    node_pid: int
    fork_server_pid: int = 0
    is_embedded: bool = True
    driver_pid: int = 0
    cluster: str = ""  # HOST:PORT of the head of the cluster that it is part of; "": of none
    kind: str = ""  # in that cluster: "head", "node", "driver"; "returning": a node that was lost, and no process yet
    endpoint: str = ""  # where other nodes reach it
    node_id: str = ""
    notice: str = ""  # on how it is reached, for whoever has started it; why one that returns is not back yet
    called: str = ""  # the session that `zray start` named, where this one has joined again in its place

    def as_bytes(self) -> bytes:
        """What is written."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, written: bytes) -> SessionInfo | None:
        """What was; None where it is something else."""
        try:
            return msgspec.json.decode(written, type=cls)
        except msgspec.MsgspecError:
            return None
