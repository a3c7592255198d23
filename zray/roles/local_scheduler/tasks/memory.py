"""Memory of a node's workers: one worker at a time is ended while the machine is short of it, before the kernel acts.

    host    MemoryUse      the machine is short of memory, or a worker uses more than its limit (`memory=`)
    -> host WatchMemory    the limits, and whether tasks wait for free memory: then the host tells each second
    -> pool, KillWorker    the task is retried if it may be, else raises OutOfMemoryError; actors likewise

The victim is a large idle worker, else the latest task or call that may be retried, else the latest one, among the
workers with at least half of the mean.  The next one follows only when that worker has exited and memory is still
short.  Where workers have little of the memory, none is ended.

A task that is retried waits until as much memory is free as its worker had, for HELD_SECONDS_MAX at most.  So tasks
that fit one by one do not end each other again and again.

Rule 1: `ended` holds workers that were killed for memory and have not exited.

Rule 2: A task in `held` has one argument too many to wait for, unless the task has ended or left meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....wire.amounts import in_bytes, name_of
from ....wire.task_spec import RESOURCE_UNIT
from ...effects import WorkerExited
from ...role import on
from ...work_effects import MemoryUse, WatchMemory
from ..task import Task, TaskState
from ..worker import Worker, WorkerState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

MEMORY = "memory"
# A smaller limit is no limit: a process needs that for itself, and programs count other things by `memory=`.
LIMIT_MIN = 64 << 20
# Workers that together have a smaller part of the memory in use are not to blame.
PART_MIN = 0.1
# A worker with less than this part of the mean is no victim.
OF_MEAN_MIN = 0.5
# A retry waits for free memory for so long: others may never free any, or wait for the task.
HELD_SECONDS_MAX = 30.0
# The first retry waits for so long, each further one twice as long.
PAUSE_SECONDS = 1.0
# A shortage that no worker is to blame for is reported so often.
SAID_SECONDS = 60.0


class Held(Struct, eq=False):
    """A task that waits for free memory."""

    task: Task
    trip: int
    size: int  # bytes that its worker had
    since: float
    pause: float


class MemoryGuard:
    """The memory of a node's workers."""

    PASSING = {"held": None}
    LASTING = {"limits ended": "pool.workers"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.pool = node.pool
        self.limits: dict[str, int] = {}  # bytes by worker, of those with `memory=`
        self.ended: dict[str, tuple[str, int]] = {}  # reason and bytes by worker
        self.held: dict[bytes, Held] = {}  # by task
        self.said_at = -SAID_SECONDS

    def leased(self, worker: Worker, resources: dict[str, int]) -> None:
        """Note the limit of a worker that gets work with these resources."""
        limit = resources.get(MEMORY, 0) // RESOURCE_UNIT
        limit = limit if limit >= LIMIT_MIN else 0
        if limit != self.limits.pop(worker.address, 0):
            if limit:
                self.limits[worker.address] = limit
            self._watch()
        elif limit:
            self.limits[worker.address] = limit

    def _watch(self) -> None:
        self.node.perform(WatchMemory(dict(self.limits), bool(self.held)))

    @on(MemoryUse)
    def on_memory_use(self, message: MemoryUse) -> None:
        """MemoryUse."""
        if self.ended:
            return  # their memory is not free yet
        for address, size in message.over.items():
            worker = self.pool.workers.get(address)
            if worker is not None and worker.frames and address in self.limits:
                limit = self.limits[address]
                text = f"its worker used {in_bytes(size)}, and memory={limit} allows {in_bytes(limit)}"
                self._end(worker, size, f"{text}: request more, or use less")
                return
        if message.used > message.limit:
            self._end_one(message)
        elif self.held:
            self._release(message.limit - message.used)

    # --- victims ---

    def _end_one(self, message: MemoryUse) -> None:
        workers = self.pool.workers
        found = [(workers[each], size) for each, size in message.by_worker.items() if each in workers]
        sizes = sum(size for _, size in found)
        if sizes < PART_MIN * message.used:
            if self.node.now - self.said_at >= SAID_SECONDS:
                self.said_at = self.node.now
                text = f"{_in_use(message)}, {in_bytes(sizes)} by workers, so that none is ended: {message.largest}"
                for job in [job for job in self.node.jobs.values() if job.driver is not None]:
                    self.node.notices.tell(job, f"the memory of node {name_of(self.node.address)} is short: {text}")
            return
        least = OF_MEAN_MIN * sizes / len(found)
        victim, size = max((pair for pair in found if pair[1] >= least), key=lambda pair: self._rank(pair[0]))
        if victim.state is WorkerState.IDLE:
            self.ended[victim.address] = "", 0
            self.pool.retire(victim)
            return
        text = f"{_in_use(message)}, {in_bytes(size)} by its worker (largest processes: {message.largest}).  Run fewer"
        self._end(victim, size, f"{text} such tasks at a time (memory=, num_cpus=), or use less memory in each")

    def _rank(self, worker: Worker) -> tuple[bool, bool, float]:
        """Return a key by which the best victim is the largest."""
        if worker.state is WorkerState.IDLE:
            return True, True, worker.leased_at
        actor, task = worker.actor, _latest(worker)
        if actor is not None:
            limit = actor.options.max_restarts
            may_retry = limit < 0 or actor.life.restart_count < limit
        else:
            may_retry = task is not None and self.node.lifecycle.may_retry(task)
        began = max((frame.began_at for frame in worker.frames), default=worker.leased_at)
        return False, may_retry, began

    def _end(self, worker: Worker, size: int, why: str) -> None:
        self.ended[worker.address] = f"ended for its memory: {why}", size
        self.pool.kill(worker)

    def explained(self, message: WorkerExited) -> WorkerExited:
        """Return a worker's exit with its reason, if the worker was ended for its memory."""
        self.limits.pop(message.worker, None)
        reason, size = self.ended.pop(message.worker, ("", 0))
        return replace(message, cause=reason, freed=size) if reason else message

    # --- retries ---

    def hold(self, task: Task, size: int) -> None:
        """Have a task of an ended worker wait for as much free memory as the worker had."""
        self.node.stages.wait_ends(task, TaskState.WAITING)
        task.waits_for(1)
        task.returned()
        pause = PAUSE_SECONDS * 2 ** min(task.attempts - 1, 4)
        self.held[task.spec.task_id] = Held(task, task.trip, size, self.node.now, pause)
        self._watch()

    def _release(self, free: int) -> None:
        """Let the first held task run that has room, or has waited long enough; one at a time."""
        for task_id, held in list(self.held.items()):
            task, waited = held.task, self.node.now - held.since
            if not self._is_held(held):
                del self.held[task_id]
            elif waited >= HELD_SECONDS_MAX or (waited >= held.pause and held.size <= free):
                del self.held[task_id]
                self.node.lifecycle.argument_is_here(task)
                break
        if not self.held:
            self._watch()

    def _is_held(self, held: Held) -> bool:
        """Whether the task has neither ended nor left."""
        task = held.task
        is_same = self.node.tasks.get(task.spec.task_id) is task and task.trip == held.trip
        return is_same and task.state == TaskState.WAITING and task.missing > 0

    def why_waits(self, task: Task) -> str:
        """Return why a task waits for memory, for the user; "": the task does not."""
        held = self.held.get(task.spec.task_id)
        if held is None or held.task is not task or not self._is_held(held):
            return ""
        return f"waits until {in_bytes(held.size)} of memory are free, for {HELD_SECONDS_MAX:g} s at most"


def _latest(worker: Worker) -> Task | None:
    nested = worker.frames[-1].task if worker.frames else None
    return nested or worker.runs_first()


def _in_use(message: MemoryUse) -> str:
    return f"{in_bytes(message.used)} of {in_bytes(message.total)} were in use, more than {in_bytes(message.limit)}"
