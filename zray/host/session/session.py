"""A session on this machine: its folder, its names, its files for discovery.

    <temporary folder>/zray-<uid>/<session>/     0700
        lock          held by the node (and its fork server) while they live: store/sweeper.py
        node.sock     the node's ROUTER
        token         a head's token, by which other nodes join; 0600
        node.json     facts for a driver or the command line to join by `address="auto"`
        driver-JOB    while a driver joins: a pipe whose end is the driver's
        logs/         node.log, fork-server.log, worker-N-PID.log, .err, .tasks; a folder per job with links to the logs
                      of its workers.  A link to the user's kept logs, unless these are off (kept_logs.py)

The node makes and removes the folder; after a kill -9 the fork server removes it, or the driver, or the sweeper.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ...store.segment import unlink_session
from ...store.sweeper import LOCK, check_private, remove_spill_files, sweep, sweep_memory
from .log_marks import errors_name, index_name

if TYPE_CHECKING:
    from .session_info import SessionInfo

# Descriptors inherited by the session's processes, by their numbers in the process (spawn.py).  A node:
READY_DESCRIPTOR = 3  # of a pipe: a byte reports success or failure
DRIVER_DESCRIPTOR = 4  # a pidfd of the starting process
SECRET_DESCRIPTOR = 5  # the join token, if any
OPTIONS_DESCRIPTOR = 6  # a pipe with the start options
# First byte from the node; a text follows if the node is not ready.
IS_READY, HAS_FAILED, IS_DENIED = b"1", b"0", b"2"
WAS_GIVEN_UP = b"3"  # declared dead by its cluster before it was ready; the first word is its id
# A fork server:
CONNECTION_DESCRIPTOR = 3  # the server's end of the socket pair to the node
NODE_DESCRIPTOR = 4  # a pidfd of the node
REQUEST_DESCRIPTOR = 5  # for an environment's server: the packages to bring first
# The folder of links to segments in files (node/spill_folder.py), in the session's.
SEGMENTS = "segments"
# A file in a head's folder of state (head_state.py).
PLAN = "plan.json"
# A Unix socket's path has at most 107 bytes; the session's part takes some 35.
SOCKET_PATH_BYTES_MAX = 100


def session_root() -> str:
    """Return the path of the folder of this user's sessions; an existing folder belongs to this user, closed to others.

    The node makes the folder, with the folder of the session: a driver killed before its node lives leaves nothing
    behind.

    Raises:
        ZrayError: another user owns the folder, or others may enter it.
        OSError: this user cannot look at the folder.
    """
    # Absolute, because programs in other folders join by this path.
    base = os.path.abspath(os.environ.get("ZRAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
    root = os.path.join(base, f"zray-{os.getuid()}")
    if len(root) + len("/0123456789abcdef/node.sock") > SOCKET_PATH_BYTES_MAX:
        root = f"/tmp/zray-{os.getuid()}"  # a socket's name would not fit
    try:
        status = os.lstat(root)
    except FileNotFoundError:
        return root
    except OSError as error:
        raise _no_root(error, root) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        from ...exceptions import ZrayError  # brings msgspec (main.py)

        raise ZrayError(
            f"{root} must be a folder of this user with mode 0700, but it has mode {stat.S_IMODE(status.st_mode):o} "
            f"and owner {status.st_uid}.  Remove it, or set ZRAY_TMPDIR."
        )
    return root


def _no_root(error: OSError, root: str) -> OSError:
    text = f"{error.strerror}: zray cannot make the folder of its sessions; ZRAY_TMPDIR says where it may"
    return OSError(error.errno, text, root)


def readiness(refusal: str, kind: bytes) -> bytes:
    """Return the node's message to its starter.  refusal: why the node will never be ready, of that kind; "": ready."""
    return (kind if refusal else IS_READY) + refusal.encode()[:2_000]


class Session:
    """Names and paths of a session."""

    def __init__(self, name: str, root: str | None = None) -> None:
        self.name = name
        self.folder = os.path.join(root or session_root(), name)

    @classmethod
    def named_anew(cls) -> Session:
        """Return a session with a new name, after sweeping the remains of dead sessions, in memory for all roots."""
        root = session_root()
        sweep(root)
        sweep_memory()
        return cls(os.urandom(8).hex(), root)

    def make_folder(self, kept_logs: str = "") -> None:
        """Make the folder, as the node: no folder outlives all processes that would remove it.

        kept_logs: the folder for logs that outlive the session; "": logs go with it.

        Raises:
            PermissionError: another folder is in the root's place.
            OSError: the folder cannot be made.
        """
        root = os.path.dirname(self.folder)
        is_made = False
        while not is_made:
            try:
                os.makedirs(root, mode=0o700, exist_ok=True)
            except FileExistsError as error:
                if os.path.lexists(root):
                    raise _no_root(error, root) from None
                continue  # the last other session has just ended, and taken the root along, between makedirs' two looks
            except OSError as error:
                raise _no_root(error, root) from None
            with suppress(FileNotFoundError):  # likewise
                os.mkdir(self.folder, 0o700)
                is_made = True
        check_private(root)
        os.mkdir(self._sources, 0o700)
        if kept_logs:
            os.symlink(kept_logs, self.logs)
        else:
            os.mkdir(self.logs, 0o700)

    @property
    def socket_path(self) -> str:
        return os.path.join(self.folder, "node.sock")

    @property
    def address(self) -> str:
        return f"ipc://{self.socket_path}"

    @property
    def lock_path(self) -> str:
        return os.path.join(self.folder, LOCK)

    @property
    def logs(self) -> str:
        return os.path.join(self.folder, "logs")

    @property
    def token_path(self) -> str:
        return os.path.join(self.folder, "token")

    def say_that_logs_are_lost(self, why: str) -> None:
        """Note why the logs go with the session, for the process that starts it."""
        with suppress(OSError), open(os.path.join(self.folder, "logs-lost"), "w") as file:
            file.write(why)

    def why_logs_are_lost(self) -> str:
        """Return why the logs go with the session although the user wants to keep them; "": they stay."""
        if not os.path.islink(self.logs):
            with suppress(OSError), open(os.path.join(self.folder, "logs-lost")) as file:
                return file.read()
        return ""

    def window_name(self, worker_id: int) -> str:
        """Return the name of the semaphore of a worker's claim window."""
        return f"/zray-{self.name}-w{worker_id}"

    def log_path(self, name: str) -> str:
        return os.path.join(self.logs, f"{name}.log")

    def worker_log_path(self, worker_id: int, pid: int) -> str:
        """Return the path of a worker's output; the file's name marks the lines on the driver's terminal."""
        return self.log_path(f"worker-{worker_id}-{pid}")

    def worker_errors_path(self, worker_id: int, pid: int) -> str:
        """Return the path of the file for standard error of a worker's C code and child processes."""
        return errors_name(self.worker_log_path(worker_id, pid))

    def crash_path(self, worker_id: int, pid: int) -> str:
        """The stack of a worker's crash (crash_reports.py)."""
        return self.log_path(f"crash-{worker_id}-{pid}")

    def note_output(self, worker_id: int, pid: int) -> None:
        """Note the sizes of a worker's logs at the end of a task: later tasks did not print the present content."""
        try:
            sizes = [os.stat(self.worker_log_path(worker_id, pid)).st_size]
            errors = self.worker_errors_path(worker_id, pid)
            sizes.append(os.stat(errors).st_size if os.path.exists(errors) else 0)
            with open(self._note_path(worker_id, pid), "wb", buffering=0) as file:
                file.write(b"".join(size.to_bytes(8, "little") for size in sizes))
        except OSError:
            pass  # the session ends, or the disk is full: then errors show more

    def earlier_output(self, worker_id: int, pid: int) -> tuple[int, int]:
        """Return the bytes of a worker's log, and of its file of errors, older than its latest task."""
        try:
            with open(self._note_path(worker_id, pid), "rb") as file:
                return int.from_bytes(file.read(8), "little"), int.from_bytes(file.read(8), "little")
        except OSError:
            return 0, 0

    def _note_path(self, worker_id: int, pid: int) -> str:
        return os.path.join(self.logs, f".worker-{worker_id}-{pid}.upto")

    def remove_log(self, worker_id: int, pid: int) -> None:
        """Remove the logs of a dead worker, the links to the logs, and the stack of the crash."""
        self._remove_file(self.crash_path(worker_id, pid))
        name = os.path.basename(self.worker_log_path(worker_id, pid))
        try:
            folders = [entry.path for entry in os.scandir(self.logs) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for folder in (*folders, self.logs):
            self._remove_file(os.path.join(folder, name))
        self._remove_file(self.worker_errors_path(worker_id, pid))
        self._remove_file(index_name(self.worker_log_path(worker_id, pid)))

    def remove_empty_errors(self, worker_id: int, pid: int) -> None:
        """Remove the file of errors of a dead worker if empty."""
        path = self.worker_errors_path(worker_id, pid)
        try:
            if not os.stat(path).st_size:
                os.unlink(path)
        except OSError:
            pass  # absent, or the session ends

    def remove_note(self, worker_id: int, pid: int) -> None:
        """Remove the note of a dead worker about its output."""
        self._remove_file(self._note_path(worker_id, pid))

    @staticmethod
    def _remove_file(path: str) -> None:
        try:
            os.unlink(path)
        except OSError:
            pass  # absent, or the session ends

    def remove_job(self, job_id: bytes) -> None:
        """Remove a job's folders after its driver's end: no process follows its logs, or imports its modules.  The logs
        stay.
        """
        shutil.rmtree(self.job_logs(job_id), ignore_errors=True)
        shutil.rmtree(self.job_sources(job_id), ignore_errors=True)

    def job_sources(self, job_id: bytes) -> str:
        """Return the folder of the driver's own modules for workers of this node (module_versions.py)."""
        return os.path.join(self._sources, job_id.hex())

    @property
    def _sources(self) -> str:
        return os.path.join(self.folder, "sources")

    def job_logs(self, job_id: bytes) -> str:
        """Return the folder of links to the logs of a job's workers: the job's driver follows only these logs."""
        return os.path.join(self.logs, job_id.hex())

    def _make_job_logs(self, job_id: bytes) -> None:
        """Make the folder of a job's logs, and no parents: the session may have ended."""
        with suppress(FileExistsError):
            os.mkdir(self.job_logs(job_id), 0o700)

    def show_log(self, job_id: bytes, worker_id: int, pid: int) -> None:
        """Link the log of a worker that joins a job to the logs of the job.  The worker calls this function.

        A hard link costs a disk less than a symbolic link, which is another file to make and to remove.
        """
        path = self.worker_log_path(worker_id, pid)
        link = os.path.join(self.job_logs(job_id), os.path.basename(path))
        try:
            self._make_job_logs(job_id)
            try:
                os.link(path, link)
            except PermissionError:
                os.symlink(path, link)  # a file system without hard links
        except OSError:
            pass  # the session ends

    def is_first(self, job_id: bytes, key: str) -> bool:
        """Return whether no process of a job has asked for the key before: for messages printed once in all
        (util/once.py).
        """
        import hashlib  # few programs need it

        path = os.path.join(self.job_logs(job_id), f".said-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
        try:
            self._make_job_logs(job_id)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        except OSError:
            pass  # the session ends, or the disk is full: twice is better than never
        return True

    def begin_life(self, job_id: bytes) -> int:
        """Return a driver's descriptor that closes with the process, also when the process becomes another program
        (exec).
        """
        path = self._life_path(job_id)
        try:
            os.mkfifo(path, 0o600)
        except FileNotFoundError:
            path = os.devnull  # the session has ended: the joining program is about to get an error
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)

    def end_life(self, job_id: bytes, descriptor: int) -> None:
        """Close and remove the pipe of a driver that was refused."""
        os.close(descriptor)
        try:
            os.unlink(self._life_path(job_id))
        except OSError:
            pass  # the session ends

    def follow_life(self, job_id: bytes) -> int | None:
        """Return the node's descriptor for a driver's life: a hang-up reports the driver's end.  None: no
        pipe exists.
        """
        path = self._life_path(job_id)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return None
        os.unlink(path)
        return descriptor

    def _life_path(self, job_id: bytes) -> str:
        return os.path.join(self.folder, f"driver-{job_id.hex()}")

    def open_log(self, path: str) -> int:
        """A descriptor to append to a log."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write_info(self, info: SessionInfo) -> None:
        """Write node.json, whole or not at all.

        Raises:
            OSError: names the file (a full disk, say).
        """
        path = os.path.join(self.folder, "node.json")
        try:
            with open(f"{path}.new", "wb") as file:
                file.write(info.as_bytes())
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        os.replace(f"{path}.new", path)

    def read_info(self) -> SessionInfo | None:
        """Return the content of node.json; None if not yet written."""
        from .session_info import SessionInfo

        try:
            with open(os.path.join(self.folder, "node.json"), "rb") as file:
                return SessionInfo.from_bytes(file.read())
        except OSError:
            return None

    def started_at(self) -> str:
        """When the node was ready, in local time, for people; "?" when the session has ended meanwhile."""
        try:
            # node.json is written once; the folder's own times change with its content.
            written = os.stat(os.path.join(self.folder, "node.json")).st_mtime
        except OSError:
            return "?"
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(written))

    def open_fork_server(self) -> int | None:
        """Return a pidfd of the fork server, the last process to end; None if ended."""
        info = self.read_info()
        try:
            return os.pidfd_open(info.fork_server_pid) if info is not None else None
        except OSError:
            return None

    def remove(self) -> None:
        """Remove segments, semaphores, sockets, spill files, the folder, and the root if empty.  Several processes may
        call the function.
        """
        unlink_session(self.name)
        remove_spill_files(self.name, self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.remove_root()

    def remove_root(self) -> None:
        """Remove the folder of all sessions, if empty."""
        try:
            os.rmdir(os.path.dirname(self.folder))
        except OSError:
            pass  # other sessions exist, or the folder is gone


def lasting_sessions() -> list[Session]:
    """Return sessions on this machine that outlive their drivers (`zray start --head`), oldest first."""
    return [session for session in live_sessions() if (info := session.read_info()) and not info.is_embedded]


def returning_sessions() -> list[Session]:
    """Return the remains of nodes that were declared dead and try to join their cluster again (rejoin.py)."""
    root = session_root()
    sweep(root)
    try:
        sessions = [Session(name, root) for name in sorted(os.listdir(root))]
    except FileNotFoundError:
        return []
    if not sessions:
        Session("", root).remove_root()
    return [session for session in sessions if (info := session.read_info()) and info.kind == "returning"]


def live_sessions() -> list[Session]:
    """Return this user's live sessions on this machine, oldest first, after sweeping the remains of dead ones."""
    root = session_root()
    sweep(root)
    found = []
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        names = []  # no session, or the last has just ended
    for name in names:
        session = Session(name, root)
        try:
            if session.read_info() is not None and os.path.exists(session.socket_path):
                # node.json is written once; the folder's own times change with its content.
                found.append((os.stat(os.path.join(session.folder, "node.json")).st_mtime_ns, session))
        except FileNotFoundError:
            continue  # the session ended meanwhile
    if not found:
        Session("", root).remove_root()
    return [session for _, session in sorted(found, key=lambda item: item[0])]
