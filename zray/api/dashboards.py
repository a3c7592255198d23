"""Process of the dashboard that init() starts, and its end.

The socket listens before the session exists: a port that is taken is an error with nothing to undo, and a browser
that comes early waits.  The process ends when it is told to, with this process, or with the session.
"""

from __future__ import annotations

import atexit
import ipaddress
import json
import os
import secrets
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..host import context
from ..host.process.process_utils import reap, wait_for_end
from ..host.process.spawn import spawn

__all__: list[str] = []  # for zray.init

PORT, HOST = 8265, "127.0.0.1"  # Ray's
TOKEN_BYTES = 32
PACKAGES = ("starlette", "uvicorn")
# Numbers in the process of the dashboard: the socket, and the pipe with its orders.
LISTENER, ORDERS = 3, 4
END_SECONDS = 4.0


class Started(NamedTuple):
    """The process.  orders: a pipe to it.  owner: the process that has started it."""

    pid: int
    pidfd: int
    orders: int
    url: str
    owner: int


_started: Started | None = None


def beside(begin: Callable[[], Any], host: str | None, port: int | None) -> Any:
    """Start a session, and a dashboard beside it; return the session.  Arguments and errors are those of `listener`."""
    listening = listener(host, port)
    if listening is None:
        return begin()
    with listening:
        runtime = begin()
        try:
            start(runtime, listening)
        except OSError as error:
            _warn(f"the dashboard cannot be started: {error}.  The program runs without it.")
        return runtime


def listener(host: str | None, port: int | None) -> socket.socket | None:
    """Return a socket for the dashboard; None: it cannot run here, which a warning says.

    Args:
        host: of init(); another than a loopback address is warned of, and 127.0.0.1 takes its place.
        port: of init(); None: Ray's, or else a free one.

    Raises:
        RuntimeError: the given port is taken.
        ValueError: the port is none.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        _warn(f"the dashboard needs {' and '.join(missing)}: install zray[dashboard].  The program runs without it.")
        return None
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65_535):
        raise ValueError(f"dashboard_port must be an integer from 0 to 65535, not {port!r}.")
    host = _loopback(host or HOST)
    for each in (PORT, 0) if port is None else (port,):
        try:
            return socket.create_server((host, each), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            why = error.strerror or str(error)
    raise RuntimeError(
        f"The dashboard cannot listen at port {port} of {host}: {why}.  Give another dashboard_port; 0 takes any."
    )


def start(runtime: Any, listening: socket.socket) -> None:
    """Start the process for a session, and print its address."""
    global _started
    paths = getattr(runtime, "paths", None)
    if paths is None:
        _warn("local mode has no dashboard: leave out local_mode=True.  The program runs without it.")
        return
    info = paths.read_info()
    if runtime.is_owner and info is not None and info.cluster:
        _warn("no node of the cluster is on this machine: run `zray dashboard` on one that has.")
        return
    host, port = listening.getsockname()[:2]
    token = secrets.token_urlsafe(TOKEN_BYTES)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/#token={token}"
    to_read, orders = os.pipe()
    log = os.open(paths.log_path("dashboard"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(orders, json.dumps([paths.address, token, os.getpid()]).encode() + b"\n")
        descriptors = {listening.fileno(): LISTENER, to_read: ORDERS}
        pid = spawn("zray.dashboard.process", [], output=log, descriptors=descriptors, runs_user_code=True)
    except BaseException:
        os.close(orders)
        raise
    finally:
        os.close(to_read)
        os.close(log)
    _started = Started(pid, os.pidfd_open(pid), orders, url, os.getpid())
    atexit.register(stop)  # ahead of the end of the session, which is registered before
    if os.environ.get("ZRAY_QUIET") != "1":
        print(f"zray: the dashboard is at {url}", file=sys.stderr, flush=True)


def url() -> str:
    """The address of the dashboard that this process has started, with its token; "": there is none."""
    return _started.url if _started is not None and _started.owner == os.getpid() else ""


def stop() -> None:
    """End the process, if this process has started one."""
    global _started
    started, _started = _started, None
    if started is None or started.owner != os.getpid():
        return
    atexit.unregister(stop)
    try:
        os.write(started.orders, b"end\n")  # forks of this process may hold the pipe too
    except OSError:
        pass  # it has ended
    os.close(started.orders)
    if not wait_for_end(started.pidfd, END_SECONDS):
        signal.pidfd_send_signal(started.pidfd, signal.SIGKILL)
    os.close(started.pidfd)
    reap(started.pid)


def become_program() -> None:
    """Let this process of zray's own join a session, as programs do."""
    context.is_own = False


def _loopback(host: str) -> str:
    try:
        address = ipaddress.ip_address(HOST if host == "localhost" else host)
    except ValueError:
        raise ValueError(f"dashboard_host is an address, as {HOST}, not {host!r}.") from None
    if address.is_loopback:
        return str(address)
    _warn(
        f"the dashboard listens on this machine alone, not at {host}: its token would cross the network in clear.  "
        f"`ssh -L {PORT}:{HOST}:{PORT} HERE` brings it to another machine."
    )
    return HOST


def _warn(text: str) -> None:
    warnings.warn(f"include_dashboard=True of init(): {text}", RuntimeWarning, stacklevel=7)  # of init()'s caller
