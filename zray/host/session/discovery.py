"""Discovery of sessions on this machine: by the address of a cluster or of a socket, or without an address."""

from __future__ import annotations

import os

from ...exceptions import AuthenticationError
from ...exceptions.printable import printable
from ...store.sweeper import check_private, sweep
from .session import Session, lasting_sessions, live_sessions, returning_sessions

# Start of the address of a session begun by init(); the path of its socket follows.
SCHEME = "ipc://"


def find_node_of(cluster: str) -> tuple[Session, int] | None:
    """Return a lasting node on this machine: first the node listening at the address; else, of that head's cluster, the
    head itself if local, else the newest node.
    """
    found = None
    for session in lasting_sessions():
        info = session.read_info()
        if info is not None and cluster in (info.cluster, info.endpoint):
            found = (session, info.node_pid)
            if info.kind == "head" or info.endpoint == cluster:
                break
    return found


def find_session() -> tuple[Session, int]:
    """Return the session of `zray start` on this machine, else one begun by a program; the newest of several.

    Raises:
        ConnectionError: there is none.
    """
    for session in reversed(lasting_sessions()):
        info = session.read_info()
        if info is not None:
            return session, info.node_pid
    for session in returning_sessions():
        info = session.read_info()
        if info is not None:
            why = f" (the last attempt: {printable(info.notice)})" if info.notice else ""
            raise ConnectionError(
                f'init(address="auto"): the node of this machine (session {info.called or info.session}) was declared '
                f"dead by its cluster, and tries to join {info.cluster} again{why}.  Try again when `zray status` "
                "shows it; `zray stop` ends it.  With the head's address this would be a program outside the cluster."
            )
    for session in reversed(live_sessions()):
        info = session.read_info()
        if info is not None and not info.cluster:
            return session, info.node_pid
    raise ConnectionError(
        'init(address="auto") found no session of this user on this machine.  Start one with `zray start --head`, '
        "or leave the address out to start one of your own."
    )


def session_at(address: str) -> tuple[Session, int]:
    """Return the session with this socket, as "ipc://FOLDER/node.sock".

    The folder must belong to this user, closed to all others: the keys of a cluster protect TCP alone.

    Raises:
        ValueError: no session has such an address.
        AuthenticationError: the folder is another user's, a link, or open to others.
        ConnectionError: the session has ended; or its node serves only a program outside the cluster.
    """
    path = address.removeprefix(SCHEME)
    folder, socket = os.path.split(path)
    root, name = os.path.split(folder)
    session = Session(name, root)
    if not os.path.isabs(root) or not name or path != session.socket_path:
        from ..security.token_input import AddressError

        raise AddressError(
            f"The address of a session on this machine is {SCHEME}FOLDER/node.sock, as init() returned it, "
            f"not {address[:200]!r}."
        )
    try:
        check_private(root)
        check_private(folder)
    except PermissionError as error:
        raise AuthenticationError(f"init(address={address!r}) joins only sessions of this user: {error}.") from None
    except OSError:
        info = None
    else:
        sweep(root)  # a killed session may have left its folder
        info = session.read_info()
    if info is None or not os.path.exists(path):
        raise ConnectionError(
            f"No session is at {address}: it has ended, or never began.  Sessions of init() end with the program that "
            "called it; `zray status` lists those that run."
        )
    if info.cluster and info.is_embedded:
        raise ConnectionError(
            f"The node at {address} belongs to a program outside of its cluster (process {info.driver_pid}).  "
            f"Join the cluster itself: init(address={info.cluster!r})."
        )
    return session, info.node_pid


def is_in_cluster(session: Session) -> bool:
    """Return whether other nodes belong to the session's cluster, or may join.

    Raises:
        ConnectionError: the session has just ended.
    """
    info = session.read_info()
    if info is None:
        raise ConnectionError(f"The session {session.name} has ended.")
    return bool(info.cluster)
