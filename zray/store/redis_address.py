"""The address of a Redis or Valkey server as a store of records: redis://HOST:PORT/DB, rediss://..., unix://PATH.

    ?durability=everysec    accepts a server that writes to its disk once a second
    ?db=N                   of a server behind a Unix socket
    ?ca=FILE                certificates that rediss:// trusts, instead of the system's

A password is never part of an address: arguments can be read by other users, and addresses stand in logs.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

PORT = 6379
CHARACTERS_MAX = 1_000
ALWAYS, EVERYSEC = "always", "everysec"
FORMS = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS) or unix:///PATH?db=DB"
# Parts of an address that other programs know, each with the sentence that refuses it.
_NOT_BUILT = {
    "sentinel": "A store behind Redis Sentinel is not built: name one server.",
    "cluster": "A store in a Redis Cluster is not built: name one server that is no cluster.",
    "certificate": "Client certificates for the store are not built: use a password.",
    "waitaof": "durability=waitaof is not built: set appendfsync always on the server.",
}
_CERTIFICATES = {"cert", "key", "ssl_certfile", "ssl_keyfile"}


class RedisAddress(NamedTuple):
    """Where a server is.  text: the address in full, as messages and the head's plan show it."""

    text: str
    host: str = ""
    port: int = PORT
    path: str = ""  # of a Unix socket; "": host and port count
    database: int = 0
    user: str = ""
    is_encrypted: bool = False
    certificates: str = ""
    durability: str = ALWAYS

    @property
    def notice(self) -> str:
        """Return what the user has accepted, for `zray status`; "" for nothing."""
        if self.durability == ALWAYS:
            return ""
        return (
            f"the control state lies in {self.text}, which writes to its disk once a second: if that server dies, up "
            "to a second of acknowledged records is lost, and the cluster ends then"
        )


def checked(text: str, state_dir: str) -> str:
    """Return an address that a user gave, in its one form.

    Raises:
        ValueError, NotImplementedError: as parse; or there is no state folder.
    """
    if not isinstance(text, str) or len(text) > CHARACTERS_MAX:
        raise ValueError(f"gcs_store must be {FORMS}, of at most {CHARACTERS_MAX} characters.")
    address = parse(text)
    if not state_dir:
        raise ValueError(
            "gcs_store needs state_dir (--state-dir): the keys and the members of the cluster are kept there, and the "
            "records alone would be of no use to a later head."
        )
    return address.text


def parse(text: str) -> RedisAddress:
    """Parse an address.

    Raises:
        ValueError: malformed, or it holds a password (which the text does not repeat).
        NotImplementedError: a kind of server that is not built.
    """
    try:
        parts = urlsplit(text)
        port = parts.port or PORT
    except ValueError as error:
        raise ValueError(f"gcs_store must be {FORMS}: {error}.") from None
    scheme = parts.scheme.lower()
    if parts.password is not None:
        raise ValueError(
            "gcs_store holds a password, which other users of this machine could read: set ZRAY_GCS_STORE_PASSWORD, "
            "or name a file of mode 0600 by --gcs-store-password-file."
        )
    for word in ("sentinel", "cluster"):
        if word in scheme:
            raise NotImplementedError(_NOT_BUILT[word])
    if scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"gcs_store must be {FORMS}, not {text[:100]!r}.")
    options = _options(parts.query, scheme)
    path = unquote(parts.path)
    if scheme == "unix":
        if parts.hostname or not path.startswith("/"):
            raise ValueError(
                f"gcs_store must name a socket by its whole path, as unix:///run/redis.sock, not {text!r}."
            )
        number, host = options.get("db", "0"), ""
    else:
        number, host = path.strip("/") or "0", parts.hostname or ""
        if not host:
            raise ValueError(f"gcs_store must be {FORMS}, not {text[:100]!r}.")
    if not (number.isascii() and number.isdecimal()):
        raise ValueError(f"gcs_store must name its database by a number, not {number!r}.")
    found = RedisAddress(
        "",
        host,
        port,
        path if scheme == "unix" else "",
        int(number),
        unquote(parts.username or ""),
        scheme == "rediss",
        options.get("ca", ""),
        options.get("durability", ALWAYS),
    )
    return found._replace(text=_text(found, options))


def _options(query: str, scheme: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name in _CERTIFICATES:
            raise NotImplementedError(_NOT_BUILT["certificate"])
        if name not in ("durability", *(("db",) if scheme == "unix" else ()), *(("ca",) if scheme == "rediss" else ())):
            raise ValueError(f"gcs_store knows no option {name!r} of a {scheme} address.")
        if name == "durability" and value == "waitaof":
            raise NotImplementedError(_NOT_BUILT["waitaof"])
        if name == "durability" and value not in (ALWAYS, EVERYSEC):
            raise ValueError(f"gcs_store has durability={ALWAYS} (the default) or {EVERYSEC}, not {value!r}.")
    return options


def _text(address: RedisAddress, options: dict[str, str]) -> str:
    """Return the address in its one form."""
    user = f"{address.user}@" if address.user else ""
    rest = urlencode(options, safe="/")
    if address.path:
        start = f"unix://{user}{address.path}"
    else:
        host = f"[{address.host}]" if ":" in address.host else address.host
        start = f"redis{'s' * address.is_encrypted}://{user}{host}:{address.port}/{address.database}"
    return f"{start}?{rest}" if rest else start
