"""The life of a node process: construction, report to the starting process, run until the end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from typing import Any

from ...exceptions import AuthenticationError, ZrayError
from ..process.stack_requests import answer_with_stacks
from ..session import kept_logs
from ..session.session import HAS_FAILED, IS_DENIED, READY_DESCRIPTOR, WAS_GIVEN_UP, Session, readiness
from .node import Node


class Starter:
    """The process that started this node: told once of readiness or failure."""

    def __init__(self) -> None:
        self.is_waiting = True

    def tell(self, refusal: str = "", kind: bytes = HAS_FAILED) -> None:
        """Send the message of `readiness`."""
        if not self.is_waiting:
            return
        self.is_waiting = False
        try:
            os.write(READY_DESCRIPTOR, readiness(refusal, kind))
        except BrokenPipeError:
            pass  # the starter has ended, which is about to be noticed
        os.close(READY_DESCRIPTOR)


def run(session: Session, options: dict[str, Any], fork_server: tuple[int, socket.socket] | None, lock: int) -> bytes:
    """Make the node, tell the starting process that it listens (and is a member), and run until the session ends.

    options: total, capacity, driver_pid, cluster, hash_seed (main.py).  fork_server: None if the seed must come first.

    lock: the descriptor that keeps the session's lock.

    Returns the token with which a new node is to join in its place; b"": no rejoin.
    """
    starter = Starter()
    try:
        node = Node(session, fork_server, lock, options)
    except (ZrayError, OSError) as error:
        starter.tell(f"{error}", IS_DENIED if isinstance(error, AuthenticationError) else HAS_FAILED)
        raise
    signal.signal(signal.SIGTERM, lambda number, frame: node.session_end.on_signal())
    answer_with_stacks()
    if node.membership is None or (node.head is not None and not node.head.orders):
        starter.tell()
    elif node.head is not None:

        def give_up(reason: str) -> None:
            starter.tell(reason)
            node.end(reason)

        node.head.processes.tell(starter.tell, give_up)
    else:

        def tell_ready() -> None:
            node.begin_to_work()
            starter.tell()

        node.tell_ready = tell_ready
    if node.kept_logs is not None:
        threading.Thread(target=kept_logs.sweep_if_due, name="zray-logs", daemon=True).start()
    gc.freeze()  # a collection first would take a tenth of the start, for cycles of imports that never grow
    # Records are structs without collector headers; the rest grows slowly, and is collected rarely.
    gc.set_threshold(100_000, 50, 100)
    gc.enable()
    node.run()
    reason = node.reactor.ended
    if starter.is_waiting and node.may_rejoin:
        starter.tell(f"{node.host} {reason}", WAS_GIVEN_UP)  # the starter tries once more, not this process
    elif starter.is_waiting:
        is_guest = (options.get("cluster") or {}).get("kind") == "driver"
        who = "This program was removed from the cluster" if is_guest else "The node has ended"
        starter.tell(f"{who} before it was ready: {reason}.")
    elif node.may_rejoin and node.token:
        cluster = options["cluster"]
        cluster.update(former=node.host, called=cluster.get("called") or session.name, why=reason[:500])
        return node.token
    return b""
