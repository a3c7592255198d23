"""The Python stacks of a process of this machine and user: with py-spy where it is installed, else as it tells them.

The main thread of each process answers to requests (zray/host/process/stack_requests.py): it writes the stacks of all
threads to a file in memory.  If it is in C code, each thread is signalled, and writes its own stack to another file.
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
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from zray.host.process.stack_requests import ANSWERS, BEGIN, END, REQUEST, SIGNAL, SIGNALLED
from zray.host.process.stack_requests import __file__ as OWN_FILE
from zray.store.folding import OWN_FOLDER

# A thread answers in a fraction of a millisecond, unless the kernel does not let it run.
ANSWER_SECONDS = 2.0
# The main thread waits 5 ms for each thread that runs Python, and answers then, unless it is in C code.
REQUEST_SECONDS = 0.5
# It sleeps longer than this at a lock, where it answers to nothing.
SLEEP_SECONDS = 0.05
POLL_SECONDS = 0.0002
# A thread that runs no Python writes nothing: so many looks find no answer, and no signal on its way.
EMPTY_LOOKS = 3
# faulthandler prints a hundred frames at most, with 500 characters at most of the names of each.
STACK_BYTES_MAX = 1 << 20
PY_SPY_SECONDS = 15.0
_FRAME = re.compile(r'^  File (?:"(.*)"|\?\?\?), line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
_ANSWER = re.compile(rf"^{BEGIN} (\d+) (\d+) (\d+) (\d+)\n(.*?)\n{END}\n", re.MULTILINE | re.DOTALL)
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)\b.*$", re.MULTILINE)


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
        with asking(pid) as asker:
            threads = asker.stacks()
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


# --- requests ---


@contextmanager
def asking(pid: int) -> Iterator[Asker]:
    """Open the files and the pipe of a process, for this command alone.

    Raises:
        Unreadable: the process does not answer to requests, or another command reads its stacks.
    """
    asker = Asker(pid)
    try:
        asker.open()
        asker.lock()
        yield asker
    finally:
        asker.close()


class Asker:
    """A command's way to ask a process for its stacks."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # Descriptors; -1: the process has closed its own.
        self.answers = self.signalled = -1

    def open(self) -> None:
        """Open what the process has."""
        folder = f"/proc/{self.pid}/fd"
        try:
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):  # closed meanwhile
                    link = os.readlink(f"{folder}/{name}")
                    if link == f"/memfd:{ANSWERS} (deleted)" and self.answers < 0:
                        self.answers = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC)
                    elif link == f"/memfd:{SIGNALLED} (deleted)" and self.signalled < 0:
                        self.signalled = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Unreadable("has ended") from None
        except PermissionError:
            raise Unreadable(
                "cannot be read: it belongs to another user, or the kernel forbids a look into it"
            ) from None
        if self.signalled < 0:
            raise Unreadable("cannot be read: it has closed what it writes its stacks to; install py-spy")

    def lock(self) -> None:
        """Wait until no other command reads."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return fcntl.flock(self.signalled, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unreadable("is read by another command: try again") from None
                time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Close the descriptors, and with them the lock."""
        for descriptor in (self.answers, self.signalled):
            if descriptor >= 0:
                os.close(descriptor)

    def stacks(self) -> list[Thread]:
        """Return the threads of the process that run Python.

        Raises:
            Unreadable: the process has ended, or does not answer.
        """
        return self._by_request() or _by_signal(self.pid, self.signalled)

    def _by_request(self) -> list[Thread]:
        """Return the threads as the main thread tells them; []: it is in C code, or has nothing to write to."""
        masks = _masks(self.pid, self.pid, REQUEST)
        if self.answers < 0 or masks is None or masks["SigBlk"] or not masks["SigCgt"]:
            return []
        os.ftruncate(self.answers, 0)
        begun = time.monotonic_ns()
        # A request that has no answer so far is pending still.
        if not masks["SigPnd"] and _tgkill(self.pid, self.pid, REQUEST):
            return []
        ran = begun
        while (now := time.monotonic_ns()) - begun < REQUEST_SECONDS * 1e9:
            ran = now if (state := state_of(self.pid)) == "R" else ran
            if not state or now - ran > SLEEP_SECONDS * 1e9:
                break
            for pid, at, main, count, text in _ANSWER.findall(_read(self.answers)):
                if int(pid) == self.pid and int(at) >= begun:
                    return [*_of_answer(self.pid, int(main), text.split("\n"), int(count))]
            time.sleep(POLL_SECONDS)
        return []


def _read(memory: int) -> str:
    return os.pread(memory, STACK_BYTES_MAX, 0).decode("utf-8", "replace")


def _tgkill(pid: int, number: int, signal_number: int) -> bool:
    """Signal a thread, and return whether it has ended."""
    return bool(ctypes.CDLL(None).tgkill(pid, number, int(signal_number)))


def _of_answer(pid: int, main: int, lines: list[str], count: int) -> Iterator[Thread]:
    """Yield the threads of an answer that run Python, without the frames of the answer itself."""
    known = {}
    for line in lines[:count]:
        ident, native, name = line.split(" ", 2)
        known[int(ident)] = int(native), name
    _, *parts = _THREAD.split("\n".join(lines[count:]))
    for ident, part in zip(map(_hexadecimal, parts[::2]), parts[1::2], strict=True):
        frames = [frame for frame in _frames(part) if frame.file != OWN_FILE]
        is_main = ident == main
        if frames:
            native, name = known.get(ident, (0, ""))
            yield Thread(pid if is_main else native or ident, "" if is_main else name, is_main, frames)


def _hexadecimal(text: str) -> int:
    return int(text, 16)


def _frames(text: str) -> list[Frame]:
    return [
        Frame(function, file or "???", int(line) if line.isdecimal() else 0)
        for file, line, function in reversed(_FRAME.findall(text))
    ]


# --- the signal ---


def _by_signal(pid: int, memory: int) -> list[Thread]:
    threads: list[Thread] = []
    try:
        numbers = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except FileNotFoundError:
        raise Unreadable("has ended") from None
    main_name = _name_of(pid, pid)
    for number in numbers:
        frames = _frames(_signalled(pid, number, memory))
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


def _signalled(pid: int, number: int, memory: int) -> str:
    """Have a thread write its stack, and return that; "": the thread runs no Python, or has ended."""
    masks = _masks(pid, number, SIGNAL)
    if masks is None or masks["SigBlk"]:
        return ""  # ended; or a thread of a C library, which blocks all signals
    if not masks["SigCgt"]:
        if number != pid:
            return ""  # the kernel says so of a thread that ends
        raise Unreadable("cannot be read: it does not answer to the signal; install py-spy")
    os.ftruncate(memory, 0)
    # A thread that has not answered so far has its signal still.
    if not masks["SigPnd"] and _tgkill(pid, number, SIGNAL):
        return ""  # ended
    deadline, looks = time.monotonic() + ANSWER_SECONDS, 0
    while True:
        has_written = os.fstat(memory).st_size > 0
        masks = _masks(pid, number, SIGNAL)
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
    text = _read(memory)
    os.ftruncate(memory, 0)
    return text


def _masks(pid: int, number: int, signal_number: int) -> dict[str, bool] | None:
    """Return whether a signal is pending, blocked and caught in a thread; None: the thread has ended."""
    try:
        with open(f"/proc/{pid}/task/{number}/status", encoding="utf-8", errors="replace") as file:
            lines = dict(line.split(":\t", 1) for line in file.read().splitlines() if line.startswith("Sig"))
    except (OSError, ValueError):
        return None
    bit = 1 << (signal_number - 1)
    try:
        return {name: bool(int(lines[name], 16) & bit) for name in ("SigPnd", "SigBlk", "SigCgt")}
    except (KeyError, ValueError):
        return None
