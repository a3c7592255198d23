"""The machine's log (syslog), for lines that outlive the session: a node's log is removed with the session."""

from __future__ import annotations

import syslog

from ...exceptions.printable import printable


def say_to_machine(text: str) -> None:
    """Write a line, as an error of a daemon called zray."""
    syslog.openlog("zray", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ERR, printable(text))
