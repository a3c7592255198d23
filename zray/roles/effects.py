"""Effects that a role cannot perform itself, as data; and the messages that report their outcomes.

An effect never raises: each outcome is a message, addressed to the role that asked.  The host performs the effects of a
turn in order.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct

from ..wire import gcs, scheduling
from ..wire.message import Bulk, Local, Message
from .replica_effects import (
    EndReplicaProcess,
    EndScheduler,
    LetInReplica,
    MeasureCpu,
    NoteChain,
    ShutOutReplica,
    StartReplicaProcess,
    StartScheduler,
)
from .work_effects import WorkEffect


class Send(Struct, gc=False):
    """Give `message` to `destination`.  If the peer is gone, the message is dropped; the peer's end is reported."""

    destination: str
    message: Message | Local


class SetTimer(Struct):
    """Give `message` back to this role in `delay` seconds.  (With gc: a `Later` refers to objects that refer to the
    role.)"""

    delay: float
    message: Local


class StartWorker(Struct, gc=False):
    """Fork a worker process.  Outcome: WorkerStarted or WorkerStartFailed, and WorkerExited in the end."""

    worker: str
    worker_id: int
    packages: str = ""  # of its environment (wire/environment.py); installed first where this node does not have them


class KillWorker(Struct, gc=False):
    """Kill a worker and its process group (kill -9).  Outcome: WorkerExited."""

    worker: str


class OpenWindow(Struct, gc=False):
    """Let a worker claim `count` more tasks.  Precedes the StartTasks with these tasks."""

    worker: str
    count: int


class ReclaimTasks(Struct, gc=False):
    """Take up to `count` unclaimed tasks out of a worker's window.  Outcome: TasksReclaimed."""

    worker: str
    count: int
    sought: bytes = b""  # the task for which this is done, if it is for one


class ReadOutput(Struct, gc=False):
    """Read new lines in the logs of a job's workers.  Outcome: OutputRead, when lines exist; at_once: now."""

    job_id: bytes
    at_once: bool = False


class WriteOutput(Struct, gc=False):
    """Keep lines for a local driver, which follows them (log_follower.py).  Outcome: OutputWritten, in order."""

    job_id: bytes
    source: str
    text: str


class ForgetOutput(Struct, gc=False):
    """Stop reading and keeping a job's output."""

    job_id: bytes


OUTPUT_EFFECTS = (ReadOutput, WriteOutput, ForgetOutput)


class ForgetProcess(Struct, gc=False):
    """Drop the link and the address of a process that is gone."""

    process: str


class CreateSegment(Struct, gc=False):
    """Create a shared-memory segment of `size` bytes, without reserving pages.  Outcome: SegmentCreated / ...Failed."""

    segment: int
    size: int


class ReservePages(Struct, gc=False):
    """Reserve pages for [offset, offset + length) (posix_fallocate).  Outcome: PagesAreThere / PagesRefused."""

    segment: int
    offset: int
    length: int
    token: int


class ReadRange(Struct, gc=False):
    """Read a range of a segment, for another node.  Outcome: RangeRead with the same token."""

    segment: int
    offset: int
    size: int
    token: int


class WriteRange(Struct, gc=False):
    """Write bytes that came from another node into a segment.  Outcome: RangeWritten with the same token.

    is_awaited: write at once.  Otherwise the host writes with the next message: more bytes follow before any reaction.
    """

    segment: int
    offset: int
    data: Bulk
    token: int
    is_awaited: bool = True


class WriteSpillFile(Struct, gc=False):
    """Write ranges, as (segment, offset, size), into a new file of the spill folder.  Outcome: SpillFileWritten.

    source: a file instead, whose parts are copied: (position, size, checksum) each.
    """

    file: int
    parts: list[tuple[int, int, int]]
    token: int
    source: int = 0


class RestoreRange(Struct, gc=False):
    """Read `size` bytes of a spill file into a reserved range, and check them.  Outcome: RangeRestored."""

    file: int
    position: int
    segment: int
    offset: int
    size: int
    checksum: int
    token: int


class RemoveSpillFile(Struct, gc=False):
    """Remove a spill file.  Orders that were given before still find its content."""

    file: int


class CreateSegmentFile(Struct, gc=False):
    """Create a segment in a file on the disk, with all its blocks.  Outcome: SegmentFileCreated.

    is_for_read: a process waits to read the value, which has a copy elsewhere: so the disk may be filled to its end.
    file, position: the spill file with that copy; the segment is a link to the file, if the file system has links.
    """

    segment: int
    size: int
    is_for_read: bool = False
    file: int = 0
    position: int = 0


class RemoveSegmentFile(Struct, gc=False):
    """Remove the file of a segment.  Processes that have mapped it may read on."""

    segment: int


SPILL_EFFECTS = (WriteSpillFile, RestoreRange, RemoveSpillFile, CreateSegmentFile, RemoveSegmentFile)


class EndSession(Struct, gc=False):
    """End the node: workers, segments, sockets, folder.  may_rejoin: a new node may join in its place."""

    reason: str
    may_rejoin: bool = False


class MeetHost(Struct, gc=False):
    """Admit the host of another node, and connect to its endpoint if the other node joined first."""

    node: str
    kind: str
    endpoint: str
    public_key: bytes
    is_earlier: bool


class ForgetHost(Struct, gc=False):
    """Forget a host that is gone for good: refuse the key, drop messages, and tell the host if alive."""

    node: str
    reason: str


class NoteMember(Struct, gc=False):
    """Record durably that the node is a member."""

    node: gcs.RegisterNode


class NoteLost(Struct, gc=False):
    """Record durably that a node is lost, before the loss is announced."""

    node: str
    reason: str


class ProbeHost(Struct, gc=False):
    """Probe a role's host from outside, by the network alone.  endpoint: the host's address; "": the head's.

    Outcome: HostProbed.
    """

    role: str
    endpoint: str = ""


class AppendToLog(Struct, gc=False):
    """Append records durably and atomically.  Outcome: LogAppended, LogRefused (with this token), or LogBroken."""

    records: list[bytes]
    token: int


class SaveSnapshot(Struct, gc=False):
    """Save part `number` (from 1) of a snapshot that includes at least the records before part 1.

    Records may come between the parts.  The last part completes the snapshot; then records before part 1 may be
    deleted, and all pages up to `newest_page` except `pages`.  Outcome: as of AppendToLog.
    """

    part: bytes
    number: int
    token: int
    is_last: bool = False
    pages: list[int] = []
    newest_page: int = 0


class WritePage(Struct, gc=False):
    """Write a page durably beside the log.  Outcome: PageWritten or PageRefused (with this token), or LogBroken."""

    data: bytes
    token: int


class ReadPage(Struct, gc=False):
    """Read a page.  Outcome: PageRead or PageLost."""

    page: int


Effect = (
    Send
    | SetTimer
    | StartWorker
    | KillWorker
    | OpenWindow
    | ReclaimTasks
    | ForgetProcess
    | WorkEffect
    | ReadOutput
    | WriteOutput
    | ForgetOutput
    | CreateSegment
    | ReservePages
    | ReadRange
    | WriteRange
    | WriteSpillFile
    | RestoreRange
    | RemoveSpillFile
    | CreateSegmentFile
    | RemoveSegmentFile
    | EndSession
    | MeetHost
    | ForgetHost
    | NoteMember
    | NoteLost
    | ProbeHost
    | AppendToLog
    | SaveSnapshot
    | WritePage
    | ReadPage
    | StartReplicaProcess
    | EndReplicaProcess
    | LetInReplica
    | ShutOutReplica
    | NoteChain
    | StartScheduler
    | EndScheduler
    | MeasureCpu
)


class WorkerStarted(Local):
    """Outcome of StartWorker: the process exists, and a Hello follows."""

    worker: str
    pid: int


class WorkerStartFailed(Local):
    """Outcome of StartWorker."""

    worker: str
    reason: str
    is_unfit: bool = False  # its packages cannot be had, and another attempt would not succeed either


class WorkerExited(Local):
    """A worker process ended.  cause says how, for the user (signal or exit code); log: its last lines.

    freed: bytes of memory, if the node has ended the worker for these.
    """

    worker: str
    cause: str
    unclaimed: int  # tasks of its window that it had not begun
    pid: int = 0
    log: tuple[str, ...] = ()
    freed: int = 0

    def details(self, node: str) -> dict[str, Any]:
        """Return the details for errors caused by the worker's end.  node: the worker's node, as users know it."""
        return {"pid": self.pid, "node": node, "exit_text": self.cause, "log_tail": self.log}


class ProcessJoined(Local):
    """The host has shaken hands with a driver or a worker, and assigned the address."""

    process: str
    kind: str
    pid: int
    job_id: bytes
    worker_id: int = 0
    facts: scheduling.JobFacts = scheduling.JobFacts()


class ProcessLeft(Local):
    """A driver has ended, in whatever way."""

    process: str
    reason: str


class HostLinkChanged(Local):
    """Host -> monitor: the connection to a node is broken, or restored."""

    node: str
    is_up: bool


class Finding(Enum):
    """The result of probing a host's port."""

    ENDED = "its machine reports that nothing listens there"
    STANDS_STILL = "its machine accepts the connection, and the process sends nothing"
    ANSWERS = "the process answers"
    OUT_OF_REACH = "nobody answers"


class HostProbed(Local):
    """Outcome of ProbeHost."""

    role: str
    finding: Finding


class HeadChanged(Local):
    """Host -> roles of a node: the head was restarted, as another host.  former, head: ids of both hosts."""

    former: str
    head: str
    global_schedulers: list[str]


class SchedulerGone(Local):
    """Host -> local scheduler: a global scheduler has ended, and no more of its messages will arrive."""

    role: str


class HostLeft(Local):
    """Host -> monitor: a node has announced its end."""

    node: str
    reason: str


class DrainOrdered(Local):
    """Host -> monitor: drain a node, which leaves after `seconds` at the latest."""

    node: str
    seconds: float  # 0: it takes what it takes


class TasksReclaimed(Local):
    """Outcome of ReclaimTasks: the worker has lost the last `count` tasks of its queue."""

    worker: str
    count: int
    sought: bytes = b""


class SegmentCreated(Local):
    """Outcome of CreateSegment."""

    segment: int


class SegmentCreateFailed(Local):
    """Outcome of CreateSegment."""

    segment: int
    reason: str


class PagesAreThere(Local):
    """Outcome of ReservePages."""

    token: int


class PagesRefused(Local):
    """Outcome of ReservePages: the shared memory is full."""

    token: int
    reason: str


class RangeRead(Local):
    """Outcome of ReadRange. data may be a view: the bytes are read at each sending."""

    token: int
    data: Bulk


class RangeWritten(Local):
    """Outcome of WriteRange."""

    token: int


class SpillFileWritten(Local):
    """Outcome of WriteSpillFile: the CRC-32 of each part; none: the file could not be written, for the reason."""

    token: int
    checksums: list[int] = []
    reason: str = ""


class RangeRestored(Local):
    """Outcome of RestoreRange.  reason: why the part cannot be read; "": it is there, with the right checksum."""

    token: int
    reason: str = ""


class SegmentFileCreated(Local):
    """Outcome of CreateSegmentFile.  reason: why it could not be created; "": it was.

    offset: of the value, in a link to a spill file.
    """

    segment: int
    reason: str = ""
    offset: int = 0


class LogAppended(Local):
    """Outcome of AppendToLog and SaveSnapshot: the data is durable."""

    token: int


class LogRefused(Local):
    """Outcome of AppendToLog and SaveSnapshot: no space, and nothing was written; another attempt may succeed."""

    token: int
    reason: str


class PageWritten(Local):
    """Outcome of WritePage: the page is durable, under this number."""

    token: int
    page: int


class PageRefused(Local):
    """Outcome of WritePage: no space; another attempt may succeed."""

    token: int
    reason: str


class PageRead(Local):
    """Outcome of ReadPage."""

    page: int
    data: bytes


class PageLost(Local):
    """Outcome of ReadPage: the page is missing or damaged; the reason names the place."""

    page: int
    reason: str


class OutputRead(Local):
    """Outcome of ReadOutput: lines, each marked with the worker; "": no more lines at present."""

    job_id: bytes
    text: str


class OutputWritten(Local):
    """Outcome of WriteOutput."""

    job_id: bytes
    source: str


class LogBroken(Local):
    """Outcome of AppendToLog, SaveSnapshot or WritePage: the disk has failed, and the log takes no more."""

    reason: str
