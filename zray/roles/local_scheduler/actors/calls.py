"""Actors of this node and calls on them.  Actors of other nodes: `routes`, `remote_calls`, `actor_moves`.

An actor has a worker of its own for life.  Calls of a caller arrive and leave in order (call_queue), many at a time.
The actor's handles are refs to the first return of its creation task: without them, the actor ends.

States (ActorState) and positions of an actor:

    REGISTERING   waits for the shard to grant its name, or for its origin to hand it over
    PENDING       in `wanting`: arguments, resources or a process are missing
    STARTING      its constructor runs on its worker
    ALIVE         calls flow
    RESTARTING    its worker died and may be replaced: in `wanting` again
    DEAD          not in `actors`; its error stands in `graves` while its handles live
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ....exceptions import encode_system_error
from ....ids import FIRST_RETURN
from ....wire import actors, groups, homes, tasks, wards
from ....wire.task_spec import ActorOptions, StoredValue, TaskSpec, parse_options
from ...effects import OpenWindow
from ...role import on
from ..actor_logs.items import Items
from ..actor_logs.journals import new_journal
from ..actor_logs.logs import nothing
from ..actor_logs.nested import find_again
from ..actor_logs.shipping import new_shipping
from ..call_queue import CallQueue, has_room_always
from ..objects.table import ObjectEntry
from ..resources import CPU
from ..routes.actor_names import NOTHING
from ..tables import MADE_ANEW, Actor, ActorState, Job, died
from ..task import Task, TaskState
from ..worker import Worker

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Calls sent to a serial actor ahead of the one that runs.  They can go nowhere else, so only memory bounds it.
CALLS_IN_FLIGHT_MAX = 512
# Likewise to a hosted actor: there may be thousands of them.
HOSTED_IN_FLIGHT_MAX = 64
# The method of each actor that ends it.
TERMINATE = "__ray_terminate__"


def _never(task: Task, batch: dict[bytes, Task]) -> bool:
    """Never send a concurrent call without its arguments, because calls side by side end in any order."""
    return False


def _room_by_group(actor: Actor, limit: int) -> Callable[[Task], bool]:
    """Return a check of whether one more call of a concurrency group may be under way.

    A group takes more when half of its calls have ended, as an actor without groups does.
    """
    counts = Counter(task.options.group for task in actor.inflight.values())
    full = {group for group, count in counts.items() if count > limit // 2}

    def has_room(task: Task) -> bool:
        group = task.options.group
        counts[group] += 1
        return group not in full and counts[group] <= limit

    return has_room


def _has_run_before(worker: Worker) -> bool:
    """Return whether what runs in a worker may have run before, elsewhere or here."""
    if any(maker.life.restart_count or maker.is_second for maker in worker.actors()):
        return True
    return any(task.attempts for task in (*worker.inflight, *worker.calls()))


class Calls:
    """The actors of a node, by id."""

    PASSING = {"actors": ..., "touched": None, "wanting": "actors"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.actors: dict[bytes, Actor] = {}
        self.wanting: dict[bytes, Actor] = {}  # waits for arguments, resources or a worker
        self.promised: dict[str, int] = {}  # resources of those that wait and are to start here
        self.touched: dict[bytes, None] = {}  # actors to look at, at the end of the turn

    # --- creation ---

    @on(actors.CreateActor)
    def create(self, message: actors.CreateActor) -> None:
        """CreateActor."""
        node = self.node
        process = node.processes.get(node.sender)
        spec, options = message.spec, message.options
        if process is None or process.job.is_over:
            node.reject("an actor of a process or a job that is gone")
            return
        object_id = spec.task_id + FIRST_RETURN
        maker = self.recovering(process.worker, spec.task_id)
        if maker is not None and maker.journal.nested.has_made(spec.task_id):
            find_again(node, spec.task_id, options, process)
            return
        known = self.actors.get(spec.task_id)
        entry = node.objects.require(object_id)
        if known is not None:
            is_twice = node.objects.is_held_by(entry, process)
            node.objects.hold(entry, process)
            if is_twice or options.detached:
                node.reject("an actor created twice")
                return
            # The re-executed creator expects a fresh actor: the first one is killed (only a handle elsewhere kept it
            # alive after the loss of the creator).
            if known.worker is not None:
                node.pool.kill(known.worker)
            self.node.ends.bury(known, died(options, MADE_ANEW))
        node.routes.made_anew(spec.task_id)
        node.objects.hold(entry, process)
        if maker is not None:
            maker.journal.nested.forget_on(spec.task_id)
            maker.journal.nested.made_actor(spec.task_id)
        actor = self.make(spec, options, node.guards.new_life(), process.job, entry)
        if not node.is_embedded and process.worker is not None and _has_run_before(process.worker):
            actor.may_be_second()
        actor.stands_behind(node.actor_room.ahead_of(actor))
        if maker is not None and maker.shipping is not None:
            maker.shipping.made(wards.NestedAnswer(spec.task_id, spec.task_id, []))
        node.guards.made_anew(actor)
        refusal = node.infeasible.why_not_ever(actor) or node.functions.why_refused(actor)
        if refusal:
            self.node.ends.bury(actor, encode_system_error("ActorUnschedulableError", refusal))
        elif options.name:
            node.moves.settle_later(actor)
            node.names.register(actor)
        else:
            self.want_worker(actor)

    def make(self, spec: TaskSpec, options: ActorOptions, life: homes.ActorLife, job: Job, entry: ObjectEntry) -> Actor:
        """Create the record of a local actor, or of an actor that may become local."""
        node = self.node
        node.recovery.made_after_all(entry)
        node.objects.forget_value(entry)
        entry.pushed(None)
        task = Task(spec, parse_options(spec.options), entry, job, state=TaskState.CALL, came=(0, node.now))
        entry.made_by(task)
        node.take_task(spec.task_id)
        node.add_task(task)
        actor = Actor(
            task.spec.task_id, task, options, life, job, entry, queue=CallQueue(is_ordered=options.is_ordered)
        )
        entry.leads_to(actor)
        if options.checkpoint_interval >= 0:
            journal, items = new_journal(node), Items(node, actor)
            actor.recovers(journal, items, None if node.is_embedded else new_shipping(node, actor))
        self.actors[actor.actor_id] = actor
        node.lifecycle.retain_arguments(task)
        for dep in (*spec.deps, *spec.holds):
            # A restart runs the constructor again: its arguments live as long as the actor may.
            node.objects.retain(dep)
        return actor

    def want_worker(self, actor: Actor, *, may_leave: bool = True) -> None:
        """Start the actor locally, or on another node if there is no room now."""
        may_leave = actor.wants_worker() and may_leave
        self.node.changes.actor(actor)
        actor.lacks_a_worker(alone=False)
        self.node.stages.begins(actor.creation)
        self.node.code.lasts(actor)
        self.wanting[actor.actor_id] = actor
        self.touch(actor.actor_id)
        if may_leave:
            if actor.options.where is not None and actor.options.where.group:
                self.node.groups.settle(actor)
                return
            if self._leaves(actor):
                self.node.moves.ask(actor)
                return
            self.node.moves.settled_here(actor)
        self.promise(actor.options)

    def take_out(self, actor: Actor) -> bool:
        """Remove an actor that is dead, or another node's.  Returns whether it was one of this node's."""
        return self.actors.pop(actor.actor_id, None) is not None

    def _leaves(self, actor: Actor) -> bool:
        """Whether another node should have the actor, if possible."""
        node, where = self.node, actor.options.where
        if node.strategies.is_bound(where):
            return False
        no_room = node.infeasible.may_find_room_elsewhere(actor) and not self.has_room_for(actor.options)
        request = actor.options.resources
        return no_room or node.strategies.would_go(where, request) or node.strategies.spares_gpus(where, request)

    def has_room_for(self, options: ActorOptions, *, may_borrow: bool = False, are_apart: bool = False) -> bool:
        """Whether the actor could start now, beside the actors about to start.

        may_borrow: also on CPUs lent by waiting tasks, which then wait longer for their return.  are_apart: several
        requests together; the caller checks the GPUs.
        """
        if self.is_barred(options):
            return False
        free, promised = self.node.resources.free, self.promised
        for name, amount in options.resources.items():
            left = free.get(name, 0) - promised.get(name, 0)
            if not may_borrow and left >= amount and groups.plain_name(name) == CPU:
                left -= self.node.dispatch.lending.lent(name)
            if left < amount:
                return False
        return are_apart or self.node.resources.gpus.fits(options.resources)

    def is_barred(self, options: ActorOptions) -> bool:
        """Whether the local node refuses such actors, regardless of room."""
        drain = self.node.drain
        return self.node.members.is_guest or (drain.is_on and drain.may_go(options.resources, options.where))

    def promise(self, options: ActorOptions, count: int = 1) -> None:
        """Count `count` more actors about to start locally; -1 for a started actor."""
        for name, amount in options.resources.items():
            self.promised[name] = self.promised.get(name, 0) + count * amount

    def wanting_worker_changed(self) -> None:
        """Check all actors that wait for a worker again."""
        for actor_id in self.wanting:
            self.touch(actor_id)

    def no_worker_to_be_had(self, packages: str, error: str, reason: str) -> None:
        """Give up all actors waiting for a worker with these packages."""
        for actor in list(self.wanting.values()):
            if actor.options.environment.packages == packages:
                self.node.ends.bury(actor, encode_system_error(error, reason))

    def touch(self, actor_id: bytes) -> None:
        """Check the actor at the end of the turn."""
        self.touched[actor_id] = None

    def take_worker(self, worker: Worker) -> bool:
        """Give a fresh worker to an actor that lacks only a worker."""
        for actor in self.wanting.values():
            if actor.options.environment.packages == worker.packages and self._has_all_but_a_worker(actor):
                if actor.options.hosted and self.node.pool.hosts.find(actor) is not None:
                    continue
                taken = self.node.pool.take_for(actor, worker)
                assert taken is not None
                self._start(actor, taken)
                self.wanting_worker_changed()  # it may have been ordered for another one
                return True
        return False

    def _has_all_but_a_worker(self, actor: Actor) -> bool:
        if actor.incoming is not None or actor.awaits_former:
            return False  # what it recovers from; or an actor of an earlier run may live
        if actor.journal is not None and actor.journal.nested.is_unsure():
            return False
        if self.node.objects.on_disk and not actor.creation.missing:
            self.node.spilling.lacks(actor.creation)
        if actor.creation.missing or (self.node.groups.unsettled and not self.node.groups.stays(actor)):
            return False
        fits = self.node.resources.fits(actor.options.resources) and not self.node.actor_room.overtakes(actor)
        return fits and (not self.node.moves.asks or self.node.moves.stays(actor))

    def _place(self, actor: Actor) -> None:
        if not self._has_all_but_a_worker(actor):
            return
        if (worker := self.node.pool.take_for(actor)) is not None:
            self._start(actor, worker)
            return
        if not actor.has_all_but_a_worker:
            self.node.stages.actor_lacks_a_worker(actor)
            actor.lacks_a_worker(alone=True)
        if not actor.options.hosted or self.node.pool.hosts.find(actor) is None:  # else its former run ends soon
            self.node.pool.start_for_actor(actor.options)

    def _start(self, actor: Actor, worker: Worker) -> None:
        node = self.node
        del self.wanting[actor.actor_id]
        self.promise(actor.options, -1)
        node.stages.actor_starts(actor)
        gpus = node.dispatch.lending.begin(worker, actor.options.resources, 0).gpus
        node.resources.hold(actor.options.resources)
        node.dispatch.is_dirty = True  # tasks that it leaves no room for go elsewhere
        worker.moves(node.now)
        actor.starts(worker)
        node.changes.actor(actor)
        spec, names = actor.creation.spec, node.resources.gpus.names_of(gpus)
        functions = node.dispatch.batches.functions_for(worker.host or worker, [spec])
        node.functions.keep(actor)
        order = actors.StartActor(spec, actor.options, functions, [], actor.life.restart_count, gpus=names)
        if actor.journal is not None:
            order = actor.journal.starts(order, actor, worker.worker_id)
        order.arguments = node.dispatch.batches.arguments_for(worker, [spec, *order.calls])
        node.send(worker.address, order)

    @on(actors.ActorStarted)
    def started(self, message: actors.ActorStarted) -> None:
        """ActorStarted: its constructor returned."""
        actor = self.actors.get(message.actor_id)
        if actor is None or actor.worker is None or actor.worker.address != self.node.sender:
            return
        if not actor.has_started(has_shutdown=message.has_shutdown):
            self.node.reject("the start of an actor that does not start")
            return
        self.node.changes.actor(actor)
        if actor.shipping is not None:
            actor.shipping.answers.made_again((*actor.journal.calls, *actor.journal.reads.specs()))
            actor.items.made_again(actor.journal.calls)
            actor.shipping.begun.run_first()
        self.creation_done(actor, NOTHING)
        self.touch(actor.actor_id)

    @on(actors.ActorStartFailed)
    def start_failed(self, message: actors.ActorStartFailed) -> None:
        """ActorStartFailed: the user's constructor raised; every call gets that error."""
        actor = self.actors.get(message.actor_id)
        if actor is not None and actor.worker is not None and actor.worker.address == self.node.sender:
            self.node.pool.kill(actor.worker)
            self.node.notices.constructor_failed(actor, message.error)
            self.node.ends.bury(actor, message.error)

    def creation_done(self, actor: Actor, value: bytes) -> None:
        """Finish the actor's creation, once: the object behind the handles is ready."""
        task = actor.creation
        if self.node.take_task(task.spec.task_id) is not None:
            self.node.lifecycle.finish(task, [value])

    # --- calls ---

    def submit(self, task: Task) -> None:
        """Queue a call, in order of arrival, or send it on."""
        actor_id = task.options.actor_id
        actor = self.actors.get(actor_id)
        task.queued()
        if actor is None and not task.origin and actor_id not in self.node.ends.graves and self.is_elsewhere(actor_id):
            self.node.routes.submit(task)
            return
        self.node.lifecycle.retain_arguments(task)
        if actor is None:
            self.node.lifecycle.fail_with(task, self.node.ends.grave(task))
            return
        if actor.down_since is not None and self.node.ends.restarts.refuses(actor, task):
            return
        if actor.options.name and task.options.method == TERMINATE:  # most actors have no name
            self.node.names.last_calls[actor_id] = task
        actor.queue.put(task)
        self.touched[actor_id] = None

    def is_elsewhere(self, actor_id: bytes) -> bool:
        """Whether the actor may be on another node, or was on a lost node, so only the shard knows."""
        node = self.node
        return node.members.has_had_others or actor_id in node.guards.guarded or actor_id in node.routes.by_actor

    def pump(self) -> None:
        """Send calls, start actors and end departing ones, at the end of a turn."""
        if self.node.traces.watches:
            self.node.traces.look_for_changes()
        touched, self.touched = self.touched, {}
        for actor_id in touched:
            actor = self.actors.get(actor_id)
            if actor is None:
                continue
            if actor.queue:
                self._send_calls(actor)
            if actor.actor_id in self.wanting:
                self._place(actor)
            if actor.is_going and not actor.queue and not actor.inflight:
                self.node.ends.see_off(actor)

    def _send_calls(self, actor: Actor) -> None:
        worker = actor.worker
        if actor.state != ActorState.ALIVE or worker is None or self.node.drain.going.is_held(actor):
            return
        if actor.options.name and self.node.traces.is_halted(actor.actor_id):
            return  # until the trace ends
        limit = CALLS_IN_FLIGHT_MAX
        if worker.host is not None:
            # Nobody can tell which calls a dead process had begun: repeatable ones are not sent ahead.
            limit = 1 if actor.options.max_restarts else min(limit, HOSTED_IN_FLIGHT_MAX)
        limit = max(limit, actor.options.max_concurrency)
        busy = len(actor.inflight) + (len(actor.shipping.withheld) if actor.shipping is not None else 0)
        has_room: Callable[[Task], bool] = has_room_always
        if actor.options.groups:
            has_room, busy, limit = _room_by_group(actor, limit), 0, limit * (1 + len(actor.options.groups))
        if busy > limit // 2:
            return
        may_follow = self._makers_are_in if actor.options.is_serial and worker.host is None else _never
        for task in islice(actor.queue, limit - busy) if self.node.objects.on_disk else ():
            if not task.missing:
                self.node.spilling.lacks(task)
        batch = actor.queue.take(limit - busy, may_follow, has_room)
        while batch and actor.shipping is not None and actor.shipping.answers.are_known:
            batch = actor.shipping.answers.again(batch)
            if batch:
                break
            # All of those had run: nothing that ends calls us again.
            batch = actor.queue.take(limit - busy, may_follow, has_room)
        if batch:
            specs = []
            for task in batch.values():
                task.sent(worker)
                specs.append(task.spec)
            self.node.stages.are_sent(batch.values(), task, are_alike=True)
            if not actor.inflight:
                worker.begins(self.node.now)
            actor.sends(batch)
            arguments = self.node.dispatch.batches.arguments_for(worker, specs)
            if worker.host is None:
                self.node.perform(OpenWindow(worker.address, len(specs)))
            order = tasks.StartTasks(specs, [], arguments)
            if actor.items is not None:
                order.again = actor.items.again(batch.values())
            self.node.send(worker.address, order)
            for task_id, _, _ in order.again:
                self.node.cancels.interrupt_again(batch[task_id])

    def arguments_are_here(self, task: Task) -> None:
        """Note that a call, or an actor's creation, has all arguments."""
        actor = self.actors.get(task.options.actor_id or task.spec.task_id)
        if actor is not None:
            if task is not actor.creation:
                actor.queue.arguments_are_here(task)
            self.touched[actor.actor_id] = None

    def _makers_are_in(self, task: Task, batch: dict[bytes, Task]) -> bool:
        """Whether an earlier call of the same batch returns each missing argument.

        A call of an earlier batch may have returned already, without its value being kept.  Then this call would come
        back, and later calls would overtake it.
        """
        entries = self.node.objects.entries
        for object_id in task.spec.deps:
            entry = entries[object_id]
            if entry.value is None:
                maker = entry.task
                if maker is None or maker.spec.task_id not in batch:
                    return False
        return True

    def call_ended(self, task: Task, worker: Worker, result: tasks.TaskResult) -> None:
        """Record a call that the actor's worker has answered."""
        actor = worker.actor
        if actor is not None:
            actor.has_back(task.spec.task_id)
            self.touched[actor.actor_id] = None
            if worker.host is not None and actor.inflight:
                worker.begins(self.node.now)
            if actor.journal is not None:
                closed_at = actor.items.closed.pop(task.spec.task_id, None) if actor.items.closed else None
                actor.journal.note(task, result, closed_at, is_alone=actor.shipping is None)
                if actor.shipping is not None:
                    actor.shipping.ran(task)

    @on(actors.CallClosed)
    def call_closed(self, message: actors.CallClosed) -> None:
        """CallClosed."""
        task = self.node.tasks.get(message.task_id)
        actor = self.actors.get(task.options.actor_id) if task is not None else None
        is_its = actor is not None and actor.worker is not None and actor.worker.address == self.node.sender
        if not is_its or actor is None or actor.items is None:
            self.node.reject("the early end of a call that does not run")
            return
        actor.items.closed[message.task_id] = message.items

    def made_by_call(self, task: Task, worker: Worker | None) -> bool:
        """Note a call made by a local actor, for replay if recoverable.  Returns whether the call waits for the backup
        node."""
        maker = self.recovering(worker, task.spec.task_id)
        if maker is None:
            return False
        task.logged()
        maker.journal.nested.made(task)
        return maker.shipping is not None and maker.shipping.begun.hold_back(task)

    def has_ended(self, task_id: bytes, worker: Worker | None) -> bool:
        """Whether a recoverable actor repeats an ended call, to be answered without a new call."""
        maker = self.recovering(worker, task_id)
        return maker is not None and maker.journal.nested.has_ended(task_id)

    def is_asked_again(self, task_id: bytes, actor_id: bytes) -> bool:
        """Whether the actor is local, and must repeat the answer to a caller formerly on a lost node."""
        actor = self.actors.get(actor_id)
        return actor is not None and actor.shipping is not None and task_id in actor.shipping.answers.inherited

    @staticmethod
    def recovering(worker: Worker | None, task_id: bytes) -> Actor | None:
        """Return the recoverable actor that creates the task, in a call or in the constructor, and would repeat the
        creation."""
        actor = worker.actor if worker is not None else None
        if actor is None or actor.journal is None or task_id.startswith(actor.journal.strays):
            return None
        return actor

    def nested_ended(
        self, task: Task, values: Sequence[bytes | StoredValue | int], contained: tuple[tuple[bytes, ...], ...] = ()
    ) -> None:
        """Record the end of a call made by an actor."""
        node = self.node
        actor, callee = self.actors.get(task.spec.caller), self.actors.get(task.options.actor_id)
        answer = None
        if actor is not None and actor.journal is not None:
            answer = actor.journal.nested.ended(task, values, contained, is_beside=callee is not None)
        if callee is None or callee.shipping is None:
            done = node.logs.receipt_waits() if answer is not None else nothing
        else:
            done = partial(callee.shipping.answers.has, task.spec.task_id)
        if answer is not None and actor is not None and actor.shipping is not None:
            actor.shipping.nested_ended(answer, done)
        else:
            done()

    def run_again(self, task: Task) -> None:
        """Retry a call at its own request; nested calls are made again too."""
        actor = self.actors.get(task.options.actor_id)
        if actor is not None and actor.journal is not None:
            actor.journal.nested.forget(task.spec.task_id)
        self.requeue(task)

    def requeue(self, task: Task, *, has_begun: bool = False) -> None:
        """Queue the call at the front again.  has_begun: as in CallQueue.append_first."""
        actor = self.actors.get(task.options.actor_id)
        if actor is None:
            self.node.lifecycle.fail_with(task, self.node.ends.grave(task))
            return
        actor.has_back(task.spec.task_id)
        if task.spec.task_id in self.node.cancels.asked and not (actor.items and actor.items.count(task.spec.task_id)):
            if actor.journal is not None:
                actor.journal.give_up(task.spec.task_id)
                actor.items.ended(task.spec.task_id)
            self.node.cancels.fail(task)
            return
        self.node.stages.wait_ends(task, TaskState.CALL)
        task.queued()
        actor.queue.put_first(task, has_begun=has_begun)
        self.touch(actor.actor_id)
