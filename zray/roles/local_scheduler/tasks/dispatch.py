"""Queues of ready tasks, and the leases of workers to queues.

A worker is leased to a single queue at a time.  It takes the queue's resources once, and runs tasks of that queue until
none is left (`Batches` says how many at once).  Sent tasks have not begun yet.  A claim window (see OpenWindow,
ReclaimTasks) lets unbegun tasks be reclaimed from the end of a worker's queue without its help.  So a long task never
traps short ones, and an idle worker can take over.

Batches sent to a worker: tasks, with code and argument values.

Short tasks go in batches, sized by the mean run time of their function (as measured by the workers).  A task whose
missing arguments are all made by tasks ahead of it in the same worker's queue is sent along, so chains need no round
trip per link.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....exceptions import encode_system_error
from ....ids import PARENT_HASH_BYTES
from ....wire import tasks as wire
from ....wire.scheduling import CENTRAL
from ....wire.task_spec import StoredValue, TaskSpec
from ....wire.tasks import STEADY_US, TasksReturned
from ...effects import OpenWindow, ReclaimTasks, TasksReclaimed
from ...kept import Latest
from ...role import on
from ..resources import CPU
from ..tables import Job, ReadyQueue
from ..task import Task, TaskState
from ..worker import INFLIGHT_US_MAX, Worker
from .lending import BehindWaits, Lending

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# A worker's queue: at most so many tasks, and at most so much work beyond the one that runs (Worker.reach_us).  Fewer
# would cost a wake-up per few tasks; more would be taken back more often.
INFLIGHT_COUNT_MAX = 128
# A long task may have one more behind it, so that its worker need not wait for us; it is taken back when
# another worker is idle.
PREFETCH_COUNT = 2


class Batches:
    """The filling of workers' queues."""

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch

    def fill(self, worker: Worker, queue: ReadyQueue) -> None:
        """Send the worker as many of the queue's tasks as it should have."""
        tasks, inflight, means = queue.tasks, worker.inflight, self.dispatch.mean_us
        known = self.node.resources.total.get(CPU, 0) > 0
        room_us = worker.reach_us
        function_id, mean = b"", 0
        batch: list[Task] = []
        count, ready_count = len(inflight), self.dispatch.ready_count
        # Behind the last of max_calls its worker ends, and nothing else should wait for that.
        limit = min(INFLIGHT_COUNT_MAX, queue.options.max_calls or INFLIGHT_COUNT_MAX)
        on_disk = self.node.objects.on_disk
        while tasks and count < limit:
            task = tasks[0]
            if on_disk and task.spec.deps and self.node.spilling.lacks(task):
                self.node.stages.wait_ends(task, TaskState.WAITING)
                task.lacks_argument()
                tasks.popleft()
                self.dispatch.ready_count -= 1
                continue
            if task.spec.function_id is not function_id:
                function_id = task.spec.function_id
                found = means.get(function_id)
                mean = found if found is not None else INFLIGHT_US_MAX
                known = found is not None
                if not batch:
                    room_us -= mean * count
            if count and (not known or (room_us <= 0 and count >= PREFETCH_COUNT)):
                break
            tasks.popleft()
            self.dispatch.ready_count -= 1
            batch.append(task)
            count += 1
            room_us -= mean
            task.sent(worker)
            inflight.append(task)
            if task.entry.waiting is not None and known and not queue.options.max_calls:
                count, room_us = self._send_along(task, worker, queue, batch, count, room_us)
        if batch:
            # Others were sent along with the makers of their arguments.
            are_alike = len(batch) == ready_count - self.dispatch.ready_count
            self.node.stages.are_sent(batch, batch[-1], are_alike=are_alike)
            self._send(worker, batch)

    def _send_along(
        self, task: Task, worker: Worker, queue: ReadyQueue, batch: list[Task], count: int, room_us: int
    ) -> tuple[int, int]:
        """Send along tasks that lack only results of tasks in the same worker's queue."""
        makers = [task]
        while makers and count < INFLIGHT_COUNT_MAX and room_us > 0:
            maker = makers.pop(0)
            for entry in self.node.lifecycle.returns_of(maker):
                for follower in entry.waiting_tasks():
                    if (
                        follower.state == TaskState.WAITING
                        and follower.spec.options == queue.blob
                        and follower.job is queue.job
                        and count < INFLIGHT_COUNT_MAX
                        and room_us > 0
                        and self._makers_are_ahead(follower, worker)
                    ):
                        worker.is_sent(follower)
                        batch.append(follower)
                        makers.append(follower)
                        count += 1
                        room_us -= self.dispatch.mean_us.get(follower.spec.function_id, INFLIGHT_US_MAX)
        return count, room_us

    def _makers_are_ahead(self, task: Task, worker: Worker) -> bool:
        """Whether tasks in the worker's queue make all missing arguments (and the code is known)."""
        if task.spec.function_id not in self.node.functions.by_id:
            return False
        entries = self.node.objects.entries
        for object_id in task.spec.deps:
            entry = entries[object_id]
            if entry.value is None:
                maker = entry.task
                if maker is None or maker.worker is not worker or maker.state != TaskState.SENT:
                    return False
        return True

    def _send(self, worker: Worker, batch: list[Task]) -> None:
        node = self.node
        if not worker.inflight or len(batch) == len(worker.inflight):
            worker.begins(node.now)
        specs = [task.spec for task in batch]
        functions, arguments = self.functions_for(worker, specs), self.arguments_for(worker, specs)
        gpus = node.resources.gpus.names_of(worker.frames[0].gpus)
        message = wire.StartTasks(specs, functions, arguments, gpus=gpus)
        node.perform(OpenWindow(worker.address, len(specs)))
        node.send(worker.address, message)
        if len(worker.inflight) > 1:
            self.dispatch.watch_progress()
        if not node.hung.is_watching and specs[0].function_id in self.dispatch.mean_us:
            node.hung.watch()

    def functions_for(self, worker: Worker, specs: Iterable[TaskSpec]) -> list[wire.Function]:
        """Return code not yet sent to the worker."""
        functions: list[wire.Function] = []
        known = worker.functions
        for spec in specs:
            if spec.function_id not in known:
                function = self.node.functions.by_id[spec.function_id]
                worker.learns(function)
                functions.append(function)
        return functions

    def arguments_for(self, worker: Worker, specs: Iterable[TaskSpec]) -> list[wire.Argument]:
        """Return the local values of arguments, each once; large ones are pinned for the worker."""
        objects = self.node.objects
        arguments: dict[bytes, wire.Argument] = {}
        for spec in specs:
            for object_id in spec.deps:
                value = objects.entries[object_id].value
                if value is not None and object_id not in arguments:
                    if type(value) is StoredValue:
                        assert worker.process is not None
                        objects.pin(object_id, worker.process)
                    arguments[object_id] = wire.Argument(object_id, value)
        return list(arguments.values())


# How long a worker may go without progress, at least, before its unbegun tasks are taken back; and between two looks.
PROGRESS_SECONDS = 0.005
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6
# How much one worker's mean counts for the node's.
MEAN_WEIGHT = 0.25
# Functions whose run times are known: of a program that makes ever new ones, the oldest are forgotten.
MEANS_MAX = 10_000
# A job's kinds of tasks (by options and depth), beyond those of which some wait: a program may give each task a name.
QUEUES_MAX = 1_000
# A lease of this length ends when other queues wait: jobs share the node (docs/security.md, B20).
LEASE_SECONDS = 0.02
# A task that has waited for an argument finds its place among this many first tasks: more than run at once.
OVERTAKEN_MAX = 256


class Dispatch:
    """Ready queues and leases of a node."""

    PASSING = {"ready_count": "node.tasks", "idle_leases": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.batches = Batches(node, self)
        self.lending = Lending(node, self)
        self.behind_waits = BehindWaits(node, self)
        self.queues: deque[ReadyQueue] = deque()  # those with tasks; served round robin
        self.ready_count = 0
        self.mean_us: Latest[bytes, int] = Latest(MEANS_MAX)  # run time per function
        self.idle_leases: list[Worker] = []  # leased workers whose queue may have run dry in this turn
        self.is_dirty = False
        self.looks_at = math.inf  # at workers that have not moved

    def watch_progress(self, seconds: float = PROGRESS_SECONDS) -> None:
        """Check a worker with unbegun tasks after `seconds`."""
        if self.node.now + seconds < self.looks_at:
            self.looks_at = self.node.now + seconds
            self.node.after(seconds, self.check_progress)

    # --- queues ---

    def enqueue(self, task: Task, *, has_waited: bool = False) -> ReadyQueue | None:
        """Enqueue a ready task.  Returns the queue, if later tasks with the same options may simply be appended.

        has_waited: the task waited for an argument, and goes ahead of younger tasks queued since.  Tasks that take
        large values free them, and tasks that create more must not fill the store meanwhile.
        """
        queue = self.queue_of(task)
        if queue.is_choosy:
            task.enqueued()
            self.node.strategies.enqueue(task, queue)
            return None
        self.append(task, queue)
        if has_waited and len(queue.tasks) > 1:
            if self.node.spilling.is_filling and task.spec.deps:
                queue.tasks.rotate(1)  # ahead of all that may fill the store further
            else:
                self._move_forward(queue.tasks)
        return queue

    @staticmethod
    def _move_forward(tasks: deque[Task]) -> None:
        """Move the last task to its place by age among the first; ids of the same parent are ordered by age."""
        new = tasks[-1].spec.task_id
        first = tasks[0].spec.task_id
        if new[:PARENT_HASH_BYTES] != first[:PARENT_HASH_BYTES]:
            return
        end = min(len(tasks) - 1, OVERTAKEN_MAX)
        place = 0 if new < first else bisect_left(tasks, new, 1, end, key=lambda task: task.spec.task_id)
        if place < end:
            tasks.insert(place, tasks.pop())

    def append(self, task: Task, queue: ReadyQueue) -> None:
        """Append a task for local execution to a queue of `queues`."""
        task.enters(queue.tasks)
        self.ready_count += 1
        self.is_dirty = True

    def requeue(self, task: Task) -> None:
        """Queue a sent but unrun task at the front, or let the task wait for a missing argument."""
        if task.job.is_over:
            self.node.lifecycle.fail(task, "WorkerCrashedError", "The driver of this task has ended.")
            return
        if self.node.cancels.asked and task.spec.task_id in self.node.cancels.asked:
            self.node.cancels.fail(task)
            return
        self.node.stages.wait_ends(task, TaskState.READY)
        if not task.returned():
            return
        queue = self.queue_of(task)
        if queue.is_in_group and self.node.groups.is_elsewhere(task):
            self.node.groups.enqueue(task, queue)
            return
        queue.add_first(task)
        self.ready_count += 1
        self.is_dirty = True

    def queue_of(self, task: Task) -> ReadyQueue:
        """Return the queue for the task while ready."""
        queues = task.job.queues
        key = (task.depth, task.spec.options)
        queue = queues.get(key)
        if queue is None:
            if len(queues) >= task.job.queues_max:
                self._forget_kinds(task.job)
            queue = queues[key] = ReadyQueue(task.job, *key, task.options, task.options.resources)
            where = queue.options.where
            is_guest = self.node.members.is_guest and not self.node.strategies.is_bound(where)
            queue.may_not_run(is_infeasible=is_guest or not self.node.resources.could_ever_fit(queue.resources))
        if not queue.tasks and queue not in self.queues:
            queue.waits(self.node.pool.lease_count)
            self.queues.append(queue)
        return queue  # type: ignore[no-any-return]

    def _forget_kinds(self, job: Job) -> None:
        """Forget the job's empty queues."""
        served = set(map(id, self.queues))
        job.forget_kinds(served, QUEUES_MAX)

    def takes(self, function_id: bytes, mean_us: int) -> None:
        """Record a worker's recent mean.  The mean here is over all workers, because single means jump if cores are
        scarce."""
        known = self.mean_us.get(function_id, 0)
        is_steady = min(known, mean_us) >= STEADY_US
        self.mean_us[function_id] = known + round(MEAN_WEIGHT * (mean_us - known)) if is_steady else mean_us
        if not self.node.hung.is_watching:
            self.node.hung.watch()  # a task of an unknown function may have begun before

    def cancel_job(self, job: Job) -> None:
        """Cancel all tasks of a job without a driver, except running tasks."""
        for queue in job.queues.values():
            self.ready_count -= len(queue.take_all())
        self.queues = deque(queue for queue in self.queues if queue.job is not job)
        doomed = [
            task
            for task in self.node.tasks.values()
            if task.job is job and task.state not in (TaskState.SENT, TaskState.CALL, TaskState.DONE)
        ]
        for task in doomed:
            self.node.trips.is_over(task)
        error = encode_system_error("WorkerCrashedError", "The driver of this task has ended.")
        self.node.undoing.end_tasks(doomed, error)

    # --- the turn ---

    def run(self) -> None:
        """Give workers the tasks that can run now."""
        if self.ready_count and self.node.drain.is_on:
            self.node.drain.send_away()
        if self.lending.new_lenders:
            self.behind_waits.start_at_once()
        if self.lending.resuming:
            self.lending.resume()
        while True:
            if self.idle_leases:
                self._refill()
            if self.is_dirty and self.ready_count:
                self._start()
            elif self.is_dirty and self.node.pool.leased:
                self._steal()
            self.is_dirty = False
            if not self.idle_leases:
                break
        if self.node.load.is_behind and not self.node.pool.leased:
            self.node.load.all_is_done()

    def _refill(self) -> None:
        """Give leased workers with little work left more of the queue, or end the lease."""
        workers, self.idle_leases = self.idle_leases, []
        for worker in workers:
            queue = worker.queue
            if queue is None or worker.stale or worker.frames[0].wait is not None:
                continue
            are_others = (
                len(self.queues) > 1 or self.lending.resuming or self.node.calls.wanting or self.node.actor_room.wishes
            )
            if queue.tasks and not (are_others and self._is_outranked(worker, queue)):
                worker.fit_reach(has_run_dry=not worker.inflight, are_others=bool(are_others))
                self.batches.fill(worker, queue)
            if not worker.inflight:
                self._end_lease(worker)

    def _is_outranked(self, worker: Worker, queue: ReadyQueue) -> bool:
        """Whether the lease should run out: its CPU is owed, tasks of the job wait that precede, or it is old and
        others wait.

        Others are tasks, or an actor.
        """
        if self.lending.is_owed(worker.frames[0].resources):
            return True
        is_old = self.node.now - worker.leased_at > LEASE_SECONDS
        for other in self.queues:
            if other is not queue and other.tasks and (is_old or (other.job is queue.job and other.rank < queue.rank)):
                return True
        return is_old and self.node.actor_room.is_lacking(worker, queue)

    def _end_lease(self, worker: Worker) -> None:
        self.lending.end(worker)
        assert not worker.frames
        self.node.pool.has_nothing_to_do(worker)
        if self.lending.resuming:
            self.lending.resume()

    def _start(self) -> None:
        """Lease workers to queues with tasks, as far as resources and workers suffice."""
        node = self.node
        has_no_worker = False
        if node.policy == CENTRAL:
            node.trips.all_go()
        for queue in self._in_order():
            while queue.tasks and (self.has_room(queue) or (self.lending.writers and self.lending.lend_to(queue))):
                worker = node.pool.take_idle(queue)
                if worker is None:
                    if not node.pool.start_for(queue):
                        self.behind_waits.run_nested(queue)
                        has_no_worker = True
                    break
                if not self.lease(worker, queue):
                    break
        self.queues = deque([queue for queue in self.queues if queue.tasks])
        if has_no_worker and self.behind_waits.all_are_blocked():
            for queue in filter(self.has_room, self.queues):
                node.pool.start_beyond_cap(queue)
                break
        if self.ready_count:
            node.trips.consider()
        elif not self.queues:
            self._steal()

    def lease(self, worker: Worker, queue: ReadyQueue) -> bool:
        """Lease the worker to the queue.  False: the queue had no task for it."""
        self.lending.begin(worker, queue.resources, queue.depth)
        self.batches.fill(worker, queue)
        if not worker.inflight:
            self._end_lease(worker)
            return False
        return True

    def fits(self, queue: ReadyQueue) -> bool:
        """Whether enough of all resources is free for another lease of the queue."""
        return self.node.bundles.pick(queue) if queue.is_in_group else self.node.resources.fits(queue.resources)

    def has_room(self, queue: ReadyQueue) -> bool:
        """Whether another lease of the queue may begin now."""
        if not self.fits(queue):
            return False
        if self.lending.resuming and self.lending.is_kept_from(queue):
            return False
        room = self.node.actor_room
        return not ((self.node.calls.wanting or room.wishes) and room.is_kept_from(queue))

    def _in_order(self) -> list[ReadyQueue]:
        """Return the queues in order of service: first the job without a lease for the longest time.

        Within a job, the higher priority precedes.  Then children of running tasks precede unbegun tasks, because
        workers wait for them.  Then the queue precedes that has waited longest for a lease.
        """
        if len(self.queues) == 1:
            return [self.queues[0]]
        return sorted(
            self.queues, key=lambda queue: (queue.job.served_at, queue.job.job_id, *queue.rank, queue.waits_since)
        )

    # --- what comes back ---

    def worker_progressed(self, worker: Worker) -> None:
        """Note that a worker has finished tasks: more may follow at the end of the turn."""
        if worker.queue is not None and len(worker.inflight) <= INFLIGHT_COUNT_MAX // 2:
            self.idle_leases.append(worker)

    def leave_worker(self, task: Task, worker: Worker) -> None:
        """Remove from the worker a task that ran in a nested frame, or was returned."""
        if worker.has_not(task):
            return
        if worker.frames and worker.frames[-1].task is task:
            self.lending.end(worker)
            wait = worker.frames[-1].wait
            if wait is not None and wait.is_over:
                self.lending.wait_is_over(worker, wait)
            elif self.lending.resuming:
                self.lending.resume()

    @on(TasksReturned)
    def tasks_returned(self, message: TasksReturned) -> None:
        """TasksReturned: unrun tasks, reclaimed before or without an argument that a failed maker should have made."""
        process = self.node.processes.get(self.node.sender)
        worker = process.worker if process is not None else None
        if worker is None:
            return
        if message.drained:
            worker.threw_out(len(message.task_ids))
        for task_id in reversed(message.task_ids):
            task = self.node.tasks.get(task_id)
            if task is not None and task.worker is worker and not message.drained:
                self.leave_worker(task, worker)
                self.node.lifecycle.run_again(task)
            elif worker.has_ended_tasks and not message.drained:
                self.node.fates.has_run(worker, task_id)
        self.worker_progressed(worker)

    @on(TasksReclaimed)
    def tasks_reclaimed(self, message: TasksReclaimed) -> None:
        """TasksReclaimed: tasks from the end of the worker's queue are queued here again."""
        worker = self.node.pool.workers.get(message.worker)
        if worker is not None:
            self._take_back(worker, message.count)
        if message.sought:
            self.node.cancels.was_sought(message.sought)

    def _take_back(self, worker: Worker, count: int) -> None:
        for task in worker.take_last(count):
            if task.state != TaskState.DONE:  # it has ended with who had asked for it
                self.requeue(task)
        if worker.has_ended_tasks:
            self.node.fates.look(worker)
        if count:
            self.worker_progressed(worker)

    # --- taking back ---

    def _steal(self) -> None:
        """Reclaim unbegun tasks from behind long ones, when none is ready and resources are free."""
        for worker in self.node.pool.leased.values():
            queue = worker.queue
            unbegun = len(worker.inflight) - 1
            if unbegun < 1 or queue is None or not self.node.resources.fits(queue.resources):
                continue
            if worker.inflight[-1].missing:
                continue  # it could not run elsewhere either: its maker is ahead of it in this queue
            mean = self.mean_us.get(worker.inflight[-1].spec.function_id, INFLIGHT_US_MAX)
            if mean * unbegun >= INFLIGHT_US_MAX // 2 or self.node.now - worker.progress_at > PROGRESS_SECONDS:
                self.node.perform(ReclaimTasks(worker.address, (unbegun + 1) // 2))

    def check_progress(self) -> None:
        """Reclaim the unbegun tasks of workers without progress for long."""
        node = self.node
        if node.now < self.looks_at - CLOCK_SECONDS:
            return  # an earlier look was due, and has been
        self.looks_at = soonest = math.inf
        for worker in node.pool.leased.values():
            if len(worker.inflight) < 2:
                continue
            mean = self.mean_us.get(worker.inflight[0].spec.function_id, 0)
            left = worker.progress_at + max(PROGRESS_SECONDS, 2e-6 * mean) - node.now
            if left <= CLOCK_SECONDS:
                node.perform(ReclaimTasks(worker.address, len(worker.inflight) - 1))
            soonest = min(soonest, left)
        if soonest < math.inf:
            self.watch_progress(max(PROGRESS_SECONDS, soonest))
        if not self.ready_count:
            self._steal()

    def check_everything(self) -> None:
        """Assert that queues and counts agree, and that the frames' and actors' resources are all taken resources."""
        assert self.ready_count == sum(len(queue.tasks) for queue in self.queues)
        for queue in self.queues:
            for task in queue.tasks:
                assert task.state == TaskState.READY and not task.missing
        node = self.node
        node.pool.check_everything()
        self.lending.check_everything()
        taken = dict.fromkeys(node.resources.total, 0)
        frames = [frame for worker in node.pool.workers.values() for frame in worker.frames]
        for frame in frames:
            for name, amount in frame.held().items():
                taken[name] += amount
        for name, amount in taken.items():
            left = node.resources.total[name] - node.resources.reserved.get(name, 0) - amount
            assert node.resources.free[name] == left, f"{name} does not add up"
        node.resources.gpus.check_everything(node.resources.free, [(frame.resources, frame.gpus) for frame in frames])
