"""Output of workers between nodes: read from logs on one node, kept for the driver on the other.

A separate thread does both: a hanging disk holds up no role, and no worker.  On the worker's node the thread follows a
job's logs when the local scheduler requests new output (ReadOutput), a piece at a time.  A piece has at most
PIECE_BYTES_MAX and PIECE_LINES_MAX per worker, and is requested every LOOK_SECONDS at most.  Output more than
BEHIND_BYTES_MAX ahead is skipped: a line gives its size, and where the whole log is.  On the driver's node the pieces
go into files beside the local workers' logs (WriteOutput); the driver follows and removes these files
(log_follower.py).
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...roles.effects import ForgetOutput, OutputRead, OutputWritten, ReadOutput, WriteOutput
from ..session.session import Session
from .log_lines import Log, Stream, elsewhere_name, worker_logs
from .truncation import LOG_BYTES_KEPT, NOT_KEPT, first_lines, read_log

LOOK_SECONDS = 0.1
PIECE_BYTES_MAX = 32 << 10  # of a worker: 320 KiB a second
PIECE_LINES_MAX = 1_000  # likewise: each line gets a mark of some 40 bytes
# Of all workers of a job on a node: workers left out come first in the next piece.
PIECE_CHARACTERS_MAX = 256 << 10
BEHIND_BYTES_MAX = 1 << 20
# On the driver's node: limits for a driver that does not read (a stopped terminal).
FILE_BYTES_MAX = 1 << 20
FILES_MAX = 16


class JobLogs:
    """The logs of a job's workers on this node."""

    def __init__(self, folder: str, where: str) -> None:
        self.folder = folder
        self.where = where
        self.logs: dict[str, Log] = {}
        self.names: list[str] = []  # workers that have not had their turn

    def read(self, *, is_last: bool = False) -> str:
        """Return the next piece.  is_last: the reader may be gone before a begun line ends."""
        names = worker_logs(self.folder)
        # Each worker has a turn before any has a second.
        later = [name for name in self.names if name in names]
        order = later + [name for name in names if name not in later]
        self.names = order
        lines: list[str] = []
        size = 0
        for place, name in enumerate(order):
            found = self._read_one(name, is_last=is_last)
            lines += found
            size += sum(map(len, found))
            if size > PIECE_CHARACTERS_MAX:
                self.names = order[place + 1 :]
                break
        return "".join(lines)

    def _read_one(self, name: str, *, is_last: bool) -> list[str]:
        path = os.path.join(self.folder, name)
        log = self.logs.get(name)
        if log is None:
            log = self.logs[name] = Log(name, 0, self.where, self.folder)
        has_ended = log.has_ended()  # before the look at its size
        errors_size = log.errors.size()  # before the size of the log: marks in the log are obeyed
        log.errors.room = (PIECE_BYTES_MAX, PIECE_LINES_MAX)
        try:
            size = os.stat(path).st_size
            if size <= log.upto:
                shown = self._read_errors(log, errors_size)
                if log.errors.upto < errors_size:
                    return shown
                if has_ended:
                    os.unlink(path)  # the link: its log is complete
                    del self.logs[name]
                if is_last or has_ended:
                    return shown + log.take_rest() + log.errors.take_rest()
                return shown + log.latest() + log.errors.latest()
            shown = []
            if size - log.upto > BEHIND_BYTES_MAX:
                shown = self._pass_over(log, path, size)
            gone, data = read_log(path, log.upto, PIECE_BYTES_MAX)
        except OSError:
            return []  # the session ends
        if gone:
            shown += log.pass_over(gone, NOT_KEPT)
        shown += log.take(first_lines(data, PIECE_LINES_MAX))
        if log.upto >= size:
            shown += self._read_errors(log, errors_size)
            if is_last:
                return shown + log.take_rest() + log.errors.take_rest()
        with suppress(OSError):
            size = os.stat(path).st_size  # the worker may have ended the line meanwhile
        return shown + log.latest(has_more=size > log.upto)

    def _read_errors(self, log: Log, size: int) -> list[str]:
        """Return the lines written past Python's streams, up to the given length of the file."""
        shown: list[str] = []
        if size - log.errors.upto > BEHIND_BYTES_MAX:
            shown = self._pass_over(log.errors, log.errors.path, size)
        return shown + log.errors.read(size)

    @staticmethod
    def _pass_over(log: Stream, path: str, size: int) -> list[str]:
        speed = int(PIECE_BYTES_MAX / LOOK_SECONDS) >> 10
        kept = f"The last {LOG_BYTES_KEPT >> 20} MiB of it" if size > LOG_BYTES_KEPT else "All of it"
        why = f"{speed} KiB a second are sent at most.  {kept} is in {os.path.realpath(path)} on its node"
        return log.pass_over(size - PIECE_BYTES_MAX - log.upto, why)


class Kept:
    """Files with lines for a driver, which removes files once read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.number = 1
        self.size = 0
        self.left_out = 0  # bytes, since there was space

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, elsewhere_name(number))

    def write(self, text: str) -> None:
        """Write whole lines."""
        try:
            if self.size >= FILE_BYTES_MAX and not os.path.exists(self._path(self.number + 1 - FILES_MAX)):
                self.number, self.size = self.number + 1, 0
            data = text.encode()
            if self.size >= FILE_BYTES_MAX:
                self.left_out += len(data)
                return
            if self.left_out:
                said = (
                    f"(zray) [... {self.left_out:,} bytes that workers on other nodes have printed are left out here: "
                )
                data = (said + "this program did not read them in time]\n").encode() + data
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            with open(self._path(self.number), "ab") as file:
                file.write(data)
            self.left_out = 0
            self.size += len(data)
        except OSError:
            self.left_out += len(text)  # no space, or the session ends

    def remove(self) -> None:
        """Remove the files after the driver's end."""
        for number in range(max(1, self.number - FILES_MAX), self.number + 1):
            try:
                os.unlink(self._path(number))
            except OSError:
                pass


class OutputThread:
    """Performs ReadOutput, WriteOutput and ForgetOutput of a node."""

    def __init__(self, session: Session, endpoint: str, deliver: Callable[[Any], None]) -> None:
        """endpoint: this node's, as known to others.  deliver: may be called from the thread."""
        self.session = session
        self.where = endpoint.rpartition(":")[0]
        self.deliver = deliver
        self.orders: queue.SimpleQueue[Any] = queue.SimpleQueue()  # at most one of each job and node, and questions
        self.followed: dict[bytes, JobLogs] = {}
        self.wanted: dict[bytes, bool] = {}  # jobs with an open request: at once?
        self.kept: dict[bytes, Kept] = {}
        self.looked_at = 0.0
        self.is_over = False
        self.thread = threading.Thread(target=self._run, name="zray-output", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Nothing more is read, or delivered; unless the disk stands still."""
        self.orders.put(None)
        self.thread.join(timeout=1.0)

    def _run(self) -> None:
        while True:
            self._take_orders()
            if self.is_over:
                return
            now = time.monotonic()
            is_time = now - self.looked_at >= LOOK_SECONDS
            if is_time:
                self.looked_at = now
            for job_id, at_once in list(self.wanted.items()):
                if is_time or at_once:
                    self._look(job_id, at_once=at_once)

    def _take_orders(self) -> None:
        """Take the pending orders; wait until there is work."""
        timeout = max(0.0, self.looked_at + LOOK_SECONDS - time.monotonic()) if self.wanted else None
        try:
            self._obey(self.orders.get(timeout=timeout))
            while True:
                self._obey(self.orders.get_nowait())
        except queue.Empty:
            pass

    def _obey(self, effect: Any) -> None:
        if effect is None:
            self.is_over = True
            return
        job_id = effect.job_id
        if type(effect) is ReadOutput:
            self.wanted[job_id] = effect.at_once or self.wanted.get(job_id, False)
        elif type(effect) is WriteOutput:
            if effect.text:
                if job_id not in self.kept:
                    self.kept[job_id] = Kept(self.session.job_logs(job_id))
                self.kept[job_id].write(effect.text)
            self.deliver(OutputWritten(job_id, effect.source))
        elif type(effect) is ForgetOutput:
            self.wanted.pop(job_id, None)
            self.followed.pop(job_id, None)
            if (kept := self.kept.pop(job_id, None)) is not None:
                kept.remove()

    def _look(self, job_id: bytes, *, at_once: bool) -> None:
        logs = self.followed.get(job_id)
        if logs is None:
            logs = self.followed[job_id] = JobLogs(self.session.job_logs(job_id), self.where)
        text = logs.read(is_last=at_once)
        if text or at_once:
            del self.wanted[job_id]
            self.deliver(OutputRead(job_id, text))
