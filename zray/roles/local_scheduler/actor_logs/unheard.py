"""Actors of this node that were just made, and that no other node is to hear of yet: their handles wait here.

    by a call of an actor that recovers    until that one's guardian has heard of it: were this node lost, the call
                                           would make it anew, and what others had it do would be gone
    one that recovers itself               until the shard knows who guards it: were this node lost, the shard would
                                           say that it is dead

So nobody calls one that may be another one later.  Its results wait as well (`shipping`): others of this node may have
called it, and have guardians elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import TASK_ID_BYTES

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Unheard(Struct, gc=False, eq=False):
    """One of them."""

    awaits_maker: bool = False  # the guardian of who made it
    awaits_guard: bool = False  # the shard: its own
    requests: list[int] = []  # of what is to leave with its handle (acks)


class UnheardActors:
    """Those of one node."""

    PASSING = {"by_actor": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_actor: dict[bytes, Unheard] = {}

    def made(self, actor_id: bytes) -> None:
        """By a call of an actor that recovers; its guardian is about to be told."""
        self.by_actor.setdefault(actor_id, Unheard()).awaits_maker = True

    def maker_said(self, actor_id: bytes) -> None:
        """The guardian has heard of it, or there is none."""
        item = self.by_actor.get(actor_id)
        if item is None:
            return
        item.awaits_maker = False
        self._look_at(actor_id, item)
        actor = self.node.calls.actors.get(actor_id)
        if actor is not None and actor.shipping is not None:
            actor.shipping.release()

    def guarded_soon(self, actor_id: bytes) -> None:
        """It is to have a guardian."""
        self.by_actor.setdefault(actor_id, Unheard()).awaits_guard = True

    def guarded(self, actor_id: bytes) -> None:
        """The shard knows by whom, or nobody is to guard it."""
        item = self.by_actor.get(actor_id)
        if item is not None:
            item.awaits_guard = False
            self._look_at(actor_id, item)

    def awaits_maker(self, actor_id: bytes) -> bool:
        """Whether nothing that it does may be seen, as who made it might make it anew."""
        item = self.by_actor.get(actor_id)
        return item is not None and item.awaits_maker

    def hold_back(self, object_ids: Iterable[bytes], request: int) -> int:
        """What is to leave with these waits for those of them that are such handles.  Returns for how many."""
        count = 0
        if self.by_actor:
            for object_id in object_ids:
                item = self.by_actor.get(object_id[:TASK_ID_BYTES])
                if item is not None:
                    item.requests.append(request)
                    count += 1
        return count

    def are_inside(self, object_ids: Iterable[bytes]) -> bool:
        """Whether some of these are such handles."""
        return any(object_id[:TASK_ID_BYTES] in self.by_actor for object_id in object_ids)

    def _look_at(self, actor_id: bytes, item: Unheard) -> None:
        if item.awaits_maker or item.awaits_guard:
            return
        del self.by_actor[actor_id]
        for request in item.requests:
            self.node.acks.acknowledged(request)
