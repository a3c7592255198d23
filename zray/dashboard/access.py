"""Access to the dashboard: the checks of each request, ahead of its routing, and the headers of each answer.

Checks, in this order: the method is GET; Host is an address of the server, so that no page reaches it under a name of
its own (DNS rebinding); Origin and Sec-Fetch-Site, if there, are those of the page itself; the token is right.  The
token is never in a cookie, which any other server of the same host would get, nor in an address, which is logged.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

PORT = 8265  # Ray's
HOST = "127.0.0.1"
# The page itself needs no token: it holds nothing of the session, and brings the token with its requests.
OPEN_PATHS = frozenset(("/",))
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def checked_host(host: str) -> str:
    """Return the loopback address of a host.

    Raises:
        ValueError: another machine could reach the address.
    """
    try:
        address = ipaddress.ip_address(HOST if host == "localhost" else host)
    except ValueError:
        raise ValueError(f"The host of the dashboard is an address, as {HOST}, not {host!r}.") from None
    if not address.is_loopback:
        raise ValueError(
            f"The dashboard listens on this machine alone, not at {host}: its token would cross the network in clear.  "
            f"On the other machine, `ssh -L {PORT}:{HOST}:{PORT} HERE` brings it there."
        )
    return str(address)


def authority(host: str, port: int) -> str:
    """Return HOST:PORT as addresses have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Guard:
    """An application of ASGI that refuses requests, and passes the others on.

    Args:
        application: what answers them.
        token: what requests have behind "Bearer " in the header Authorization.
        host, port: where the server listens.
        policy: the Content-Security-Policy of answers.
    """

    def __init__(self, application: Application, token: str, host: str, port: int, policy: str) -> None:
        self.application = application
        self.authorization = b"Bearer " + token.encode()
        names = [host, HOST, "localhost", "::1"]
        self.hosts = {authority(name, port).encode() for name in names}
        self.origins = {b"http://" + name for name in self.hosts}
        headers = {**HEADERS, "Content-Security-Policy": policy}
        self.headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return  # nothing here speaks WebSocket; the server closes it

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.headers]
            await send(message)

        refusal = self.refusal(scope["method"], scope["path"], scope["headers"])
        if refusal is None:
            await self.application(scope, receive, send_guarded)
            return
        status, text = refusal
        body = f"{text}\n".encode()
        more = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *more]
        await send_guarded({"type": "http.response.start", "status": status, "headers": headers})
        await send_guarded({"type": "http.response.body", "body": body})

    def refusal(self, method: str, path: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Why a request is refused, as status and sentence; None: it is not."""
        if method != "GET":
            return 405, "The dashboard answers GET only: nothing is changed through it."
        hosts = [value.lower() for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return 403, "The dashboard answers under its own address only, with its port."
        found = dict(headers)
        if found.get(b"origin", b"http://" + hosts[0]) not in self.origins:
            return 403, "The dashboard answers its own page only."
        is_open = path in OPEN_PATHS
        is_link = is_open and found.get(b"sec-fetch-mode") == b"navigate"
        if found.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none") and not is_link:
            return 403, "The dashboard answers its own page only."
        if not is_open and not hmac.compare_digest(found.get(b"authorization", b""), self.authorization):
            return 401, "The token is missing or wrong: open the address that the dashboard has printed."
        return None
