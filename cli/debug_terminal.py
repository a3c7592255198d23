"""The terminal of `zray debug`: output as it arrives, commands line by line, with their history."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Protocol


class Line(Protocol):
    """A connection to a debugger."""

    def read(self) -> bytes:
        """Return more output; nothing at the end."""

    def write(self, line: bytes) -> None:
        """Send a command."""

    def finish(self) -> None:
        """Say that no command follows."""


def talk(line: Line) -> None:
    """Pass output and commands on, until one side ends."""
    has_ended = threading.Event()

    def show() -> None:
        while data := line.read():
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        has_ended.set()

    output = threading.Thread(target=show, daemon=True)
    output.start()
    typed = threading.Thread(target=_send, args=(line,), daemon=True)  # a read of a terminal cannot be ended
    typed.start()
    try:
        has_ended.wait()
    except KeyboardInterrupt:
        line.finish()
        with suppress(KeyboardInterrupt):
            has_ended.wait(1.0)
        print("\nDetached: the task stays at its breakpoint.")


def _send(line: Line) -> None:
    """Send what is typed."""
    try:
        for text in sys.stdin:
            line.write(text.encode("utf-8", "surrogateescape"))
    finally:
        line.finish()
