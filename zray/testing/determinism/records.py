"""Lines that the processes of a run write, each process into a file of its own.

A line is written by one call before the result of its task is told, so that lines outlive a process that is killed.
"""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Union

import msgspec
from msgspec import Struct

__all__ = [
    "TASKS_MAX",
    "Ending",
    "Kill",
    "Line",
    "Overflow",
    "Program",
    "Refusal",
    "Session",
    "Submission",
    "TooManyTasks",
    "Writer",
    "lines_of",
]

# Bounds of one run.
TASKS_MAX = 1_000_000
FILE_BYTES_MAX = 512 << 20


class Session(Struct, tag="session"):
    """The begin of a session: the root of its tasks, and the CPUs that the program asked for."""

    root: str
    asked_cpus: Union[float, None] = None  # noqa: UP007


class Submission(Struct, tag="submission", omit_defaults=True):
    """A submission of a task.

    Args:
        actor: id of the actor that is called or created.
        site: file and line.
    """

    task: str
    name: str
    actor: str = ""
    site: str = ""


class Ending(Struct, tag="ending", omit_defaults=True):
    """A run of a task that has ended.

    Args:
        arguments: digest.
        values: digests of what was returned: the elements of a tuple, the items of a generator.
        shown: the first of them in a few characters.
        number: a float that was returned.
        unordered: digest of the elements in any order.
        error, error_text: of what it raised.
        drew: sources of random numbers that it drew from.
        mentions: names in its code whose values differ from run to run.
        is_closed: the consumer of its items has ended it.
    """

    task: str
    name: str
    arguments: str
    values: list[str] = []
    shown: list[str] = []
    actor: str = ""
    number: Union[float, None] = None  # noqa: UP007
    unordered: str = ""
    error: str = ""
    error_text: str = ""
    drew: list[str] = []
    mentions: list[str] = []
    is_generator: bool = False
    is_closed: bool = False


class Kill(Struct, tag="kill"):
    """A death of a worker that the command has asked for."""

    task: str
    name: str
    at: str
    begin: int
    actor: str = ""

    @property
    def when(self) -> str:
        """The time of the death in words."""
        return "before the function ran" if self.at == "begin" else "after the function had run"


class Program(Struct, tag="program"):
    """The end of the program: sources of random numbers that it drew from itself."""

    drew: list[str] = []


class Refusal(Struct, tag="refusal"):
    """A reason for which the program cannot be compared."""

    text: str


class Overflow(Struct, tag="overflow"):
    """The end of a file that has grown too large."""


Line = Union[Session, Submission, Ending, Kill, Program, Refusal, Overflow]  # noqa: UP007  # evaluated in Python 3.10
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class TooManyTasks(Exception):
    """A run has more tasks than can be compared."""

    def __init__(self) -> None:
        super().__init__(
            f"The program runs more than {TASKS_MAX:,} tasks, or writes more than {FILE_BYTES_MAX >> 20} MiB about the "
            "tasks in one process, which is the limit.  Compare a smaller run of it."
        )


class Writer:
    """The file of this process in the folder of a run."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pid = 0
        self.descriptor = -1
        self.left = FILE_BYTES_MAX
        self.lock = threading.Lock()

    def write(self, line: Line) -> None:
        """Write a line, unless the folder has gone or the file is full."""
        data = _encode(line) + b"\n"
        with self.lock:
            if self.pid != os.getpid():  # also in a child
                self._open()
            if self.descriptor < 0 or self.left < 0:
                return
            self.left -= len(data)
            if self.left < 0:
                data = _encode(Overflow()) + b"\n"
            with suppress(OSError):  # a full disk: the line is missing, and the comparison says so
                os.write(self.descriptor, data)

    def _open(self) -> None:
        self.pid, self.left = os.getpid(), FILE_BYTES_MAX
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self.descriptor = os.open(os.path.join(self.folder, f"{self.pid}.jsonl"), flags, 0o600)
        except OSError:  # the command has ended
            self.descriptor = -1


def lines_of(folder: str) -> Iterator[Line]:
    """The whole lines of a run, process by process.

    Raises:
        TooManyTasks: there are more than the limit.
    """
    count = 0
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.jsonl"))):
        with open(path, "rb") as file:
            for data in file:
                try:
                    line = _decode(data)
                except msgspec.MsgspecError:  # its process died while it wrote
                    continue
                count += isinstance(line, Ending)
                if isinstance(line, Overflow) or count > TASKS_MAX:
                    raise TooManyTasks
                yield line
