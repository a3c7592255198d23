"""A node whose lease is over does nothing until it hears whether it is a member, as if its process had been stopped.

    the lease is over                      others may be about to do our work: stop the workers, keep whatever comes
    the monitor answers a heartbeat, or    there was no verdict on us: hear what was kept, in its order, and go on
    a head that was started again knows us
    the verdict, or nobody for so long     members.fence

Without that a head whose machine has no power, or whose cable is out, would cost all its nodes: they hear nothing, and
cannot tell that from being cut off themselves.  It is as safe as to end at once: nothing leaves this node meanwhile,
neither to other nodes nor to the programs here, and no worker runs.  What others hear afterwards is what they would
have heard from a node that had stood still; those that the monitor has told of our loss do not listen.

What is heard meanwhile: our own timer (heartbeats, looks), what the monitor says of us, and questions why nothing
happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...wire.gcs import HeartbeatReply, NodeLost
from ...wire.reasons import Explain
from ..effects import HeadChanged, HostProbed
from ..work_effects import HearAgain, HoldBack, StopWorkers
from .lease import LoadTimeout

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# Messages that are kept.  Programs here say no more than their links hold, and others stop when they hear of the
# verdict, within seconds; timers do not come again.  With more than that this node gives itself up.
KEPT_MAX = 20_000


class Suspension:
    """Of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_on = False
        self.kept: list[tuple[str, Any]] = []  # (sender, message)

    def begin(self) -> None:
        """The lease is over."""
        if not self.is_on:
            self.is_on = self.node.members.lease.is_over = True
            self.node.handlers = MEANWHILE
            self.node.perform(HoldBack(True))
            self.node.perform(StopWorkers(True))

    def end(self) -> None:
        """We are a member."""
        self.is_on = False
        node, kept = self.node, self.kept
        self.kept = []
        node.handlers = node.HANDLERS
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

    def on_node_lost(self, message: NodeLost) -> None:
        """NodeLost, of us or of another one."""
        if message.node == self.node.address:
            self.node.members.on_node_lost(message)
        else:
            self.keep(message)

    def on_head_changed(self, message: HeadChanged) -> None:
        """HeadChanged: one that knows us."""
        self.node.members.lease.extended()
        self.keep(message)  # it comes after the rest
        self.end()


class _Meanwhile(dict[type, Any]):
    """What is handled; all else is kept."""

    def get(self, kind: type, default: Any = None) -> Any:
        return super().get(kind, _keep)


def _keep(scheduler: LocalScheduler, message: Any) -> None:
    scheduler.members.suspension.keep(message)


MEANWHILE = _Meanwhile(
    {
        LoadTimeout: lambda self, message: self.members.on_load_timeout(),
        HeartbeatReply: lambda self, message: self.members.on_heartbeat_reply(message),
        HostProbed: lambda self, message: self.members.on_host_probed(message),
        NodeLost: lambda self, message: self.members.suspension.on_node_lost(message),
        HeadChanged: lambda self, message: self.members.suspension.on_head_changed(message),
        Explain: lambda self, message: self.explanations.on_explain(message),
    }
)
