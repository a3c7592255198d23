"""The few things that a role cannot do itself, as data; and the messages in which their outcomes come back.

An effect never raises: each of its outcomes is a message of its own, addressed to the role that asked.
The host performs the effects of a turn in order.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct

from ..wire import gcs, scheduling
from ..wire.message import Bulk, Local, Message
from .replica_effects import EndReplicaProcess, LetInReplica, NoteChain, ShutOutReplica, StartReplicaProcess
from .work_effects import WorkEffect


class Send(Struct, gc=False):
    """Give `message` to `destination`.  To a peer that is gone: it is dropped (the peer's end is reported)."""

    destination: str
    message: Message | Local


class SetTimer(Struct):
    """Give `message` back to this role in `delay` seconds.  (With gc: a `Later` refers to what refers to its role.)"""

    delay: float
    message: Local


class StartWorker(Struct, gc=False):
    """Fork a worker process.  Outcome: WorkerStarted or WorkerStartFailed, and WorkerExited in the end."""

    worker: str
    worker_id: int
    packages: str = ""  # of its environment (wire/environment.py); installed first where this node does not have them


class KillWorker(Struct, gc=False):
    """kill -9 of a worker and its process group.  Outcome: WorkerExited."""

    worker: str


class OpenWindow(Struct, gc=False):
    """Let a worker claim `count` more tasks.  Goes ahead of the StartTasks that names them."""

    worker: str
    count: int


class ReclaimTasks(Struct, gc=False):
    """Take up to `count` unclaimed tasks out of a worker's window.  Outcome: TasksReclaimed."""

    worker: str
    count: int


class ReadOutput(Struct, gc=False):
    """What is new in the logs of a job's workers.  Outcome: one OutputRead, when there is something; at_once: now."""

    job_id: bytes
    at_once: bool = False


class WriteOutput(Struct, gc=False):
    """Keep lines for a driver here, which follows them (log_follower.py).  Outcome: OutputWritten, in order."""

    job_id: bytes
    source: str
    text: str


class ForgetOutput(Struct, gc=False):
    """The job's output is read, and kept, no more."""

    job_id: bytes


OUTPUT_EFFECTS = (ReadOutput, WriteOutput, ForgetOutput)


class ForgetProcess(Struct, gc=False):
    """The process is gone: its link and its address with it."""

    process: str


class CreateSegment(Struct, gc=False):
    """Make a shared-memory segment of `size` bytes, no page of it reserved.  Outcome: SegmentCreated / ...Failed."""

    segment: int
    size: int


class ReservePages(Struct, gc=False):
    """Make sure that [offset, offset + length) has pages (posix_fallocate).  Outcome: PagesAreThere / PagesRefused."""

    segment: int
    offset: int
    length: int
    token: int


class ReadRange(Struct, gc=False):
    """A range of a segment, for another node.  Outcome: RangeRead with the same token."""

    segment: int
    offset: int
    size: int
    token: int


class WriteRange(Struct, gc=False):
    """Write bytes that came from another node into a segment.  Outcome: RangeWritten with the same token.

    is_awaited: at once.  Otherwise with whatever comes next: there is more on its way, and nothing to do before that.
    """

    segment: int
    offset: int
    data: Bulk
    token: int
    is_awaited: bool = True


class EndSession(Struct, gc=False):
    """End this node: workers, segments, sockets, folder.  may_rejoin: a new one may join in its place."""

    reason: str
    may_rejoin: bool = False


class MeetHost(Struct, gc=False):
    """Let the host of another node in; connect to it where it was there before us."""

    node: str
    kind: str
    endpoint: str
    public_key: bytes
    is_earlier: bool


class ForgetHost(Struct, gc=False):
    """The host of that node is gone for good: its key is refused, its mail dropped; should it be there, it is told."""

    node: str
    reason: str


class NoteMember(Struct, gc=False):
    """Have it for good that this node is a member."""

    node: gcs.RegisterNode


class NoteLost(Struct, gc=False):
    """Have it for good that this node is lost; before anybody hears of it."""

    node: str
    reason: str


class ProbeHost(Struct, gc=False):
    """Look at the host of that role from outside, by the network alone.  endpoint: where it listens; "": the head's.

    Outcome: HostProbed.
    """

    role: str
    endpoint: str = ""


class AppendToLog(Struct, gc=False):
    """Have these records for good, all in one go.  Outcome: LogAppended, LogRefused (with this token), or LogBroken."""

    records: list[bytes]
    token: int


class SaveSnapshot(Struct, gc=False):
    """Part `number` (from 1) of all that the records before part 1 have led to, and maybe more.

    Records may come between the parts.  With the last part it counts, and the records before part 1 may go; so may all
    pages up to `newest_page` but `pages`.  Outcome: as of AppendToLog.
    """

    part: bytes
    number: int
    token: int
    is_last: bool = False
    pages: list[int] = []
    newest_page: int = 0


class WritePage(Struct, gc=False):
    """Have this for good, beside the log.  Outcome: PageWritten or PageRefused (with this token), or LogBroken."""

    data: bytes
    token: int


class ReadPage(Struct, gc=False):
    """A page again.  Outcome: PageRead or PageLost."""

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
)


class WorkerStarted(Local):
    """Outcome of StartWorker: the process exists; its Hello follows."""

    worker: str
    pid: int


class WorkerStartFailed(Local):
    """Outcome of StartWorker."""

    worker: str
    reason: str
    is_unfit: bool = False  # its packages cannot be had, and another attempt would not succeed either


class WorkerExited(Local):
    """A worker process ended.  cause says how, for the user (signal or exit code); log: its last lines."""

    worker: str
    cause: str
    unclaimed: int  # tasks of its window that it had not begun
    pid: int = 0
    log: tuple[str, ...] = ()

    def details(self, node: str) -> dict[str, Any]:
        """What the errors of those who suffer from it carry.  node: where it was, as users know it."""
        return {"pid": self.pid, "node": node, "exit_text": self.cause, "log_tail": self.log}


class ProcessJoined(Local):
    """The host has shaken hands with a driver or a worker, and gave it this address."""

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
    """To the monitor, from the host beside it: the connection to that node broke, or is there (again)."""

    node: str
    is_up: bool


class Finding(Enum):
    """What a look at a host's port tells."""

    ENDED = "its machine reports that nothing listens there"
    STANDS_STILL = "its machine accepts the connection, and the process sends nothing"
    ANSWERS = "the process answers"
    OUT_OF_REACH = "nobody answers"


class HostProbed(Local):
    """Outcome of ProbeHost."""

    role: str
    finding: Finding


class HeadChanged(Local):
    """To the roles of a node: the head was started again, as another host.  former, head: the two hosts' ids."""

    former: str
    head: str
    global_schedulers: list[str]


class SchedulerGone(Local):
    """To a local scheduler: this global scheduler has ended, and nothing more of what it has said will arrive."""

    role: str


class HostLeft(Local):
    """To the monitor, from the host beside it: that node has said that it ends."""

    node: str
    reason: str


class DrainOrdered(Local):
    """To the monitor, from the host beside it: have that node leave in order; after so many seconds, leave anyway."""

    node: str
    seconds: float  # 0: it takes what it takes


class TasksReclaimed(Local):
    """Outcome of ReclaimTasks: so many of the last ones in the worker's queue are not its any more."""

    worker: str
    count: int


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
    """Outcome of ReadRange.  data may be a view: its bytes are looked at when they leave, or leave again."""

    token: int
    data: Bulk


class RangeWritten(Local):
    """Outcome of WriteRange."""

    token: int


class LogAppended(Local):
    """Outcome of AppendToLog and SaveSnapshot: it is there for good."""

    token: int


class LogRefused(Local):
    """Outcome of AppendToLog and SaveSnapshot: no space, and nothing of it is there; another attempt may succeed."""

    token: int
    reason: str


class PageWritten(Local):
    """Outcome of WritePage: it is there for good, under this number."""

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
    """Outcome of ReadPage: it is not there, or not what was written; the reason names the place."""

    page: int
    reason: str


class OutputRead(Local):
    """Outcome of ReadOutput: lines, each marked with its worker; "": there is nothing more at this moment."""

    job_id: bytes
    text: str


class OutputWritten(Local):
    """Outcome of WriteOutput."""

    job_id: bytes
    source: str


class LogBroken(Local):
    """Outcome of AppendToLog, SaveSnapshot or WritePage: the disk has failed, and the log takes no more."""

    reason: str
