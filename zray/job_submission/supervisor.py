"""Actors behind job submission: a supervisor for each program, and one registry of all programs.

The supervisor runs the program's command in a process group of its own, keeps the latest output, and writes it into a
log of the session.  At the end it hands its facts and the output to the registry, and ends.  Both are detached: they
outlive the submitter.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import zray
from zray.api.job_config import SUBMITTED_VARIABLE
from zray.api.program_logs import ProgramLog

from .details import JobDetails, JobStatus

__all__ = ["NAMESPACE", "REGISTRY", "Registry", "Supervisor", "supervisor_name"]

NAMESPACE = "_zray_job_submission"
REGISTRY = "registry"
# Bytes of output that are kept of a program: the latest.
OUTPUT_BYTES_MAX = 16 << 20
# Ended programs that the registry keeps, and bytes of their output together; the oldest go.
ENDED_MAX = 1_000
ENDED_BYTES_MAX = 64 << 20
# Seconds between SIGTERM and SIGKILL, as in Ray.
STOP_SECONDS = 3.0
# Characters of the last line of output in the message of a failure.
LAST_LINE_MAX = 300

# The shell of a command ($0) begins when it is told to; without its supervisor it ends.
BEGIN = 'read -r word && exec /bin/sh -c "$0" < /dev/null'
# The guard of a process group ($0) kills the group when the supervisor has ended, which closes its standard input.
GUARD = 'cat > /dev/null; kill -s KILL -- "-$0"'


def supervisor_name(submission_id: str) -> str:
    """The name of the supervisor of a program."""
    return f"job {submission_id}"


class Output:
    """The latest output of a program, by offsets from its beginning."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.begin = 0  # offset of the first byte that is kept
        self.is_over = False
        self.changed = threading.Condition()

    def add(self, data: bytes) -> None:
        """Add output."""
        with self.changed:
            self.data += data
            excess = len(self.data) - OUTPUT_BYTES_MAX
            if excess > 0:
                del self.data[:excess]
                self.begin += excess
            self.changed.notify_all()

    def end(self) -> None:
        """Note that no output follows."""
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def since(self, offset: int, patience: float = 0.0) -> tuple[bytes, int, bool]:
        """The output behind an offset, the offset behind it, and whether none follows; waits for output for a while."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_over or self.begin + len(self.data) > offset, patience)
            data = bytes(self.data[max(offset - self.begin, 0) :])
            return data, self.begin + len(self.data), self.is_over


class Supervisor:
    """Runs the command of a program.  Its class of actors is threaded: it answers while the program runs.

    Args:
        details: of the program.
        has_working_dir: whether the environment has a folder, which is then this process's working directory.
        runtime_env: environment of the program's tasks.
        registry: the actor that lists programs.
    """

    def __init__(self, details: JobDetails, has_working_dir: bool, runtime_env: dict[str, Any], registry: Any) -> None:
        self.details, self.registry = details, registry
        self.output = Output()
        self.lock = threading.Lock()
        self.is_stopped = False
        self.process: subprocess.Popen[bytes] | None = None
        self.guard: subprocess.Popen[bytes] | None = None
        given = {**runtime_env, **({"working_dir": os.getcwd()} if has_working_dir else {})}
        address = zray.get_runtime_context().gcs_address
        self.environment = {
            **os.environ,
            "ZRAY_ADDRESS": address,
            "PYTHONUNBUFFERED": "1",
            "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath),
            SUBMITTED_VARIABLE: json.dumps(given),
        }
        self._start()  # not by a call: the submitter may have ended

    def _start(self) -> None:
        """Start the program."""
        with self.lock:
            self.details = replace(
                self.details,
                status=JobStatus.RUNNING,
                message="The program runs.",
                start_time=_now(),
                driver_node_id=zray.get_runtime_context().get_node_id(),
            )
            try:
                self.process = subprocess.Popen(
                    ["/bin/sh", "-c", BEGIN, self.details.entrypoint],
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                text = f"The command could not be started: {error}."
                self._ended(JobStatus.FAILED, text, "JOB_ENTRYPOINT_COMMAND_START_ERROR", None)
                return
            guard = ["/bin/sh", "-c", GUARD, str(self.process.pid)]
            self.guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
            assert self.process.stdin is not None
            self.process.stdin.write(b"begin\n")
            self.process.stdin.close()
            zray.get(self.registry.note.remote(self.details))
        threading.Thread(target=self._follow, name="job", daemon=True).start()

    def _follow(self) -> None:
        """Read the output of the program to its end."""
        assert self.process is not None and self.process.stdout is not None
        log = ProgramLog(self.details.submission_id or "", self.process.pid)
        while data := self.process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            log.add(data)
            self.output.add(data)
        log.close()
        code = self.process.wait()
        self._end_group(signal.SIGKILL)  # children that the program has left behind
        if self.guard is not None:
            self.guard.kill()
            self.guard.wait()
        with self.lock:
            if self.is_stopped:
                self._ended(JobStatus.STOPPED, "The program was stopped.", None, code)
            elif code == 0:
                self._ended(JobStatus.SUCCEEDED, "The program has ended.", None, code)
            else:
                self._ended(JobStatus.FAILED, self._failure(code), "JOB_ENTRYPOINT_COMMAND_ERROR", code)

    def _failure(self, code: int) -> str:
        how = f"exit status {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        last = bytes(self.output.data[-LAST_LINE_MAX:]).decode("utf-8", "replace").strip().split("\n")[-1]
        return f"The program has failed with {how}{f'; its last line: {last}' if last else '.'}"

    def _ended(self, status: JobStatus, message: str, error_type: str | None, code: int | None) -> None:
        """Hand all to the registry, and end.  With the lock held."""
        self.details = replace(
            self.details, status=status, message=message, error_type=error_type, end_time=_now(), driver_exit_code=code
        )
        self.output.end()
        data, _, _ = self.output.since(0)
        zray.get(self.registry.note.remote(self.details, data, self.output.begin))
        zray.get_actor(supervisor_name(self.details.submission_id or ""), NAMESPACE).leave.remote()

    def leave(self) -> None:
        """End this actor, behind the calls that have come."""
        zray.actor.exit_actor()

    def info(self) -> JobDetails:
        """The facts on the program."""
        return self.details

    def logs(self, offset: int = 0, patience: float = 0.0) -> tuple[bytes, int, bool]:
        """The output behind an offset, as `Output.since`."""
        return self.output.since(offset, patience)

    def stop(self) -> bool:
        """Stop the program: SIGTERM, and SIGKILL after a while.  Returns whether it ran, or was about to."""
        with self.lock:
            if self.details.status.is_terminal():
                return False
            self.is_stopped = True
        assert self.process is not None  # it began in the constructor
        self._end_group(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._end_group(signal.SIGKILL)
        return True

    def _end_group(self, number: int) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Registry:
    """The list of programs, those that have ended with their output."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[str, JobDetails] = OrderedDict()
        self.outputs: OrderedDict[str, tuple[bytes, int]] = OrderedDict()  # of ended ones, with the first offset

    def add(self, details: JobDetails) -> bool:
        """Add a program; False: its id is taken."""
        if details.submission_id in self.jobs:
            return False
        self.jobs[details.submission_id or ""] = details
        return True

    def note(self, details: JobDetails, output: bytes | None = None, begin: int = 0) -> None:
        """Take the new facts on a program, and its output where it has ended."""
        name = details.submission_id or ""
        if name not in self.jobs:
            return  # deleted meanwhile
        self.jobs[name] = details
        if output is not None:
            self.outputs[name] = output, begin
            while len(self.outputs) > ENDED_MAX or (
                len(self.outputs) > 1 and sum(len(data) for data, _ in self.outputs.values()) > ENDED_BYTES_MAX
            ):
                oldest, _ = self.outputs.popitem(last=False)
                del self.jobs[oldest]

    def all(self) -> list[JobDetails]:
        """The programs, the latest first."""
        return [*reversed(self.jobs.values())]

    def get(self, submission_id: str) -> tuple[JobDetails, tuple[bytes, int] | None] | None:
        """A program, with its output if it has ended; None: there is none of the id."""
        found = self.jobs.get(submission_id)
        return None if found is None else (found, self.outputs.get(submission_id))

    def delete(self, submission_id: str) -> None:
        """Forget a program."""
        self.jobs.pop(submission_id, None)
        self.outputs.pop(submission_id, None)


def _now() -> int:
    return round(1000 * time.time())
