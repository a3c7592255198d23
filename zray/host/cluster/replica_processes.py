"""Child processes of a node that host replicas of shards, as the replica keeper orders (roles/hosting.py).

They end with the node, as the head's processes (head_processes.py) end with the head.  Their logs lie in the session's
folder: the head's logs survive the machine, these only save memory.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import msgpack

from ...roles import replica_effects
from ...roles.hosting import ReplicaKeeper
from ...wire.hosting import HostedReplica
from ..process.process_utils import last_lines, reap
from ..process.spawn import spawn
from ..security.keyring import KeyPair
from ..session.session import NODE_DESCRIPTOR, READY_DESCRIPTOR, SECRET_DESCRIPTOR, Session

if TYPE_CHECKING:
    from ..reactor import Reactor
    from .membership import Membership


def start_service(
    session: Session, name: str, keys: KeyPair, options: dict[str, Any], password: str = ""
) -> tuple[int, int]:
    """Start a host without a node (service_main.py). name: the name of its log file; password: of its store.

    Returns the pid, and the end of a pipe that brings the listening address.
    """
    ready, its_end = os.pipe2(os.O_CLOEXEC)
    secret, writer = os.pipe2(os.O_CLOEXEC)
    os.write(writer, keys.secret + password.encode(errors="surrogateescape"))
    os.close(writer)
    ourselves = os.pidfd_open(os.getpid())
    output = session.open_log(session.log_path(name))
    try:
        pid = spawn(
            "zray.host.cluster.service_main",
            [msgpack.encode(options).hex()],
            output=output,
            descriptors={its_end: READY_DESCRIPTOR, ourselves: NODE_DESCRIPTOR, secret: SECRET_DESCRIPTOR},
        )
    except BaseException:
        os.close(ready)
        raise
    finally:
        for descriptor in (its_end, ourselves, secret, output):
            os.close(descriptor)
    return pid, ready


class Process:
    """A replica process."""

    def __init__(self, effect: replica_effects.StartReplicaProcess, host: str, public_key: bytes, folder: str) -> None:
        self.number = effect.number
        self.shard = effect.shard
        self.host = host
        self.public_key = public_key
        self.folder = folder
        self.name = f"{effect.shard}-{host}"
        self.pid = self.pidfd = self.ready = -1
        self.has_said = False  # whether its address has arrived


class HostedReplicas:
    """All of a node's."""

    loop: Reactor

    def __init__(
        self, session: Session, member: Membership, log: Callable[[str], None], *, is_willing: bool = True
    ) -> None:
        self.session = session
        self.member = member
        self.log = log
        self.keeper = ReplicaKeeper(f"{member.host}/replicas", f"{member.head}/hosting", is_willing=is_willing)
        self.running: dict[str, Process] = {}
        self.count = 0

    def attach(self, loop: Reactor) -> None:
        """Attach to the reactor's loop, and tell the head."""
        self.loop = loop
        self.keeper.start()
        loop._perform(self.keeper.address, self.keeper.take_effects())

    def effects(self) -> dict[type, Any]:
        """Return the effects performed here, with their functions."""
        return {
            replica_effects.StartReplicaProcess: lambda role, effect: self._start(effect),
            replica_effects.EndReplicaProcess: lambda role, effect: self._end(effect.host),
        }

    def _tell(self, message: Any) -> None:
        self.loop.deliver(self.keeper.address, message)

    def _start(self, effect: replica_effects.StartReplicaProcess) -> None:
        host, keys = os.urandom(8).hex(), KeyPair.draw()
        self.count += 1
        # Short, because paths of Unix sockets are limited (session.py).
        folder = os.path.join(self.session.folder, f"r{self.count}")
        log = os.path.join(folder, "log")
        process = Process(effect, host, keys.public, folder)
        member = self.member
        assert member.head_key is not None
        options = {
            "kind": "replica",
            "shard": effect.shard,
            "log": log,
            "folder": folder,
            "is_lasting": False,
            "is_hosted": True,
            "lineage_bytes": effect.lineage_bytes,
            "chains": member.chains,
            "host": host,
            "head": member.head,
            "head_endpoint": member.cluster,
            "head_key": member.head_key.public,
        }
        try:
            os.makedirs(log, mode=0o700)
            process.pid, process.ready = start_service(self.session, process.name, keys, options)
        except OSError as error:
            self._tell(replica_effects.ReplicaNotStarted(effect.number, f"it cannot be started: {error}"))
            return
        process.pidfd = os.pidfd_open(process.pid)
        self.running[host] = process
        self.loop.watch(process.pidfd, lambda: self._ended(process))
        self.loop.watch(process.ready, lambda: self._listens(process))

    def _listens(self, process: Process) -> None:
        """Read the pipe of a process: the listening address, or its end."""
        said = os.read(process.ready, 4096)
        self.loop.unwatch(process.ready)
        os.close(process.ready)
        process.ready = -1
        if not said:
            return  # the process ends: its pidfd tells
        _, refusal = msgpack.decode(said)
        if refusal:
            self.log(f"{process.name}: {refusal}")
            return
        process.has_said = True
        self.log(f"{process.name} is process {process.pid}")
        replica = HostedReplica(process.host, process.shard, process.public_key)
        self._tell(replica_effects.ReplicaStarted(process.number, replica))

    def _end(self, host: str) -> None:
        if process := self.running.get(host):
            signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)

    def _ended(self, process: Process) -> None:
        if process.ready >= 0:
            self._listens(process)  # the pipe may hold the reason
        self.loop.unwatch(process.pidfd)
        os.close(process.pidfd)
        del self.running[process.host]
        reason = reap(process.pid)
        self.log(f"{process.name}: {reason}")
        shutil.rmtree(process.folder, ignore_errors=True)
        if process.has_said:
            self._tell(replica_effects.ReplicaGone(process.host, reason))
        else:
            lines = last_lines(self.session.log_path(process.name))
            self._tell(replica_effects.ReplicaNotStarted(process.number, f"it {reason}: {lines}"[:2_000]))

    def close(self) -> None:
        """Close the watched descriptors; the processes themselves end with the node."""
        for process in self.running.values():
            for descriptor in (process.pidfd, process.ready):
                if descriptor >= 0:
                    os.close(descriptor)
        self.running.clear()
