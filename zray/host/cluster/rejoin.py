"""Rejoin: a node that was cut off for too long has ended with all its work, and a new node joins in its place
(docs/design/membership.md), with a new id, key and session, and with the token of the first.

The process that rejoins is the remains of the first node: no role, no socket, no worker.  It keeps a folder, so that
`zray stop` finds it and `zray status` shows why the last attempt failed.  It tries until the network is back, for
RETURN_SECONDS_MAX; a refused token (expired, used up) ends the attempts at once.  Its log is gone by then, so the
reason goes to the machine's log.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from ...exceptions import AuthenticationError, ClusterLostError
from ...store.sweeper import lock_session
from ..process.process_utils import children_of, end_children
from ..process.syslog import say_to_machine
from ..session.session import Session
from ..session.session_info import SessionInfo

# Cables are repaired within minutes; an unseen process should not try for ever.
RETURN_SECONDS_MAX = 600.0
PAUSE_SECONDS = 2.0
# Less than `zray stop` waits for us.
CHILDREN_END_SECONDS = 2.0


def rejoin(options: dict[str, Any], token: str) -> None:
    """options: as node_main's.  Returns when a new node is a member, or none will be; or upon SIGTERM."""
    session = Session.named_anew()  # the former one's folder is others' to remove, who may not have yet
    signal.signal(signal.SIGTERM, _stop)
    lock = -1
    try:
        session.make_folder()
        lock = lock_session(session.folder)
        cluster = options["cluster"]
        called = cluster.get("called") or ""
        info = SessionInfo(options["session"], os.getpid(), is_embedded=False, cluster=cluster["address"])
        info.kind, info.called = "returning", called if called != options["session"] else ""
        session.write_info(info)
        _try(options, token, session, info)
    except SystemExit:
        _wait_for_children()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        session.remove()
        if lock >= 0:
            os.close(lock)


def _stop(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _wait_for_children() -> None:
    """Wait for the fork server of a node that failed to join: it is now our child, and removes its files."""
    deadline = time.monotonic() + CHILDREN_END_SECONDS
    while children_of(os.getpid()) and time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return
    end_children()


def _try(options: dict[str, Any], token: str, session: Session, info: SessionInfo) -> None:
    from ..process import node_processes

    cluster = options["cluster"]
    names = ("port", "advertise", "head_wait", "rejoin", "former", "called", "why", "replicas")
    wanted = {name: cluster.get(name) for name in names}
    deadline = time.monotonic() + RETURN_SECONDS_MAX
    while True:
        try:
            node_processes.start_member(
                options["total"],
                options["capacity"],
                cluster["address"],
                token,
                host=cluster.get("listen_host") or "",
                labels=options["labels"],
                spill_directory=options.get("spill_directory"),
                **wanted,
            )
            return
        except AuthenticationError as error:
            _say_at_last(info, cluster, error)
            return
        except (ClusterLostError, ConnectionError) as error:
            if time.monotonic() > deadline:
                _say_at_last(info, cluster, error)
                return
            info.notice = str(error)
            session.write_info(info)
        time.sleep(PAUSE_SECONDS)


def _say_at_last(info: SessionInfo, cluster: dict[str, Any], error: Exception) -> None:
    """Report the failure to the machine's log: no caller waits any more."""
    text = (
        f"the node of session {info.called or info.session} was declared dead by the cluster at {cluster['address']} "
        f"({cluster.get('why') or 'the reason is not known'}), and does not join it again: {error}"
    )
    print(text, file=sys.stderr)
    say_to_machine(text)
