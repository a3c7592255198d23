"""Recovery data of a node: the logs of its own actors (`shipping`), and copies of other nodes' logs (`copies`).

Results sent to another node have a receipt: when it is acknowledged, the kept answers are dropped.

Actors just created on the local node with handles that may not leave yet.

    created by a call of a recoverable actor    until the creator's backup node knows the new actor: after a loss of
                                                the node, replay would create the actor anew, and lose all effects
    recoverable itself                          until the shard knows the backup node: after a loss of the node, the
                                                shard would report the actor as dead
    recoverable, and about to leave             until the shard knows the new home: this node is the backup node then

So no other node calls an actor that may later be replaced by another.  The results of such an actor wait too
(`shipping`), because local callers may have backups elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import TASK_ID_BYTES
from ....wire import actors, wards
from ...role import on
from ..tables import Actor, died
from ..task import Task
from .copies import Copy
from .shipping import Shipping

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Unheard(Struct, gc=False, eq=False):
    """An actor whose handles may not leave yet."""

    awaits_maker: bool = False  # the guardian of who made it
    awaits_guard: bool = False  # the shard: its own
    awaits_home: bool = False  # the shard: its home, on another node
    requests: list[int] = []  # of what is to leave with its handle (acks)
    moves: list[int] = []  # of its own offers to other nodes, which need no home

    @property
    def awaits_others(self) -> bool:
        """Whether a backup node is to hear of the actor, whatever its home."""
        return self.awaits_maker or self.awaits_guard


class UnheardActors:
    """The actors of a node whose handles may not leave yet."""

    PASSING = {"by_actor": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_actor: dict[bytes, Unheard] = {}

    def made(self, actor_id: bytes) -> None:
        """Hold an actor created by a recoverable actor's call until the creator's backup node has been told."""
        self.by_actor.setdefault(actor_id, Unheard()).awaits_maker = True

    def maker_said(self, actor_id: bytes) -> None:
        """The creator's backup node knows the actor, or none exists."""
        item = self.by_actor.get(actor_id)
        if item is None:
            return
        item.awaits_maker = False
        self._look_at(actor_id, item)
        actor = self.node.calls.actors.get(actor_id)
        if actor is not None and actor.shipping is not None:
            actor.shipping.release()

    def guarded_soon(self, actor_id: bytes) -> None:
        """Hold an actor until its backup node is recorded."""
        self.by_actor.setdefault(actor_id, Unheard()).awaits_guard = True

    def guarded(self, actor_id: bytes) -> None:
        """The shard knows the actor's backup node, or the actor is to have none."""
        item = self.by_actor.get(actor_id)
        if item is not None:
            item.awaits_guard = False
            self._look_at(actor_id, item)

    def seeks_home(self, actor_id: bytes) -> None:
        """Hold an actor that may leave until the shard knows its home."""
        self.by_actor.setdefault(actor_id, Unheard()).awaits_home = True

    def has_home(self, actor_id: bytes) -> None:
        """The shard knows the actor's home, or the actor stays or is dead."""
        item = self.by_actor.get(actor_id)
        if item is not None:
            item.awaits_home = False
            self._look_at(actor_id, item)

    def awaits_maker(self, actor_id: bytes) -> bool:
        """Whether effects of the actor are held back, because re-execution of the creator might create the actor
        anew."""
        item = self.by_actor.get(actor_id)
        return item is not None and item.awaits_maker

    def hold_back(self, object_ids: Iterable[bytes], request: int, moves: bytes = b"") -> int:
        """Hold `request` for each contained handle that may not leave yet.  Returns the number of these handles.

        moves: the actor that `request` is to offer to another node.
        """
        count = 0
        if self.by_actor:
            for object_id in object_ids:
                actor_id = object_id[:TASK_ID_BYTES]
                item = self.by_actor.get(actor_id)
                if item is not None and (actor_id != moves or item.awaits_others):
                    (item.moves if actor_id == moves else item.requests).append(request)
                    count += 1
        return count

    def are_inside(self, object_ids: Iterable[bytes]) -> bool:
        """Whether any of the objects is a handle that may not leave yet."""
        return any(object_id[:TASK_ID_BYTES] in self.by_actor for object_id in object_ids)

    def _look_at(self, actor_id: bytes, item: Unheard) -> None:
        if item.awaits_others:
            return
        requests, item.moves = item.moves, []
        if not item.awaits_home:
            del self.by_actor[actor_id]
            requests = requests + item.requests
        for request in requests:
            self.node.acks.acknowledged(request)


class Taking(Struct, gc=False, eq=False):
    """Results from another node, kept by the sender until acknowledged."""

    home: str
    receipt: int
    count: int = 1  # those that may still be asked for again, and one until all were looked at


def nothing() -> None:
    """Do nothing, if no receipt is expected."""


class Logs:
    """The logs of a node's actors, and its copies of others' logs."""

    PASSING = {"touched copies given receipts": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.unheard = UnheardActors(node)
        self.touched: dict[bytes, Shipping] = {}
        self.copies: dict[bytes, Copy] = {}  # whose senders are to hear how far they are, at the end of this turn
        self.given: dict[str, list[tuple[bytes, bytes]]] = {}  # by caller's node: (actor, call) of this turn's results
        self.receipts: dict[int, tuple[str, list[tuple[bytes, bytes]]]] = {}
        self.receipt_count = 0
        self.taking: Taking | None = None  # the results that are looked at

    def say_begun(self) -> None:
        """Send the begun calls at the end of a turn, before its other messages."""
        for shipping in list(self.touched.values()):
            if shipping.yields:
                shipping.pass_on()
            if shipping.is_started:
                shipping.begun.say()

    def pump(self) -> None:
        """Send logs and acknowledgements at the end of a turn."""
        touched, self.touched = self.touched, {}
        for shipping in touched.values():
            shipping.pump()
        copies, self.copies = self.copies, {}
        for actor_id, copy in copies.items():
            guard = self.node.guards.guarded.get(actor_id)
            message = copy.acknowledgement(actor_id)
            if guard is not None and guard.copy is copy and message is not None:
                self.node.send(guard.home, message)

    # --- receipts ---

    def gives(self, task: Task) -> None:
        """Note a call's result as leaving for the caller's node."""
        if self.may_be_asked_again(task):
            self.given.setdefault(task.origin, []).append((task.options.actor_id, task.spec.task_id))

    def may_be_asked_again(self, task: Task) -> bool:
        """Whether the actor is recoverable, and the result is kept until the caller's node has it."""
        actor = self.node.calls.actors.get(task.options.actor_id)
        return actor is not None and actor.shipping is not None and task.spec.task_id in actor.shipping.answers.given

    def receipt(self, origin: str) -> int:
        """Return the receipt of the results that now leave for `origin`; 0: none needs an acknowledgement."""
        given = self.given.pop(origin, None)
        if given is None or origin in self.node.recovery.lost:
            return 0
        self.receipt_count += 1
        self.receipts[self.receipt_count] = (origin, given)
        return self.receipt_count

    def items_leave(self, task: Task, ids: list[bytes]) -> int:
        """Return the receipt of items of a generator for the caller's node.  ids: those to be acknowledged."""
        if task.origin in self.node.recovery.lost:
            return 0
        self.receipt_count += 1
        self.receipts[self.receipt_count] = task.origin, [(task.options.actor_id, object_id) for object_id in ids]
        return self.receipt_count

    def items_taken(self, home: str, receipt: int) -> None:
        """Acknowledge items of a generator."""
        if home not in self.node.recovery.lost:
            self.node.send(home, wards.AnswersTaken(receipt))

    def begin_taking(self, home: str, receipt: int) -> None:
        """Begin to handle results from `home`."""
        self.taking = Taking(home, receipt) if receipt else None

    def receipt_waits(self) -> Callable[[], None]:
        """Delay the acknowledgement of the current results until the returned function is called."""
        taking = self.taking
        if taking is None:
            return nothing
        taking.count += 1
        return partial(self._taken, taking)

    def end_taking(self) -> None:
        """End the handling of the current results, and acknowledge unless delayed."""
        if self.taking is not None:
            self._taken(self.taking)
            self.taking = None

    def _taken(self, taking: Taking) -> None:
        taking.count -= 1
        if not taking.count and taking.home not in self.node.recovery.lost:
            self.node.send(taking.home, wards.AnswersTaken(taking.receipt))

    @on(wards.AnswersTaken)
    def on_answers_taken(self, message: wards.AnswersTaken) -> None:
        """AnswersTaken."""
        origin, given = self.receipts.get(message.receipt, ("", []))
        if origin != self.node.sender:
            self.node.reject("results taken that were not given")
            return
        del self.receipts[message.receipt]
        for actor_id, taken_id in given:
            actor, is_call = self.node.calls.actors.get(actor_id), len(taken_id) == TASK_ID_BYTES
            if not is_call:
                self.node.kept_items.taken(actor, taken_id)
            if actor is None or actor.shipping is None:
                continue
            if is_call:
                actor.shipping.answers.has(taken_id)
            else:
                actor.items.taken(taken_id)

    # --- copies ---

    def _copy(self, actor_id: bytes) -> Copy | None:
        """Return the copy that the sender has begun."""
        node = self.node
        guard = node.guards.guarded.get(actor_id)
        if guard is not None and guard.home == node.sender:
            return guard.copy
        actor = node.calls.actors.get(actor_id)
        if actor is not None and node.moves.offers.get(actor_id) == node.sender:
            incoming: Copy | None = actor.incoming
            return incoming
        return None

    @on(wards.LogStart, wards.LogCalls, wards.LogCheckpoint)
    def on_log(self, message: wards.LogStart | wards.LogCalls | wards.LogCheckpoint) -> None:
        """LogStart, LogCalls, LogCheckpoint."""
        copy = self._copy(message.actor_id)
        if copy is None:
            self.node.reject("the log of an actor that is not guarded here")
        elif type(message) is wards.LogStart:
            copy.start(message)
        elif type(message) is wards.LogCalls:
            copy.calls(message)
        elif type(message) is wards.LogCheckpoint:
            copy.checkpoint(message)

    @on(wards.CallsLogged)
    def on_calls_logged(self, message: wards.CallsLogged) -> None:
        """CallsLogged."""
        actor = self.node.calls.actors.get(message.actor_id)
        if actor is not None and actor.shipping is not None and actor.guardian == self.node.sender:
            actor.shipping.acknowledged(message)

    def changed(self, actor_id: bytes, copy: Copy) -> None:
        """Note a changed copy, to be acknowledged at the end of the turn."""
        self.copies[actor_id] = copy

    # --- actors that come ---

    def has_come(self, actor: Actor) -> None:
        """Continue an adopted actor after a part of its log has arrived; with the whole log, the actor may start."""
        copy, actor_id = actor.incoming, actor.actor_id
        if copy is None or self.node.moves.offers.get(actor_id):
            return
        if copy.broken or (copy.is_whole and copy.why_not()):
            self.node.ends.bury(actor, died(actor.options, f"died: {copy.lost}, and {copy.why_not()}"))
        elif copy.is_whole:
            actor.comes_with(None)
            self.install(actor, copy)
            self.node.calls.touch(actor_id)

    def install(self, actor: Actor, copy: Copy) -> None:
        """Install the copy as the actor's log for recovery."""
        copy.cut()
        actor.goes_on_from(copy.journal)
        actor.shipping.goes_on_from(copy.answers)
        for task in list(actor.queue):
            self.node.cancels.cancel_again(task)
            self.node.reruns.sent_again(task)

    def made_is_gone(self, actor_id: bytes, lost: str = "") -> None:
        """Record that an actor created by a call is gone for good.  lost: the node with which the actor was lost.

        The creator, a local or guarded actor, has not seen the loss if it was on the same node, or has no home yet.
        """
        node = self.node
        if actor_id in node.guards.guarded:
            return  # we claim it ourselves: whether it is had again is said then
        for guard in node.guards.guarded.values():
            if guard.copy is not None and guard.home in node.recovery.lost and lost in ("", guard.home):
                guard.copy.journal.nested.is_gone(actor_id)
        for actor in node.calls.actors.values():
            if actor.incoming is not None:
                actor.incoming.journal.nested.is_gone(actor_id)
            elif actor.journal is not None and actor.journal.nested.is_settling:
                actor.journal.nested.is_gone(actor_id)

    def node_lost(self, lost: str) -> None:
        """Forget the answers kept for a lost node: no further request can come."""
        self.given.pop(lost, None)
        for receipt in [receipt for receipt, (origin, _) in self.receipts.items() if origin == lost]:
            del self.receipts[receipt]
        for actor in list(self.node.calls.actors.values()):
            if actor.shipping is not None:
                actor.shipping.answers.node_lost(lost)
            if actor.incoming is not None:
                actor.incoming.node_lost(lost)
        for guard in self.node.guards.guarded.values():
            if guard.copy is not None:
                guard.copy.node_lost(lost)

    @on(actors.ActorSaved)
    def on_actor_saved(self, message: actors.ActorSaved) -> None:
        """ActorSaved."""
        node = self.node
        actor = node.calls.actors.get(message.actor_id)
        if actor is None or actor.journal is None or actor.worker is None or actor.worker.address != node.sender:
            node.reject("a checkpoint of an actor that is none")
            return
        actor.journal.saved(message.object_id, message.call_count)
        if actor.shipping is not None:
            actor.shipping.saved()
        if actor.shipping is None or not actor.shipping.is_on:
            actor.journal.nested.forget_all(actor.journal.done_with(actor))
