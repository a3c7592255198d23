"""Exits of user code: exit_actor(), sys.exit(), and their texts in errors."""

from __future__ import annotations

from ...exceptions import encode_system_error

# The status of a program ended by an interrupt, as in a shell.
INTERRUPTED_STATUS = 130


class ActorExit(SystemExit):
    """Raised by exit_actor(): the actor ends, and the call's error says so."""


def is_success(error: BaseException) -> bool:
    """Return whether the error is sys.exit(0), which ends an actor for good.  Another code, or none, is a crash, as in
    Ray.
    """
    return isinstance(error, SystemExit) and error.code == 0


def exit_status(error: BaseException) -> int:
    """Return the exit code of a process ended by this error."""
    if isinstance(error, SystemExit):
        code = error.code
        return (code if isinstance(code, int) else int(code is not None)) & 0xFF
    return INTERRUPTED_STATUS if isinstance(error, KeyboardInterrupt) else 1


def exit_in_words(error: BaseException) -> str:
    """Return the deed of a task that ends its process by this error."""
    if isinstance(error, SystemExit):
        return f"called sys.exit({'' if error.code is None else repr(error.code)})"[:1000]
    return f"raised {type(error).__name__}"


def farewell(in_words: str, error: BaseException) -> str:
    """The reason of an actor's end by exit_actor() or sys.exit(0).  in_words: the actor."""
    return f"The {in_words} left by {'exit_actor()' if isinstance(error, ActorExit) else 'sys.exit(0)'}."


def exited_task(name: str, error: BaseException) -> str:
    """Return the error text of a task that called sys.exit(): a decision of the user's code, so there is no retry."""
    return f"Task {name} {exit_in_words(error)}.  Its worker process ends, and the task is not retried."


def died(in_words: str, how: str) -> bytes:
    """Return the error value for calls on a dead actor of local mode."""
    return encode_system_error("ActorDiedError", f"The {in_words} {how}.")
