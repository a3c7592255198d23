"""Registration of a node that joins: sent when the link to the head is up, and not before.

The node's lease runs from then on (local_scheduler/membership/lease.py).  If fifty nodes start at once on two cores, a
handshake may take longer than a lease lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...roles.local_scheduler.membership.lease import Lease
from ...wire.message import Local
from ..links.host_link import Loop, Neighbour

# From the head's answer to the token until the monitor has told a newcomer of the other nodes.
ENTRY_SECONDS = 20.0
# An admission that took so long may be outdated: this process stood still, perhaps, and was declared dead since.
LATE_SECONDS = 1.0
LOOK_SECONDS = 0.05


class EntryTimeout(Local):
    """The head has had time enough."""


class LookAgain(Local):
    """Has the head answered?"""


class Entrance:
    """The registration of a node that joins.  The reactor treats the object as a role, and passes its timer to it."""

    def __init__(self, host: str) -> None:
        self.address = f"{host}/entrance"
        self.register: Callable[[], None] | None = None  # once
        self.give_up: Callable[[str], None] = lambda reason: None
        self.head: Neighbour | None = None
        self.loop: Loop
        self.registered_at = 0.0
        self.lease: Lease | None = None  # once the monitor has told this node of the others
        self.enter: Callable[[], None] = lambda: None
        self.heard_at = 0.0  # by the lease's clock
        self.is_over = False  # we are a member

    def open(self, loop: Loop, register: Callable[[], None], give_up: Callable[[str], None]) -> None:
        """Wait for the link to the head, for ENTRY_SECONDS at most."""
        self.loop, self.register, self.give_up = loop, register, give_up
        loop.set_timer(ENTRY_SECONDS, self.address, EntryTimeout())

    def link_is_up(self, neighbour: Neighbour) -> None:
        """Register if the new link leads to the head."""
        if neighbour.key.kind == "head":
            self.head = neighbour
            register, self.register = self.register, None
            if register is not None:
                self.registered_at = time.monotonic()
                register()

    def admitted(self, lease: Lease, enter: Callable[[], None]) -> None:
        """Note that the monitor has admitted this node. enter: called once, if the admission is still valid."""
        if self.lease is None:
            self.lease, self.enter, self.heard_at = lease, enter, lease.clock
            if time.monotonic() - self.registered_at < LATE_SECONDS:
                self._enter()
            else:
                self.loop.set_timer(LOOK_SECONDS, self.address, LookAgain())

    def _enter(self) -> None:
        self.is_over = True
        self.enter()

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timers."""
        if type(message) is LookAgain:
            assert self.lease is not None
            if self.lease.answered_at > self.heard_at:
                self._enter()
            else:
                self.loop.set_timer(LOOK_SECONDS, self.address, LookAgain())
        elif not self.is_over:
            what = "registered it" if self.head is not None else "answered under the key that it had just admitted"
            self.give_up(f"the head has not {what} for {ENTRY_SECONDS:g} s")
        return []
