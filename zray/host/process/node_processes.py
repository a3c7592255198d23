"""Node processes as seen by a driver or the command line: start, discovery, end.

Only modules for these steps are imported: a driver imports the rest while its node starts.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import math
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...exceptions import AuthenticationError, ClusterLostError
from ...exceptions.printable import printable
from ...on_import import SAID
from ...options.checks import check_whole
from ...options.count_ranges import count_range, refuse_range
from ..session import kept_logs
from ..session import session as sessions
from ..session.spill_directory import checked_directory
from . import visible_gpus
from .interpreter import WHAT_TO_SET, interpreter, started_again
from .machine_resources import cpu_count, memory_threshold, spill_threshold, store_bytes, work_bytes
from .process_utils import last_lines, reap, wait_for_end
from .spawn import current_folder, import_path, spawn

# Space for all options, so that no write waits for the node: 10,000 resources take some 250 KB.
OPTIONS_PIPE_BYTES = 1 << 20
# A node that fails to start reports so long before: a join takes at most JOIN_SECONDS (membership.py) and ENTRY_SECONDS
# (registration.py); and a start of fifty beside other work takes half a minute on two cores.
NODE_START_SECONDS = 60.0
NODE_END_SECONDS = 5.0
# Per core, of nodes started by one program: more would hardly be ready sooner (fifty on two cores: 7.6 to 9 s with 16,
# 10 s with 4), and would keep the head from present members, which it must answer within seconds.
STARTING_PER_CORE = 16
STORE_BYTES_MIN = 1 << 20
# Every process maps the whole store: half of the address space.
STORE_BYTES_MAX = 1 << 46
# Shards, replicas of each, global schedulers.
PROCESSES_MAX = 64
# Each process has some 20, and a spawned process gets its descriptors by way of numbers above 100 (spawn.py).
OPEN_FILES_MIN = 128
# For a program that is cut off: not below the limit of every node; a day is more than anybody means.
DRIVER_WAIT_MIN, DRIVER_WAIT_MAX = 3.0, 86_400.0


def declared_resources(
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    memory: float | None = None,
) -> dict[str, int]:
    """Return the node's resources in RESOURCE_UNITs.

    num_gpus: None: as many as are detected.  memory: in bytes; None: of this machine, without the object store.

    Raises:
        ValueError, TypeError: negative, not finite, reserved names; more GPUs than CUDA_VISIBLE_DEVICES names.
    """
    from ...options.remote_options import (
        NODE_RESOURCES_MAX,
        RESOURCE_OPTIONS,
        check_options,
        check_resources,
        resource_units,
    )
    from ...wire.amounts import NODE_PREFIX

    memory = work_bytes() if memory is None else memory
    num_gpus = visible_gpus.detected() or None if num_gpus is None else num_gpus
    given = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory}
    given = {name: amount for name, amount in given.items() if amount is not None}
    options: dict[str, Any] = check_options(given, RESOURCE_OPTIONS, "init()")
    if resources is not None:
        options["resources"] = check_resources("resources", resources, NODE_RESOURCES_MAX)
        if own := next((name for name in resources if name.startswith(NODE_PREFIX)), ""):
            raise ValueError(
                f"The resource {NODE_PREFIX}<address> exists on every node by itself: {own!r} cannot be declared."
            )
    units = resource_units(options, cpu_count())
    units.setdefault("CPU", 0)
    visible_gpus.check_declared(math.ceil(options.get("num_gpus") or 0))
    return units


def store_capacity(store: float | None) -> int:
    """Return the bytes of an object store.

    Raises:
        TypeError, ValueError: an invalid number.
    """
    if store is None:
        return store_bytes()
    return check_whole("object_store_memory (bytes)", store, STORE_BYTES_MIN, STORE_BYTES_MAX) >> 12 << 12


def _check_surroundings() -> None:
    """Check conditions that would lead to obscure errors later.

    Raises:
        OSError: this process may open too few files.
        ZrayError: there is no Python for zray's processes.
        ValueError: names of files cannot be sent, or a variable of the environment has a wrong value.
    """
    import resource

    interpreter()
    memory_threshold()
    kept_logs.bounds()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_MIN:
        text = f"This program may open {soft} files (ulimit -n), and a session of zray needs {OPEN_FILES_MIN} at least"
        raise OSError(errno.EMFILE, text)
    for path in (*import_path(), current_folder(), sessions.session_root()):
        try:
            path.encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            raise ValueError(
                f"The path {os.fsencode(path)!r}, where this program looks for modules, runs or keeps temporary files, "
                f"is not valid {encoding}, the encoding of this Python's file names: start it with PYTHONUTF8=1."
            ) from None


def start_node(
    total: dict[str, int],
    store: float | None,
    *,
    driver_pid: int,
    labels: dict[str, str] | None = None,
    cluster: dict[str, Any] | None = None,
    token: str = "",
    is_bound: bool = False,
    spill_directory: str | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> tuple[sessions.Session, int]:
    """Start a node process with a new session; returns when the node listens and, in a cluster, is a member.

    spill_directory: as `object_spilling_directory` of zray.init.

    driver_pid: of the driver with which the session ends; 0: a lasting session.  is_bound: a lasting session still ends
    with this process, however the process ends.  cluster: the node's part in a cluster (membership.py); token: for
    joining. meanwhile: called during the start.

    A node declared dead before being ready (because node or head stood still for seconds) is followed by another.

    Raises:
        ClusterLostError: the node did not start; quotes the node's output.
        ConnectionError: the node could not join; says why.
    """
    how: dict[str, Any] = {"driver_pid": driver_pid, "labels": labels, "token": token, "is_bound": is_bound}
    how["spill_directory"] = spill_directory
    try:
        with _starting:
            return _start_node(total, store, **how, cluster=cluster, meanwhile=meanwhile)
    except _WasGivenUp as given_up:
        assert cluster is not None
        again = {**cluster, "former": given_up.host, "why": given_up.why[:500]}
        try:
            with _starting:
                return _start_node(total, store, **how, cluster=again, meanwhile=None)
        except ConnectionError as error:
            kind = AuthenticationError if isinstance(error, AuthenticationError) else ConnectionError
            raise kind(f"{error}  (This was the second attempt.  The first failed: {given_up.why}.)") from None


_starting = threading.BoundedSemaphore(STARTING_PER_CORE * (os.cpu_count() or 1))


class _WasGivenUp(ConnectionError):
    """Error of a node declared dead before being ready."""

    def __init__(self, said: str) -> None:
        self.host, _, self.why = said.partition(" ")
        super().__init__(f"The node was declared dead before it was ready: {self.why}.")


def _start_node(
    total: dict[str, int],
    store: float | None,
    *,
    driver_pid: int,
    labels: dict[str, str] | None,
    cluster: dict[str, Any] | None,
    token: str,
    is_bound: bool,
    spill_directory: str | None,
    meanwhile: Callable[[], object] | None,
) -> tuple[sessions.Session, int]:
    from ...options.remote_options import checked_labels

    capacity, labels = store_capacity(store), checked_labels(labels)  # before any resource is made
    spilling = {"spill_directory": checked_directory(spill_directory), "spill_above": spill_threshold()}
    _check_surroundings()
    session = sessions.Session.named_anew()
    options = {
        "session": session.name,
        "root": os.path.dirname(session.folder),
        "total": total,
        "capacity": capacity,
        "driver_pid": driver_pid,
        "is_bound": is_bound,
        "labels": labels,
        "cluster": cluster,
        **spilling,
    }
    # Nameless: if this process is killed now, nothing remains.  The node switches to its log once it has a folder.
    early_log = os.memfd_create("zray-node-start")
    ready, its_end = os.pipe2(os.O_CLOEXEC)
    ourselves = os.pidfd_open(os.getpid())
    # As arguments the options of thousands of resources could be too long.  A file is subject to limits.
    told, teller = os.pipe2(os.O_CLOEXEC)
    descriptors = {
        its_end: sessions.READY_DESCRIPTOR,
        ourselves: sessions.DRIVER_DESCRIPTOR,
        told: sessions.OPTIONS_DESCRIPTOR,
    }
    ours = [ready, ourselves, early_log]
    if token:
        # Not as an argument, nor in the environment: other users can read those.
        secret, writer = os.pipe2(os.O_CLOEXEC)
        os.write(writer, token.encode())
        os.close(writer)
        descriptors[secret] = sessions.SECRET_DESCRIPTOR
        ours.append(secret)
    pid = 0
    try:
        try:
            pid = spawn("zray.host.node.main", [], output=early_log, descriptors=descriptors)
        except BaseException:
            os.close(teller)
            raise
        finally:
            os.close(its_end)
            os.close(told)
        _write_options(teller, marshal.dumps({**options, "program": _program()}))
        if meanwhile is not None:
            meanwhile()
        _wait_until_ready(session, pid, ready, early_log)
    except (KeyboardInterrupt, SystemExit):  # the node would run on unnoticed
        if pid:
            end_node(session, pid, seconds=0.0)
        raise
    finally:
        for descriptor in ours:
            os.close(descriptor)
    return session, pid


def _program() -> str:
    """Return the name of the program's file: its arguments may have secrets."""
    return os.path.basename(sys.argv[0]) if sys.argv else ""


def _say_if_logs_are_lost(session: sessions.Session) -> None:
    if why := session.why_logs_are_lost():
        text = f"zray: the logs of this session go with it ({printable(why)}).  ZRAY_LOG_DIR names another folder for "
        print(text + "them; ZRAY_LOG_BYTES=0 keeps none.", file=sys.stderr)


def _write_options(pipe: int, data: bytes) -> None:
    """Write the options of a newly started node, and close the pipe."""
    try:
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, OPTIONS_PIPE_BYTES)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(pipe, rest) :]
    except BrokenPipeError:
        pass  # the node has ended, and the waiting caller is told why
    finally:
        os.close(pipe)


def _wait_until_ready(session: sessions.Session, pid: int, ready: int, early_log: int) -> None:
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    is_heard = bool(poll.poll(NODE_START_SECONDS * 1000))
    said = os.read(ready, 4096) if is_heard else b""
    if not said.startswith(sessions.IS_READY):
        log = last_lines(f"/proc/self/fd/{early_log}") + last_lines(session.log_path("node"))
        how = end_node(session, pid, seconds=NODE_END_SECONDS if said or is_heard else 0.0)
        if said:
            why = said[1:].decode(errors="replace")
            raise _KINDS.get(said[:1], ConnectionError)(why)
        if SAID in log:
            raise started_again()
        what = f"{how} before it was ready" if is_heard else f"was not ready after {NODE_START_SECONDS:g} s"
        wrote = f"It wrote:\n{log}" if log.strip() else f"It wrote nothing.  {WHAT_TO_SET}"
        raise ClusterLostError(f"The node process did not start: {interpreter()} {what}.  {wrote}")
    _say_if_logs_are_lost(session)


_KINDS: dict[bytes, Callable[[str], Exception]] = {
    sessions.IS_DENIED: AuthenticationError,
    sessions.WAS_GIVEN_UP: _WasGivenUp,
}


def start_head(
    total: dict[str, int],
    store: float | None,
    *,
    host: str = "",
    port: int | None = None,
    gcs_shards: int | str | None = None,
    gcs_replicas: int | None = None,
    global_schedulers: int | str | None = None,
    policy: str | None = None,
    state_dir: str = "",
    gcs_lineage_memory: int | None = None,
    driver_wait: float | None = None,
    labels: dict[str, str] | None = None,
    is_bound: bool = False,
    spill_directory: str | None = None,
    gcs_store: str = "",
    gcs_store_password_file: str = "",
) -> tuple[sessions.Session, int]:
    """Start the head of a cluster.

    host: the head's address, for listening and as name.
    port: 0: any; None: the usual port, or any where that is taken.
    gcs_shards, gcs_replicas (of each), global_schedulers: more than one of a kind are processes of their own.  The
    number of global schedulers may change: "MIN:MAX", or "auto" (1 to PROCESSES_MAX).
    policy: which tasks leave their node, and the nodes chosen for the tasks (wire/scheduling.POLICIES).
    state_dir: the folder of the head's state; another head started on the folder takes up the state, and the nodes that
    still run; "": the state lies in the session's folder, and is gone with the session.
    gcs_lineage_memory: bytes of task specs that a shard keeps in memory, before the oldest leave for the disk.
    driver_wait: seconds that a program outside of the cluster may be cut off, or asleep, before being given up.
    is_bound: the head ends with this process.
    gcs_store: the address of a Redis or Valkey server that keeps the records of shards; "": as the state folder says,
    and in a new one, logs.  gcs_store_password_file: of its password, which may be in the environment instead.

    Raises:
        NotImplementedError: a kind of store that is not built; otherwise as start_node.
    """
    from ...wire.scheduling import POLICIES

    counts: dict[str, int] = {}
    if gcs_shards is not None:
        refuse_range("gcs_shards", gcs_shards)
        counts["shards"] = check_whole("gcs_shards", gcs_shards, 1, PROCESSES_MAX)
    if gcs_replicas is not None:
        counts["replicas"] = check_whole("gcs_replicas", gcs_replicas, 1, PROCESSES_MAX)
    if global_schedulers is not None:
        least, most = count_range("global_schedulers", global_schedulers, PROCESSES_MAX)
        counts |= {"schedulers": least, "schedulers_max": most if most > least else 0}
    if gcs_lineage_memory is not None:
        gcs_lineage_memory = check_whole("gcs_lineage_memory (bytes)", gcs_lineage_memory, 1, STORE_BYTES_MAX)
    if driver_wait is not None and not DRIVER_WAIT_MIN <= driver_wait <= DRIVER_WAIT_MAX:
        raise ValueError(
            f"driver_wait must be a number of seconds from {DRIVER_WAIT_MIN:g} to {DRIVER_WAIT_MAX:g}, "
            f"not {driver_wait!r}."
        )
    if policy is not None and policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {policy!r}.")
    cluster = {
        "kind": "head",
        "host": host,
        "port": port,
        **counts,
        "policy": policy,
        "lineage_bytes": gcs_lineage_memory,
        "driver_wait": float(driver_wait) if driver_wait is not None else None,
        "state_dir": os.path.abspath(state_dir) if state_dir else "",
        **_shard_store(gcs_store, state_dir, gcs_store_password_file),
    }
    how: dict[str, Any] = {"labels": labels, "is_bound": is_bound, "spill_directory": spill_directory}
    return start_node(total, store, driver_pid=0, cluster=cluster, **how)


def _shard_store(address: str, state_dir: str, password_file: str) -> dict[str, str]:
    """Return the options of a head on the store of its shards (cluster/shard_stores.py)."""
    from ...store.redis_address import checked
    from ..security.token_input import store_password

    return {
        "store": checked(address, state_dir) if address else "",
        "store_password": store_password(password_file),
    }


def start_member(
    total: dict[str, int],
    store: float | None,
    address: str,
    token: str,
    *,
    host: str = "",
    port: int = 0,
    advertise: str = "",
    head_wait: float | None = None,
    labels: dict[str, str] | None = None,
    is_bound: bool = False,
    spill_directory: str | None = None,
    rejoin: bool = False,
    former: str = "",
    called: str = "",
    why: str = "",
    replicas: bool = True,
) -> tuple[sessions.Session, int]:
    """Start a node of the cluster whose head is at `address` (HOST:PORT).

    host, port: where the node listens; port 0: any.
    advertise: where others reach the node, HOST[:PORT]; "": at host and port.
    head_wait: seconds that the node waits for a head that has ended, or stands still, to come back.
    is_bound: the node ends with this process.
    rejoin: a node that is cut off for longer than a member may be ends, and a new node joins in its place, with the
    same token (rejoin.py).
    former: the node being replaced; why: the reason of its end.
    called: the session of the first node in this place, which users know.
    replicas: whether the node may run replicas of GCS shards.

    Raises: as start_node.
    """
    if head_wait is not None and not 0 < head_wait < float("inf"):
        raise ValueError(f"head_wait must be a number of seconds above 0, not {head_wait!r}.")
    cluster = {
        "kind": "node",
        "address": address,
        "listen_host": host,
        "port": port,
        "advertise": advertise,
        "head_wait": head_wait,
        "rejoin": rejoin,
        "former": former,
        "called": called,
        "why": why,
        "replicas": replicas,
    }
    how: dict[str, Any] = {"labels": labels, "is_bound": is_bound, "spill_directory": spill_directory}
    return start_node(total, store, driver_pid=0, cluster=cluster, token=token, **how)


def end_node(
    session: sessions.Session, pid: int, fork_server: int | None = None, *, seconds: float = NODE_END_SECONDS
) -> str:
    """Wait for a session's processes; processes that do not end in time are killed.  Then nothing is left.

    Returns how the node ended, in words.

    fork_server: a pidfd, from a time when the node had not removed the session yet; the pidfd is closed.
    """
    if fork_server is None:
        fork_server = session.open_fork_server()
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        pidfd = None
    if pidfd is not None:
        if not wait_for_end(pidfd, seconds):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
    how = reap(pid)
    if fork_server is not None:
        wait_for_end(fork_server, NODE_END_SECONDS)
        os.close(fork_server)
    session.remove()
    return how
