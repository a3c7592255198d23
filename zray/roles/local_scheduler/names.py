"""What errors call actors and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...exceptions import encode_system_error

if TYPE_CHECKING:
    from ...wire.task_spec import ActorOptions
    from .task import Task

MADE_ANEW = "has ended: the task that created it died, and its retry has created another"
LOST_WITH_ACTOR = encode_system_error("ObjectLostError", "The result lay on the actor's node, which is lost.")


def in_words(options: ActorOptions) -> str:
    """ "actor Counter", or "actor Counter named 'joe'"."""
    return f"actor {options.class_name}" + (f" named {options.name!r}" if options.name else "")


def name_of_call(task: Task) -> str:
    """ "Counter.add"."""
    return str(task.options.name or task.options.method)


def died(options: ActorOptions, how: str) -> bytes:
    """The error value that calls on a dead actor get."""
    return encode_system_error("ActorDiedError", f"The {in_words(options)} {how}.")


def gone_error(text: str) -> bytes:
    """What calls on an actor get that is gone."""
    return encode_system_error("ActorDiedError", text)
