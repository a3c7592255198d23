"""Steps of `zray doctor`: the way from this machine to the head of a cluster, and the first step that fails.

the name     is it known here?
the call     does that machine accept a connection on that port?  (a firewall, a router, no listener)
the greeting does a zray node listen?  (libzmq greets every caller at once)
the key      does the head accept the token at hand, and is it the head of that token's cluster?
the version  would the head admit a node of this version?  No host joins, and no use of the token is spent.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import NamedTuple

from ...exceptions.printable import printable
from ...version import __version__
from ...wire.hosts import HostRefused, JoinCluster, JoinRefused
from ...wire.message import PROTOCOL_VERSION
from ..links.compatibility import python_version
from ..links.dialer import DENIED, WRONG_KEY
from ..links.probe import is_greeting, read_greeting, said, why_no_node
from ..security.keyring import JOINS_OR_READS, Token, require_curve
from ..security.token_input import VARIABLE, cluster_address
from .admission import NEEDS_NEW
from .membership import READER_MAY_NOT, ask_once

CALL_SECONDS = 5.0
ANSWER_SECONDS = 6.0


class Step(NamedTuple):
    """Outcome of a step: success or not, and a text about it for the user."""

    is_done: bool
    text: str


def examine(target: str, token: str) -> Iterator[Step]:
    """Yield all steps to HOST:PORT, up to the first that fails. token: "" if absent; its steps are left out then.

    Raises:
        ValueError: the target has no such form.
    """
    try:
        address = cluster_address(target)
    except ConnectionError as error:
        yield Step(False, f"{error}  Check the spelling, or give the address as numbers.")
        return
    yield Step(True, f"{target} is {address}.")
    found = list(_call(address))
    yield from found
    if not found[-1].is_done:
        return
    if not token:
        yield Step(True, f"{VARIABLE} holds no token, so admission to the cluster was not tested.")
        return
    yield from _knock(address, token)


def _call(address: str) -> Iterator[Step]:
    host, _, port = address.rpartition(":")
    try:
        call = socket.create_connection((host, int(port)), CALL_SECONDS)
    except ConnectionRefusedError:
        yield Step(
            False,
            f"{host} answers, and nothing listens on port {port}: the head has ended, or listens on another port "
            "(`zray start --head` printed it), or serves its own machine only (start it with --host); or a firewall "
            "refuses the connection.",
        )
        return
    except OSError as error:
        reason = f"no answer in {CALL_SECONDS:g} s" if isinstance(error, TimeoutError) else error.strerror or str(error)
        yield Step(
            False,
            f"{host} cannot be reached on port {port} ({reason}): the machine is down, or a firewall drops the "
            "connection (open that port for TCP), or the machine is behind a router (NAT), which must forward a port "
            "to the head.",
        )
        return
    with call:
        yield Step(True, f"Port {port} of {host} accepts connections.")
        yield _greeting(call, address)


def _greeting(call: socket.socket, address: str) -> Step:
    try:
        heard, _ = read_greeting(call, CALL_SECONDS)
    except OSError as error:
        return Step(
            False,
            f"The connection was accepted and then cut off ({error.strerror or error}): a device on the way ends it.",
        )
    if is_greeting(heard):
        return Step(True, "A node of zray listens there (or another program that speaks ZeroMQ).")
    if heard:
        why = f"its first bytes are {said(heard)}.  Check the port."
        return Step(False, f"Another program than zray listens there: {why}")
    if why := why_no_node(address):  # a zray node waits for the caller to greet first
        return Step(False, f"The connection was accepted, but {why}.")
    return Step(
        False,
        f"The connection was accepted, and nothing was sent in {CALL_SECONDS:g} s: the head is suspended, another "
        "program listens there, or a proxy or a firewall accepts connections in its place.",
    )


def _knock(address: str, secret: str) -> Iterator[Step]:
    require_curve()
    try:
        token = Token.decode(secret, JOINS_OR_READS)
    except ValueError as error:
        yield Step(False, f"The token in {VARIABLE} is invalid: {error}")
        return
    # The request names no host, so it is refused; the reason shows how far it came.
    question = JoinCluster(PROTOCOL_VERSION, __version__, python_version(), "", "node", b"")
    reply, dealer = ask_once(address, token, question, ANSWER_SECONDS)
    if isinstance(reply, (JoinRefused, HostRefused)):
        yield Step(True, "The token belongs to this cluster, and is accepted.")
        yield _verdict(reply.reason)
    elif dealer.over == DENIED:
        yield Step(
            False,
            "The head refuses this token: it has expired (by the head's clock), been used up or revoked, or the head "
            "was started without its former state.  `zray keys token` on the head's machine prints another.",
        )
    elif dealer.over == WRONG_KEY:
        yield Step(
            False,
            "The program that listens there does not have the key of this token: the token belongs to another cluster, "
            "or the port belongs to a node that is not a head.",
        )
    else:
        why = dealer.over or f"no answer in {ANSWER_SECONDS:g} s"
        yield Step(False, f"The head did not answer ({why}): it is busy, or suspended.  Try again.")


def _verdict(reason: str) -> Step:
    if reason == NEEDS_NEW:
        return Step(True, f"A node of zray {__version__} with Python {python_version()} may join it.")
    if reason.startswith(READER_MAY_NOT):
        return Step(True, "The token is a reader's: it serves `zray status --address`, and no node can join with it.")
    return Step(False, f"The head would refuse this zray: {printable(reason)}.")
