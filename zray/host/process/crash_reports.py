"""The report of a worker's crash: its last output, and the stack of a crash in C, in a file beside its log.

The stack is not part of the log, which the driver's terminal shows: a task that crashes in each attempt shows the stack
once, in its error.  A worker writes the stack to anonymous memory shared with the fork server.  Only a crash leads to a
file: making and removing a file for each worker costs a disk more than the rest of a short actor.
"""

from __future__ import annotations

import os
import re

from ...store.folding import OWN_FOLDER, shows_all
from ..session.session import Session
from .process_utils import last_lines

LINES_MAX = 40
# faulthandler prints a hundred frames at most.
STACK_BYTES_MAX = 1 << 20
# A frame of zray's own, or of the command that started the process, as faulthandler prints them.
_OWN_FRAME = re.compile(rf'  File "(?:{re.escape(OWN_FOLDER)}.*|<string>|<frozen runpy>)", line \d+ in ')


def open_stack() -> int:
    """Open a descriptor for faulthandler, in the fork server before a fork; standard error if none is left."""
    try:
        return os.memfd_create("zray-crash")
    except OSError:
        return 2


def close_stack(descriptor: int) -> None:
    """Close the descriptor of open_stack()."""
    if descriptor != 2:
        os.close(descriptor)


def keep_stack(session: Session, worker_id: int, pid: int, descriptor: int) -> None:
    """Write the stack of a dead worker, if any, to its file, and close the descriptor."""
    if descriptor == 2:
        return
    try:
        stack = os.pread(descriptor, STACK_BYTES_MAX, 0)
        if stack:
            _append(session, worker_id, pid, stack)
    except OSError:
        pass  # a full disk, or the session ends
    finally:
        os.close(descriptor)


def _append(session: Session, worker_id: int, pid: int, text: bytes) -> None:
    file = session.open_log(session.crash_path(worker_id, pid))
    try:
        os.write(file, text)
    finally:
        os.close(file)


def write_exit(session: Session, worker_id: int, pid: int, error: BaseException, said: str) -> None:
    """The place of an exit of user code."""
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        _append(session, worker_id, pid, f"{text}{said}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # a full disk, or the session ends


def read_report(session: Session, worker_id: int, pid: int) -> tuple[str, ...]:
    """The last lines of the task in hand, and the stack of the crash.  Frames of zray's own are left out."""
    start, errors_start = session.earlier_output(worker_id, pid)
    said = last_lines(session.worker_log_path(worker_id, pid), LINES_MAX, start=start).splitlines()
    errors = last_lines(session.worker_errors_path(worker_id, pid), LINES_MAX, start=errors_start).splitlines()
    # C code that ends a process says why on standard error.
    said = said[-max(LINES_MAX - len(errors), LINES_MAX // 2) :]
    said += errors[-(LINES_MAX - len(said)) :]
    stack = last_lines(session.crash_path(worker_id, pid), 10 * LINES_MAX).splitlines()
    return (*said, *folded(stack))


def folded(stack: list[str]) -> list[str]:
    """Return the lines of faulthandler, or of a traceback, about the program."""
    if shows_all():
        return stack
    return [
        line for line in stack if line and not _OWN_FRAME.match(line) and not line.startswith("Extension modules: ")
    ]
