"""Stacks of a living process, for a command of the same user (cli/stacks.py).

A thread that gets SIGNAL writes its own stack to anonymous memory, which the command reads through /proc.  The handler
is C code of faulthandler: it needs no GIL, so a thread in C code answers too.  A thread writes no stack but its own,
because another thread's stack may change meanwhile.  Without a signal, all this costs a descriptor.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal

# SIGUSR1 and SIGUSR2 belong to programs, and Python's other signals have meanings.  Of the realtime signals, libraries
# take the first or the last ones.  A realtime signal is queued, so none is lost.
SIGNAL = signal.SIGRTMIN + 5
MEMORY = "zray-stacks"


def answer_with_stacks() -> None:
    """Have each thread of this process write its stack at SIGNAL."""
    try:
        memory = os.memfd_create(MEMORY)
        # The reader empties the memory, and the next stack begins at its start.
        fcntl.fcntl(memory, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(SIGNAL, memory, all_threads=False, chain=False)
    except (OSError, RuntimeError):
        pass  # no descriptor is left: the process has no stacks to show
