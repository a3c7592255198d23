"""A session on this machine: its folder, its names, what it leaves for others to find.

    <temporary folder>/zray-<uid>/<session>/     0700
        lock          held by the node (and its fork server) while they live: store/sweeper.py
        node.sock     the node's ROUTER
        token         a head's: what lets other nodes join; 0600
        node.json     what a driver or the command line needs to join by `address="auto"`
        driver-JOB    while a driver joins: a pipe whose end is the driver's
        logs/         node.log, fork-server.log, worker-N-PID.log, worker-N-PID.err; a folder per job with links to the
                      logs of its workers

The node makes the folder, and removes it; after a kill -9 its fork server does, or the driver, or the sweeper.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ...store.segment import unlink_session
from ...store.sweeper import LOCK, check_private, sweep, sweep_memory
from .log_marks import errors_name

if TYPE_CHECKING:
    from .session_info import SessionInfo

# The descriptors that its processes are born with, by the numbers that they see (spawn.py).  A node:
READY_DESCRIPTOR = 3  # of a pipe: a byte says that it listens, or why not
DRIVER_DESCRIPTOR = 4  # a pidfd of whoever started it
SECRET_DESCRIPTOR = 5  # the join token, where there is one
OPTIONS_DESCRIPTOR = 6  # a pipe: the options that it starts with
# What it says there first; words follow where it is not ready.
IS_READY, HAS_FAILED, IS_DENIED = b"1", b"0", b"2"
WAS_GIVEN_UP = b"3"  # by its cluster, before it was ready; the first word is its id
# A fork server:
CONNECTION_DESCRIPTOR = 3  # its end of the socket pair to the node
NODE_DESCRIPTOR = 4  # a pidfd of the node
REQUEST_DESCRIPTOR = 5  # of an environment's: the packages that it brings first
# A file in a head's folder of state (head_state.py).
PLAN = "plan.json"
# A Unix socket's path has at most 107 bytes; the session's part of it needs some 35.
SOCKET_PATH_BYTES_MAX = 100


def session_root() -> str:
    """Path of the folder of this user's sessions; where there is one, it is this user's own and closed to others.

    The node makes it, with the folder of its session: a driver that is killed before its node lives leaves nothing.

    Raises:
        ZrayError: somebody else owns it, or others may enter it.
        OSError: this user cannot look at it.
    """
    # Absolute: programs in other folders join by this path.
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
    """What a node says to whoever started it.  refusal: why it never will be ready, and of which kind; "": it is."""
    return (kind if refusal else IS_READY) + refusal.encode()[:2_000]


class Session:
    """Paths of one session."""

    def __init__(self, name: str, root: str | None = None) -> None:
        self.name = name
        self.folder = os.path.join(root or session_root(), name)

    @classmethod
    def named_anew(cls) -> Session:
        """A new session's name.  What dead sessions left behind is swept away first, in memory that of all roots."""
        root = session_root()
        sweep(root)
        sweep_memory()
        return cls(os.urandom(8).hex(), root)

    def make_folder(self) -> None:
        """By the node: the folder lives no longer than a process that will remove it.

        Raises:
            PermissionError: somebody has put another folder in the root's place.
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

    def window_name(self, worker_id: int) -> str:
        """The semaphore that is a worker's claim window."""
        return f"/zray-{self.name}-w{worker_id}"

    def log_path(self, name: str) -> str:
        return os.path.join(self.logs, f"{name}.log")

    def worker_log_path(self, worker_id: int, pid: int) -> str:
        """What one worker prints; the name is what its lines are marked with on the driver's terminal."""
        return self.log_path(f"worker-{worker_id}-{pid}")

    def worker_errors_path(self, worker_id: int, pid: int) -> str:
        """Path of the file that C code and child processes of one worker write to as standard error."""
        return errors_name(self.worker_log_path(worker_id, pid))

    def crash_path(self, worker_id: int, pid: int) -> str:
        """The stack of a worker's crash (crash_reports.py)."""
        return self.log_path(f"crash-{worker_id}-{pid}")

    def note_output(self, worker_id: int, pid: int) -> None:
        """By a worker that has ended a task: what is in its log now is no later one's."""
        try:
            sizes = [os.stat(self.worker_log_path(worker_id, pid)).st_size]
            errors = self.worker_errors_path(worker_id, pid)
            sizes.append(os.stat(errors).st_size if os.path.exists(errors) else 0)
            with open(self._note_path(worker_id, pid), "wb", buffering=0) as file:
                file.write(b"".join(size.to_bytes(8, "little") for size in sizes))
        except OSError:
            pass  # the session ends, or there is no room: then errors show more

    def earlier_output(self, worker_id: int, pid: int) -> tuple[int, int]:
        """How many bytes of its log, and of its file of errors, are older than the last task that it began."""
        try:
            with open(self._note_path(worker_id, pid), "rb") as file:
                return int.from_bytes(file.read(8), "little"), int.from_bytes(file.read(8), "little")
        except OSError:
            return 0, 0

    def _note_path(self, worker_id: int, pid: int) -> str:
        return os.path.join(self.logs, f".worker-{worker_id}-{pid}.upto")

    def remove_log(self, worker_id: int, pid: int) -> None:
        """Of a dead worker, the links to it, and the stack of its crash."""
        self._remove_file(self.crash_path(worker_id, pid))
        name = os.path.basename(self.worker_log_path(worker_id, pid))
        try:
            folders = [entry.path for entry in os.scandir(self.logs) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for folder in (*folders, self.logs):
            self._remove_file(os.path.join(folder, name))
        self._remove_file(self.worker_errors_path(worker_id, pid))

    def remove_empty_errors(self, worker_id: int, pid: int) -> None:
        """Remove the file of errors of a dead worker that has none."""
        path = self.worker_errors_path(worker_id, pid)
        try:
            if not os.stat(path).st_size:
                os.unlink(path)
        except OSError:
            pass  # it is not there, or the session ends

    def remove_note(self, worker_id: int, pid: int) -> None:
        """Remove the note of a dead worker about its output."""
        self._remove_file(self._note_path(worker_id, pid))

    @staticmethod
    def _remove_file(path: str) -> None:
        try:
            os.unlink(path)
        except OSError:
            pass  # it is not there, or the session ends

    def remove_job(self, job_id: bytes) -> None:
        """Its driver has ended: nobody follows its logs, or imports its modules.  The logs themselves stay."""
        shutil.rmtree(self.job_logs(job_id), ignore_errors=True)
        shutil.rmtree(self.job_sources(job_id), ignore_errors=True)

    def job_sources(self, job_id: bytes) -> str:
        """Where one job's driver keeps its own modules for workers of this node (module_versions.py)."""
        return os.path.join(self.folder, "sources", job_id.hex())

    def job_logs(self, job_id: bytes) -> str:
        """Where the logs of one job's workers can be found: its driver follows them, and no others."""
        return os.path.join(self.logs, job_id.hex())

    def show_log(self, job_id: bytes, worker_id: int, pid: int) -> None:
        """Link the log of a worker that joins a job to the logs of the job.  The worker calls this.

        A hard link costs a disk less than a symbolic one, which is a file of its own to make and to remove.
        """
        path = self.worker_log_path(worker_id, pid)
        link = os.path.join(self.job_logs(job_id), os.path.basename(path))
        try:
            os.makedirs(self.job_logs(job_id), mode=0o700, exist_ok=True)
            try:
                os.link(path, link)
            except PermissionError:
                os.symlink(path, link)  # a file system without hard links
        except OSError:
            pass  # the session ends

    def is_first(self, job_id: bytes, key: str) -> bool:
        """Whether no process of a job has asked that for the key before: what is said once for all (util/once.py)."""
        import hashlib  # few programs need it

        path = os.path.join(self.job_logs(job_id), f".said-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
        try:
            os.makedirs(self.job_logs(job_id), mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        except OSError:
            pass  # the session ends, or there is no room: twice is better than never
        return True

    def begin_life(self, job_id: bytes) -> int:
        """By a driver: a descriptor that goes with its process, and when that becomes another program (exec)."""
        path = self._life_path(job_id)
        try:
            os.mkfifo(path, 0o600)
        except FileNotFoundError:
            path = os.devnull  # the session has ended: who wants to join it is about to hear that
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)

    def end_life(self, job_id: bytes, descriptor: int) -> None:
        """By a driver that was not let in."""
        os.close(descriptor)
        try:
            os.unlink(self._life_path(job_id))
        except OSError:
            pass  # the session ends

    def follow_life(self, job_id: bytes) -> int | None:
        """By the node: a descriptor that tells (by a hang-up) when the driver's has gone.  None: it has none."""
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
        """Let others find it; whole or not at all.

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
        """What the node wrote; None while it has not."""
        from .session_info import SessionInfo

        try:
            with open(os.path.join(self.folder, "node.json"), "rb") as file:
                return SessionInfo.from_bytes(file.read())
        except OSError:
            return None

    def started_at(self) -> str:
        """When the node was ready, in local time, for people; "?" when the session has ended meanwhile."""
        try:
            # node.json is written once; the folder's own times change with what lies in it.
            written = os.stat(os.path.join(self.folder, "node.json")).st_mtime
        except OSError:
            return "?"
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(written))

    def open_fork_server(self) -> int | None:
        """A pidfd of the fork server, which is the last one to go; None when it is gone."""
        info = self.read_info()
        try:
            return os.pidfd_open(info.fork_server_pid) if info is not None else None
        except OSError:
            return None

    def remove(self) -> None:
        """Segments, semaphores, sockets, folder; the root too when it is empty.  Several may call it."""
        unlink_session(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.remove_root()

    def remove_root(self) -> None:
        """The folder of all sessions, when it is empty."""
        try:
            os.rmdir(os.path.dirname(self.folder))
        except OSError:
            pass  # other sessions are there, or it is gone


def lasting_sessions() -> list[Session]:
    """Sessions on this machine that were started to outlive their drivers (`zray start --head`), oldest first."""
    return [session for session in live_sessions() if (info := session.read_info()) and not info.is_embedded]


def returning_sessions() -> list[Session]:
    """What is left on this machine of nodes that were given up, and tries to join their cluster again (rejoin.py)."""
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
    """This user's sessions on this machine that have a node, oldest first.  What dead ones left is swept away."""
    root = session_root()
    sweep(root)
    found = []
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        names = []  # no session, or the last one has just ended
    for name in names:
        session = Session(name, root)
        try:
            if session.read_info() is not None and os.path.exists(session.socket_path):
                # node.json is written once; the folder's own times change with what lies in it.
                found.append((os.stat(os.path.join(session.folder, "node.json")).st_mtime_ns, session))
        except FileNotFoundError:
            continue  # it ended meanwhile
    if not found:
        Session("", root).remove_root()
    return [session for _, session in sorted(found, key=lambda item: item[0])]
