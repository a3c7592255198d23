"""Bundles of code on one node, unpacked once for all workers of its session: a folder of bounded size.

    code/<digest>/          the content of the bundle; complete, because renamed into place
    code/<digest>.lock      held shared by each process using the bundle, for its life; the text is the size
    code/room               held by the process that frees space and unpacks

A process that adds a bundle evicts first: unused bundles, the least recently used first.  The kernel releases locks of
dead processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

from msgspec import MsgspecError
from msgspec.msgpack import Decoder

from ...exceptions import RuntimeEnvSetupError

CACHE_BYTES_MAX = 1 << 30
# In a bundle: each costs a file and, while unpacked, an object.
FILES_MAX = 50_000

_decode = Decoder(list[tuple[str, bool, bytes]]).decode


class CodeCache:
    """The folder of bundles, as used by a process."""

    def __init__(self, session_folder: str, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.folder = os.path.join(session_folder, "code")
        self.bytes_max = bytes_max
        self.held: dict[str, int] = {}  # our locks, by name

    def take(self, digest: bytes, fetch: Callable[[], bytes], owner: str = "") -> str:
        """Return the folder of a bundle, which stays as long as this process lives.  owner: for folders not shared with
        others.

        Raises:
            RuntimeEnvSetupError: the bundle is damaged, or there is no space.
        """
        name = digest.hex() + (f"-{owner}" if owner else "")
        path = os.path.join(self.folder, name)
        if name in self.held:
            return path
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        lock = self._lock(name)
        try:
            if not os.path.isdir(path):
                self._bring(name, path, digest, fetch())
            os.utime(self._lock_path(name))
        except BaseException:
            os.close(lock)
            raise
        self.held[name] = lock
        return path

    def release(self, path: str) -> None:
        """Release a folder."""
        lock = self.held.pop(os.path.basename(path), None)
        if lock is not None:
            os.close(lock)

    def _bring(self, name: str, path: str, digest: bytes, data: bytes) -> None:
        if sha256(data).digest() != digest:
            raise RuntimeEnvSetupError(
                f"The code received differs from the code sent: the digest is not {digest.hex()}."
            )
        entries = read_bundle(data)
        with self._alone("room"):
            if not os.path.isdir(path):
                self._make(name, path, entries, len(data))

    def _lock_path(self, name: str) -> str:
        return os.path.join(self.folder, f"{name}.lock")

    def _lock(self, name: str) -> int:
        """Lock the bundle against removal."""
        while True:
            descriptor = os.open(self._lock_path(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            try:
                if os.fstat(descriptor).st_ino == os.stat(self._lock_path(name)).st_ino:
                    return descriptor
            except FileNotFoundError:
                pass
            os.close(descriptor)  # removed between the two steps

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        descriptor = os.open(os.path.join(self.folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _make(self, name: str, path: str, entries: list[tuple[str, bool, bytes]], size: int) -> None:
        new = f"{path}.new"
        shutil.rmtree(new, ignore_errors=True)  # left by a process that died meanwhile
        try:
            self._make_room(size)
            with open(self._lock_path(name), "w", encoding="ascii") as lock:
                lock.write(str(size))
            unpack(entries, new)
            os.rename(new, path)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            raise RuntimeEnvSetupError(f"The code of this program cannot be unpacked at {path}: {error}.") from error

    def _make_room(self, wanted: int) -> None:
        """Evict unused bundles, until there is space."""
        known = []
        for entry in os.scandir(self.folder):
            if entry.name.endswith(".lock"):
                with open(entry.path, encoding="ascii") as lock:
                    size = int(lock.read() or 0)
                known.append((entry.stat().st_mtime_ns, size, entry.name[: -len(".lock")]))
        total = sum(size for _, size, _ in known)
        for _, size, name in sorted(known):
            if total + wanted <= self.bytes_max:
                return
            if self._remove(name):
                total -= size
        if total + wanted > self.bytes_max:
            raise RuntimeEnvSetupError(
                f"The code cache {self.folder} has too little free space for {wanted:,} bytes: running programs use "
                f"{total:,} of {self.bytes_max:,} bytes.  End one of them, or send less code."
            )

    def _remove(self, name: str) -> bool:
        """Remove a bundle, and return True, unless in use."""
        descriptor = os.open(self._lock_path(name), os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
            os.unlink(self._lock_path(name))
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)


def read_bundle(data: bytes) -> list[tuple[str, bool, bytes]]:
    """Return (path, is executable, bytes) of each file.

    Raises:
        RuntimeEnvSetupError: the data is no bundle.
    """
    count = array_length(data)
    if count > FILES_MAX:
        raise RuntimeEnvSetupError(f"The code received has {count:,} files; at most {FILES_MAX:,} are unpacked.")
    try:
        entries = _decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RuntimeEnvSetupError(f"The code received cannot be read: {error}.") from error
    for path, _, _ in entries:
        if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise RuntimeEnvSetupError(f"The code received has a file with the forbidden name {path!r}.")
    return entries


def array_length(data: bytes) -> int:
    """Return the declared length of a msgpack array; 0 for other data."""
    first = data[0] if data else 0
    if first in (0xDC, 0xDD):
        return int.from_bytes(data[1 : 3 if first == 0xDC else 5], "big")
    return first & 0x0F if first >> 4 == 9 else 0


def unpack(entries: list[tuple[str, bool, bytes]], folder: str) -> None:
    """Unpack files into a new folder.

    Raises:
        OSError: a file cannot be written.
    """
    os.mkdir(folder, 0o700)
    for path, is_executable, data in entries:
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if is_executable else 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
