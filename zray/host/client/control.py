"""The command line's access to the sessions of this user on this machine: list, ask, end."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

from msgspec import structs

from ...exceptions import ClusterLostError, ZrayError
from ...exceptions.printable import printable
from ...version import __version__
from ...wire.hosts import GetNodes, NodeFact, NodesReply
from ...wire.message import PROTOCOL_VERSION, Message
from ...wire.orders import OrderReply
from ...wire.session import GetStatus, Hello, StatusReply, StopSession
from ..process.node_processes import end_node
from ..process.process_utils import wait_for_end
from ..session.session import Session, live_sessions, returning_sessions
from ..session.session_info import SessionInfo
from .connection import Connection

ANSWER_SECONDS = 5.0


def sessions() -> list[tuple[Session, SessionInfo]]:
    """Return all live sessions, the newest first: lasting sessions, and those of running programs."""
    return [(session, info) for session in reversed(live_sessions()) if (info := session.read_info()) is not None]


def returning() -> list[tuple[Session, SessionInfo]]:
    """Return nodes that were declared dead by their clusters and are about to rejoin."""
    return [(session, info) for session in returning_sessions() if (info := session.read_info()) is not None]


def find_head(name: str | None) -> Control:
    """Return the head of a cluster on this machine; `name` selects a session if there are several.

    Raises:
        ZrayError: no head runs, or several run and no name was given.
    """
    heads = {session.name: (session, info) for session, info in sessions() if info.kind == "head"}
    if name is not None and name not in heads:
        there = f"there are: {', '.join(heads)}" if heads else "no head of a cluster runs here"
        raise ZrayError(f"No head of a cluster on this machine has the session {name!r}; {there}.")
    if not heads:
        raise ZrayError(
            "No head of a cluster runs on this machine: run the command on the machine of `zray start --head`."
        )
    if name is None and len(heads) > 1:
        raise ZrayError(f"Several heads run on this machine; name one with --session: {', '.join(heads)}.")
    session, info = heads[name or next(iter(heads))]
    return Control(session, info.node_pid)


class Control:
    """A link to a node without a job, for questions and orders.  A context manager.

    Raises:
        ClusterLostError: the node is gone, or does not answer.
        ProtocolError: the node is of another version.
    """

    def __init__(self, session: Session, node_pid: int) -> None:
        try:
            self.node_pidfd = os.pidfd_open(node_pid)
        except ProcessLookupError as error:
            raise ClusterLostError(f"The node process of session {session.name} has ended.") from error
        self.connection = Connection(session.address, self.node_pidfd)
        try:
            self.connection.join(Hello(PROTOCOL_VERSION, __version__, "command", os.getpid()), ANSWER_SECONDS)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()
        os.close(self.node_pidfd)

    def send(self, message: Message) -> None:
        """Send a message."""
        with self.connection.lock:
            self.connection.send([message])

    def ask(self, question: Message, *answers: type, whom: str = "node") -> Any:
        """Send a question and wait for a message of the given types."""
        self.send(question)
        deadline = time.monotonic() + ANSWER_SECONDS
        while (messages := self.connection.receive(deadline)) is not None:
            for message in messages:
                if type(message) in answers:
                    return message
        raise ClusterLostError(f"The {whom} did not answer within {ANSWER_SECONDS:g} s.")

    def order(self, order: Message, *answers: type) -> Any:
        """Have a head carry out an order.

        Raises:
            ZrayError: the head refused; the text says why.
        """
        answer = self.ask(order, OrderReply, *answers)
        if type(answer) is OrderReply and answer.refusal:
            raise ZrayError(f"Not done: {answer.refusal}.")
        return answer

    def status(self) -> StatusReply:
        """Return the node's counters."""
        found: StatusReply = self.ask(GetStatus(1), StatusReply)
        return found

    def nodes(self, *, with_dead: bool = False) -> list[NodeFact]:
        """Return the nodes of the node's cluster, or the node alone.  with_dead: also nodes that have left."""
        found: list[NodeFact] = self.ask(GetNodes(2, with_dead), NodesReply, whom="cluster").nodes
        return shown(found)

    def wait_for_end(self, seconds: float) -> bool:
        """Return whether the node ended within the time."""
        poll = select.poll()
        poll.register(self.node_pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def shown(nodes: list[NodeFact]) -> list[NodeFact]:
    """Return the facts with terminal escapes removed: other nodes chose the texts."""
    return list(map(_shown, nodes))


def _shown(node: NodeFact) -> NodeFact:
    names = {name: printable(name) for name in (*node.total, *node.free)}
    return structs.replace(
        node,
        node=printable(node.node),
        kind=printable(node.kind),
        total={names[name]: amount for name, amount in node.total.items()},
        free={names[name]: amount for name, amount in node.free.items()},
        labels={printable(name): printable(value) for name, value in node.labels.items()},
        endpoint=printable(node.endpoint),
        hostname=printable(node.hostname),
        death=printable(node.death),
    )


def end(session: Session, node_pid: int) -> bool:
    """End a session; kill a node that does not answer.  Returns whether the node ended by itself.  No files
    are left.
    """
    try:
        with Control(session, node_pid) as control:
            control.send(StopSession())
            obeyed = control.wait_for_end(ANSWER_SECONDS)
    except ClusterLostError:
        obeyed = _has_ended(node_pid)  # another process has just ended the session
    end_node(session, node_pid)
    return obeyed


def _has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its exit code was not read yet."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return wait_for_end(pidfd, 0.0)
    finally:
        os.close(pidfd)


def kill(session: Session, node_pid: int) -> None:
    """Kill a session by SIGKILL, as a last resort, and remove its files."""
    end_node(session, node_pid, seconds=0.0)


def end_return(session: Session, info: SessionInfo) -> bool:
    """Stop a node of `returning` from rejoining.  Returns whether it had just joined, and was ended."""
    try:
        pidfd = os.pidfd_open(info.node_pid)
    except ProcessLookupError:
        pidfd = -1
    if pidfd >= 0:
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            if not wait_for_end(pidfd, ANSWER_SECONDS):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the node has joined, or stopped by itself
        finally:
            os.close(pidfd)
        session.remove()
    joined = [(other, its) for other, its in sessions() if its.called == (info.called or info.session)]
    for other, its in joined:
        end(other, its.node_pid)
    return bool(joined)


class Interrupted:
    """A guard that notes SIGTERM, SIGINT and SIGHUP from now on, in place of death.  For the main thread."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, lambda number, frame: None)

    def wait(self, node_pid: int, seconds: float | None = None) -> bool | None:
        """Wait for a signal (True), or for the end of the node (False).  None: so many seconds are over."""
        pidfd = os.pidfd_open(node_pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(self.reader, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)]
        os.close(pidfd)
        if self.reader in ready:
            os.read(self.reader, 100)  # a further wait is for a further signal
        return self.reader in ready if ready else None
