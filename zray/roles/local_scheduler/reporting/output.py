"""Worker output for a driver on another node (log_to_driver).

    a worker is given to such a job    ReadOutput: the host reads new lines in the job's logs (OutputRead)
    -> JobOutput to the driver's node, where the host keeps the lines for the driver (WriteOutput, OutputWritten)
    -> OutputHeard; only then the next is read

So at most a single piece per job and node is under way.  Faster output stays in the logs, and the host reports how much
it has skipped (host/output/forwarding.py).  A driver that ends requests the remaining output of all nodes
(FlushOutput), and does not wait long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.output import FlushOutput, JobOutput, OutputFlushed, OutputHeard
from ...effects import ForgetOutput, OutputRead, OutputWritten, ReadOutput, WriteOutput
from ...role import on
from ..tables import Job, Process

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Pieces that follow a FlushOutput: who prints on and on is left behind.
FLUSH_PIECES_MAX = 100


class Followed(Struct, gc=False, eq=False):
    """A job of another node's driver, with local workers."""

    home: str
    flushed_count: int = -1  # pieces since FlushOutput; -1: there was none


class Output:
    """Output of a node's workers, and for its drivers."""

    OF_JOBS = {"followed kept awaited": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.followed: dict[bytes, Followed] = {}
        self.kept: set[bytes] = set()  # jobs of drivers here that had some; membership only
        self.awaited: dict[bytes, dict[str, None]] = {}  # by job of a driver that ends: who has not said all yet

    # --- of workers here ---

    def joins(self, job: Job) -> None:
        """Follow the output of a job that has got a worker."""
        home, job_id = job.home, job.job_id
        if not job.facts.log_to_driver or home == self.node.address or job_id in self.followed:
            return
        if home not in self.node.recovery.lost and job_id not in self.node.ended_jobs:
            self.followed[job_id] = Followed(home)
            self.node.perform(ReadOutput(job_id))

    @on(OutputRead)
    def on_output_read(self, message: OutputRead) -> None:
        """OutputRead: the text is sent to the driver's node; empty text: no more output now."""
        followed = self.followed.get(message.job_id)
        if followed is None:
            return
        if message.text:
            self.node.send(followed.home, JobOutput(message.job_id, message.text))
            if followed.flushed_count >= 0:
                followed.flushed_count += 1
                if followed.flushed_count >= FLUSH_PIECES_MAX:
                    self._flushed(followed, message.job_id)
            return
        if followed.flushed_count >= 0:
            self._flushed(followed, message.job_id)
        self.node.perform(ReadOutput(message.job_id))

    def _flushed(self, followed: Followed, job_id: bytes) -> None:
        followed.flushed_count = -1
        self.node.send(followed.home, OutputFlushed(job_id))

    @on(OutputHeard)
    def on_output_heard(self, message: OutputHeard) -> None:
        """OutputHeard."""
        followed = self.followed.get(message.job_id)
        if followed is None or followed.home != self.node.sender:
            return
        if message.is_wanted:
            self.node.perform(ReadOutput(message.job_id, at_once=followed.flushed_count >= 0))
        else:
            self._forget(message.job_id)

    def _forget(self, job_id: bytes) -> None:
        if self.followed.pop(job_id, None) is not None:
            self.node.perform(ForgetOutput(job_id))

    # --- for drivers here ---

    @on(JobOutput)
    def on_job_output(self, message: JobOutput) -> None:
        """JobOutput."""
        job = self.node.jobs.get(message.job_id)
        if job is None or job.driver is None or not job.facts.log_to_driver:
            self.node.send(self.node.sender, OutputHeard(message.job_id, False))
            return
        self.kept.add(message.job_id)
        self.node.perform(WriteOutput(message.job_id, self.node.sender, message.text))

    @on(OutputWritten)
    def on_output_written(self, message: OutputWritten) -> None:
        """OutputWritten: the source may send more; or a driver has received everything."""
        if message.source in self.node.processes:
            self.node.send(message.source, OutputFlushed(message.job_id))
        elif message.source in self.node.members.peers:
            self.node.send(message.source, OutputHeard(message.job_id, True))

    @on(FlushOutput)
    def on_flush_output(self, message: FlushOutput) -> None:
        """FlushOutput, from a local driver or its node."""
        node, job_id = self.node, message.job_id
        process = node.processes.get(node.sender)
        node.notices.end_window(job_id)
        if process is None:
            self._flush_here(job_id)
            return
        if process is not process.job.driver or process.job.job_id != job_id:
            node.reject("output that is not its sender's")
        elif process.job.has_left and node.members.peers:
            self.awaited[job_id] = dict.fromkeys(node.members.peers)
            for peer in node.members.peers:
                node.send(peer, FlushOutput(job_id))
        else:
            self._all_here(process)

    def _flush_here(self, job_id: bytes) -> None:
        followed = self.followed.get(job_id)
        if followed is None or followed.home != self.node.sender:
            self.node.send(self.node.sender, OutputFlushed(job_id))
            return
        followed.flushed_count = 0
        self.node.perform(ReadOutput(job_id, at_once=True))

    @on(OutputFlushed)
    def on_output_flushed(self, message: OutputFlushed) -> None:
        """OutputFlushed."""
        self._has_said_all(message.job_id, self.node.sender)

    def _has_said_all(self, job_id: bytes, peer: str) -> None:
        awaited = self.awaited.get(job_id)
        if awaited is None:
            return
        awaited.pop(peer, None)
        job = self.node.jobs.get(job_id)
        if not awaited:
            del self.awaited[job_id]
            if job is not None and job.driver is not None:
                self._all_here(job.driver)

    def _all_here(self, driver: Process) -> None:
        """Write an empty piece for a driver, as a marker after all earlier output."""
        job_id = driver.job.job_id
        if job_id in self.kept:
            self.node.perform(WriteOutput(job_id, driver.address, ""))
        else:
            self.node.send(driver.address, OutputFlushed(job_id))

    # --- ends ---

    def ended_elsewhere(self, job_id: bytes, home: str) -> None:
        """Stop following a job whose driver has ended."""
        followed = self.followed.get(job_id)
        if followed is not None and followed.home == home:
            self._forget(job_id)

    def job_ended(self, job_id: bytes) -> None:
        """Forget the output of a finished job, local or remote."""
        self._forget(job_id)
        self.awaited.pop(job_id, None)
        if job_id in self.kept:
            self.kept.discard(job_id)
            self.node.perform(ForgetOutput(job_id))

    def node_lost(self, lost: str) -> None:
        """Forget the output to and from a lost node."""
        for job_id in [job_id for job_id, followed in self.followed.items() if followed.home == lost]:
            self._forget(job_id)
        for job_id in list(self.awaited):
            self._has_said_all(job_id, lost)
