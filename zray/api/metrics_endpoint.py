"""Process of the metrics endpoint that init(_metrics_export_port=) or `zray start` has started, and its end.

The socket listens before the session exists, so that a port that is taken is known at once.  The process ends when it
is told to, with its program, or with the session.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..host.process.process_utils import reap, wait_for_end
from ..host.process.spawn import spawn

__all__: list[str] = []  # for zray.init and `zray start`

HOST = "127.0.0.1"
LISTENER = 3  # the number of the socket in the process
PACKAGE = "prometheus_client"
END_SECONDS = 4.0


class Started(NamedTuple):
    """The process of an endpoint.  owner: the process that has started it."""

    pid: int
    pidfd: int
    port: int
    owner: int


_started: Started | None = None


def beside(begin: Callable[[], Any], port: Any) -> Any:
    """Start a session, and an endpoint beside it; return the session.

    Where the endpoint cannot run, a warning says why, and the program runs without it, as under Ray.

    Args:
        begin: starts the session.
        port: of init(); 0: any.

    Raises:
        ValueError: the port is none.
    """
    global _started
    if type(port) is not int or not 0 <= port <= 65_535:
        raise ValueError(f"_metrics_export_port must be an integer from 0 to 65535, not {port!r}.")
    try:
        listening = listener(port)
    except (ImportError, OSError) as error:
        _warn(str(error))
        return begin()
    with listening:
        runtime = begin()
        paths = getattr(runtime, "paths", None)
        if paths is None:
            _warn("Local mode has no processes to count in: leave out local_mode=True.")
            return runtime
        info = paths.read_info()
        if runtime.is_owner and info is not None and info.cluster:
            _warn("No node of the cluster is on this machine: run `zray metrics` on one that has.")
            return runtime
        try:
            pid = start(listening, paths.address, paths.log_path("metrics"), os.getpid())
        except OSError as error:
            _warn(f"The endpoint cannot be started: {error}.")
            return runtime
        _started = Started(pid, os.pidfd_open(pid), listening.getsockname()[1], os.getpid())
    atexit.register(stop)  # ahead of the end of the session, which is registered before
    if os.environ.get("ZRAY_QUIET") != "1":
        print(f"zray: metrics for Prometheus are at http://{HOST}:{_started.port}/metrics", file=sys.stderr, flush=True)
    return runtime


def listener(port: int) -> socket.socket:
    """Return a socket for an endpoint, of this machine alone.

    Raises:
        ImportError: Prometheus' library is missing.
        OSError: the port is taken.
    """
    if find_spec(PACKAGE) is None:
        raise ImportError(f"The endpoint needs {PACKAGE}: install zray[metrics].")
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        why = error.strerror or str(error)
        text = f"The endpoint cannot listen at port {port} of {HOST}: {why}.  Give another port; 0 takes any."
        raise OSError(text) from None


def start(listening: socket.socket, address: str, log: str, owner: int) -> int:
    """Start the process, and return its pid.

    Args:
        listening: what `listener` has returned.
        address: of the session.
        log: file for its errors.
        owner: pid of the process with which it ends.

    Raises:
        OSError: it cannot be started.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return spawn(
            "zray.util.metrics_process",
            [address, str(owner)],
            output=output,
            descriptors={listening.fileno(): LISTENER},
            runs_user_code=True,
        )
    finally:
        os.close(output)


def port() -> int | None:
    """Return the port of the endpoint that this process has started; None: there is none."""
    return _started.port if _started is not None and _started.owner == os.getpid() else None


def stop() -> None:
    """End the process, if this process has started one."""
    global _started
    started, _started = _started, None
    if started is None or started.owner != os.getpid():
        return
    atexit.unregister(stop)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            signal.pidfd_send_signal(started.pidfd, number)
        except ProcessLookupError:
            break  # it has ended
        if wait_for_end(started.pidfd, END_SECONDS):
            break
    os.close(started.pidfd)
    reap(started.pid)


def _warn(text: str) -> None:
    warnings.warn(f"_metrics_export_port of init(): {text}", RuntimeWarning, stacklevel=6)  # of init()'s caller
