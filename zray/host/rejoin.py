"""A node that was cut off for longer than a member may be has ended, with all that it ran; here a new one joins in its
place (DESIGN 8): with an id, a key and a session of its own, and with the token that the first one was started with.

The process that does it is what is left of the first one: no role, no socket, no worker, no folder.  It tries until the
network is back, for RETURN_SECONDS_MAX; a token that is refused (expired, used up) ends it at once.
"""

from __future__ import annotations

import signal
import sys
import time
from typing import Any

from ..exceptions import AuthenticationError, ClusterLostError

# Cables are found within minutes; a process that nobody sees should not try for ever.
RETURN_SECONDS_MAX = 600.0
PAUSE_SECONDS = 2.0


def rejoin(options: dict[str, Any], token: str) -> None:
    """options: as node_main's.  Returns when a new node is a member, or none will be."""
    from . import nodes

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cluster = options["cluster"]
    names = ("port", "advertise", "head_wait", "rejoin", "former", "called", "replicas")
    wanted = {name: cluster.get(name) for name in names}
    deadline = time.monotonic() + RETURN_SECONDS_MAX
    while True:
        try:
            nodes.start_member(
                options["total"],
                options["capacity"],
                cluster["address"],
                token,
                host=cluster.get("listen_host") or "",
                labels=options["labels"],
                **wanted,
            )
            return
        except AuthenticationError as error:
            print(f"this node does not join again: {error}", file=sys.stderr)
            return
        except (ClusterLostError, ConnectionError) as error:
            if time.monotonic() > deadline:
                print(f"this node does not join again: {error}", file=sys.stderr)
                return
        time.sleep(PAUSE_SECONDS)
