"""What workers print, on the driver's terminal: a thread follows the logs of the workers of its job.

Each line carries the worker's number and pid, `(worker-1 pid=4711) line`.  Lines are passed on as they are; none is
merged, none is dropped but the rest of a line beyond LINE_BYTES_MAX.
"""

from __future__ import annotations

import os
import sys
import threading

LOOK_SECONDS = 0.1
LINE_BYTES_MAX = 64 << 10
READ_BYTES_MAX = 1 << 20  # per log and look: a flood in one does not starve the others


class LogFollower:
    """Follows worker-*.log in a folder, which need not be there yet."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.read_upto: dict[str, int] = {}
        self.rest: dict[str, bytes] = {}
        for name in self._names():
            # A session that was here before us: what was printed before is not ours.
            self.read_upto[name] = self._size(name)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._follow, name="zray-logs", daemon=True)
        self.thread.start()

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.folder) if name.startswith("worker-"))
        except OSError:
            return []

    def _size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self.folder, name)).st_size
        except OSError:
            return 0

    def _follow(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Print what is new."""
        for name in self._names():
            begin = self.read_upto.get(name, 0)
            if self._size(name) > begin:
                self._print_from(name, begin)

    def _print_from(self, name: str, begin: int) -> bool:
        """The next piece of a log.  False: there is none, or nobody reads us."""
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(begin)
                data = file.read(READ_BYTES_MAX)
        except OSError:
            return False
        self.read_upto[name] = begin + len(data)
        lines = (self.rest.pop(name, b"") + data).split(b"\n")
        if lines[-1]:
            if len(lines[-1]) < LINE_BYTES_MAX:
                self.rest[name] = lines[-1]
            else:
                lines.append(b"")
        return self._write(name, lines[:-1]) and bool(data)

    def _write(self, name: str, lines: list[bytes]) -> bool:
        label = " pid=".join(name.removesuffix(".log").rsplit("-", 1))
        text = "".join(f"({label}) {line[:LINE_BYTES_MAX].decode('utf-8', 'backslashreplace')}\n" for line in lines)
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except (OSError, ValueError):
            self.ended.set()  # nobody reads us any more
            return False
        return True

    def close(self) -> None:
        """The last lines, then no more; what is printed from now on is nobody's."""
        self.ended.set()
        self.thread.join(timeout=2.0)
        if self.thread.is_alive():
            return  # it hangs in a write: so would we
        upto = {name: self._size(name) for name in self._names()}
        for name, size in upto.items():
            while self.read_upto.get(name, 0) < size and self._print_from(name, self.read_upto.get(name, 0)):
                pass
            if self.rest.get(name):
                self._write(name, [self.rest.pop(name)])
