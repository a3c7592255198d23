"""A driver: the runtime of a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...exceptions import ClusterLostError
from ...exceptions.printable import printable
from ...ids import JOB_ID_BYTES, root_task_id
from ...object_ref import ObjectRef
from ...options.runtime_env import env_vars_of, in_words
from ...ray_names import ray_imports
from ...store import errors, unpickling
from ...version import __version__
from ...wire.message import PROTOCOL_VERSION, Message
from ...wire.output import FlushOutput, OutputFlushed
from ...wire.scheduling import JobFacts, JobNotice, PublishCode
from ...wire.session import GoodbyeReply, Hello, ProcessDropped
from ...wire.task_spec import TaskSpec
from ..client.connection import Connection
from ..client.error_hints import note_missing_module
from ..client.event_log import event_log
from ..client.runtime import Runtime
from ..client.task_context import Submitter
from ..code.module_versions import Sources
from ..code.reloads import ReloadWatch
from ..links.compatibility import python_version, what_differs
from ..output.log_follower import LogFollower
from ..process.process_utils import how_it_ended, last_lines
from ..process.spawn import import_path, paths_of
from ..session.session import Session

if TYPE_CHECKING:
    from ..code.upload import Shipper


_modules = sys.modules  # looked at ahead of each frame


def _pidfd_of(node_pid: int, session: Session) -> int:
    """Return a pidfd of the session's node.

    Raises:
        ClusterLostError: the node has ended meanwhile.
    """
    try:
        return os.pidfd_open(node_pid)
    except ProcessLookupError:
        raise ClusterLostError(f"The node process of session {session.name} has ended.") from None


class Driver(Runtime):
    """The runtime of a program."""

    kept: Sequence[ObjectRef] = ()  # refs on files of the environment of all tasks
    shipper: Shipper | None = None
    logs: LogFollower | None = None
    recorder: Any = None  # writes the record of the run to a file

    def __init__(
        self,
        session: Session,
        node_pid: int,
        *,
        is_owner: bool,
        namespace: str,
        log_to_driver: bool,
        cancel_unreferenced: bool,
        infeasible: str,
        seed: int | None,
        runtime_env: dict[str, Any],
        only_looks: bool,
        code: list[tuple[str, bytes]] | None,
    ) -> None:
        """Join a session.  runtime_env: the part shared by node and program.  code: bundles to send; None: no other
        nodes.
        """
        self.node_pid = node_pid
        self.is_owner = is_owner
        self.paths = session
        self.node_pidfd = _pidfd_of(node_pid, session)
        job_id = os.urandom(JOB_ID_BYTES)
        connection = Connection(session.address, self.node_pidfd)
        facts = JobFacts(
            namespace or job_id.hex(),
            *paths_of(runtime_env, import_path()),
            env_vars=env_vars_of(runtime_env),
            given=in_words(runtime_env),
            infeasible=infeasible,
            log_to_driver=log_to_driver,
            cancels_unreferenced=cancel_unreferenced,
            seed=seed,
            as_ray=ray_imports.is_wanted(),
            only_looks=only_looks,
        )
        versions = (PROTOCOL_VERSION, __version__)
        hello = Hello(*versions, "driver", os.getpid(), job_id=job_id, python=python_version(), facts=facts)
        # Open while this program runs: forked children close it, other programs never have it.
        self.life = session.begin_life(job_id)
        try:
            welcome, early = connection.join(hello)
        except BaseException:
            connection.close()
            os.close(self.node_pidfd)
            session.end_life(job_id, self.life)
            raise
        if notice := what_differs("program", "session", welcome.version):
            print(f"zray: {notice}.", file=sys.stderr)
        root = Submitter(root_task_id(job_id), "driver")
        super().__init__(connection, session.name, welcome.inline_bytes_max, root, session.folder)
        self.job_id, self.node_id, self.runtime_env = job_id, welcome.node_id, runtime_env
        self.events = event_log(session.name, f"driver {os.path.basename(sys.argv[0]) or 'python'}")
        self.facts, self.namespace = hello.facts, hello.facts.namespace
        self.said_goodbye = self.has_all_output = self.has_notices = False  # the second: of other nodes, in the logs
        self.on_other = self._on_other
        self.watch, self.sources = ReloadWatch(self._has_reloaded), Sources(session.job_sources(job_id))
        # Of sys.path and sys.modules: another number has us look, ahead of the next frame.
        self.path_count = self.modules_count = -1
        self.more_messages = self._news
        with self.lock:
            self._handle(early)
        connection.how_node_ended = self._how_node_ended
        errors.annotate = note_missing_module
        unpickling.node, unpickling.is_driver = welcome.node_id.hex(), True
        if code is not None:
            self._begin_shipping(code)
        if log_to_driver:
            self.logs = LogFollower(session.job_logs(job_id))
        self.begin()

    def _begin_shipping(self, code: list[tuple[str, bytes]]) -> None:
        from ..code.upload import Shipper

        try:
            self.shipper = Shipper(self, code)
        except BaseException:
            self.watch.close()
            raise
        self.submit = self._submit_with_code  # type: ignore[method-assign]

    def close(self) -> None:
        super().close()
        self.watch.close()
        self.more_messages = None  # a method of this driver: a cycle
        self.shipper = None
        self.__dict__.pop("submit", None)

    def leave(self) -> None:
        """Leave the session, and end it if this program started it."""
        from .startup import stop

        stop(self)

    def _has_reloaded(self) -> None:
        """Note the reload of a module."""
        self.modules_count = -1
        if (shipper := self.shipper) is not None:
            shipper.modules_seen = -1

    def _news(self) -> tuple[Message, ...]:
        """Return messages about changed imports, to be sent before all others.  With the lock held."""
        if len(sys.path) != self.path_count or len(_modules) != self.modules_count:
            self.path_count, self.modules_count = len(sys.path), len(_modules)
            sys_path, _ = paths_of(self.runtime_env, import_path())
            has_reloaded = self.shipper is None and bool(self.imported_anew())  # else its code goes first
            if sys_path == self.facts.sys_path:
                sys_path = ()
            else:
                self.facts = replace(self.facts, sys_path=sys_path)
            if sys_path or has_reloaded:
                self.client.say_first(PublishCode([], sys_path, has_reloaded))
        return ()

    def imported_anew(self) -> set[str]:
        """Return the program's own modules that were imported again since workers got them.  The imported state is
        kept.
        """
        self.watch.learn()
        changed = self.sources.learn()
        reloaded = self.watch.take()
        self.sources.reloaded(reloaded)
        return {*changed, *(module.name for module in reloaded)}

    def look_for_code(self, function: Any = None) -> None:
        """Send code that others need to unpickle later values."""
        if (shipper := self.shipper) is not None:  # read once: another thread may close us
            shipper.look(function)

    def code_refs(self) -> list[ObjectRef]:
        """Return refs on the sent code: a driver is told of no code."""
        return shipper.refs() if (shipper := self.shipper) is not None else []

    def ask_for_output(self) -> FlushOutput | None:
        """Return the request for all output of other nodes, and for the count of notices; None: nothing may come."""
        may_come = self.shipper is not None or self.has_notices
        return FlushOutput(self.job_id) if self.logs is not None and may_come else None

    def _submit_with_code(self, spec: TaskSpec, num_returns: int) -> bytes:
        """Submit a task in a cluster: arguments may be of modules imported meanwhile."""
        if (shipper := self.shipper) is not None and len(sys.modules) != shipper.modules_seen:
            shipper.look()
        return Runtime.submit(self, spec, num_returns)

    def _on_other(self, message: Any) -> None:
        if type(message) is GoodbyeReply:
            self.said_goodbye = True
        elif type(message) is OutputFlushed:
            self.has_all_output = True
        elif type(message) is JobNotice:
            self.has_notices = True
            if message.is_event and os.environ.get("ZRAY_QUIET") == "1":
                return
            print(f"zray: {printable(message.text)}", file=sys.stderr, flush=True)
        elif type(message) is ProcessDropped:
            self.connection.over = f"The node has ended the link to this process: {message.reason}."

    def _how_node_ended(self) -> str:
        """Return how the node ended, for the user; only its parent process can tell."""
        try:
            ended = os.waitid(os.P_PID, self.node_pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return ""
        if ended is None:
            return ""
        how = how_it_ended(ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status)
        log = last_lines(self.paths.log_path("node"))
        return how + (f"; the last lines of its log:\n{log}\n" if log else "")
