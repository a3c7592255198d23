"""Ends of a worker caused by user code: exit_actor(), sys.exit(), os._exit(), the last of max_calls.

The fork server reports a process's end, perhaps faster than the process's own last messages.  So the node must have
received these messages before the process ends.
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

# A node that does not answer for so long has other troubles than a worker's last messages.
GOODBYE_SECONDS = 10.0


class Parting(NamedTuple):
    """The end of a worker process behind the task in hand."""

    reason: str  # for the node
    status: int = 0


def leave(
    worker: Worker, reason: str, *news: Message, status: int = 0, end: Callable[[int], NoReturn] = end_process
) -> NoReturn:
    """Send the results, then the news, and end the process.  Queued tasks not yet begun go back to the node."""
    worker.claim = _no_more
    try:
        worker.flush()  # in a common frame results would follow the news
        for message in news:
            worker.say(message)
        worker.say(Goodbye(reason))
        worker.flush()
        # Wait like any other process, without nested tasks.
        Runtime.receive_until(worker, lambda: worker.said_goodbye, time.monotonic() + GOODBYE_SECONDS)
    except ClusterLostError:
        pass
    end(status)


def _no_more(seconds: float) -> None:
    """Keep other threads from beginning tasks: the claim window counts the rest as not begun."""
    raise posix_ipc.BusyError


def crash(worker: Worker, name: str, error: BaseException, how: str = "") -> NoReturn:
    """End the process after an exit of user code, with its code; the node treats this end like any other death.

    The place of the exit is part of the report in the error.

    how: a text about the deed; "": taken from `error`.
    """
    how = how or exit_in_words(error)
    write_exit(worker.paths, worker.worker_id, worker.pid, error, f"{name} has {how}: its worker process ends.")
    leave(worker, how, status=exit_status(error))


@contextmanager
def heard_before_exit(worker: Worker) -> Iterator[None]:
    """Make os._exit() of user code report earlier results first, which would otherwise count as lost.

    Not for a child forked by user code, nor inside a call of zray.
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
