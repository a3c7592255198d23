"""`zray doctor`: the way from here to a cluster's head, step by step, and which of them fails.

the name     is it known here?
the call     does that machine take one on that port?  (a firewall, a router, nobody there)
the greeting does a zray node listen there?  (libzmq greets at once, whoever calls)
the key      does the head let in the token at hand, and is it the head of that token's cluster?
the version  would it let a node of this version join?  Nobody joins by this, and no use of the token is spent.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import NamedTuple

from .. import __version__
from ..printable import printable
from ..wire.hosts import HostRefused, JoinCluster, JoinRefused
from ..wire.message import PROTOCOL_VERSION
from .dealing import DENIED, WRONG_KEY
from .founding import NEEDS_NEW
from .keys import JOINS_OR_READS, Token, require_curve
from .membership import READER_MAY_NOT, ask_once
from .probes import is_greeting, read_greeting, said, why_no_node
from .tokens import VARIABLE, cluster_address
from .versions import python_version

CALL_SECONDS = 5.0
ANSWER_SECONDS = 6.0


class Step(NamedTuple):
    """One of them: whether it succeeded, and what was found, in words for the user."""

    is_done: bool
    text: str


def examine(target: str, token: str) -> Iterator[Step]:
    """All steps to HOST:PORT, up to the first that fails.  token: ""; there is none, and its steps are left out.

    Raises:
        ValueError: the target has no such form.
    """
    try:
        address = cluster_address(target)
    except ConnectionError as error:
        yield Step(False, f"{error}  See whether it is spelled right, or give the address as numbers.")
        return
    yield Step(True, f"{target} is {address}.")
    found = list(_call(address))
    yield from found
    if not found[-1].is_done:
        return
    if not token:
        yield Step(True, f"No token is in {VARIABLE}, so whether it would let you in was not tried.")
        return
    yield from _knock(address, token)


def _call(address: str) -> Iterator[Step]:
    host, _, port = address.rpartition(":")
    try:
        call = socket.create_connection((host, int(port)), CALL_SECONDS)
    except ConnectionRefusedError:
        yield Step(
            False,
            f"{host} answers, and nobody listens on port {port}: the head has ended, or has another port (`zray start "
            "--head` said which), or is for its own machine only (start it with --host); or a firewall refuses for it.",
        )
        return
    except OSError as error:
        reason = f"no answer in {CALL_SECONDS:g} s" if isinstance(error, TimeoutError) else error.strerror or str(error)
        yield Step(
            False,
            f"{host} cannot be called on port {port} ({reason}): the machine is down, or a firewall drops the call "
            "(open that port for TCP), or it is the address of a machine behind a router (NAT), which must pass a port "
            "of its own on to the head.",
        )
        return
    with call:
        yield Step(True, f"Port {port} of {host} takes calls.")
        yield _greeting(call, address)


def _greeting(call: socket.socket, address: str) -> Step:
    try:
        heard, _ = read_greeting(call, CALL_SECONDS)
    except OSError as error:
        return Step(False, f"The call was taken and cut off ({error.strerror or error}): something between ends it.")
    if is_greeting(heard):
        return Step(True, "A node of zray greets there (or another program that speaks ZeroMQ).")
    if heard:
        why = f"it began with {said(heard)}.  See whether the port is right."
        return Step(False, f"What listens there is no zray: {why}")
    if why := why_no_node(address):  # it only waited for a question
        return Step(False, f"The call was taken, and {why}.")
    return Step(
        False,
        f"The call was taken, and nothing was said in {CALL_SECONDS:g} s: the head stands still, another program "
        "listens there, or a proxy or a firewall takes calls in its stead.",
    )


def _knock(address: str, secret: str) -> Iterator[Step]:
    require_curve()
    try:
        token = Token.decode(secret, JOINS_OR_READS)
    except ValueError as error:
        yield Step(False, f"The token in {VARIABLE} is none: {error}")
        return
    # Of no host: it is refused, and the reason tells how far it came.
    question = JoinCluster(PROTOCOL_VERSION, __version__, python_version(), "", "node", b"")
    reply, dealer = ask_once(address, token, question, ANSWER_SECONDS)
    if isinstance(reply, (JoinRefused, HostRefused)):
        yield Step(True, "The token is one of this cluster's, and is let in.")
        yield _verdict(reply.reason)
    elif dealer.over == DENIED:
        yield Step(
            False,
            "The head does not let this token in: it has expired (by the head's clock), been used up or revoked, or "
            "the head was started anew.  `zray keys token` on its machine draws another.",
        )
    elif dealer.over == WRONG_KEY:
        yield Step(
            False,
            "Whoever listens there has not the key that this token is for: the token is of another cluster, or that is "
            "the port of a node that is no head.",
        )
    else:
        why = dealer.over or f"no answer in {ANSWER_SECONDS:g} s"
        yield Step(False, f"The head did not answer ({why}): it is busy, or stands still.  Try again.")


def _verdict(reason: str) -> Step:
    if reason == NEEDS_NEW:
        return Step(True, f"A node of zray {__version__} with Python {python_version()} may join it.")
    if reason.startswith(READER_MAY_NOT):
        return Step(True, "It is a reader's: `zray status --address` may look with it, and nobody can join.")
    return Step(False, f"It would not let this zray join: {printable(reason)}.")
