"""How a join token comes to a process: by the environment, a file, or standard input; never as an argument."""

from __future__ import annotations

import os

VARIABLE = "ZRAY_TOKEN"
# The password of the server behind the shards of a head (cluster/shard_stores.py).
STORE_PASSWORD_VARIABLE = "ZRAY_GCS_STORE_PASSWORD"
_SECRET = (VARIABLE, STORE_PASSWORD_VARIABLE)
_taken = ""
_store_password = ""
# Characters of a URL or an IPv6 address, never of a host name.
_IN_NO_NAME = frozenset("/:@[] ")


def token_from_environment() -> str:
    """Return the token, removed from the environment, so that child processes do not see it.  "": there is none."""
    global _taken
    _taken = os.environ.pop(VARIABLE, "") or _taken  # a program may join more than once
    return _taken


def store_password(path: str = "") -> str:
    """Return the password of the shards' store: of the file, or of the environment, which loses it.  "": there is none.

    Raises:
        ValueError: both are given, or the file cannot be read.
        ZrayError: others may read the file.
    """
    global _store_password
    told = os.environ.pop(STORE_PASSWORD_VARIABLE, "")
    if path and told:
        raise ValueError(f"Give {STORE_PASSWORD_VARIABLE} or --gcs-store-password-file, not both.")
    if path:
        from .keyring import read_secret

        try:
            told = read_secret(path).decode(errors="surrogateescape").rstrip("\r\n")
        except OSError as error:
            raise ValueError(f"The password cannot be read from {path}: {error.strerror or error}.") from error
    _store_password = told or _store_password  # for a second head of this program
    return _store_password


def environment_without_it() -> dict[str, str]:
    """Return the environment for child processes, which run tasks: no secret may get there (docs/security.md, S6)."""
    return {name: value for name, value in os.environ.items() if name not in _SECRET}


class AddressError(ValueError):
    """A text that is no address."""


def cluster_address(text: str) -> str:
    """Return HOST:PORT with the host as an IPv4 address.

    Raises:
        ValueError: the text has no such form.
        OSError: the name is not known.
    """
    import socket

    host, colon, port = text.removeprefix("zray://").removeprefix("ray://").rpartition(":")
    is_name = bool(host) and not set(host) & _IN_NO_NAME
    if not colon or not is_name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise AddressError(f"An address must be HOST:PORT, not {text[:100]!r}.")
    try:
        return f"{socket.gethostbyname(host)}:{int(port)}"
    except (OSError, UnicodeError) as error:
        raise ConnectionError(f"The host name {host[:100]!r} is not known here: {error}.") from error


def advertised_address(text: str) -> str:
    """Return HOST[:PORT] where others reach this machine, with the host as an IPv4 address.

    Raises:
        ValueError: the text has no such form, or stands for all addresses.
        OSError: the name is not known.
    """
    host, colon, port = text.rpartition(":") if ":" in text else (text, "", "1")
    address = cluster_address(f"{host}:{port}").rpartition(":")[0]
    if address == "0.0.0.0":
        raise ValueError("Name one address to advertise: others must be told where to reach this machine.")
    return f"{address}:{port}" if colon else address


def own_address(text: str) -> str:
    """Return an address of this machine to listen on, as a number.

    Raises:
        ValueError: the text is no such address, or stands for all of them (no other host could reach that).
    """
    import socket

    if not text.strip():
        raise ValueError("No address of this machine is given: it is empty.")
    try:
        address = socket.gethostbyname(text)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{text[:100]!r} is no address of this machine: {error}.") from error
    if address == "0.0.0.0":
        raise ValueError("Name one address of this machine: others must be told where to reach it.")
    return address
