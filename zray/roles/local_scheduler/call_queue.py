"""Unsent calls on an actor: in order per caller, without one caller waiting for another's arguments.

A caller is a task or a driver; an actor is a single caller, whichever of its methods submits.  Calls of threaded and
async actors, and of those that allow it, go as soon as their arguments are here.  A line whose first call
lacks an argument is held: the value may come from a task that calls the same actor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ...ids import PARENT_HASH_BYTES

if TYPE_CHECKING:
    from .task import Task


def has_room_always(task: Task) -> bool:
    """Let any call go: the actor has no concurrency groups."""
    return True


class CallQueue(Struct, eq=False):
    """The lines of unsent calls, by caller and concurrency group."""

    _count: int = 0  # calls that have come
    _open: dict[bytes, deque[Task]] = {}  # lines to look at, the one that was served last at the end
    _held: dict[bytes, deque[Task]] = {}  # lines whose first call waits for an argument
    begun: deque[Task] = field(default_factory=deque)  # ahead of all lines
    is_ordered: bool = True  # else a call that lacks an argument gets a line of its own

    def __bool__(self) -> bool:
        return bool(self.begun or self._open or self._held)

    def __iter__(self) -> Iterator[Task]:
        """Yield all calls, in order per caller."""
        yield from self.begun
        for lines in (self._open, self._held):
            for line in lines.values():
                yield from line

    def take_all(self) -> list[Task]:
        """Remove all calls, and return them in order of arrival.

        Calls sent to the actor's former home precede unsent calls.  For its new home, an unsent call is a sign that no
        call sent to the former home follows (Answers.caller_goes_on).
        """
        lines = (line for lines in (self._open, self._held) for line in lines.values())
        tasks = [*self.begun, *sorted((task for line in lines for task in line), key=lambda task: task.trip)]
        self.clear()
        return tasks

    def put(self, task: Task) -> None:
        """Append a new call to its caller's line."""
        self._count += 1
        task.trip = self._count
        caller = self._line_of(task)
        line = self._open.get(caller)
        if line is None:
            line = self._held.get(caller)
            if line is None:
                self._open[caller] = deque((task,))
                return
        line.append(task)

    def put_first(self, task: Task, *, has_begun: bool = False) -> None:
        """Put a returned call back ahead of the caller's later calls, but after earlier returned calls.

        Earlier calls may make its arguments.  has_begun: ahead of other callers' calls too, because nested calls have
        had their effects, with their original arguments.
        """
        if has_begun:
            self.begun.appendleft(task)
            return
        caller = self._line_of(task)
        line = self._held.pop(caller, None)
        if line is not None:
            self._open[caller] = line
        else:
            line = self._open.setdefault(caller, deque())
        position = 0
        while position < len(line) and line[position].trip < task.trip:
            position += 1
        line.insert(position, task)

    def take_out(self, task: Task) -> bool:
        """Remove a call from the caller's line.  Returns whether the call was in the line."""
        caller = self._line_of(task)
        line = self._open.get(caller) or self._held.get(caller)
        if line is None or task not in line:
            return False
        line.remove(task)
        self._held.pop(caller, None)
        if line:
            self._open[caller] = line
        else:
            self._open.pop(caller, None)
        return True

    def is_last(self, task: Task) -> bool:
        """Whether the call waits as the last in the caller's line."""
        caller = self._line_of(task)
        line = self._open.get(caller) or self._held.get(caller)
        return line is not None and line[-1] is task

    def arguments_are_here(self, task: Task) -> None:
        """Release the line of a call whose arguments are complete."""
        caller = self._line_of(task)
        line = self._held.get(caller)
        if line is not None and line[0] is task:
            self._open[caller] = self._held.pop(caller)

    def has_ready(self) -> bool:
        """Whether some call could be sent."""
        return bool(self.begun) or any(not line[0].missing for line in self._open.values())

    def take(
        self,
        count: int,
        may_go: Callable[[Task, dict[bytes, Task]], bool],
        has_room: Callable[[Task], bool] = has_room_always,
    ) -> dict[bytes, Task]:
        """Take up to `count` calls to send, by id, in order.

        may_go: whether a call that lacks an argument may go with the calls taken already.  has_room: whether one more
        call of its concurrency group may be under way; it is asked once for each call.
        """
        taken: dict[bytes, Task] = {}
        while self.begun and len(taken) < count:
            task = self.begun[0]
            if task.missing and not may_go(task, taken):
                while self.begun:  # what it takes is lost meanwhile: nobody else waits for that
                    self.put_first(self.begun.pop())
                break
            taken[task.spec.task_id] = self.begun.popleft()
        for caller in list(self._open):
            line = self._open.pop(caller)
            while line:
                task = line[0]
                if task.missing and not may_go(task, taken):
                    if not self.is_ordered and len(line) > 1:
                        self._held[task.spec.task_id] = deque((line.popleft(),))
                        continue
                    self._held[caller if self.is_ordered else task.spec.task_id] = line
                    break
                if len(taken) >= count:
                    self._open[caller] = line
                    return taken
                if not has_room(task):
                    self._open[caller] = line
                    break
                taken[task.spec.task_id] = line.popleft()
        return taken

    def _line_of(self, task: Task) -> bytes:
        """Return the key of a call's line: calls in one line go in order."""
        spec, group = task.spec, task.options.group
        if not self.is_ordered and (spec.task_id in self._held or spec.task_id in self._open):
            return spec.task_id
        caller = spec.caller or spec.task_id[:PARENT_HASH_BYTES]
        return caller + group.encode() if group else caller  # calls of one group do not wait for those of another

    def clear(self) -> None:
        self.begun.clear()
        self._open.clear()
        self._held.clear()
