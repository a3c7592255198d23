"""Small facts about processes, and how to see that none is left."""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from ..session.log_marks import unmarked

UNPICKLED_EXIT_CODE = 70

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_ending = threading.Lock()


def how_it_ended(status: int) -> str:
    """A wait status in words: exit code, or the signal's name."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "unknown"
        return f"killed by signal {number} ({name})"
    return f"exited with code {os.WEXITSTATUS(status)}"


def reap(pid: int, in_words: Callable[[int], str] = how_it_ended) -> str:
    """How a child of ours that has ended did, in words; the kernel keeps nothing of it from now on."""
    try:
        return in_words(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return "has ended"  # its exit was ignored (SIGCHLD), so the kernel has reaped it


def last_lines(path: str, count: int = 40, bytes_max: int = 16_384, start: int = 0) -> str:
    """The end of a log, for error messages: what was written last, and the stack of a crash; "" where there is none.

    start: what lies ahead of it is of no interest.
    """
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(start, file.tell() - bytes_max))
            text = file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return ""
    # Of a progress bar, which is one line that is drawn again and again, the last text is of interest.
    drawn = (line.rstrip("\r").rpartition("\r")[2].removeprefix("\x1b[L") for line in unmarked(text).split("\n"))
    return "\n".join("\n".join(drawn).splitlines()[-count:])


def wait_for_end(pidfd: int, seconds: float) -> bool:
    """Whether the process ended within `seconds`."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def adopt_orphans() -> None:
    """Become the parent of whatever our descendants leave behind: what a task started can be found and ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """PR_SET_PDEATHSIG: sound where the parent has one thread, which lives as long as it does."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def flush_and_exit(status: int) -> NoReturn:
    """What was printed gets out; nothing else is done."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # it is closed
    os._exit(status)


def end_process(status: int) -> NoReturn:
    """As a program that has run to its end: what atexit was told, the streams, the end.  Threads are not waited for;
    a second one that asks waits for it."""
    _ending.acquire()
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # its traceback is printed
    flush_and_exit(status)


def children_of(pid: int) -> list[int]:
    """The pids of its children, zombies too."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        pass  # a kernel without that file, or the process is gone
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(name))
    return found


def end_children(seconds: float = 3.0, spared: Collection[int] = ()) -> None:
    """kill -9 of all our children but these, and of the orphans that fall to us with each (see adopt_orphans)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        doomed = [pid for pid in children_of(os.getpid()) if pid not in spared]
        if not doomed:
            return
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)  # ours and not reaped: the number is still its
        for pid in doomed:
            _reap(pid, deadline)


def _reap(pid: int, deadline: float) -> None:
    """Wait for a child's end; one that the kernel cannot end (a dead disk) is not waited for without end."""
    try:
        pidfd = os.pidfd_open(pid)
        try:
            if wait_for_end(pidfd, deadline - time.monotonic()):
                os.waitpid(pid, 0)
        finally:
            os.close(pidfd)
    except (ChildProcessError, ProcessLookupError):
        pass  # its exit was ignored (SIGCHLD), so the kernel has reaped it


def forbid_unpickling() -> None:
    """Payloads are opaque bytes in a node: code that opens one ends the process, and says so in its log."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "pickle.find_class":
            print(f"a node process must not unpickle, but the code below asked for {arguments}:", file=sys.stderr)
            import traceback

            traceback.print_stack()
            os._exit(UNPICKLED_EXIT_CODE)

    sys.addaudithook(watch)
