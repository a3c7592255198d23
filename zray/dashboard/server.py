"""Server of the dashboard: a process of its own, which ends with its session.

The socket is bound ahead of the session, so that a port that is taken is said at once.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zray.util.session_end import end_descriptor

from .access import Guard, authority, checked_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .session import Session

__all__ = ["address_of", "check_packages", "listening", "new_token", "serve"]

TOKEN_BYTES = 32
END_S = 2  # for answers that are under way
CONNECTIONS_MAX = 128
ENDED = "The session has ended."
signals: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)  # that end the server


def check_packages() -> None:
    """Look for the packages of the server.

    Raises:
        ImportError: one is missing; says how to install it.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        name = error.name or "starlette"
        raise ImportError(f"The dashboard needs {name}: install zray[dashboard], or `pip install {name}`.") from None


def new_token() -> str:
    """Return the token of a dashboard, 256 random bits."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a loopback address.

    Raises:
        ValueError: another machine could reach the address.
        OSError: the port is taken; says what to do.
    """
    host = checked_host(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise OSError(
            f"The dashboard cannot listen at {authority(host, port)}: {error.strerror or error}.  Give another --port; "
            "0 takes a free one."
        ) from None


def address_of(listener: socket.socket, token: str) -> str:
    """Return the address for a browser.  What is behind # stays in the browser: no server gets and logs it."""
    host, port = listener.getsockname()[:2]
    return f"http://{authority(host, port)}/#token={token}"


def serve(session: Session, listener: socket.socket, token: str, ends: Sequence[tuple[int, str]] = ()) -> str:
    """Answer requests until the session or the process is to end.

    Args:
        ends: descriptors that end the server when they can be read, each with the reason.

    Returns:
        Why the server has ended; "": a signal has ended it.
    """
    return asyncio.run(_serve(session, listener, token, ends))


async def _serve(session: Session, listener: socket.socket, token: str, ends: Sequence[tuple[int, str]]) -> str:
    import uvicorn

    from .application import Dashboard
    from .page import assembled

    page = assembled()
    dashboard = Dashboard(session, page)
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        Guard(dashboard.application(), token, host, port, page.policy),
        lifespan="off",
        ws="none",
        loop="asyncio",
        http="h11",
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=END_S,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    reasons: list[str] = []

    def end(reason: str) -> None:
        reasons.append(reason)
        dashboard.streams.close(reason or "The dashboard has ended.")
        server.should_exit = True

    async def watch() -> None:
        await dashboard.streams.closing.wait()  # a question may find the session lost
        end(dashboard.streams.reason)

    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, end, "")
    watched = [*ends, (end_descriptor(), ENDED)]
    for descriptor, reason in watched:
        loop.add_reader(descriptor, _once(loop, descriptor, end, reason))
    watching = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        dashboard.looks.close()
        listener.close()
    return reasons[0] if reasons else ""


def _once(loop: Any, descriptor: int, end: Callable[[str], None], reason: str) -> Callable[[], None]:
    def ended() -> None:
        loop.remove_reader(descriptor)
        end(reason)

    return ended


@contextmanager
def _no_signals() -> Iterator[None]:
    """In place of uvicorn's own handlers, which send a signal once more at the end."""
    yield
