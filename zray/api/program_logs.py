"""Logs of submitted programs: each has a file among the logs of the session, as a worker has (host/session/session.py).

job-ID-PID.log      the output of the program
job-ID-PID.tasks    which part came when, as in a worker's index (host/output/task_index.py)
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from msgspec import json

from ..host import context
from ..host.output.log_lines import names_in
from ..host.output.task_index import PART_SECONDS
from ..host.output.truncation import LogRoom, room_of
from ..host.session.log_marks import index_name

__all__ = ["PREFIX", "ProgramLog", "id_in_name"]

PREFIX, END = "job-", ".log"
# Bytes of an id in the name of a file.
ID_BYTES_MAX = 200
# Logs of ended programs that stay in a session, and their bytes together; the oldest go.
ENDED_MAX, ENDED_BYTES_MAX = 200, 512 << 20
# Seconds between two looks at the size of a log.
LOOK_SECONDS = 1.0


def id_in_name(submission_id: str) -> str:
    """Return the id of a program as the name of its log has it."""
    return submission_id.encode("utf-8", "replace")[:ID_BYTES_MAX].decode("utf-8", "ignore")


class ProgramLog:
    """The log of a program whose output this worker reads.  Nothing is written where that is not possible.

    Args:
        submission_id: of the program.
        pid: of its process.
    """

    def __init__(self, submission_id: str, pid: int) -> None:
        self.descriptors: list[int] = []  # of the log and its index
        self.size = 0
        self.noted_at = self.looked_at = -PART_SECONDS
        paths = getattr(context.runtime, "paths", None)
        if paths is None:
            return
        path = paths.log_path(f"{PREFIX}{id_in_name(submission_id)}-{pid}")
        self.room = LogRoom(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            _sweep(os.path.dirname(path))
            for name in (path, index_name(path)):
                self.descriptors.append(os.open(name, flags, 0o600))

    def add(self, data: bytes) -> None:
        """Write output."""
        if len(self.descriptors) < 2:
            return
        now = time.monotonic()
        with suppress(OSError):  # a full disk is no reason to end
            if now - self.noted_at >= PART_SECONDS:
                self.noted_at = now
                os.write(self.descriptors[1], json.encode({"t": time.time(), "out": self.size}) + b"\n")
            view = memoryview(data)
            while view:
                written = os.write(self.descriptors[0], view)
                self.size += written
                view = view[written:]
        if now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = now
            self.room.look()

    def close(self) -> None:
        """End the log."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


def _sweep(folder: str) -> None:
    """Remove the oldest logs of ended programs, if they are too many, or too large."""
    found = [os.path.join(folder, name) for name in names_in(folder, PREFIX) if name.endswith(END)]
    ended = [path for path in found if not os.path.exists(f"/proc/{path.removesuffix(END).rpartition('-')[2]}")]
    ended.sort(key=os.path.getmtime)
    room = sum(map(room_of, ended))
    for count, path in zip(range(len(ended), 0, -1), ended, strict=True):
        if count <= ENDED_MAX and room <= ENDED_BYTES_MAX:
            return
        room -= room_of(path)
        for name in (path, index_name(path)):
            with suppress(OSError):
                os.unlink(name)
