"""What a head keeps on disk: a folder with the logs of its shards, one head's at a time.

    <folder>/lock            held by the head
    <folder>/shards          how many there are: ids are hashed to them
    <folder>/hosts           nodes and drivers that have been here: a head that starts declares them lost
    <folder>/gcs-0/1/        the log of a replica (store/log.py)

Without a folder of the user's it lies in the session's, and ends with it.
"""

from __future__ import annotations

import os
import time

from ..exceptions import ZrayError
from ..store.durable import StoreLocked
from ..store.log import lock_folder
from ..store.sweeper import check_private

# A head that was killed holds its lock until the kernel has ended it.
LOCK_SECONDS = 2.0
POLL_SECONDS = 0.02
# More than any cluster has had since its last start; the records of older ones are gone since then.
HOSTS_MAX = 10_000


class StateFolder:
    """Of one head.  shards: how many."""

    def __init__(self, path: str, shards: int) -> None:
        """Raises:
        ZrayError: another head has it; it was made for another number of shards.
        PermissionError: others may enter it.
        """
        self.path = os.path.abspath(path)
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        check_private(self.path)
        self._lock = lock_patiently(self.path)
        self._check_shards(shards)
        for shard in range(shards):
            os.makedirs(os.path.join(self.path, f"gcs-{shard}"), mode=0o700, exist_ok=True)

    def _check_shards(self, shards: int) -> None:
        path = os.path.join(self.path, "shards")
        try:
            with open(path, encoding="ascii") as file:
                found = file.read().strip()
        except FileNotFoundError:
            with open(f"{path}.new", "w", encoding="ascii") as file:
                file.write(f"{shards}\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
            return
        if found != str(shards):
            self.close()
            raise ZrayError(f"{self.path} holds the state of {found} shards, not of {shards}: say --gcs-shards {found}")

    def logs(self, shard: str, count: int) -> list[str]:
        """The folders of its replicas' logs, at least so many: any may hold what no other has."""
        folder = os.path.join(self.path, shard)
        found = [int(name) for name in os.listdir(folder) if name.isdecimal()]
        numbers = sorted({*found, *range(count)})
        return [os.path.join(folder, str(number)) for number in numbers]

    def former_hosts(self) -> list[str]:
        """Those that the records may speak of, from before this head."""
        try:
            with open(os.path.join(self.path, "hosts"), encoding="ascii") as file:
                return file.read().split()[-HOSTS_MAX:]
        except FileNotFoundError:
            return []

    def note_host(self, host: str) -> None:
        """It comes in: records may speak of it from now on."""
        with open(os.path.join(self.path, "hosts"), "a", encoding="ascii") as file:
            file.write(f"{host}\n")

    def close(self) -> None:
        """Another head may have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def lock_patiently(folder: str) -> int:
    """Raises:
    ZrayError: another process has it, and keeps it.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return lock_folder(folder)
        except StoreLocked as error:
            if time.monotonic() > deadline:
                raise ZrayError(f"another head keeps its state in {folder}: {error}") from error
        time.sleep(POLL_SECONDS)
