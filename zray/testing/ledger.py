"""The ledger of a block of faults: a folder in which all processes of the session count begins of functions.

    counts      begins by name of function, as JSON; locked while a process counts
    happened    faults that have happened, a line of JSON each

The end of the block removes the folder, and processes that look for it later know that no fault is set.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass

COUNTS, HAPPENED = "counts", "happened"
# Enough for any test; a delay of each call of a long test would fill the disk.
HAPPENED_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class Happened:
    """A fault that has happened.

    Args:
        fault: as it was given.
        call: number of the begin of the function in the block; 0: none, the fault is of an object.
        task_id, pid, node_id: where it happened; of an object, its node.
    """

    fault: str
    call: int = 0
    task_id: str = ""
    pid: int = 0
    node_id: str = ""


class Ledger:
    """The counts and events of a block.  It may be pickled: workers of this machine find the same folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def made(cls) -> Ledger:
        """Return a new one."""
        ledger = cls(tempfile.mkdtemp(prefix="zray-faults-"))
        with open(ledger._path(COUNTS), "w") as file:
            file.write("{}")
        return ledger

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def is_open(self) -> bool:
        """Return whether the block goes on."""
        return os.path.exists(self._path(COUNTS))

    def count(self, name: str, note: Callable[[int], None]) -> int:
        """Count a begin, and return its number; 0: the block has ended.  note: is called before another one counts."""
        try:
            file = open(self._path(COUNTS), "r+")  # noqa: SIM115
        except FileNotFoundError:
            return 0
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            counts = json.load(file)
            number: int = counts.get(name, 0) + 1
            file.seek(0)
            json.dump({**counts, name: number}, file)
            file.truncate()
            file.flush()
            note(number)
            return number

    def counts(self) -> dict[str, int]:
        """Return the begins by name of function."""
        with open(self._path(COUNTS)) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            found: dict[str, int] = json.load(file)
            return found

    def note(self, happened: Happened) -> None:
        """Note a fault that is about to happen."""
        try:
            descriptor = os.open(self._path(HAPPENED), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return
        if os.fstat(descriptor).st_size < HAPPENED_BYTES_MAX:
            os.write(descriptor, json.dumps(asdict(happened)).encode() + b"\n")
        os.close(descriptor)

    def happened(self) -> list[Happened]:
        """Return what has happened, in order."""
        try:
            with open(self._path(HAPPENED)) as file:
                return [Happened(**json.loads(line)) for line in file]
        except FileNotFoundError:
            return []

    def close(self) -> None:
        """End the block for all processes."""
        shutil.rmtree(self.folder, ignore_errors=True)
