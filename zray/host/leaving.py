"""How a worker ends by what user code does: exit_actor(), sys.exit(), the last of max_calls.

The node hears of a process's end from the fork server, which may be faster than the process's own last words: so
what it has to say must have been heard before it ends.
"""

from __future__ import annotations

import sys
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

import posix_ipc

from ..exceptions import ClusterLostError
from ..wire.message import Message
from ..wire.session import Goodbye
from .processes import end_process
from .runtime import Runtime

if TYPE_CHECKING:
    from .worker_main import Worker

# A node that does not answer for so long has other troubles than one worker's last words.
GOODBYE_SECONDS = 10.0


def leave(worker: Worker, reason: str, *news: Message, status: int = 0) -> NoReturn:
    """Results first, then the news, then the process.  What is queued here and not begun goes back to the node."""
    worker.claim = _no_more
    try:
        worker.flush()  # in one frame with what is said, results would come behind it
        for message in news:
            worker.say(message)
        worker.say(Goodbye(reason))
        worker.flush()
        # As any process waits: one that runs a task runs nothing else meanwhile.
        Runtime.receive_until(worker, lambda: worker.said_goodbye, time.monotonic() + GOODBYE_SECONDS)
    except ClusterLostError:
        pass
    end_process(status)


def _no_more(seconds: float) -> None:
    """Other threads begin nothing either: the claim window counts what is left as not begun."""
    raise posix_ipc.BusyError


def is_success(error: BaseException) -> bool:
    """Whether it is sys.exit(0), which ends an actor for good.  Another code, or none, is a crash, as in Ray."""
    return isinstance(error, SystemExit) and error.code == 0


def crash(worker: Worker, name: str, error: SystemExit) -> NoReturn:
    """sys.exit(): the process ends with that code, and the node takes what runs in it as after any other death.

    What the exit came from is written to the log, whose last lines are in the error.
    """
    code = error.code
    status = code if isinstance(code, int) else int(code is not None)
    try:
        traceback.print_exception(error)
        print(
            f"{name} has called sys.exit({'' if code is None else repr(code)}): its worker process ends.",
            file=sys.stderr,
        )
    except (OSError, ValueError, AttributeError):
        pass  # the stream is closed, or none
    leave(worker, f"sys.exit({code!r})"[:1000], status=status & 0xFF)
