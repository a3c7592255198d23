"""The process that owns a store on a server, as another process can look it up: does it still live?

A machine without power closes no connection, and a server holds such a connection for minutes.  The next owner on the
same machine knows better: the machine has started anew since, or the process is gone.
"""

from __future__ import annotations

import os
import socket

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MACHINE_ID = "/etc/machine-id"


def in_words() -> str:
    """Describe this process for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def boot_id() -> str:
    """Return the id of the machine's boot; "": it is not known."""
    return _line(_BOOT_ID)


def place() -> str:
    """Return machine, boot, namespace, pid and start time of this process."""
    machine = f"{socket.gethostname()}/{_line(_MACHINE_ID)}"
    return " ".join((machine, boot_id(), os.readlink("/proc/self/ns/pid"), str(os.getpid()), _started(os.getpid())))


def has_ended(its_place: str) -> bool:
    """Whether the process of that place cannot live any more.  False: it may, or it is on another machine."""
    its, ours = its_place.split(" "), place().split(" ")
    if len(its) != len(ours) or its[0] != ours[0]:
        return False
    if its[1] != ours[1]:
        return True  # the machine has started anew
    machine, boot, namespace, pid, started = its
    return namespace == ours[2] and pid.isdecimal() and _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return the start of a process in ticks since the boot; "": there is none, or only its remains."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state, *fields = file.read().rpartition(") ")[2].split(" ")
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def _line(path: str) -> str:
    """Return the first line of a file without spaces; "": there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip().replace(" ", "")
    except OSError:
        return ""
