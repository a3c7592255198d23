"""State changes of tasks in simulated runs: each must be a row of its table, and is recorded.

Methods of `Task` write the state without a check of the table, since each small task calls them; here they check.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..roles.local_scheduler.task import TRANSITIONS, Event, Task, TaskState, TaskStates

EVENTS = {
    "enqueued": (Event.ENQUEUED,),
    "enters": (Event.ENQUEUED,),
    "sent": (Event.SENT,),
    "returned": (Event.RETURNED, Event.LACKS_ARGUMENT),
    "lacks_argument": (Event.LACKS_ARGUMENT,),
    "queued": (Event.QUEUED,),
    "ended": (Event.ENDED,),
}
taken: set[tuple[int, Event]] = set()  # the rows that occurred in this process


def _looks(method: Callable[..., Any], events: tuple[Event, ...]) -> Callable[..., Any]:
    @wraps(method)
    def change(task: Task, *arguments: Any) -> Any:
        event = events[-1] if task.missing else events[0]
        before = TaskState(task.state)
        result = method(task, *arguments)
        assert TRANSITIONS.get((before, event)) == task.state, f"{event.name} of a task that is {before.name}"
        taken.add((before, event))
        return result

    return change


def _notes(happened: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(happened)
    def move(states: TaskStates, task: Task, event: Event, **facts: str) -> bool:
        before = TaskState(task.state)
        has_moved = happened(states, task, event, **facts)
        if has_moved:
            taken.add((before, event))
        return has_moved

    return move


def watch_tasks() -> None:
    """Check each change of a task's state, from now on in this process."""
    if hasattr(Task.sent, "__wrapped__"):
        return
    for name, events in EVENTS.items():
        setattr(Task, name, _looks(getattr(Task, name), events))
    TaskStates.happened = _notes(TaskStates.happened)  # type: ignore[method-assign]
