"""The way to one actor of another node, and the calls on it that wait or are under way (`routes`)."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from .names import name_of_call
from .task import Task


class Leaving(Struct, gc=False, eq=False):
    """A call that waits for its turn."""

    task: Task
    is_ready: bool = False  # the shards know that we hold what it takes


class Route:
    """The way to an actor of another node."""

    __slots__ = (
        "actor_id",
        "hint",
        "home",
        "is_forgotten",
        "is_killed",
        "is_retaining",
        "is_unsure",
        "lost_at",
        "queue",
        "sent",
    )

    def __init__(self, actor_id: bytes) -> None:
        self.actor_id = actor_id
        self.home = ""  # the local scheduler there; "": asked for
        self.hint = ""  # where its name was registered: good if the directory knows nothing
        self.queue: deque[Leaving] = deque()
        self.sent: dict[bytes, Task] = {}
        self.is_forgotten = False  # nothing here refers to its handle
        self.is_retaining = False  # calls under way keep its handle
        self.is_killed = False  # by kill(), before it was located
        self.lost_at: float | None = None  # its home was lost then, and it has no other one
        self.is_unsure = True  # its shard has not said where it is, or that it will say so

    def in_words(self) -> str:
        """By one of its calls: that is all that is known of it here."""
        call = next(iter(self.sent.values()), None) or next((item.task for item in self.queue), None)
        return f"The actor of {name_of_call(call)}" if call is not None else "The actor"
