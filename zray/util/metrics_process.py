"""Process of the metrics endpoint that init(_metrics_export_port=) or `zray start` has started.

It ends with the process that has started it, or with the session (zray/api/metrics_endpoint.py).
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
from typing import Any

from setproctitle import setproctitle

from ..api import metrics_endpoint, sessions
from ..api.dashboards import become_program
from ..exceptions import ZrayError
from .prometheus import TOKEN_VARIABLE, Endpoint, collected, text_of
from .session_end import end_descriptor

__all__: list[str] = []  # run by name


def main() -> None:
    """Serve the session at the address that the arguments name, until a process ends whose pid they name."""
    gc.enable()  # the start has switched it off
    become_program()
    setproctitle("zray metrics")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    signal.signal(signal.SIGTERM, _leave)
    address, owner = sys.argv[1:]
    listening = socket.socket(fileno=metrics_endpoint.LISTENER)
    try:
        program = os.pidfd_open(int(owner))
        sessions.init(address=address, log_to_driver=False, record="", _only_looks=True)
    except (ZrayError, OSError) as error:
        print(f"The metrics endpoint cannot join the session: {error}", file=sys.stderr)
        return
    try:
        token = os.environ.get(TOKEN_VARIABLE) or None
        endpoint = Endpoint(0, metrics_endpoint.HOST, token, lambda: text_of(collected()), listening)
        threading.Thread(target=_watch, args=([program, end_descriptor()], endpoint), daemon=True).start()
        endpoint.serve()
        if endpoint.failure is not None:
            print(f"The metrics endpoint has ended: {endpoint.failure}", file=sys.stderr)
    finally:
        sessions.shutdown()


def _watch(descriptors: list[int], endpoint: Endpoint) -> None:
    """End the endpoint with the first of these processes."""
    select.select(descriptors, [], [])
    endpoint.server.shutdown()


def _leave(number: int, frame: Any) -> None:
    raise SystemExit(0)
