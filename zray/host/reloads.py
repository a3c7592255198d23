"""Modules of a program's own that it imports anew: by importlib.reload, by IPython's %autoreload, or again after it has
taken them out of sys.modules.  Workers that have imported them have old code.

The look-out costs nothing between imports: a finder at the head of sys.meta_path, which finds nothing, is asked before
each of them.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_AUTORELOAD = "IPython.extensions.autoreload"


class ReloadWatch:
    """Of one program."""

    def __init__(self, on_reload: Callable[[], object]) -> None:
        """on_reload: called in the thread that imports, ahead of the import."""
        self.on_reload = on_reload
        self.known = set(sys.modules)
        self.again: deque[str] = deque()  # imported anew, and not taken yet; of others than the program too
        self.stamps: dict[str, tuple[int, int]] | None = None  # of source files, at the start of the last cell
        self.cells: Any = None  # of IPython, which tells when one begins
        self._go_ahead()
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is not None:
            self.cells = shell.events
            self.cells.register("pre_run_cell", self.cell_begins)
            self.stamps = source_stamps()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """As a finder: nothing.  target: the module, where it is a reload."""
        if target is not None or name in self.known:
            self.again.append(name)
            self.on_reload()

    def invalidate_caches(self) -> None:
        """As a finder: there are none."""

    def learn(self) -> None:
        """What is imported by now: a second import of it is noted.  Finders of others that came since are behind us."""
        self.known.update(sys.modules)
        self._go_ahead()

    def _go_ahead(self) -> None:
        finders: list[Any] = sys.meta_path
        if not finders or finders[0] is not self:
            finders[:] = [self, *(finder for finder in finders if finder is not self)]

    def take(self) -> list[str]:
        """Modules of the program's own that were imported anew since the last call.

        Another thread may be in the middle of such an import: the module is taken when it is in sys.modules.
        """
        names = set()
        while self.again:
            names.add(self.again.popleft())
        self.again += [name for name in names if name not in sys.modules]
        return sorted(names & own_modules().keys()) if names else []

    def cell_begins(self, info: object = None) -> None:
        """In IPython: %autoreload patches modules in place, at this time, when their files have changed."""
        if _AUTORELOAD not in sys.modules:
            return
        before, self.stamps = self.stamps or {}, source_stamps()
        changed = [name for name, stamp in self.stamps.items() if before.get(name, stamp) != stamp]
        if changed:
            self.again += changed
            self.on_reload()

    def close(self) -> None:
        """The program has left its session."""
        self.on_reload = _nothing  # the driver is to go now, not when the collector finds a cycle
        if self in sys.meta_path:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        if self.cells is not None:
            with suppress(ValueError):  # it knows us no more
                self.cells.unregister("pre_run_cell", self.cell_begins)
            self.cells = None


def _nothing() -> None:
    """Do nothing: nobody is told any more."""


def own_modules() -> dict[str, str]:
    """The modules of this process that are the program's own, and their files: not Python's, installed, or zray's."""
    from .project import is_installed

    found = {}
    for name, module in list(sys.modules.items()):
        if name in ("__main__", "__mp_main__"):
            continue
        try:
            # Not by getattr: modules that are lazy would be loaded.
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except AttributeError:
            continue
        if isinstance(file, str) and not is_installed(os.path.abspath(file)):
            found[name] = file
    return found


def source_stamps() -> dict[str, tuple[int, int]]:
    """When the files of these modules were written, and how long they are."""
    stamps = {}
    for name, file in own_modules().items():
        try:
            status = os.stat(file)
        except OSError:
            continue
        stamps[name] = (status.st_mtime_ns, status.st_size)
    return stamps


def forget_own_modules() -> None:
    """The next import of each is a new one.  Who uses the old ones keeps them."""
    for name in own_modules():
        sys.modules.pop(name, None)
