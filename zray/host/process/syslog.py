"""The machine's log (syslog), for what has no other place: the log of a node goes with its session."""

from __future__ import annotations

import syslog

from ...exceptions.printable import printable


def say_to_machine(text: str) -> None:
    """One line, as an error of a daemon called zray."""
    syslog.openlog("zray", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ERR, printable(text))
