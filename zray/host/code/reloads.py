"""Reloads of a program's own modules: by importlib.reload, by IPython's %autoreload, or by a new import after removal
from sys.modules.  Workers that have imported the modules have old code.

The watch costs nothing between imports: a finder at the head of sys.meta_path is asked before each import.  A failed
import does not count: the module stays in memory unchanged, and workers continue with its last version, too.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

_AUTORELOAD = "IPython.extensions.autoreload"


class Version(NamedTuple):
    """A source file at some time."""

    mtime_ns: int
    size: int
    data: bytes

    @classmethod
    def read(cls, path: str) -> Version:
        """Read the file in its present state.

        Raises:
            OSError: the file cannot be read.
        """
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            return cls(status.st_mtime_ns, status.st_size, file.read())

    def is_that_of(self, path: str) -> bool:
        """Whether the file is still the same."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_mtime_ns, status.st_size) == (self.mtime_ns, self.size)


class Reloaded(NamedTuple):
    """A module of the program's own, imported again."""

    name: str
    path: str
    version: Version | None  # of its file; None: no source file


class ReloadWatch:
    """The watch for reloads of a program."""

    def __init__(self, on_reload: Callable[[], object]) -> None:
        """Begin to watch.  on_reload: called in the importing thread, after a successful import."""
        self.on_reload = on_reload
        self.known = set(sys.modules)
        self.again: deque[Reloaded] = deque()  # imported anew, and not taken yet
        self.stamps: dict[str, tuple[int, int]] | None = None  # of source files, at the start of the last cell
        self.cells: Any = None  # of IPython, which reports the start of a cell
        self._go_ahead()
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is not None:
            self.cells = shell.events
            self.cells.register("pre_run_cell", self.cell_begins)
            self.stamps = source_stamps()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Act as a finder: find nothing at a first import; later return the other finders' spec, and note its
        execution.

        target: the module, for a reload.
        """
        if target is None and name not in self.known:
            return None
        spec = self._found_by_others(name, path, target)
        origin = getattr(spec, "origin", None)
        if isinstance(origin, str) and spec.has_location and _is_own(name, origin):
            self._note_execution(spec)
        return spec

    def _found_by_others(self, name: str, path: Any, target: Any) -> Any:
        finders: list[Any] = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :] if self in finders else ():
            find_spec = getattr(finder, "find_spec", None)
            if find_spec is None:
                return None  # an old kind, which only Python itself asks
            if (spec := find_spec(name, path, target)) is not None:
                return spec
        return None

    def _note_execution(self, spec: Any) -> None:
        """Note the execution of a module.  A failed one does not count as an import."""
        loader, path = spec.loader, os.path.abspath(spec.origin)
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            version = version_of(path)
            execute(module)
            self._note(Reloaded(spec.name, path, version))

        with suppress(AttributeError):  # a loader of another library that takes no attribute
            loader.exec_module = exec_module

    def _note(self, reloaded: Reloaded) -> None:
        self.again.append(reloaded)
        self.on_reload()

    def invalidate_caches(self) -> None:
        """Do nothing, as a finder without caches."""

    def learn(self) -> None:
        """Note the modules imported by now, so that a second import is noticed.  Go ahead of newer finders."""
        self.known.update(sys.modules)
        self._go_ahead()

    def _go_ahead(self) -> None:
        finders: list[Any] = sys.meta_path
        if not finders or finders[0] is not self:
            finders[:] = [self, *(finder for finder in finders if finder is not self)]

    def take(self) -> list[Reloaded]:
        """Return the program's own modules imported again since the last call, each once, in its last version."""
        found: dict[str, Reloaded] = {}
        while self.again:
            reloaded = self.again.popleft()
            found[reloaded.name] = reloaded
        return [found[name] for name in sorted(found)]

    def cell_begins(self, info: object = None) -> None:
        """Note changed modules at the start of an IPython cell, when %autoreload patches modules in place.

        A file that cannot be compiled changes no module.
        """
        if _AUTORELOAD not in sys.modules:
            return
        before, self.stamps = self.stamps or {}, source_stamps()
        modules = own_modules()
        for name, stamp in self.stamps.items():
            if before.get(name, stamp) == stamp:
                continue
            path = os.path.abspath(modules[name])
            version = version_of(path)
            try:
                if version is not None:
                    compile(version.data, path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            self._note(Reloaded(name, path, version))

    def close(self) -> None:
        """Stop after the program has left its session."""
        self.on_reload = _nothing  # the driver is to go now, not when the collector finds a cycle
        if self in sys.meta_path:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        if self.cells is not None:
            with suppress(ValueError):  # not registered any more
                self.cells.unregister("pre_run_cell", self.cell_begins)
            self.cells = None


def _nothing() -> None:
    """Do nothing: nobody is told any more."""


def _is_own(name: str, file: str) -> bool:
    from .module_discovery import is_installed

    if is_installed(file) or name in ("__main__", "__mp_main__"):
        return False
    return os.path.isabs(file) or not is_installed(os.path.abspath(file))


def file_of(module: object) -> str:
    """Return the file of a module; "" if none.  Not by getattr, which would load lazy modules."""
    try:
        file = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return ""
    return file if isinstance(file, str) else ""


def source_of(name: str, module: object) -> str:
    """The source file of a module of the program's own; "" of any other."""
    file = file_of(module)
    return os.path.abspath(file) if file.endswith(".py") and _is_own(name, file) else ""


def version_of(path: str) -> Version | None:
    """Return a source file in its present state; None for another file."""
    if not path.endswith(".py"):
        return None
    try:
        return Version.read(path)
    except OSError:
        return None


def own_modules() -> dict[str, str]:
    """Return this process's modules of the program's own, with files: not Python's, installed, or zray's."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = file_of(module)
        if file and _is_own(name, file):
            found[name] = file
    return found


def source_stamps() -> dict[str, tuple[int, int]]:
    """Return the times and sizes of the files of these modules."""
    stamps = {}
    for name, file in own_modules().items():
        try:
            status = os.stat(file)
        except OSError:
            continue
        stamps[name] = (status.st_mtime_ns, status.st_size)
    return stamps


def forget_own_modules() -> None:
    """Forget the program's own modules, so that each is imported again.  Users of the old ones keep them."""
    for name in own_modules():
        sys.modules.pop(name, None)
