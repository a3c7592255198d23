"""The comparison of versions: the first message of a connection contains the sender's, and ours must be compatible.

Another protocol, or another minor version of Python or of zray, is refused in a text with the versions of both sides:
pickles travel between them, and so do zray's own classes.  Another patch of zray is admitted, and logged once.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from ...version import __version__
from ...wire.message import PROTOCOL_VERSION

# Two tags equal in every version; the protocol is always the first field.
HELLO_TAG = 1
JOIN_TAG = 133


def python_version() -> str:
    """Pickles travel between equal minor versions only."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def why_not(here: str, there: str, protocol: int, version: str, python: str) -> str:
    """Return why a peer with these versions is refused; "": it is not.  here, there: "session", "driver", as in "the
    driver".

    version, python: "" if unknown.
    """
    if protocol != PROTOCOL_VERSION:
        said = f" (zray {version[:40]})" if version else ""
        return (
            f"this {here} (zray {__version__}) speaks protocol {PROTOCOL_VERSION}, the {there}{said} speaks "
            f"{protocol}: install the same zray on both sides"
        )
    if python and python != python_version():
        return (
            f"this {here} runs Python {python_version()}, the {there} {python[:40]}: their pickles are not "
            "compatible, so run the same minor version of Python on both sides"
        )
    if version and minor_of(version) != minor_of(__version__):
        return (
            f"this {here} runs zray {__version__}, the {there} {version[:40]}: install the same minor version of zray "
            "on both sides"
        )
    return ""


def what_differs(here: str, there: str, version: str) -> str:
    """Return the notice about an admitted peer of another version; "" for equal versions."""
    if not version or version == __version__:
        return ""
    return f"this {here} runs zray {__version__}, the {there} {version[:40]}: they should understand each other"


def minor_of(version: str) -> str:
    """Return "0.1" for "0.1.7"."""
    return ".".join(version.split(".")[:2])


def protocol_of_hello(frame: bytes) -> int | None:
    """Return the protocol in the Hello of another version; None: the frame is no Hello."""
    try:
        envelope = msgspec.msgpack.decode(frame, type=tuple[int, int, int, list[msgspec.Raw]])
        return _protocol_of(envelope[3][0], HELLO_TAG)
    except (msgspec.MsgspecError, IndexError, UnicodeDecodeError, RecursionError):
        return None


def protocol_of_join(frame: bytes) -> int | None:
    """Return the protocol in the JoinCluster of another version; None: the frame is no JoinCluster."""
    try:
        mail = msgspec.msgpack.decode(frame, type=tuple[int, int, int, list[tuple[str, str, list[msgspec.Raw]]]])
        return _protocol_of(mail[3][0][2][0], JOIN_TAG)
    except (msgspec.MsgspecError, IndexError, UnicodeDecodeError, RecursionError):
        return None


def why_not_join(frame: bytes) -> str:
    """Return the refusal for a newcomer's first message in another protocol; "" for any other frame."""
    spoken = protocol_of_join(frame)
    is_another = spoken is not None and spoken != PROTOCOL_VERSION
    return why_not("cluster", "newcomer", spoken or 0, "", "") if is_another else ""


def _protocol_of(message: Any, tag: int) -> int | None:
    found: Any = msgspec.msgpack.decode(message)
    is_it = isinstance(found, list) and len(found) > 1 and found[0] == tag and type(found[1]) is int
    return found[1] if is_it else None
