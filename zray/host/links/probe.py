"""A look at another host's port from outside: is its process there, and does it run?

Only TCP is spoken.  What each end of that tells:

    refused                    the machine is there, and nobody listens: the process has ended
    taken, and a greeting      the process runs (libzmq greets at once, whoever calls)
    taken, and silence         the kernel has taken the call, the process stands still
    no answer                  the machine, or the network, is not there

So this tells an end from a cut, which a connection that breaks does not.  A machine that answers in another one's
stead (a firewall that resets) would be believed: so the head believes it of a node only where it sees the node at the
address that it looks at.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from typing import Any

from ...roles.effects import Finding
from ...wire.message import Local
from .host_link import Loop

# Before that a process that says nothing is not taken for one that stands still: above what the monitor takes for a
# standstill of its own (0.8 s).
GREETING_SECONDS = 1.0
# What libzmq says first: a signature of ten bytes.
SIGNATURE = b"\xff\0\0\0\0\0\0\0\1\x7f"
# One who waits for a command's answer waits as much longer, to be told why there is none.
ASK_SECONDS = 1.0


def why_unreached(endpoint: str) -> str:
    """Why nobody could be connected to at HOST:PORT, and what to look at.  libzmq says only that it did not work."""
    name, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((name, int(port)), ASK_SECONDS).close()
    except ConnectionRefusedError:
        return (
            "that machine answers, and nothing listens there: the head has ended (try again if it is being restarted), "
            "or listens on another port (`zray start --head` printed it), or serves its own machine only (start it "
            "with --host)"
        )
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return (
            f"that machine cannot be reached from here ({reason}): check that the address is right, that the machine "
            f"is up, and that no firewall closes port {port}"
        )
    return "it did not answer in time, and does now: try again"


def said(heard: bytes) -> str:
    """What somebody else's program has said, as text in quotes."""
    return repr(heard.decode("latin-1"))


def read_greeting(call: socket.socket, seconds: float) -> tuple[bytes, bool]:
    """As much of a greeting as comes in that time, and whether the other end has hung up meanwhile.

    Raises:
        OSError: the connection broke.
    """
    heard = b""
    deadline = time.monotonic() + seconds
    try:
        while len(heard) < len(SIGNATURE) and (left := deadline - time.monotonic()) > 0:
            call.settimeout(left)
            if not (more := call.recv(len(SIGNATURE) - len(heard))):
                return heard, True
            heard += more
    except TimeoutError:
        pass
    return heard, False


def is_greeting(heard: bytes) -> bool:
    """Whether whoever began so speaks ZeroMQ; the bytes between are a length, which is its own affair."""
    return len(heard) == len(SIGNATURE) and heard[0] == SIGNATURE[0] and heard[-1] == SIGNATURE[-1]


def why_no_node(endpoint: str) -> str:
    """What shows that another program than a node of zray listens at HOST:PORT, and what to look at; "": nothing does.

    Silence does not: so is a node that stands still.  But many programs (web servers) only wait for a question to end.
    """
    name, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((name, int(port)), ASK_SECONDS) as call:
            heard, has_ended = read_greeting(call, GREETING_SECONDS)
            if not heard and not has_ended:
                call.sendall(SIGNATURE)
                call.shutdown(socket.SHUT_WR)
                heard, _ = read_greeting(call, GREETING_SECONDS)  # a node that goes on just now may hang up, too
    except OSError:
        return ""
    if heard and heard[0] != SIGNATURE[0]:
        return f"another program than zray listens there: its first bytes are {said(heard)}.  Check the port"
    if not heard and has_ended:
        return (
            "another program than zray listens there: it closed the connection without a greeting.  Check the port; a "
            "proxy does so when nothing listens behind it"
        )
    return ""


class ProbeTimeout(Local):
    """Enough of one look."""

    number: int


class Look:
    """One of them, under way."""

    def __init__(self, endpoint: str, on_found: Callable[[Finding], None]) -> None:
        """Raises: OSError: it is over before it began."""
        self.endpoint = endpoint
        self.on_found = on_found
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        host, _, port = endpoint.rpartition(":")
        code = self.socket.connect_ex((host, int(port)))
        if code not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(code, "cannot be reached")

    def read(self) -> Finding:
        """Something has happened."""
        try:
            self.socket.recv(64)
        except BlockingIOError:
            return Finding.STANDS_STILL
        except OSError as error:
            return _finding_of(error)
        return Finding.ANSWERS  # or it has hung up, and may just be ending: the next look tells

    def give_up(self) -> Finding:
        """Nothing has."""
        try:
            self.socket.getpeername()
        except OSError:
            return Finding.OUT_OF_REACH
        return Finding.STANDS_STILL


def _finding_of(error: OSError) -> Finding:
    if error.errno == errno.ECONNREFUSED:
        return Finding.ENDED
    return Finding.ANSWERS if error.errno == errno.ECONNRESET else Finding.OUT_OF_REACH


class Probes:
    """All that a host has under way: one per endpoint.  To the reactor it looks like a role, which gets its timers."""

    def __init__(self, host: str) -> None:
        self.address = f"{host}/probes"
        self.loop: Loop
        self.looks: dict[int, Look] = {}
        self.busy: dict[str, int] = {}  # endpoints -> the number of the look
        self.count = 0

    def attach(self, loop: Loop) -> None:
        """Run on this loop."""
        self.loop = loop

    def look(self, endpoint: str, on_found: Callable[[Finding], None]) -> None:
        """on_found is called once, later; not at all where a look at that endpoint is under way."""
        if endpoint in self.busy:
            return
        try:
            look = Look(endpoint, on_found)
        except OSError as error:
            on_found(_finding_of(error))
            return
        self.count += 1
        number = self.busy[endpoint] = self.count
        self.looks[number] = look
        self.loop.watch(look.socket.fileno(), lambda: self._happened(number))
        self.loop.set_timer(GREETING_SECONDS, self.address, ProbeTimeout(number))

    def _happened(self, number: int) -> None:
        look = self.looks.get(number)
        if look is not None and (finding := look.read()) is not Finding.STANDS_STILL:
            self._end(number, look, finding)

    def _end(self, number: int, look: Look, finding: Finding) -> None:
        del self.looks[number], self.busy[look.endpoint]
        self.loop.unwatch(look.socket.fileno())
        look.socket.close()
        look.on_found(finding)

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timers."""
        look = self.looks.get(message.number)
        if look is not None:
            self._end(message.number, look, look.give_up())
        return []

    def close(self) -> None:
        """No more."""
        for look in self.looks.values():
            look.socket.close()
        self.looks.clear()
