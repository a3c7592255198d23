"""Actors of other nodes that were found by their names, and that nobody here has a handle on yet.

The shard of an actor tells the actor's node when no node holds it any more, and that node then ends it.  A handle that
comes later keeps nothing.  So the shard is asked to hold the actor for this node only if somebody else holds it still:

    HoldAtNode (are_inside) -> HoldAtNodeReply    are_gone: nobody does, and the actor is about to end
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ids import FIRST_RETURN
from ....wire.actors import FindActor, FindActorReply, LookUpActorReply

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process


class FoundElsewhere:
    """Of one node."""

    PASSING = {"asked": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asked: dict[int, bool] = {}  # request to the shard -> whether nobody holds the actor

    def is_held_here(self, actor_id: bytes) -> bool:
        """Whether this node holds it, as its shard knows."""
        entry = self.node.objects.entries.get(actor_id + FIRST_RETURN)
        return entry is not None and entry.shared is not None and not entry.shared.is_released

    def ask(self, process: Process, question: FindActor, found: LookUpActorReply) -> None:
        """Answer the process when the shard has held the actor for this node, or has not."""
        node, object_id = self.node, found.actor_id + FIRST_RETURN
        request = node.acks.next_request()
        self.asked[request] = False
        expected = node.remote._hold_at_shards([object_id], request, are_inside=True)
        node.objects.retain(object_id).share()  # what others here let go of meanwhile is not released at the shard
        node.acks.expect(request, expected, lambda: self._answer(request, process, question, found))

    def is_gone(self, request: int) -> None:
        """HoldAtNodeReply: nobody held the actor of this request, if it is one of these."""
        if request in self.asked:
            self.asked[request] = True

    def _answer(self, request: int, process: Process, question: FindActor, found: LookUpActorReply) -> None:
        node, actor_id, home = self.node, found.actor_id, found.node
        is_gone = self.asked.pop(request)
        if is_gone:
            node.names.ends_elsewhere(actor_id)
        if process.address in node.processes:
            if not is_gone:
                node.routes.name_found(actor_id, home)
                node.objects.hold(node.objects.entries[actor_id + FIRST_RETURN], process)
            reply = FindActorReply(question.request, b"" if is_gone else actor_id, found.handle)
            node.send(process.address, reply)
        node.objects.drop(actor_id + FIRST_RETURN)
