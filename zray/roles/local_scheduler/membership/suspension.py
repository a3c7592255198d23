"""A node whose lease is over does nothing until it hears whether it is a member, as if its process had been stopped.

    the lease is over                      others may be about to do our work: stop the workers, keep whatever comes
    the monitor answers a heartbeat, or    there was no verdict on us: hear what was kept, in its order, and go on
    a head that was started again knows us
    the verdict, or nobody for so long     members.fence

Without that a head whose machine has no power, or whose cable is out, would cost all its nodes: they hear nothing, and
cannot tell that from being cut off themselves.  It is as safe as to end at once: nothing leaves this node meanwhile,
neither to other nodes nor to the programs here, and no worker runs.  What others hear afterwards is what they would
have heard from a node that had stood still; those that the monitor has told of our loss do not listen.

What is heard meanwhile: our timer for heartbeats and looks, what the monitor says of us, and questions why nothing
happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....wire import gcs, reasons
from ...effects import HeadChanged, HostProbed
from ...role import Handlers, Later
from ...work_effects import HearAgain, HoldBack, StopWorkers

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Messages that are kept.  Programs here say no more than their links hold, and others stop when they hear of the
# verdict, within seconds; timers do not come again.  With more than that this node gives itself up.
KEPT_MAX = 20_000
# What a suspended node handles as ever.
HEARD = (gcs.HeartbeatReply, HostProbed, reasons.Explain)


class Suspension:
    """Of one node."""

    LASTING = {"kept": "KEPT_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_on = False
        self.kept: list[tuple[str, Any]] = []  # (sender, message)
        self.handlers = node.handlers  # of a node that is not suspended

    def begin(self) -> None:
        """The lease is over."""
        if not self.is_on:
            self.is_on = self.node.members.lease.is_over = True
            meanwhile: Handlers = {kind: self.handlers[kind] for kind in HEARD}
            meanwhile |= {gcs.NodeLost: self.on_node_lost, HeadChanged: self.on_head_changed, Later: self.on_later}
            self.node.handlers = _Meanwhile(meanwhile, self.keep)
            self.node.perform(HoldBack(True))
            self.node.perform(StopWorkers(True))

    def end(self) -> None:
        """We are a member."""
        self.is_on = False
        node, kept = self.node, self.kept
        self.kept = []
        node.handlers = self.handlers
        node.perform(HearAgain(kept))
        node.perform(StopWorkers(False))
        node.perform(HoldBack(False))

    def keep(self, message: Any) -> None:
        """For later."""
        if len(self.kept) < KEPT_MAX:
            self.kept.append((self.node.sender, message))
        else:
            text = f"more than {KEPT_MAX:,} messages came without a heartbeat of the head, and this node may be cut off"
            self.node.members.fence(text, may_rejoin=True)

    def on_node_lost(self, message: gcs.NodeLost) -> None:
        """NodeLost, of us or of another one."""
        if message.node == self.node.address:
            self.node.members.on_node_lost(message)
        else:
            self.keep(message)

    def on_later(self, message: Later) -> None:
        """Later: the timer of members, or another one."""
        if message.action == self.node.members.report:
            self.node.on_later(message)
        else:
            self.keep(message)

    def on_head_changed(self, message: HeadChanged) -> None:
        """HeadChanged: one that knows us."""
        self.node.members.lease.extended()
        self.keep(message)  # it comes after the rest
        self.end()


class _Meanwhile(Handlers):
    """Handlers of these messages; `keep` gets all others."""

    def __init__(self, handlers: Handlers, keep: Callable[[Any], None]) -> None:
        super().__init__(handlers)
        self.keep = keep

    def get(self, kind: type, default: Any = None) -> Any:
        return super().get(kind, self.keep)
