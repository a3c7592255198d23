"""The end of a node's session: at once, or when actors have stopped whose classes have something to run first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..roles.work_effects import SessionEnds
from ..wire.session import StopSession

if TYPE_CHECKING:
    from .node import Node


class SessionEnd:
    """Of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.reason = ""  # why, once the session ends
        self.is_told_by_signal = False

    def begin(self, reason: str) -> None:
        """After this turn, if no actor has to stop first."""
        if self.reason or self.node.reactor.ended:
            return
        self.reason = reason
        if self.node.local.ends.are_due():
            self.node.tell_local(SessionEnds())
        else:
            self.complete()

    def complete(self) -> None:
        """After this turn: nothing is waited for any more."""
        self.node.reactor.ended = self.node.reactor.ended or self.reason

    def on_signal(self) -> None:
        """SIGTERM, which may come at any place of our code.  The second one does not wait for actors."""
        if self.is_told_by_signal:
            self.node.reactor.end_soon("told to by a second signal")
        self.is_told_by_signal = True
        self.node.reactor.deliver_from_thread(self.node.doorman.address, StopSession())
