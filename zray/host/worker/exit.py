"""How a worker ends by what user code does: exit_actor(), sys.exit(), os._exit(), the last of max_calls.

The node hears of a process's end from the fork server, which may be faster than the process's own last words: so
what it has to say must have been heard before it ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import posix_ipc

from ...exceptions import ClusterLostError
from ...wire.message import Message
from ...wire.session import Goodbye
from ..client.runtime import Runtime
from ..output.worker_output import begun_lines
from ..process.crash_reports import write_exit
from ..process.process_utils import end_process
from .exit_errors import exit_in_words, exit_status

if TYPE_CHECKING:
    from .main import Worker

# A node that does not answer for so long has other troubles than one worker's last words.
GOODBYE_SECONDS = 10.0


class Parting(NamedTuple):
    """The end of a worker process behind the task in hand."""

    reason: str  # for the node
    status: int = 0


def leave(
    worker: Worker, reason: str, *news: Message, status: int = 0, end: Callable[[int], NoReturn] = end_process
) -> NoReturn:
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
    end(status)


def _no_more(seconds: float) -> None:
    """Other threads begin nothing either: the claim window counts what is left as not begun."""
    raise posix_ipc.BusyError


def crash(worker: Worker, name: str, error: BaseException, how: str = "") -> NoReturn:
    """An exit of user code ends the process with its code, and the node takes what runs in it as after any other death.

    The place of the exit is part of the report in the error.
    how: what `name` has done; "" for what `error` says.
    """
    how = how or exit_in_words(error)
    write_exit(worker.paths, worker.worker_id, worker.pid, error, f"{name} has {how}: its worker process ends.")
    leave(worker, how, status=exit_status(error))


@contextmanager
def heard_before_exit(worker: Worker) -> Iterator[None]:
    """os._exit() of user code ends the process at once, and what has ended before would be taken for lost with it: it
    is heard first.  Not of a child that user code has forked, nor in the middle of a call of zray.
    """
    at_once = os._exit

    def exit_of_user(status: int) -> NoReturn:
        is_ours = os.getpid() == worker.pid and worker.claim is not _no_more and not worker.is_inside()
        if is_ours and isinstance(status, int):
            begun_lines.write_all()
            leave(worker, f"os._exit({status!r})"[:1000], status=status, end=at_once)
        at_once(status)

    os._exit = exit_of_user
    try:
        yield
    finally:
        os._exit = at_once
