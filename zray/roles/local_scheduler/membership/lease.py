"""The lease: how long a node counts itself as a member of its cluster without a message from the monitor.

    the monitor answers a heartbeat      the lease runs from the time when the heartbeat was sent
    the monitor does not answer          our host probes the head's machine from outside (ProbeHost):
        its process has ended, or        no verdict on this node is possible now, and a restarted head counts from zero:
        is suspended                     the lease runs from the time of the probe
        it answers, or is unreachable    unknown: this node may be cut off, and a verdict under way; but a head found
                                         dead by an earlier probe was restarted later, and gives its former nodes
                                         time to return, even if it was suspended since

For a head that has ended, or is suspended, the wait counts from the first such finding, because the head may have lived
until then.

The node of a program outside the cluster receives its lease with each answer; it runs no work of others, and may be cut
off for longer.

So a node that is cut off is suspended (Suspension) before the verdict falls, SILENT_TICKS_MAX monitor ticks after the
last received heartbeat.  A node whose head was killed or stopped works on.  Both wait for the head for `head_wait`
seconds.  Only a head's message extends an expired lease, because a head that has ended, or is suspended, may have given
its verdict before.

Time is counted in steps of this process; a step in which the process was stopped, or its machine slept, counts as
STALL_SECONDS at most.  If all nodes are stopped at once, no lease expires.

Suspension: a node whose lease has expired does nothing until its membership is confirmed or refused.

    the lease is over                      others may be about to do our work: stop the workers, keep whatever comes
    the monitor answers a heartbeat, or    there was no verdict on us: hear what was kept, in its order, and go on
    a head that was started again knows us
    the verdict, or nobody for so long     members.fence

Without suspension, a head without power or network would cost all its nodes.  A node that hears nothing cannot tell a
dead head from its own isolation.  Suspension is as safe as an immediate end: no message leaves this node, to other
nodes or to local programs, and no worker runs.  After resumption, other nodes receive the same messages as from a node
that was stopped meanwhile.  Nodes that the monitor has told of our loss do not listen.

Handled meanwhile: the timer for heartbeats and looks, the monitor's messages about this node, and questions why nothing
happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....wire import gcs, reasons
from ....wire.events import State
from ...effects import HeadChanged, HostProbed
from ...role import Handlers, Later
from ...work_effects import HearAgain, HoldBack, StopWorkers

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Before the monitor's own count for a silent node (2.7 s at least) is, with room for a turn that takes its time.
LEASE_SECONDS = 2.2
# No turn of a node that works takes so long.
STALL_SECONDS = 1.0
# Answers come within milliseconds: after so long it is worth a look.
LOOK_SECONDS = 0.5
# A head that has not answered for so long is worth a word to whoever waits.
SILENT_SECONDS = 2.0
# How long a node waits for a head that has ended or stands still: longer than it takes to start one again by hand.
HEAD_WAIT_SECONDS = 60.0
NEVER = float("-inf")


# A head that was started again gives no verdict on those that it knew for so long, and a little more: less than
# Monitor's RETURN_TICKS_MAX (10 s).
RETURN_SECONDS = 8.0


class Lease:
    """The lease of a node."""

    def __init__(self) -> None:
        self.head_wait = HEAD_WAIT_SECONDS
        self.seconds = LEASE_SECONDS  # how long it runs
        self.clock = 0.0  # seconds that we have run, as far as they count
        self.counted_at = -1.0  # by the host's clock
        self.granted_at = 0.0  # what follows by ours
        self.answered_at = 0.0
        self.number = 0  # of the last heartbeat
        self.sent: deque[tuple[int, float]] = deque()  # heartbeats of so long a time: number, when
        self.looked_at = -1.0  # where a look is under way
        self.head_has_ended = False  # what the last look said
        self.head_answers = False  # or this
        self.is_over = False  # looks extend it no more
        # When the last look began that said so, and no answer has come since; or that it stood still after that.
        self.ended_at = NEVER
        self.missed_at = NEVER  # when the first one began that found it ended, or standing still

    def count(self, now: float) -> None:
        """Advance the clock by a step of this process."""
        if self.counted_at >= 0.0:
            self.clock += min(now - self.counted_at, STALL_SECONDS)
        self.counted_at = now

    def next_heartbeat(self) -> int:
        """Return the number of the next heartbeat."""
        self.number += 1
        self.sent.append((self.number, self.clock))
        while self.clock - self.sent[0][1] > self.seconds:
            self.sent.popleft()
        return self.number

    def answered(self, number: int, seconds: float = 0.0) -> None:
        """Extend the lease: the monitor has answered a heartbeat.  seconds: as in HeartbeatReply."""
        self.seconds = seconds or LEASE_SECONDS
        while self.sent and self.sent[0][0] <= number:
            self.answered_at = self.sent.popleft()[1]
            self.ended_at = self.missed_at = NEVER
            self.is_over = False
        self.granted_at = max(self.granted_at, self.answered_at)

    def extended(self) -> None:
        """Extend the lease from now: a restarted head knows this node as a member.  A probe of the former head is
        void."""
        self.looked_at = -1.0
        self.granted_at = self.answered_at = self.clock
        self.ended_at = self.missed_at = NEVER
        self.is_over = False

    def expired(self) -> None:
        """End the lease: no probe of the head extends it."""
        self.is_over = True

    def begin_to_look(self) -> bool:
        """Whether a probe of the head from outside is due."""
        if self.looked_at >= 0.0 or self.clock - self.granted_at <= LOOK_SECONDS:
            return False
        self.looked_at = self.clock
        return True

    def looked(self, *, has_ended: bool, stands_still: bool, answers: bool = False) -> None:
        """Record the result of a probe; all False: the head is unreachable."""
        if self.looked_at < 0.0:
            return
        if has_ended or stands_still:
            if not self.is_over:
                self.granted_at = max(self.granted_at, self.looked_at)
            if self.missed_at == NEVER:
                self.missed_at = self.looked_at
            if has_ended or self.ended_at > NEVER:
                self.ended_at = self.looked_at
        self.looked_at = -1.0
        self.head_has_ended, self.head_answers = has_ended, answers

    @property
    def is_cut_off(self) -> bool:
        """Whether the local node may no longer be a member, because a head that may be alive is silent."""
        if self.is_over:
            return True
        return self.clock - self.granted_at > self.seconds and self.clock - self.ended_at > RETURN_SECONDS

    def silence(self, *, is_guest: bool = False) -> str:
        """Describe the head's silence for waiting users; "" without silence.  is_guest: as in Members."""
        seconds = self.clock - self.answered_at
        if seconds < SILENT_SECONDS:
            return ""
        is_ended = self.head_has_ended and self.ended_at > NEVER
        what = "its process has ended" if is_ended else "it is suspended, or unreachable"
        if self.head_answers:
            what = "a process listens there, and answers no heartbeat"
        # An unreachable head may give its verdict.
        longest = self.seconds if is_guest and self.missed_at == NEVER else max(self.head_wait, self.seconds)
        waits = "is suspended, and waits" if self.is_over else "waits"
        return (
            f"no heartbeat from the head of the cluster for {seconds:.0f} s ({what}): "
            f"this {'program' if is_guest else 'node'} {waits} up to {longest:g} s for it"
        )

    def why_over(self, *, is_guest: bool = False) -> str:
        """Return why the local node is no longer a member and waits no longer; "" while a member or waiting.

        is_guest: a guest does not wait for the head beyond its lease.
        """
        wait = max(self.head_wait, self.seconds)
        if self.clock - max(self.answered_at, self.missed_at) <= wait and not (is_guest and self.is_cut_off):
            return ""
        silence = self.clock - self.answered_at
        if self.head_answers and silence > wait:
            return (
                f"the head of the cluster has answered no heartbeat for {silence:.0f} s, though a process listens "
                "there: it may have been started again without its --state-dir"
            )
        if self.is_cut_off and not (self.is_over and self.head_has_ended):
            who = "this program" if is_guest else "this node"
            return f"the head has not answered for {silence:.0f} s, and {who} may be cut off"
        what = "has ended, and was not started again" if self.head_has_ended else "has answered no heartbeat"
        return f"the head of the cluster {what} for {self.head_wait:g} s"


# Messages that are kept.  Programs here say no more than their links hold, and others stop when they hear of the
# verdict, within seconds; timers do not come again.  With more than that this node gives itself up.
KEPT_MAX = 20_000
# Messages that a suspended node handles as usual.
HEARD = (gcs.HeartbeatReply, HostProbed, reasons.Explain)


class Suspension:
    """The suspension of a node."""

    LASTING = {"kept": "KEPT_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_on = False
        self.kept: list[tuple[str, Any]] = []  # (sender, message)
        self.handlers = node.handlers  # of a node that is not suspended

    def begin(self) -> None:
        """Suspend the node: its lease has expired."""
        if not self.is_on:
            self.is_on = True
            self.node.members.lease.expired()
            meanwhile: Handlers = {kind: self.handlers[kind] for kind in HEARD}
            meanwhile |= {gcs.NodeLost: self.on_node_lost, HeadChanged: self.on_head_changed, Later: self.on_later}
            self.node.handlers = _Meanwhile(meanwhile, self.keep)
            self.node.changes.node_is(State.SUSPENDED, self.node.members.silence())
            self.node.perform(HoldBack(True))
            self.node.perform(StopWorkers(True))

    def end(self) -> None:
        """Resume the node, still a member, with the kept messages."""
        self.is_on = False
        node, kept = self.node, self.kept
        self.kept = []
        node.handlers = self.handlers
        node.changes.node_is(State.ALIVE)
        node.perform(HearAgain(kept))
        node.perform(StopWorkers(False))
        node.perform(HoldBack(False))

    def keep(self, message: Any) -> None:
        """Keep a message until the node resumes."""
        if len(self.kept) < KEPT_MAX:
            self.kept.append((self.node.sender, message))
        else:
            text = f"more than {KEPT_MAX:,} messages came without a heartbeat of the head, and this node may be cut off"
            self.node.members.fence(text, may_rejoin=True)

    def on_node_lost(self, message: gcs.NodeLost) -> None:
        """NodeLost, of this node or another."""
        if message.node == self.node.address:
            self.node.members.on_node_lost(message)
        else:
            self.keep(message)

    def on_later(self, message: Later) -> None:
        """Later: the timer of members is handled, any other is kept."""
        if message.action == self.node.members.report:
            self.node.on_later(message)
        else:
            self.keep(message)

    def on_head_changed(self, message: HeadChanged) -> None:
        """HeadChanged: the new head knows the local node, so work resumes."""
        self.node.members.lease.extended()
        self.keep(message)  # it comes after the rest
        self.end()


class _Meanwhile(Handlers):
    """Handlers of these messages; `keep` receives all others."""

    def __init__(self, handlers: Handlers, keep: Callable[[Any], None]) -> None:
        super().__init__(handlers)
        self.keep = keep

    def get(self, kind: type, default: Any = None) -> Any:
        return super().get(kind, self.keep)
