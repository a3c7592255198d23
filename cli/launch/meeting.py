"""A file by which the processes of a run meet: the head writes its address and a token, the others wait for it.

The file lies in a folder that all machines see, and its user alone may read it (0600).
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass


@dataclass
class Meeting:
    """The file of a run."""

    folder: str
    name: str

    @property
    def path(self) -> str:
        return os.path.join(self.folder, f".zray-{self.name}")

    def write(self, address: str, token: str) -> None:
        """Tell the others; the file of a former run of this name is replaced.

        Raises:
            OSError: names the file.
        """
        part = f"{self.path}.{os.getpid()}"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump({"address": address, "token": token}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(part)
            text = f"{error.strerror}: the processes meet in a folder that all machines see; --meet names another one"
            raise OSError(error.errno, text, self.path) from None

    def read(self) -> tuple[str, str] | None:
        """Return (address, token); None: not written yet.

        Raises:
            PermissionError: others may read or write the file, or own it.
        """
        with suppress(FileNotFoundError, ValueError, KeyError):
            os.listdir(self.folder)  # NFS forgets then that the file was absent
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                    raise PermissionError(1, "others own or read this file, which has a token", self.path)
                facts = json.load(file)
            return str(facts["address"]), str(facts["token"])
        return None

    def remove(self) -> None:
        """Remove the file; it may be gone."""
        with suppress(OSError):
            os.unlink(self.path)
