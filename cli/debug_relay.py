"""The actor on another node that finds its breakpoints, and passes bytes between `zray debug` and a debugger there."""

from __future__ import annotations

import os
from typing import Any

import zray

from .breakpoints import Breakpoint, LocalLine, in_folder

OUTPUT = "output"


class Relay:
    """Actor that is one end of `zray debug` on a node.  The actor holds no CPU, and ends with the command.

    A read waits in its own group of threads.  Commands are in the actor's one other thread, which keeps their order.
    """

    def __init__(self) -> None:
        from zray.host import context

        self.folder: str = context.runtime.paths.folder  # type: ignore[union-attr]
        self.line: LocalLine | None = None

    def found(self) -> list[dict[str, Any]]:
        """Return the facts of the breakpoints of this node."""
        return in_folder(self.folder)

    def attach(self, path: str) -> None:
        """Connect to a debugger.

        Raises:
            OSError: it is gone.
        """
        facts = next((facts for facts in self.found() if facts["path"] == path), None)
        if facts is None:
            raise FileNotFoundError(os.path.basename(path))
        self.line = LocalLine(Breakpoint(**facts))

    @zray.method(concurrency_group=OUTPUT)
    def read(self) -> bytes:
        """Wait for output, and return it; nothing at the end."""
        return self.line.read() if self.line is not None else b""

    def write(self, line: bytes) -> None:
        """Pass a command on."""
        if self.line is not None:
            self.line.write(line)

    def finish(self) -> None:
        """Pass on that no command follows."""
        if self.line is not None:
            self.line.finish()
