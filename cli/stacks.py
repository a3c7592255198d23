"""The Python stacks of a process of this machine and user: with py-spy where it is installed, else by a signal.

At the signal of zray/host/process/stack_signal.py, each thread writes its own stack to memory that is read here.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from zray.host.process.stack_signal import MEMORY, SIGNAL
from zray.store.folding import OWN_FOLDER

# A thread answers in a fraction of a millisecond, unless the kernel does not let it run.
ANSWER_SECONDS = 2.0
POLL_SECONDS = 0.0002
# A thread that runs no Python writes nothing: so many looks find no answer, and no signal on its way.
EMPTY_LOOKS = 3
# faulthandler prints a hundred frames at most, with 500 characters at most of the names of each.
STACK_BYTES_MAX = 1 << 20
PY_SPY_SECONDS = 15.0
_FRAME = re.compile(r'^  File (?:"(.*)"|\?\?\?), line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
_LINK = f"/memfd:{MEMORY} (deleted)"


class Unreadable(Exception):
    """A process whose stacks cannot be read; the text says why, without its subject."""


class Frame(NamedTuple):
    """A line of a stack."""

    function: str
    file: str
    line: int

    @property
    def is_own(self) -> bool:
        """Whether the frame belongs to zray, or to the command that started the process."""
        return self.file.startswith(OWN_FOLDER) or self.file in ("<string>", "<frozen runpy>")


class Thread(NamedTuple):
    """A thread, with its frames from the outermost to the innermost one."""

    id: int  # of the kernel
    name: str
    is_main: bool
    frames: list[Frame]

    @property
    def is_own(self) -> bool:
        """Whether the thread runs nothing but code of zray's, and what that calls of `threading`."""
        return all(frame.is_own or frame.file.endswith(("/threading.py", "/selectors.py")) for frame in self.frames)


def state_of(pid: int) -> str:
    """Return the letter of a process's state, as of `ps`; "": it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""
    return "" if state in "ZX" else state


def py_spy() -> str:
    """Return the path of py-spy; "": it is not installed."""
    return shutil.which("py-spy") or ""


def stacks(pid: int) -> list[Thread]:
    """Return the threads of a process that run Python, the main thread first.

    Raises:
        Unreadable: the process has ended, is stopped, or cannot be read.
    """
    check_runs(pid)
    threads = _by_py_spy(pid)
    if threads is None:
        with signalled(pid) as memory:
            threads = stacks_by_signal(pid, memory)
    return sorted(threads, key=lambda thread: not thread.is_main)


def check_runs(pid: int) -> None:
    """Check that a process runs.

    Raises:
        Unreadable: it has ended, or is stopped.
    """
    state = state_of(pid)
    if not state:
        raise Unreadable("has ended")
    if state in "Tt":
        raise Unreadable(f"is stopped: `kill -CONT {pid}` has it go on")


# --- py-spy ---


def _by_py_spy(pid: int) -> list[Thread] | None:
    """Return the threads as py-spy sees them; None: it is absent, or may not look (it needs rights to trace)."""
    program = py_spy()
    if not program:
        return None
    command = [program, "dump", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PY_SPY_SECONDS, stdin=subprocess.DEVNULL)
        return [_of_py_spy(pid, found) for found in json.loads(done.stdout)] if not done.returncode else None
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None


def _of_py_spy(pid: int, found: dict[str, Any]) -> Thread:
    frames = [Frame(each["name"], each["filename"], int(each["line"])) for each in reversed(found["frames"])]
    number = int(found.get("os_thread_id") or found["thread_id"])
    return Thread(number, found.get("thread_name") or "", number == pid, frames)


# --- the signal ---


@contextmanager
def signalled(pid: int) -> Iterator[int]:
    """Open the memory to which a process's threads write their stacks, for this command alone.

    Raises:
        Unreadable: the process does not answer to the signal, or another command reads its stacks.
    """
    memory = _open_memory(pid)
    try:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                fcntl.flock(memory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unreadable("is read by another command: try again") from None
                time.sleep(POLL_SECONDS)
        yield memory
    finally:
        os.close(memory)


def _open_memory(pid: int) -> int:
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            try:
                if os.readlink(f"{folder}/{name}") == _LINK:
                    return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # closed meanwhile
    except FileNotFoundError:
        raise Unreadable("has ended") from None
    except PermissionError:
        raise Unreadable("cannot be read: it belongs to another user, or the kernel forbids a look into it") from None
    raise Unreadable("cannot be read: it has closed what it writes its stacks to; install py-spy") from None


def stacks_by_signal(pid: int, memory: int) -> list[Thread]:
    """Return the threads of a process that run Python, by the memory of signalled().

    Raises:
        Unreadable: the process has ended, or does not answer.
    """
    threads: list[Thread] = []
    try:
        numbers = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except FileNotFoundError:
        raise Unreadable("has ended") from None
    main_name = _name_of(pid, pid)
    for number in numbers:
        text = _ask(pid, number, memory)
        frames = [
            Frame(function, file or "???", int(line) if line.isdecimal() else 0)
            for file, line, function in reversed(_FRAME.findall(text))
        ]
        if frames:
            name = _name_of(pid, number)
            # A thread has the name that the process had at the thread's start, unless it was given one of its own.
            named = number != pid and name != main_name and not name.startswith("zray:")
            threads.append(Thread(number, name if named else "", number == pid, frames))
    return threads


def _name_of(pid: int, number: int) -> str:
    try:
        with open(f"/proc/{pid}/task/{number}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def _ask(pid: int, number: int, memory: int) -> str:
    """Have a thread write its stack, and return that; "": the thread runs no Python, or has ended."""
    masks = _masks(pid, number)
    if masks is None or masks["SigBlk"]:
        return ""  # ended; or a thread of a C library, which blocks all signals
    if not masks["SigCgt"]:
        raise Unreadable("cannot be read: it does not answer to the signal; install py-spy")
    os.ftruncate(memory, 0)
    # A thread that has not answered so far has its signal still.
    if not masks["SigPnd"] and ctypes.CDLL(None).tgkill(pid, number, int(SIGNAL)):
        return ""  # ended
    deadline, looks = time.monotonic() + ANSWER_SECONDS, 0
    while True:
        has_written = os.fstat(memory).st_size > 0
        masks = _masks(pid, number)
        if masks is None:
            return ""
        if not masks["SigPnd"] and not masks["SigBlk"]:  # blocked while the handler runs
            looks += 1
            if has_written or looks > EMPTY_LOOKS:
                break
        if time.monotonic() > deadline:
            check_runs(pid)
            if number != pid:
                return ""
            raise Unreadable(f"does not answer: the kernel does not let it run (state {state_of(pid)})")
        time.sleep(POLL_SECONDS)
    text = os.pread(memory, STACK_BYTES_MAX, 0).decode("utf-8", "replace")
    os.ftruncate(memory, 0)
    return text


def _masks(pid: int, number: int) -> dict[str, bool] | None:
    """Return whether the signal is pending, blocked and caught in a thread; None: the thread has ended."""
    try:
        with open(f"/proc/{pid}/task/{number}/status", encoding="utf-8", errors="replace") as file:
            lines = dict(line.split(":\t", 1) for line in file.read().splitlines() if line.startswith("Sig"))
    except (OSError, ValueError):
        return None
    bit = 1 << (SIGNAL - 1)
    try:
        return {name: bool(int(lines[name], 16) & bit) for name in ("SigPnd", "SigBlk", "SigCgt")}
    except (KeyError, ValueError):
        return None
