"""How a join token comes to a process: by the environment, a file, or standard input; never as an argument."""

from __future__ import annotations

import os

VARIABLE = "ZRAY_TOKEN"
_taken = ""


def token_from_environment() -> str:
    """The token; taken out of the environment, so that what this process starts does not see it.  "": there is none."""
    global _taken
    _taken = os.environ.pop(VARIABLE, "") or _taken  # a program may join more than once
    return _taken


def cluster_address(text: str) -> str:
    """HOST:PORT with the host as an IPv4 address.

    Raises:
        ValueError: it has no such form.
        OSError: the name is not known.
    """
    import socket

    host, colon, port = text.removeprefix("zray://").rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"An address must be HOST:PORT, not {text[:100]!r}.")
    try:
        return f"{socket.gethostbyname(host)}:{int(port)}"
    except (OSError, UnicodeError) as error:
        raise ConnectionError(f"The host name {host[:100]!r} is not known here: {error}.") from error
