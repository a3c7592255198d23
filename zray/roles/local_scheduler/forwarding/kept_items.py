"""Items of generators that calls of recoverable actors on other nodes have called, kept where the items are made.

    an item leaves             it is kept here, with a receipt
    AnswersTaken               the caller's backup node has it, and all before it: they are kept no more
    the caller's node is lost  the call goes on; the items are kept for the caller, which makes the call again elsewhere
    ForwardCalls               the same call from the caller's next home: that node gets the kept items, and the others
    the caller is dead         nobody makes the call again: it is cancelled

A call on an actor without a log runs once more, if it is made again after its end: its items are kept until then.

    shard              ActorLocated   the answer to LocateActor: the caller is gone, or where it is now
    local scheduler    SeekCaller     the question whether a caller at this node is dead -> CancelTask
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ids import index_of, is_item, item_id, task_of
from ....wire.actors import SeekCaller
from ....wire.homes import ActorLocated, LocateActor
from ....wire.tasks import CancelTask
from ...kept import Latest
from ...role import on
from ..tables import Actor
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .generators import Item

# So long after each look for a caller whose node is lost.
CALLER_SECONDS = 2.0
# Calls for whose callers a node looks: more than run at once on a node.
ORPHANS_MAX = 10_000


class KeptItems:
    """The kept items of one node."""

    PASSING = {"kept": "node.tasks"}
    LASTING = {"orphans": "ORPHANS_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.kept: dict[bytes, list[bytes]] = {}  # by call on an actor without a log; the others: `Answers.held`
        # Calls whose callers' nodes are lost -> the callers, while nobody knows whether these make the calls again.
        self.orphans: Latest[bytes, bytes] = Latest(ORPHANS_MAX)

    def _by_call(self, actor: Actor | None) -> dict[bytes, list[bytes]]:
        return actor.shipping.answers.held if actor is not None and actor.shipping is not None else self.kept

    def keep(self, task: Task, first: int, made: list[Item]) -> None:
        """Keep items that leave."""
        task_id, node = task.spec.task_id, self.node
        kept = self._by_call(node.calls.actors.get(task.options.actor_id)).setdefault(task_id, [])
        for number, (value, inside, _) in enumerate(made, first):
            object_id = item_id(task_id, number)
            if kept and object_id <= kept[-1]:
                continue  # of a further run
            kept.append(object_id)
            entry = node.objects.retain(object_id)
            if entry.value is None:
                node.object_is_here(entry, value, inside)  # type: ignore[arg-type]  # made here

    def taken(self, actor: Actor | None, object_id: bytes) -> None:
        """Release the items of a call up to one that will not be asked for again."""
        by_call, task_id = self._by_call(actor), task_of(object_id)
        kept, count = by_call.get(task_id, []), 0
        # The items are in order, behind large returns.  A receipt for each of thousands looks at none that follow.
        while count < len(kept) and (not is_item(kept[count]) or kept[count] <= object_id):
            count += 1
        if taken := list(filter(is_item, kept[:count])):
            kept[:count] = [each for each in kept[:count] if not is_item(each)]
            if not kept:
                del by_call[task_id]
            self.node.objects.drop_all(taken)

    def give(self, task: Task) -> None:
        """Pass on the kept items of a call that its caller makes again."""
        node, actor = self.node, self.node.calls.actors.get(task.options.actor_id)
        if actor is not None and actor.shipping is not None:
            actor.items.give_kept(task)
            return
        kept = self.kept.pop(task.spec.task_id, [])
        for object_id in kept:
            entry = node.objects.entries[object_id]
            if entry.value is not None and not entry.is_lost:
                node.generators.leave(task, index_of(object_id) - 2, [(entry.value, entry.contained, "")])
        node.objects.drop_all(kept)

    def call_ended(self, task_id: bytes) -> None:
        """Release the items of a call on an actor without a log."""
        self.node.objects.drop_all(self.kept.pop(task_id, ()))

    # --- callers whose nodes are lost ---

    def _lost_origin(self, task_id: bytes) -> str:
        """Return the lost node of the caller of a running call, which was not made again; "": none."""
        task = self.node.tasks.get(task_id)
        if task is None or task_id in self.node.generators.streams:
            return ""
        actor, origin = self.node.calls.actors.get(task.options.actor_id), task.origin
        if actor is not None and actor.shipping is not None and not origin:
            origin = actor.shipping.answers.unasked.get(task_id, "")
        return origin if origin in self.node.recovery.lost else ""

    def look_for_caller(self, task_id: bytes) -> None:
        """Ask, now and then, whether the actor that has made a call still lives, until it makes the call again."""
        node, lost = self.node, self._lost_origin(task_id)
        self.orphans.pop(task_id, None)
        if lost:
            caller = self.orphans[task_id] = node.tasks[task_id].spec.caller
            node.send(node.addresses.shard_of(caller), LocateActor(caller, node.address, False, lost))
            node.after(CALLER_SECONDS, self.look_for_caller, task_id)

    def caller_located(self, message: ActorLocated) -> None:
        """Cancel the calls of an actor that is dead for good, or ask the actor's node."""
        node, actor_id, home = self.node, message.actor_id, message.node
        found = [task_id for task_id, caller in self.orphans.items() if caller == actor_id]
        for task_id in found if not message.is_coming and home not in node.recovery.lost else ():
            if not self._lost_origin(task_id):
                continue
            if home not in ("", node.address):
                node.send(home, SeekCaller(actor_id, task_id))
            elif not home or actor_id in node.ends.graves:
                node.cancels.cancel(node.tasks[task_id], False, True)

    @on(SeekCaller)
    def on_seek_caller(self, message: SeekCaller) -> None:
        """SeekCaller."""
        if message.actor_id in self.node.ends.graves:
            self.node.send(self.node.sender, CancelTask(message.task_id))
