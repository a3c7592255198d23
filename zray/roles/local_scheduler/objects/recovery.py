"""Recovery after the loss of another node: lost work is taken back or executed again.

    a task spilled by us and placed on that node       is spilled again (an attempt is used up)
    a value expected from that node                    is fetched elsewhere, or reconstructed by order of the shard
    a job with its driver on that node                 ends
    RebuildObject (the shard knows that we have        report the place, continue the task, or execute the task again
    the task or want the object)                       (call_once_more)
    ObjectLost                                         the waiting tasks get the error: of a lost put, or of a lost
                                                       argument of the task

The verdict on a node is final, so later messages from the node change nothing.  Source: Ray paper 4.8.

Repeated calls: an ended call is made again if a large return was lost with the actor's node.

Recovery chooses a node, which acts as the caller.  The call runs on the actor's current home, in the current state.  A
dead actor reports its death, as to any call.  A recoverable actor restores the returns from its log (answers).  So
calls on or by a recoverable actor are not repeated (`TaskOptions.may_run_again`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ....exceptions import encode_system_error, is_error_value
from ....ids import is_put, return_id
from ....wire import gcs, scheduling, task_spec, where
from ....wire.gcs import ANSWER_IS_LOST
from ....wire.task_spec import TaskOptions, TaskSpec
from ...kept import LOST_MAX, Latest
from ...role import on
from ..tables import Actor, Job, Process
from ..task import FORWARDED, Event, Task, TaskState
from .puts import Puts
from .table import ObjectEntry

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


def call_once_more(node: LocalScheduler, spec: TaskSpec, options: TaskOptions, job: Job, attempts: int) -> None:
    """Have an actor called whose answer is lost.  attempts: as in Recovery.accept."""
    if options.actor_id not in node.calls.actors and options.actor_id not in node.ends.graves:
        node.routes.name_found(options.actor_id, "")
    # A caller of its own: another call of the one that it had, made once more behind it, may make what it takes.
    task = node.recovery.accept(replace(spec, caller=spec.task_id), options, job, attempts)
    for entry in node.lifecycle.returns_of(task):
        node.objects.retain(entry.object_id)
        node.objects.drop(entry.object_id)  # held again, until it has ended
    submit_call(node, task)


def submit_call(node: LocalScheduler, task: Task) -> None:
    """Submit any call, unless its actor waits for this very answer and could never run it."""
    actor = node.calls.actors.get(task.options.actor_id)
    if actor is None or task.spec.caller != task.spec.task_id or not _waits_for(node, actor, task):
        node.calls.submit(task)
        return
    task.queued()
    node.lifecycle.retain_arguments(task)
    text = f"{ANSWER_IS_LOST}; the actor itself waits for it, and runs no other call meanwhile."
    node.lifecycle.fail(task, "ObjectReconstructionFailedError", f"Object {task.entry.object_id.hex()}, {text}")


def _waits_for(node: LocalScheduler, actor: Actor, task: Task) -> bool:
    """Whether the call that the actor runs is blocked on a return of `task`."""
    if not actor.options.is_serial or actor.worker is None:
        return False
    waits = [wait for entry in node.lifecycle.returns_of(task) for wait in entry.watchers or ()]
    return any(wait.block and wait.process.worker is actor.worker for wait in waits)


class Recovery:
    """The lost nodes, and our work there."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.lost: Latest[str, str] = Latest(LOST_MAX)  # local schedulers of lost nodes -> why
        self.puts = Puts(node)

    # --- the verdict ---

    def node_lost(self, message: gcs.NodeLost) -> None:
        """NodeLost: another node is lost."""
        node, gone = self.node, message.node
        if gone in self.lost:
            return
        self.lost[gone] = message.reason
        node.send(node.addresses.object_manager, message)
        for job in [job for job in node.jobs.values() if job.home == gone]:
            node.end_job(job)
            node.routes.job_ended(job)
        for entry in list(node.objects.entries.values()):
            shared = entry.shared
            if shared is not None and shared.node_lost(gone):
                is_wanted = bool(entry.waiting or entry.watchers)
                if is_wanted and not entry.is_here and not shared.locations and not shared.is_fetching:
                    node.remote.subscribe(entry)
        for task in node.task_states.with_peer(gone):
            # A node that was drained had not begun it.
            self._take_back(task, gone, is_attempt=not message.is_drained)

    # --- tasks that ran there ---

    @on(scheduling.TaskPlaced)
    def on_task_placed(self, message: scheduling.TaskPlaced) -> None:
        """TaskPlaced: the node of a spilled task or actor is known."""
        node = self.node
        if message.task_id in node.moves.asks:
            node.moves.placed(message.task_id, is_lost=message.node in self.lost)
            return
        node.fates.has_arrived(message.task_id, message.trip, message.node)
        task = node.trips.on_its_way(message.task_id, message.trip)
        if task is None:
            return  # or given back before this came
        node.load.is_placed(task)
        node.task_states.happened(task, Event.PLACED, peer=message.node)
        if message.node in self.lost:
            # Placed before the global scheduler had heard of it: it never began.
            self._take_back(task, message.node, is_attempt=False)

    def _take_back(self, task: Task, gone: str, *, is_attempt: bool) -> None:
        """Spill a task again, if it has an attempt left."""
        node = self.node
        if is_attempt and not node.lifecycle.may_retry(task):
            name = task.options.name or node.lifecycle.function_name(task.spec.function_id)
            often = f", in the last of {task.attempts + 1} attempts" if task.attempts else ""
            how = f"{where.host_of(gone)}: {self.lost[gone]}"
            text = f"The node that had task {name}, which may have begun there, is lost{often}: {how}."
            node.lifecycle.fail(task, "NodeDiedError", text)
            return
        if is_attempt:
            task.tried(task.attempts + 1)
            node.notices.node_died(task, gone)
        node.departures.spill(task)

    # --- tasks of it that are here ---

    def _is_orphan(self, task: Task) -> bool:
        """Whether the task's requester is lost, and nothing else waits for the task.

        Other nodes reconstruct any return they want.  A re-executed parent submits the task again, and then uses the
        effects of this execution.  A call of a recoverable actor is an orphan too, but only as the last in the queue,
        because later calls would overtake it.
        """
        if task.origin not in self.lost:
            return False
        if not task.options.actor_id:
            return True
        callee = self.node.calls.actors.get(task.options.actor_id)
        return bool(task.spec.caller) and callee is not None and callee.queue.is_last(task)

    def ends_in_vain(self, task: Task, value: bytes | task_spec.StoredValue) -> bool:
        """Drop an orphan that fails, for instance because a put of its parent is lost.  Returns whether it was dropped.

        The parent's next execution puts the object again, and submits the task again, with a better end.
        """
        if not is_error_value(value) or task.job.is_over or not self._is_orphan(task):
            return False
        if task.missing:
            self.node.trips.stop_waiting((task,))
        self.node.trips.was_never_here(task)
        return True

    def _drop_orphans(self, entry: ObjectEntry) -> None:
        """Drop orphans that take the lost object."""
        states = (TaskState.WAITING, TaskState.CALL)
        orphans = [task for task in entry.waiting_tasks() if task.state in states and self._is_orphan(task)]
        self.node.trips.stop_waiting(orphans)
        for task in dict.fromkeys(orphans):
            if task.options.actor_id:
                self.node.calls.actors[task.options.actor_id].queue.take_out(task)
                self.node.calls.touch(task.options.actor_id)
            self.node.trips.was_never_here(task)

    # --- objects that were there ---

    @on(gcs.RebuildObject)
    def rebuild(self, message: gcs.RebuildObject) -> None:
        """RebuildObject."""
        node, object_id, spec = self.node, message.object_id, message.spec
        known = node.tasks.get(spec.task_id)
        entry = node.objects.entries.get(object_id)
        is_here = entry is not None and entry.is_here and not entry.is_lost
        if not is_here and node.generators.comes_again(object_id):
            # The call says when it is over: until then the shard's word does not count.
            node.remote.subscribed.discard(object_id)
            shard = node.addresses.shard_of(object_id)
            node.send(shard, gcs.CannotRebuild(node.address, object_id, message.is_granted))
            node.reruns.is_missing(node.tasks[spec.task_id], object_id)
        elif known is not None and not is_put(object_id):
            # In hand: what it returns will be announced, if it was not to be before.
            if self._is_orphan(known) and not known.options.actor_id:
                node.task_states.comes_from(known, "")  # others count on it now, whatever it comes to
            node.remote.share_returns(known)
            if known.options.is_generator:
                node.generators.asks(object_id, is_here=is_here)
            elif known.state >= FORWARDED:
                node.flights.is_missed(known, object_id)
        elif is_here:
            assert entry is not None
            node.remote.share_value(entry)
        elif known is not None:
            self.puts.is_missing(known, object_id)
        elif is_put(object_id):  # its task is over, or was never ours
            node.send(node.addresses.shard_of(object_id), gcs.CannotRebuild(node.address, object_id))
        else:
            options = task_spec.parse_options(spec.options)
            # The task has ended, and the node of its return is lost before the shard learned of it.
            is_over = not gcs.may_run_once_more(options, message.attempts)
            job = None if is_over else self._job_that_wants(entry)
            if is_over:  # others of ours hear of it from the shard
                self.object_lost(gcs.ObjectLost(object_id, gcs.result_is_lost(object_id, options), True))
            if job is None:
                shard = node.addresses.shard_of(object_id)
                node.remote.subscribed.discard(object_id)  # with this the shard forgets that we have asked
                node.send(shard, gcs.CannotRebuild(node.address, object_id, message.is_granted))
                return
            if options.is_generator:
                node.generators.asks(object_id, drawn=message.drawn)
            if options.actor_id:
                call_once_more(node, spec, options, job, message.attempts)
            else:
                self._run_again(spec, job, message.attempts)

    def _job_that_wants(self, entry: ObjectEntry | None) -> Job | None:
        """Return the job of a local process or task that waits for the object, or holds the object."""
        if entry is None:
            return None
        jobs: list[Job] = [waiter.job for waiter in entry.waiting or ()]
        jobs += [wait.process.job for wait in entry.watchers or ()]
        holders = entry.holders
        if type(holders) is Process:
            jobs.append(holders.job)
        elif holders is not None:
            jobs += [process.job for process in sorted(holders, key=lambda process: process.address)]
        return next((job for job in jobs if not job.is_over), None)

    def _run_again(self, spec: task_spec.TaskSpec, job: Job, attempts: int) -> None:
        """Execute the task again as if submitted locally without a submitter."""
        node = self.node
        task = self.accept(spec, task_spec.parse_options(spec.options), job, attempts)
        node.lifecycle.retain_arguments(task)
        if not task.missing and task.state == TaskState.WAITING:
            node.dispatch.enqueue(task)

    def accept(self, spec: task_spec.TaskSpec, options: task_spec.TaskOptions, job: Job, attempts: int) -> Task:
        """Accept a task with lost returns, to make them again for local tasks or for the shards.

        attempts: how often the task was re-executed before.
        """
        node = self.node
        for index in range(1, options.num_returns + 1):
            entry = node.objects.entries.get(return_id(spec.task_id, index))
            if entry is not None and entry.is_lost:
                self._forget_loss(entry)
        task = node.lifecycle.accept_placed(spec, options, job, "", attempts + 1)
        node.cancels.has_ended(spec.task_id)  # an earlier run may have been cancelled, and word of it be on its way
        node.task_states.comes_from(task, "", node.fates.trip_of(spec.task_id))
        node.remote.take_arguments(task, 0)
        return task

    @on(gcs.ObjectLost)
    def object_lost(self, message: gcs.ObjectLost) -> None:
        """ObjectLost: the object becomes an error for all local tasks and processes that wait."""
        node = self.node
        node.load.fetch_ends(message.object_id, has_come=False)
        node.remote.subscribed.discard(message.object_id)
        entry = node.objects.entries.get(message.object_id)
        if entry is None or entry.value is not None or entry.shared is None or entry.shared.is_released:
            return
        if message.object_id in node.objects.on_disk:
            return
        if not is_put(message.object_id) and entry.task is not None:
            return  # it is being made after all
        if node.generators.comes_again(message.object_id):
            return
        if message.object_id in node.routes.unpulled.by_object:
            node.routes.unpulled.said_to_be_lost(entry)
            return
        self._drop_orphans(entry)
        if entry.is_released or node.objects.entries.get(message.object_id) is not entry:
            return
        entry.shared.lost()
        kind = "ObjectReconstructionFailedError" if message.has_task else "ObjectLostError"
        spilled = node.spilling.lost.get(message.object_id)
        reason = f"The copy on disk is lost: {spilled}.  {message.reason}" if spilled else message.reason
        node.object_is_here(entry, encode_system_error(kind, reason))

    def _forget_loss(self, entry: ObjectEntry) -> None:
        assert entry.shared is not None
        entry.shared.loss_forgotten()
        self.node.objects.forget_value(entry)
        entry.pushed(None)

    def made_after_all(self, entry: ObjectEntry) -> None:
        """Remove the error of a lost object, because the task is re-executed locally."""
        if entry.is_lost:
            self._forget_loss(entry)
