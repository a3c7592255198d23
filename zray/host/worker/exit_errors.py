"""Exits of user code: exit_actor(), sys.exit(), and how errors name them."""

from __future__ import annotations

from ...exceptions import encode_system_error

# Of a program that an interrupt has ended, as a shell has it.
INTERRUPTED_STATUS = 130


class ActorExit(SystemExit):
    """Raised by exit_actor(): the actor ends, and the call's answer is that it did."""


def is_success(error: BaseException) -> bool:
    """Whether it is sys.exit(0), which ends an actor for good.  Another code, or none, is a crash, as in Ray."""
    return isinstance(error, SystemExit) and error.code == 0


def exit_status(error: BaseException) -> int:
    """The exit code of a process that ends by this error."""
    if isinstance(error, SystemExit):
        code = error.code
        return (code if isinstance(code, int) else int(code is not None)) & 0xFF
    return INTERRUPTED_STATUS if isinstance(error, KeyboardInterrupt) else 1


def exit_in_words(error: BaseException) -> str:
    """The deed of a task that ends its process by this error."""
    if isinstance(error, SystemExit):
        return f"called sys.exit({'' if error.code is None else repr(error.code)})"[:1000]
    return f"raised {type(error).__name__}"


def farewell(in_words: str, error: BaseException) -> str:
    """The reason of an actor's end by exit_actor() or sys.exit(0).  in_words: the actor."""
    return f"The {in_words} left by {'exit_actor()' if isinstance(error, ActorExit) else 'sys.exit(0)'}."


def exited_task(name: str, error: BaseException) -> str:
    """The error text of a task that called sys.exit(): a decision of the user's code, so no attempt is repeated."""
    return f"Task {name} {exit_in_words(error)}.  Its worker process ends, and the task is not retried."


def died(in_words: str, how: str) -> bytes:
    """The error value that calls on a dead actor of local mode get."""
    return encode_system_error("ActorDiedError", f"The {in_words} {how}.")
