"""The comparison of versions: the first message of a connection tells the sender's, and ours must go with them.

Another protocol, or another minor version of Python or of zray, is refused in words that name both sides: pickles
travel between them, and so do zray's own classes.  Another patch of zray is let in, and said once.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from ...version import __version__
from ...wire.message import PROTOCOL_VERSION

# These two, and that the protocol is their first field, are the same in every version.
HELLO_TAG = 1
JOIN_TAG = 133


def python_version() -> str:
    """Pickles travel between equal minor versions only."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def why_not(here: str, there: str, protocol: int, version: str, python: str) -> str:
    """Why who says this cannot be talked to; "" if it can.  here, there: "session", "driver", as in "the driver".

    version, python: "" where they are not said.
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
    """What is to be said, once, of one that is let in all the same; "" if nothing is."""
    if not version or version == __version__:
        return ""
    return f"this {here} runs zray {__version__}, the {there} {version[:40]}: they should understand each other"


def minor_of(version: str) -> str:
    """ "0.1" of "0.1.7"."""
    return ".".join(version.split(".")[:2])


def protocol_of_hello(frame: bytes) -> int | None:
    """What the Hello of some other version speaks; None where this is none at all."""
    try:
        envelope = msgspec.msgpack.decode(frame, type=tuple[int, int, int, list[msgspec.Raw]])
        return _protocol_of(envelope[3][0], HELLO_TAG)
    except (msgspec.MsgspecError, IndexError, UnicodeDecodeError, RecursionError):
        return None


def protocol_of_join(frame: bytes) -> int | None:
    """What the JoinCluster of some other version speaks; None where this is none at all."""
    try:
        mail = msgspec.msgpack.decode(frame, type=tuple[int, int, int, list[tuple[str, str, list[msgspec.Raw]]]])
        return _protocol_of(mail[3][0][2][0], JOIN_TAG)
    except (msgspec.MsgspecError, IndexError, UnicodeDecodeError, RecursionError):
        return None


def why_not_join(frame: bytes) -> str:
    """As why_not, of a newcomer's first words in another protocol, where they look different; "" if they are not."""
    spoken = protocol_of_join(frame)
    is_another = spoken is not None and spoken != PROTOCOL_VERSION
    return why_not("cluster", "newcomer", spoken or 0, "", "") if is_another else ""


def _protocol_of(message: Any, tag: int) -> int | None:
    found: Any = msgspec.msgpack.decode(message)
    is_it = isinstance(found, list) and len(found) > 1 and found[0] == tag and type(found[1]) is int
    return found[1] if is_it else None
