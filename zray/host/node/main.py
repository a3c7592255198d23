"""The first steps of a node process: its session's folder, its log, its fork server; then the node itself.

Only modules for these steps are imported, and no msgspec, so that the fork server begins its longer start as early as
possible.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
from typing import Any

from ...store.sweeper import lock_session
from ..process.interpreter import chosen_hash_seed
from ..process.launch_fork_server import launch_fork_server
from ..process.process_utils import adopt_orphans, end_children, forbid_unpickling
from ..process.titles import set_title
from ..session import kept_logs
from ..session import session as sessions


def main() -> None:
    """OPTIONS_DESCRIPTOR: one map, marshalled by the same interpreter: session, root, total, capacity, driver_pid,
    is_bound, labels, and for a node of a cluster `cluster` (membership.py)."""
    with open(sessions.OPTIONS_DESCRIPTOR, "rb") as file:
        options = marshal.loads(file.read())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptors = [sessions.READY_DESCRIPTOR, sessions.DRIVER_DESCRIPTOR]
    cluster = options.get("cluster") or {}
    joins = cluster.get("kind") in ("node", "driver")
    if joins:
        descriptors.append(sessions.SECRET_DESCRIPTOR)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    forbid_unpickling()
    adopt_orphans()
    session = sessions.Session(options["session"], options["root"])
    kept, why_lost = kept_logs.begin(session.name)
    options["kept_logs"] = kept
    try:
        session.make_folder(kept.folder if kept is not None else "")
        if why_lost:
            session.say_that_logs_are_lost(why_lost)
    except OSError as error:
        if kept is not None:
            kept.remove()
        os.write(sessions.READY_DESCRIPTOR, sessions.readiness(f"{error}", sessions.HAS_FAILED))
        sys.exit(1)
    early_log = os.dup(2)  # of whoever starts us: ours goes with the session
    try:
        redirect_output(session)
        lock = lock_session(session.folder)
        # The hash seed comes first: a node that joins is told it, and a head may find it among its state.  (Otherwise
        # at once: a fork server takes longer to start than a node.)
        seed = "" if joins or has_plan(cluster) else chosen_hash_seed()
        options["hash_seed"] = seed
        is_idle = not options["total"].get("CPU")
        fork_server = launch_fork_server(session, seed, is_idle=is_idle) if seed else None
        set_title("zray: node")
        from . import startup

        token = startup.run(session, options, fork_server, lock)
    except BaseException:
        import traceback

        traceback.print_exc()
        os.write(early_log, traceback.format_exc().encode())
        end_children()
        if kept is not None:
            kept.end("the node has failed", is_worth_keeping=True)
        session.remove()
        raise
    if token:
        from ..cluster.rejoin import rejoin

        rejoin(options, token.decode())


def has_plan(cluster: dict[str, Any]) -> bool:
    """Whether a head is to be started on the state of another one (head_state.py)."""
    return bool(cluster.get("state_dir")) and os.path.exists(os.path.join(cluster["state_dir"], sessions.PLAN))


def redirect_output(session: sessions.Session) -> None:
    """From whatever the driver gave us for trouble until here, into our log."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = session.open_log(session.log_path("node"))
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
