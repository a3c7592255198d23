"""The route to an actor of another node: its record, its state, its calls, and the transitions (`routes`).

    LOCATING -> COMING -> OPEN        the actor's shard is asked, and answers in one or two steps
    OPEN -> LOCATING                  the actor's node is lost or has left

Rule 1: A route that is OPEN has a home, any other has none.

Rule 2: A call is in `queue` until sent, then in `sent` until its results come.  If the actor's next home should have
the call, it returns to the head of `queue`, ahead of calls never sent.

Rule 3: Only this file changes a route.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct, field

from ..tables import name_of_call
from ..task import Task


class RouteState(IntEnum):
    """Knowledge of the actor's home."""

    LOCATING = 0  # its shard has not said where it is, or that it will say so
    COMING = 1  # its shard will say so when the actor has a home
    OPEN = 2  # calls leave


class Event(IntEnum):
    """Events that change a route's state."""

    ANNOUNCED = 0  # the shard says that the actor is placed, or made again
    SETTLED = 1  # the actor lives on a node that is known
    HOME_LOST = 2


LOCATING, COMING, OPEN = RouteState
TRANSITIONS = {
    (LOCATING, Event.ANNOUNCED): COMING,
    (COMING, Event.ANNOUNCED): COMING,
    (LOCATING, Event.SETTLED): OPEN,
    (COMING, Event.SETTLED): OPEN,
    (OPEN, Event.HOME_LOST): LOCATING,
}


class Leaving(Struct, gc=False, eq=False):
    """A queued call."""

    task: Task
    is_ready: bool = False  # the shards know that we hold what it takes

    def may_leave(self) -> None:
        """Note that the shards know."""
        self.is_ready = True


class Route(Struct, eq=False):
    """The route to an actor of another node."""

    actor_id: bytes
    hint: str = ""  # where its name was registered: good if the directory knows nothing
    state: RouteState = LOCATING
    home: str = ""  # the local scheduler there
    queue: deque[Leaving] = field(default_factory=deque)
    sent: dict[bytes, Task] = {}
    is_retaining: bool = False  # calls under way keep its handle
    is_killed: bool = False  # by kill(), before it was located
    lost_at: float | None = None  # its home was lost then, and it has no other one

    def _enter(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    def announced(self) -> None:
        """Note that the shard will announce the actor's home."""
        self._enter(Event.ANNOUNCED)

    def settled(self, home: str) -> None:
        """Record the actor's home."""
        self._enter(Event.SETTLED)
        self.home, self.lost_at = home, None

    def node_lost(self, node: str) -> bool:
        """Forget a lost or departed node; return whether it was the actor's home."""
        if node in (self.home, self.hint):
            self.hint = ""
        is_home = self.home == node
        if is_home:
            self._enter(Event.HOME_LOST)
            self.home = ""
        return is_home

    def waits_since(self, time: float) -> bool:
        """Start the time without a home; return False if it is running already."""
        if self.lost_at is not None:
            return False
        self.lost_at = time
        return True

    def retains(self) -> bool:
        """Let pending calls keep the handle; return False if they do already."""
        was_retaining, self.is_retaining = self.is_retaining, True
        return not was_retaining

    def releases(self) -> bool:
        """Stop pending calls from keeping the handle; return False if they did not."""
        was_retaining, self.is_retaining = self.is_retaining, False
        return was_retaining

    def killed(self) -> None:
        """Kill the actor once located."""
        self.is_killed = True

    def takes_kill(self) -> bool:
        """Return, once, whether the actor was killed before it was located."""
        was_killed, self.is_killed = self.is_killed, False
        return was_killed

    def add(self, task: Task) -> Leaving:
        """Queue a new call behind all others."""
        item = Leaving(task)
        self.queue.append(item)
        return item

    def next_to_send(self) -> Task | None:
        """Move the first call from the queue to the sent calls, if the shards have recorded its arguments."""
        if not self.queue or not self.queue[0].is_ready:
            return None
        task = self.queue.popleft().task
        self.sent[task.spec.task_id] = task
        return task

    def has_ended(self, task_id: bytes) -> bool:
        """Forget a sent call that has ended.  Returns whether the call was sent."""
        return self.sent.pop(task_id, None) is not None

    def repeat(self) -> None:
        """Queue the sent calls again, ahead of the others."""
        again = []
        for task in self.sent.values():
            task.tried(task.attempts + 1)
            again.append(Leaving(task, True))
        self.sent.clear()
        self.queue.extendleft(reversed(again))

    def asks_first(self, asked: dict[bytes, Task]) -> None:
        """Put calls whose answers are requested again ahead of the sent calls."""
        self.sent = {**asked, **self.sent}

    def take_sent(self, is_meant: Callable[[Task], bool]) -> list[Task]:
        """Remove matching sent calls, and return them."""
        taken = [task for task in self.sent.values() if is_meant(task)]
        for task in taken:
            del self.sent[task.spec.task_id]
        return taken

    def take_queued(self, is_meant: Callable[[Task], bool]) -> list[Task]:
        """Remove matching unsent calls, and return them."""
        taken, kept = [], deque[Leaving]()
        for item in self.queue:
            if is_meant(item.task):
                taken.append(item.task)
            else:
                kept.append(item)
        self.queue = kept
        return taken

    def take_all(self) -> list[Task]:
        """Remove all calls, and return them in order."""
        tasks = [*self.sent.values(), *(item.task for item in self.queue)]
        self.sent.clear()
        self.queue.clear()
        return tasks

    def in_words(self) -> str:
        """Name the actor by a pending call, because nothing else is known of the actor."""
        call = next(iter(self.sent.values()), None) or next((item.task for item in self.queue), None)
        return f"The actor of {name_of_call(call)}" if call is not None else "The actor"
