"""Small functions about processes, and about ending all of them."""

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
from contextlib import suppress
from typing import Any, NoReturn

from ..session.log_marks import unmarked

UNPICKLED_EXIT_CODE = 70

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# A process that does not exit has children that it waits for: they are killed.  Functions of the user end much later.
CHILDREN_SECONDS, EXIT_SECONDS = 5.0, 30.0
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
    """Reap an ended child, and return how it ended, as a text."""
    try:
        return in_words(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return "has ended"  # its exit was ignored (SIGCHLD), so the kernel has reaped the child


def last_lines(path: str, count: int = 40, bytes_max: int = 16_384, start: int = 0) -> str:
    """Return the end of a log for error messages: the last lines, with the stack of a crash; "" if there is no log.

    start: skip this many bytes.
    """
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(start, file.tell() - bytes_max))
            text = file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return ""
    # A progress bar is a line drawn repeatedly: the last text counts.
    drawn = (line.rstrip("\r").rpartition("\r")[2].removeprefix("\x1b[L") for line in unmarked(text).split("\n"))
    return "\n".join("\n".join(drawn).splitlines()[-count:])


def wait_for_end(pidfd: int, seconds: float) -> bool:
    """Whether the process ended within `seconds`."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants: processes started by tasks can be found and ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Set PR_SET_PDEATHSIG, which is sound if the parent's thread lives as long as the parent."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def flush_and_exit(status: int) -> NoReturn:
    """Flush the output and exit, without further cleanup."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed
    os._exit(status)


def end_process(status: int) -> NoReturn:
    """Exit as a program at its end: the callbacks of `threading`, atexit functions, the streams, the end.

    The callbacks end pools of processes, for whose children multiprocessing waits in an atexit function.  No thread of
    the user is joined, and so no thread pool; a second caller waits.
    """
    _ending.acquire()
    with suppress(RuntimeError):  # there is no room for a thread
        threading.Thread(target=_end_late, args=(status,), daemon=True).start()
    for callback in [*reversed(getattr(threading, "_threading_atexits", ())), atexit._run_exitfuncs]:
        with suppress(BaseException):  # an atexit function's traceback is printed
            if getattr(getattr(callback, "func", None), "__module__", "") != "concurrent.futures.thread":
                callback()
    flush_and_exit(status)


def _end_late(status: int) -> NoReturn:
    """End the children of a process that has not exited after a while, and then the process."""
    time.sleep(CHILDREN_SECONDS)
    for pid in children_of(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # reaped by the caller that waits for it
    time.sleep(EXIT_SECONDS - CHILDREN_SECONDS)
    flush_and_exit(status)


def children_of(pid: int) -> list[int]:
    """Return the pids of the children, zombies too."""
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
    """Kill all children except `spared`, and the orphans then adopted (see adopt_orphans)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        doomed = [pid for pid in children_of(os.getpid()) if pid not in spared]
        if not doomed:
            return
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)  # a child not reaped: the pid is still valid
        for pid in doomed:
            _reap(pid, deadline)


def _reap(pid: int, deadline: float) -> None:
    """Wait for a child's end, but not for ever: the kernel may be unable to end it (a dead disk)."""
    try:
        pidfd = os.pidfd_open(pid)
        try:
            if wait_for_end(pidfd, deadline - time.monotonic()):
                os.waitpid(pid, 0)
        finally:
            os.close(pidfd)
    except (ChildProcessError, ProcessLookupError):
        pass  # its exit was ignored (SIGCHLD), so the kernel has reaped the child


def forbid_unpickling() -> None:
    """Forbid unpickling in a node, where payloads are opaque: code that unpickles ends the process, with a log line."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "pickle.find_class":
            print(f"a node process must not unpickle, but the code below asked for {arguments}:", file=sys.stderr)
            import traceback

            traceback.print_stack()
            os._exit(UNPICKLED_EXIT_CODE)

    sys.addaudithook(watch)
