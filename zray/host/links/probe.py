"""A probe of another host's port from outside: does its process exist, and does it run?

Only TCP is spoken.  The outcomes mean:

    refused                    the machine runs, and no process listens: the process has ended
    accepted, and a greeting   the process runs (libzmq greets every caller at once)
    accepted, and silence      the kernel has accepted the connection, the process is suspended
    no answer                  the machine, or the network, is down

So a probe distinguishes an ended process from a cut network, unlike a broken connection.  A machine that answers in
place of another (a firewall that resets) would be believed.  The head therefore believes the outcome for a node only if
the node's connections come from the probed address.
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

# A process silent for less than this is not taken for a suspended one: more than the monitor's limit for its own
# suspension (0.8 s).
GREETING_SECONDS = 1.0
# The first bytes of libzmq: a signature of ten bytes.
SIGNATURE = b"\xff\0\0\0\0\0\0\0\1\x7f"
# Extra time of a command whose answer is missing, to find the reason.
ASK_SECONDS = 1.0


def why_unreached(endpoint: str) -> str:
    """Return why HOST:PORT could not be connected to, and what to check.  libzmq reports only the failure."""
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
    """Return the first bytes of another program, as text in quotes."""
    return repr(heard.decode("latin-1"))


def read_greeting(call: socket.socket, seconds: float) -> tuple[bytes, bool]:
    """Return the greeting as far as received in time, and whether the other side has closed meanwhile.

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
    """Return whether these first bytes are ZeroMQ's; the bytes between are a length, and not checked."""
    return len(heard) == len(SIGNATURE) and heard[0] == SIGNATURE[0] and heard[-1] == SIGNATURE[-1]


def why_no_node(endpoint: str) -> str:
    """Return the evidence that another program than a zray node listens at HOST:PORT, and what to check; "": none.

    Silence is no evidence: a suspended node is silent too.  But many programs (web servers) only wait for a question to
    end.
    """
    name, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((name, int(port)), ASK_SECONDS) as call:
            heard, has_ended = read_greeting(call, GREETING_SECONDS)
            if not heard and not has_ended:
                call.sendall(SIGNATURE)
                call.shutdown(socket.SHUT_WR)
                heard, _ = read_greeting(call, GREETING_SECONDS)  # a node that resumes just now may close, too
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
    """The time for a probe is over."""

    number: int


class Look:
    """A probe under way."""

    def __init__(self, endpoint: str, on_found: Callable[[Finding], None]) -> None:
        """Start to connect.  Raises: OSError: the attempt failed at once."""
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
        """Read the outcome after an event of the socket."""
        try:
            self.socket.recv(64)
        except BlockingIOError:
            return Finding.STANDS_STILL
        except OSError as error:
            return _finding_of(error)
        return Finding.ANSWERS  # or it has hung up, and may just be ending: the next look tells

    def give_up(self) -> Finding:
        """Return the outcome of a probe without any event."""
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
    """All probes under way at a host, one per endpoint.  The reactor treats the object as a role, and passes timers to
    it.
    """

    def __init__(self, host: str) -> None:
        self.address = f"{host}/probes"
        self.loop: Loop
        self.looks: dict[int, Look] = {}
        self.busy: dict[str, int] = {}  # endpoints -> the number of the look
        self.count = 0

    def attach(self, loop: Loop) -> None:
        """Attach to the reactor's loop."""
        self.loop = loop

    def look(self, endpoint: str, on_found: Callable[[Finding], None]) -> None:
        """Start a probe.  on_found is called once, later; not at all if a probe of that endpoint is under way."""
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
