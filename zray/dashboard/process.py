"""Process of the dashboard that zray.init(include_dashboard=True) has started (zray/api/dashboards.py)."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

from setproctitle import setproctitle

from zray.api.dashboards import LISTENER, ORDERS, become_program

LINE_BYTES_MAX = 65_536


def main() -> None:
    """Serve the session that the first line of the orders names, until a further one, or the end of the program."""
    gc.enable()  # the start has switched it off
    become_program()
    setproctitle("zray dashboard")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    with os.fdopen(os.dup(ORDERS), "rb", buffering=0) as orders:
        address, token, parent = json.loads(orders.readline(LINE_BYTES_MAX))
    try:
        program = os.pidfd_open(parent)
    except ProcessLookupError:
        return
    import zray

    from .server import serve
    from .session import joined

    listener = socket.socket(fileno=LISTENER)
    try:
        session = joined(address)
    except (zray.exceptions.ZrayError, OSError) as error:
        print(f"The dashboard cannot join the session: {error}", file=sys.stderr)
        return
    try:
        reason = "The program has ended."
        serve(session, listener, token, [(ORDERS, reason), (program, reason)])
    finally:
        zray.shutdown()
