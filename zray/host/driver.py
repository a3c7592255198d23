"""A driver: the runtime of a program."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import __version__
from ..ids import JOB_ID_BYTES, root_task_id
from ..runtime_env import env_vars_of
from ..wire.message import PROTOCOL_VERSION
from ..wire.scheduling import JobFacts, JobNotice
from ..wire.session import GoodbyeReply, Hello, ProcessDropped
from .connection import Connection
from .logs import LogFollower
from .processes import how_it_ended, last_lines
from .runtime import Runtime
from .session import Session
from .spawn import import_path
from .submitter import Submitter
from .versions import python_version, what_differs


class Driver(Runtime):
    """The runtime of a program."""

    def __init__(
        self,
        session: Session,
        node_pid: int,
        *,
        is_owner: bool,
        namespace: str,
        log_to_driver: bool,
        infeasible: str,
        runtime_env: dict[str, Any],
    ) -> None:
        self.node_pid = node_pid
        self.is_owner = is_owner
        self.paths = session
        self.node_pidfd = os.pidfd_open(node_pid)
        self.logs: LogFollower | None = None
        job_id = os.urandom(JOB_ID_BYTES)
        connection = Connection(session.address, self.node_pidfd)
        hello = Hello(
            PROTOCOL_VERSION,
            __version__,
            "driver",
            os.getpid(),
            job_id=job_id,
            python=python_version(),
            facts=JobFacts(
                namespace or job_id.hex(),
                tuple(os.path.abspath(entry) for entry in import_path()),
                os.getcwd(),
                env_vars=env_vars_of(runtime_env),
                infeasible=infeasible,
            ),
        )
        try:
            welcome, early = connection.join(hello)
        except BaseException:
            connection.close()
            raise
        if notice := what_differs("program", "session", welcome.version):
            print(f"zray: {notice}.", file=sys.stderr)
        super().__init__(connection, session.name, welcome.inline_bytes_max, Submitter(root_task_id(job_id), "driver"))
        self.job_id = job_id
        self.node_id = welcome.node_id
        self.facts = hello.facts
        self.namespace = self.facts.namespace
        self.said_goodbye = False
        self.on_other = self._on_other
        with self.lock:
            self._handle(early)
        connection.how_node_ended = self._how_node_ended
        if log_to_driver:
            self.logs = LogFollower(session.job_logs(job_id))

    def _on_other(self, message: Any) -> None:
        if type(message) is GoodbyeReply:
            self.said_goodbye = True
        elif type(message) is JobNotice:
            print(f"zray: {message.text}", file=sys.stderr, flush=True)
        elif type(message) is ProcessDropped:
            self.connection.over = f"The node has ended the link to this process: {message.reason}."

    def _how_node_ended(self) -> str:
        """For the user; only its parent can tell."""
        try:
            ended = os.waitid(os.P_PID, self.node_pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return ""
        if ended is None:
            return ""
        how = how_it_ended(ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status)
        log = last_lines(self.paths.log_path("node"))
        return how + (f"; the last lines of its log:\n{log}\n" if log else "")
