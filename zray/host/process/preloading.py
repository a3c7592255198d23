"""Modules that the fork server imports during the session, so that later workers have them from the fork on.

A library of zray with many short actors sets IS_PRELOADED = True in the module of the actor's class.  The first worker
with such a class tells the fork server through a pipe.  Each trial of Tune would otherwise need 20 ms of CPU for
imports.

IS_PRELOADED may be the name of a module that takes seconds: each trial of RLlib would need 2 s for torch.  Such a
module is imported when a worker asks that began after another one had asked.  The workers of a session that begin
together need nothing of the fork server, which would have 200 MB more for nothing.

    a line of the pipe      the module's name, as "zray.tune.worker"; "?" before it: a worker has it, others may follow
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import sys
import traceback
from typing import Any

from ...store.libraries import look_around

__all__ = ["Preloading", "suggest"]

# A session uses few libraries; each adds to the memory of the fork server.
MODULES_MAX = 8
LINES_BYTES_MAX = 4096
_LINE = re.compile(r"\??zray(\.[a-z_0-9]+)+")

# The object of this process, in a worker.
_current: Preloading | None = None


class Preloading:
    """The pipe, and the modules imported because of its lines."""

    def __init__(self) -> None:
        self.lines, self.lines_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.modules: set[str] = set()  # and the other lines read so far

    def read(self) -> None:
        """Import the modules named by workers; names outside zray are ignored."""
        for name in os.read(self.lines, LINES_BYTES_MAX).decode(errors="replace").split("\n"):
            if name in self.modules or len(self.modules) >= MODULES_MAX or not _LINE.fullmatch(name):
                continue
            self.modules.add(name)
            try:
                if name[0] != "?":
                    importlib.import_module(name)
            except Exception:
                traceback.print_exc()  # into the log: workers import the module themselves, and fail then
        look_around()
        gc.freeze()

    def become_worker(self) -> None:
        """Let `suggest` write to the pipe, in a forked worker."""
        global _current
        os.close(self.lines)
        _current = self

    def close(self) -> None:
        """Close both ends."""
        os.close(self.lines)
        os.close(self.lines_in)


def suggest(cls: Any) -> None:
    """Tell the fork server of the module of an actor's class, if the module asks for that."""
    name = getattr(cls, "__module__", None)
    if _current is None or not isinstance(name, str) or not name.startswith("zray."):
        return
    mark = getattr(sys.modules.get(name), "IS_PRELOADED", False)
    if isinstance(mark, str):
        name = mark if f"?{mark}" in _current.modules else f"?{mark}"
    if mark and name not in _current.modules:
        try:
            os.write(_current.lines_in, f"{name}\n".encode())
        except OSError:
            pass  # the pipe is full of other workers' lines, or the fork server has ended
