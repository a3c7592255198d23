"""The driver's thread that follows the logs of its job's workers, and shows new lines.

Lines of workers on other nodes come in files, which the thread reads and removes (forwarding.py).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from stat import S_ISLNK
from typing import Any

from .log_lines import Log, names_in, worker_logs
from .repeated_lines import Folds
from .screen import Screen
from .truncation import NOT_KEPT, read_log

LOOK_SECONDS = 0.1
READ_BYTES_MAX = 1 << 20  # per log and look: a flood in one log does not starve the others
READ_LINES_MAX = READ_BYTES_MAX
FLUSH_LOOKS_MAX = 40  # at the end, at lines from other nodes: more is never kept (forwarding.py)


class LogFollower:
    """A follower of worker-*.log in a folder, which need not exist yet."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        # In a session that existed before, earlier output belongs to other programs.
        self.logs = {name: Log(name, self._size(name), folder=folder) for name in worker_logs(folder)}
        for log in self.logs.values():
            log.errors.upto = log.errors.size()
        self.elsewhere: tuple[str, int] = ("", 0)  # name and read length of the current file from other nodes
        self.screen = Screen()
        self.folds = Folds()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._follow, name="zray-logs", daemon=True)
        self.thread.start()

    def _size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self.folder, name)).st_size
        except OSError:
            return 0

    def _log(self, name: str) -> Log:
        log = self.logs.get(name)
        if log is None:
            log = self.logs[name] = Log(name, 0, folder=self.folder)
        return log

    def _follow(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Show new lines."""
        self._look_elsewhere()
        for name in worker_logs(self.folder):
            log = self._log(name)
            has_ended = log.has_ended()  # before the look at its size: the worker may end between the two
            errors_size, size = log.errors.size(), self._size(name)  # in this order: marks in the log are obeyed
            if size > log.upto:
                self._print_from(name, log)
            if size <= log.upto and errors_size > log.errors.upto:
                self._print_errors(log, errors_size)
            elif size <= log.upto and has_ended and not self._show_rest(log):
                self._forget(name)
            if not has_ended:
                self._write(log.latest(has_more=self._size(name) > log.upto))
                self._write(log.errors.latest(has_more=log.errors.size() > log.errors.upto))
        self._show(self.folds.due(time.monotonic()))
        self._perform(self.screen.draw)

    def _show_rest(self, log: Log) -> bool:
        """Show the rest of a log after its worker's end.  False: there was none."""
        rest = log.take_rest() + log.errors.take_rest()
        self._write(rest)
        return bool(rest)

    def _forget(self, name: str) -> None:
        """Forget a finished log: the link is removed, the log stays."""
        path = os.path.join(self.folder, name)
        try:
            stat = os.lstat(path)
            if stat.st_nlink > 1 or S_ISLNK(stat.st_mode):
                os.unlink(path)
                del self.logs[name]
        except OSError:
            pass  # the session ends

    def _look_elsewhere(self) -> bool:
        """Show the next piece from other nodes.  False: there is none.

        A fully read file is removed when the next file has begun.
        """
        names = names_in(self.folder, "elsewhere-")
        for name in names:
            upto = self.elsewhere[1] if self.elsewhere[0] == name else 0
            path = os.path.join(self.folder, name)
            try:
                with open(path, "rb") as file:
                    file.seek(upto)
                    data = file.read(READ_BYTES_MAX)
                whole = data[: data.rfind(b"\n") + 1]
                self.elsewhere = (name, upto + len(whole))
                if whole:
                    lines = whole.decode("utf-8", "backslashreplace").split("\n")
                    return self._write([line + "\n" for line in lines[:-1]])
                if data or name == names[-1]:
                    return False
                os.unlink(path)
            except OSError:
                return False
        return False

    def _print_from(self, name: str, log: Log) -> bool:
        """Show the next piece of a log.  False: there is none, or the output stream is gone."""
        try:
            gone, data = read_log(os.path.join(self.folder, name), log.upto, READ_BYTES_MAX)
        except OSError:
            return False
        log.errors.room = (READ_BYTES_MAX, READ_LINES_MAX)
        lines = log.pass_over(gone, NOT_KEPT) if gone else []
        return self._write(lines + log.take(data)) and bool(gone or data)

    def _print_errors(self, log: Log, upto: int) -> bool:
        """Show the next piece written past Python's streams.  False: there is none, or the output stream is gone."""
        before, log.errors.room = log.errors.upto, (READ_BYTES_MAX, READ_LINES_MAX)
        return self._write(log.errors.read(upto)) and log.errors.upto > before

    def _write(self, lines: list[str]) -> bool:
        return self._show(self.folds.take(lines, time.monotonic(), self.screen.live))

    def _show(self, lines: list[str]) -> bool:
        return not lines or self._perform(self.screen.write, lines)

    def _perform(self, act: Callable[..., None], *arguments: Any) -> bool:
        """Call a function of the screen.  False: the output stream is gone."""
        try:
            act(*arguments)
        except Exception:  # closed; or a stream of the program's own that fails
            self.screen.let_go()
            self.ended.set()
            return False
        return True

    def close(self) -> None:
        """Show the last lines and stop; later output is dropped."""
        self.ended.set()
        self.thread.join(timeout=2.0)
        if self.thread.is_alive():
            return  # the thread hangs in a write: so would this one
        for _ in range(FLUSH_LOOKS_MAX):
            if not self._look_elsewhere():
                break
        sizes = {name: (self._log(name).errors.size(), self._size(name)) for name in worker_logs(self.folder)}
        for name, (errors_size, size) in sizes.items():
            log = self._log(name)
            while log.upto < size and self._print_from(name, log):
                pass
            while log.errors.upto < errors_size and self._print_errors(log, errors_size):
                pass
            self._show_rest(log)
        self._show(self.folds.rest())
        self._perform(self.screen.close)
