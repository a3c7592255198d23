"""Stacks of a living process, for a command of the same user (cli/stacks.py).

At REQUEST, the main thread writes the stacks of all threads to a file in memory, which the command opens through /proc.
It does so between two instructions and with the GIL, so no stack changes meanwhile.

A main thread in C code, or at a lock, does not answer.  Each thread gets SIGNAL then, and writes its own stack to
another such file by C code of faulthandler, which needs no GIL.  SIGNAL is only the second way: faulthandler reads the
innermost frame, which a thread that leaves a function may have freed.  CPython 3.11 crashed once in 100,000 signals to
a thread that calls functions all the time.  Without a signal, all this costs two descriptors.
"""

from __future__ import annotations

import _thread
import faulthandler
import fcntl
import os
import signal
import sys
from os import getpid, write  # green threads replace some names in `os`
from time import monotonic_ns
from typing import Any

# SIGUSR1 and SIGUSR2 belong to programs, and Python's other signals have meanings.  Of the realtime signals, libraries
# take the first or the last ones.  A realtime signal is queued, so none is lost.
SIGNAL = signal.SIGRTMIN + 5
REQUEST = signal.SIGRTMIN + 6
# The names of the files.
ANSWERS = "zray-stacks"
SIGNALLED = "zray-signalled-stacks"
# The first line of an answer has the pid, since forked children share the file, and the time, since it may come late.
BEGIN, END = "zray stacks", "zray end"
NAME_CHARACTERS_MAX = 100


def answer_with_stacks() -> None:
    """Have this process answer to REQUEST, and each of its threads to SIGNAL.  The main thread calls this."""
    try:
        faulthandler.register(SIGNAL, _memory(SIGNALLED), all_threads=False, chain=False)
        answers = _memory(ANSWERS)
    except (OSError, RuntimeError):
        return  # no descriptor is left: the process has no stacks to show

    def answer(number: int, frame: Any) -> None:
        try:
            _answer(answers)
        except (OSError, ValueError):
            pass  # the program has closed descriptors that are not its own

    signal.signal(REQUEST, answer)
    # C code of the program goes on after the signal: the kernel repeats its system call.
    signal.siginterrupt(REQUEST, False)


def _memory(name: str) -> int:
    """Open a file in memory.  The command empties it, and the next stack begins at its start."""
    memory = os.memfd_create(name)
    fcntl.fcntl(memory, fcntl.F_SETFL, os.O_APPEND)
    return memory


def _answer(answers: int) -> None:
    """Write the stacks of all threads, after the kernel's number and the name of each that `threading` knows."""
    # No lock is taken, since a thread may hold it for ever.
    active = (getattr(sys.modules.get("threading"), "_active", None) or {}).copy()
    lines = [f"{BEGIN} {getpid()} {monotonic_ns()} {_thread.get_ident()} {len(active)}"]
    for ident, thread in active.items():
        name = str(getattr(thread, "_name", "")).replace("\n", " ")[:NAME_CHARACTERS_MAX]
        lines.append(f"{ident} {getattr(thread, 'native_id', None) or 0} {name}")
    write(answers, "\n".join([*lines, ""]).encode(errors="replace"))
    faulthandler.dump_traceback(answers, all_threads=True)
    write(answers, f"\n{END}\n".encode())
