"""Local scheduler: runs on every node, and keeps a task here unless it must leave.

Dialog (sender, message, reaction):

    driver, worker    SubmitTasks       queue them here; calls go to their actor; tasks that cannot run here are spilled
    driver, worker    PutObjects, HoldObjects, ReleaseObjects, UnpinObjects    keep the table of objects
    driver, worker    WaitObjects, CancelWait      answer when the objects are ready; lend a blocked worker's CPU
    driver, worker    CreateActor, KillActor, FindActor, FindActorNames, ListWork
    driver, worker, local scheduler    Explain -> ExplainReply
    driver            PublishCode       code for the job's tasks on other nodes
    driver            FlushOutput       all output of the job's workers
    worker            TasksFinished     store the values, answer waits, start tasks whose arguments are complete
    worker            TasksReturned     queue them again
    worker            ActorStarted, ActorStartFailed, ActorExited, ActorEnded
    object manager    ObjectFetched, FetchFailed, ReadInline, ClaimObject
    global scheduler  PlaceTask         queue it here; the task stays, unless actors hold its resources, or it is stolen
    global scheduler  TaskPlaced, TaskDeferred, SpillRefused, StealTasks
    local scheduler   TaskAccepted, TaskGivenBack, TaskDone, JobEnded, JobNotice, JobOutput, TraceHandles, EndTrace
    GCS shard         ...Reply, ObjectLocated, FreeCopies, RebuildObject, ObjectLost, HandleReleased
    monitor           NodeJoined, NodeLost, HeartbeatReply

Components: tables (records), objects and holding (references), dispatch (queues, batches), pool (workers), waits, calls
and actor_ends (actors), lineage (records for the shards), acks, members, remote, routes, remote_calls, results, guards
and recovery (other nodes; their deaths), fates (work that ends with its requester), infeasible (requests too large for
every node), explain and reasons (why an object is not ready), code (of jobs, for other nodes), output (of workers).

All decisions of a turn are taken once, at its end.  A message about a thing that is gone is normal, and changes
nothing.  Source: Ray paper 4.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ...wire import objects as objects_wire
from ...wire import scheduling, tasks, where
from ...wire.events import State
from ...wire.task_spec import StoredValue
from .. import effects
from ..kept import Latest
from ..role import Role, on
from .acks import Acks
from .actor_logs.logs import Logs
from .actors.calls import Calls
from .actors.cycles import Cycles
from .actors.ends import ActorEnds
from .actors.guards import Guards
from .actors.moves import ActorMoves
from .actors.remote_calls import RemoteCalls
from .actors.traces import Traces
from .addresses import Addresses
from .forwarding.departures import Departures
from .forwarding.flights import Flights
from .forwarding.generators import Generators
from .forwarding.infeasible import Infeasible
from .forwarding.kept_items import KeptItems
from .forwarding.load import Load
from .forwarding.remote import Remote
from .forwarding.reruns import Reruns
from .forwarding.results import Results
from .forwarding.stealing import Stealing
from .forwarding.strategies import Strategies
from .forwarding.trips import Trips
from .groups.bundles import Bundles
from .groups.groups import Groups
from .groups.keeping import Keeping
from .membership.drain import Drain
from .membership.members import Members
from .membership.slots import Slots
from .objects.fetches import Fetches
from .objects.holding import Freeing, Holding
from .objects.lineage import Lineage
from .objects.recovery import Recovery
from .objects.small_values import SmallValues
from .objects.spilling import Spilling
from .objects.table import ObjectEntry, ObjectTable
from .objects.undoing import Undoing
from .objects.waits import Waits
from .reporting.changes import Changes
from .reporting.events import Events
from .reporting.hung import HungTasks
from .reporting.listing import Ended, Listings
from .reporting.notices import Notices
from .reporting.output import Output
from .reporting.reasons import Explanations
from .resources import Resources
from .routes.actor_names import ActorNames
from .routes.routes import Routes
from .tables import Job, Process
from .task import Task, TaskStates
from .tasks.actor_room import ActorRoom
from .tasks.cancels import Cancels
from .tasks.code import Functions, JobCode
from .tasks.dispatch import Dispatch
from .tasks.fates import Fates
from .tasks.lifecycle import Lifecycle
from .tasks.memory import MemoryGuard
from .tasks.pool import WorkerPool
from .tasks.stages import Stages

# Values up to this size travel in messages.
INLINE_BYTES_MAX = 100 * 1024
# Jobs of other nodes that have ended are remembered, the last so many: what is placed travels for less than that.
ENDED_JOBS_MAX = 10_000


class LocalScheduler(Role):
    """The local scheduler of a node: its tasks, objects, workers and actors."""

    PASSING = {"tasks talkative to_seal": None} | {
        "forwarded tasks": (lambda node: sum(map(len, node.task_states.index.values())), "tasks")
    }
    OF_JOBS = {"jobs": ...}
    LASTING = {"processes": ...}

    def __init__(
        self,
        address: str,
        addresses: Addresses,
        *,
        total: dict[str, int],
        node_id: bytes = b"",
        session: str = "",
        is_embedded: bool = True,
        worker_prefix: str = "worker-",
        inline_bytes_max: int = INLINE_BYTES_MAX,
        policy: str = scheduling.BOTTOM_UP,
        labels: dict[str, str] | None = None,
        gpu_names: Sequence[str] = (),
    ) -> None:
        super().__init__(address)
        self.addresses = addresses
        self.node_id, self.session = node_id, session
        self.is_embedded = is_embedded  # no other node can ever join
        self.labels = {**(labels or {}), where.NODE_ID_LABEL: where.host_of(address)}
        self.policy = policy  # as in wire/scheduling.POLICIES
        self.inline_bytes_max = inline_bytes_max  # of results: small ones come from other nodes unasked
        self.resources = Resources(total, gpu_names)
        self.processes: dict[str, Process] = {}
        self.jobs: dict[bytes, Job] = {}
        self.ended_jobs: Latest[bytes, str] = Latest(ENDED_JOBS_MAX)  # and whose: tasks may still be on their way
        self.tasks: dict[bytes, Task] = {}
        self.objects = ObjectTable()
        self.waits = Waits(self)
        self.pool = WorkerPool(self, worker_prefix)
        self.dispatch = Dispatch(self)
        self.calls = Calls(self)
        self.actor_room = ActorRoom(self)
        self.ends, self.cycles, self.traces = ActorEnds(self), Cycles(self), Traces(self)
        self.fates, self.cancels, self.lifecycle = Fates(self), Cancels(self), Lifecycle(self)
        self.memory, self.functions = MemoryGuard(self), Functions(self)
        self.lineage, self.undoing, self.stages = Lineage(self), Undoing(self), Stages(self)
        self.task_states = TaskStates(self.stages.wait_ends)
        self.remote, self.fetches, self.spilling = Remote(self), Fetches(self), Spilling(self)
        self.trips = Trips(self)
        self.departures = Departures(self)
        self.stealing = Stealing(self)
        self.strategies = Strategies(self)
        self.groups = Groups(self)
        self.bundles = Bundles(self)
        self.keeping = Keeping(self)
        self.load = Load(self)
        self.names = ActorNames(self)
        self.moves = ActorMoves(self)
        self.guards = Guards(self)
        self.acks = Acks(self)
        self.logs = Logs(self)
        self.routes = Routes(self)
        self.remote_calls = RemoteCalls(self)
        self.results, self.generators, self.kept_items = Results(self), Generators(self), KeptItems(self)
        self.reruns, self.members = Reruns(self), Members(self)
        self.recovery = Recovery(self)
        self.infeasible = Infeasible(self)
        self.flights = Flights(self)
        self.drain = Drain(self)
        self.explanations, self.listings, self.ended = Explanations(self), Listings(self), Ended(self)
        self.events, self.changes, self.code = Events(self), Changes(self), JobCode(self)
        self.output, self.notices, self.hung = Output(self), Notices(self), HungTasks(self)
        self.small_values, self.slots = SmallValues(self), Slots(self)
        self.talkative: list[Process] = []  # processes whose `results` leave at the end of this turn
        self.to_seal: list[bytes] = []
        self.finished_count = 0
        self._handle_with_parts()

    def _handle_with_parts(self) -> None:
        self.handle_with(
            *(self.waits, self.pool, self.dispatch, self.calls, self.ends, self.fates, self.lifecycle, self.lineage),
            *(self.functions, self.remote, self.fetches, self.trips, self.stealing, self.groups, self.bundles),
            *(self.keeping, self.load, self.names, self.moves, self.guards, self.acks, self.logs, self.routes),
            *(self.remote_calls, self.results, self.members, self.recovery, self.infeasible, self.flights, self.drain),
            *(self.events, self.explanations, self.listings, self.code, self.output, self.small_values, Holding(self)),
            *(Freeing(self), self.drain.going, self.drain.taking, self.fetches.room, self.spilling),
            *(self.recovery.puts, self.cancels, self.generators, self.kept_items, self.memory, self.pool.hosts),
            *(self.traces, self.names.elsewhere, self.slots),
        )

    # --- tasks ---

    def add_task(self, task: Task) -> None:
        """Add an unfinished task."""
        self.tasks[task.spec.task_id] = task
        if len(task.spec.args) > self.objects.small_max:
            self.objects.inline_bytes += len(task.spec.args)

    def take_task(self, task_id: bytes) -> Task | None:
        """Remove a task, and return it."""
        task = self.tasks.pop(task_id, None)
        if task is not None and len(task.spec.args) > self.objects.small_max:
            self.objects.inline_bytes -= len(task.spec.args)
        return task

    # --- processes ---

    @on(effects.ProcessJoined)
    def on_process_joined(self, message: effects.ProcessJoined) -> None:
        if message.kind == "worker":
            self.pool.join(message)
            return
        job = self.jobs.get(message.job_id)
        if job is None:
            job = self.jobs[message.job_id] = Job(message.job_id, replace(message.facts, home=self.address))
        process = Process(message.process, message.kind, message.pid, job)
        if job.driver is None:
            job.is_driven_by(process)
            self.changes.job(job, State.RUNNING)
        self.processes[message.process] = process
        if self.small_values.are_many:
            self.small_values.tell(process)
        self.pool.prestart()

    @on(effects.ProcessLeft)
    def on_process_left(self, message: effects.ProcessLeft) -> None:
        """A driver's end is its job's end: tasks cancelled, objects freed, actors (not detached) stopped."""
        process = self.processes.get(message.process)
        if process is None:
            return
        job = process.job
        self.forget_process(process)
        if process is job.driver:
            self.changes.job(job, State.FINISHED)
            self.ended_jobs[job.job_id] = self.address  # one that went up may come down here again
            self.end_job(job)
            self.functions.job_ended(job.job_id)
            for peer in self.members.peers:
                self.send(peer, scheduling.JobEnded(job.job_id))

    @on(scheduling.JobEnded)
    def on_job_ended(self, message: scheduling.JobEnded) -> None:
        """JobEnded: the driver was on another node."""
        job = self.jobs.get(message.job_id)
        self.guards.end_job(message.job_id, self.sender)
        self.ended_jobs[message.job_id] = self.sender
        self.output.ended_elsewhere(message.job_id, self.sender)
        if job is not None and job.driver is None and job.home == self.sender:
            self.end_job(job)
            self.routes.job_ended(job)
        self.code.job_ended(message.job_id, self.sender)

    def has_ended(self, job_id: bytes, facts: scheduling.JobFacts) -> bool:
        """Whether the job's driver is known to be gone; work of its detached actors goes on."""
        return not facts.is_heir and self.ended_jobs.get(job_id) == facts.home != ""

    def end_job(self, job: Job) -> None:
        """End a job: no task of it starts any more, and running tasks are ended."""
        job.ends()
        self.guards.end_job(job.job_id, job.home)
        self.keeping.job_ended(job.job_id)
        self.output.job_ended(job.job_id)
        self.dispatch.cancel_job(job)
        self.ends.end_job(job)
        self.functions.forget_waiters()
        self.pool.end_job(job)
        del self.jobs[job.job_id]
        self.code.job_ended(job.job_id, job.home)

    def forget_process(self, process: Process, *, has_died: bool = False) -> None:
        """Remove a process from all structures, with its references, pins and waits.

        has_died: the process ended neither in order nor with its job.
        """
        self.processes.pop(process.address, None)
        self.waits.forget_process(process)
        self.generators.forget_process(process)
        self.undoing.release(process, has_died=has_died)
        process.results.clear()
        # Sealed values are complete, and must not be freed as unfinished writes of the process.
        self._send_seals()
        self.send(self.addresses.object_manager, objects_wire.ProcessGone(process.address))
        self.perform(effects.ForgetProcess(process.address))

    def object_is_here(
        self,
        entry: ObjectEntry,
        value: bytes | StoredValue,
        contained: tuple[bytes, ...] = (),
        *,
        is_restored: bool = False,
    ) -> None:
        """Store a value that was computed, put or fetched; update waiting tasks, waits and the submitter.

        is_restored: the value is that of the copy on this node's disk.
        """
        if entry.value is not None:
            value = self.small_values.replaced(entry, value)
        if entry.shared is not None and entry.shared.copy:
            self.fetches.made(entry)
        waiting = entry.came(value)
        if contained:
            self.objects.contain(entry, contained)
        is_pushed = True
        if type(value) is StoredValue:
            # A place that nobody has asked for would keep the value in the arena.
            is_pushed = not self.spilling.is_filling
            self.objects.dies_no_more(entry.object_id)
            self.objects.is_unread(entry.object_id)
            if not is_restored and self.objects.on_disk:
                self.objects.on_disk.pop(entry.object_id, None)
            self.to_seal.append(entry.object_id)
        elif len(value) > self.objects.small_max:  # type: ignore[arg-type]
            self.objects.inline_bytes += len(value)  # type: ignore[arg-type]
        if waiting is not None:
            for task in waiting:
                self.lifecycle.argument_is_here(task)
        if entry.watchers is not None:
            self.waits.object_is_here(entry, is_pushed=is_pushed)
        holder = entry.holders
        if holder is None:
            if not entry.count:
                self.objects.free_if_unreferenced(entry)
        elif not is_pushed:
            self.waits.lies_elsewhere(entry)
        elif type(holder) is Process:
            self.push(entry, holder)
        else:
            for process in sorted(holder, key=lambda process: process.address):
                self.push(entry, process)
        if entry.shared is not None:
            self.remote.value_is_here(entry)
            if entry.shared is not None and entry.shared.is_released:
                self.fetches.room.let_go(entry)

    def push(self, entry: ObjectEntry, process: Process) -> None:
        """Give the value to a process, in the turn's ObjectsReady."""
        value = entry.value
        entry.pushed(process)
        if type(value) is StoredValue:
            self.objects.pin(entry.object_id, process)
        if not process.results:
            self.talkative.append(process)
        process.results.append((entry.object_id, value))  # type: ignore[arg-type]

    def statistics(self) -> dict[str, Any]:
        return {
            "tasks": len(self.tasks),
            "ready": self.dispatch.ready_count,
            "finished": self.finished_count,
            "workers": len(self.pool.workers),
            "actors": len(self.calls.actors),
            "jobs": len(self.jobs),
            "rejected": sum(self.rejected.values()),
            **self.objects.statistics(),
        }

    # --- the turn ---

    def take_effects(self) -> list[Any]:
        """Take the effects, except requests that wait for those that other shards return."""
        effects = self._effects
        if not effects:
            return []
        self._effects = []
        return self.slots.hold_back(effects) if self.slots.held else effects

    def first_words(self, now: float) -> list[Any]:
        """Send the available values or, if no wait is answered, start the ready work."""
        self.now = now
        if self.members.suspension.is_on:
            return self.take_effects()
        if self.talkative or self.waits.replies:
            self.let_values_out()
        else:
            self._give_work_out()
        return self.take_effects()

    def _give_work_out(self) -> None:
        if self.calls.touched:
            self.calls.pump()
        self.dispatch.run()
        if self.calls.touched:
            self.calls.pump()

    def let_values_out(self) -> None:
        """Send values, and after them the answers of waits."""
        if self.talkative:
            for process in self.talkative:
                if process.results:
                    results, process.results = process.results, []
                    self.send(process.address, tasks.ObjectsReady(results))
            self.talkative.clear()
        self.waits.send_replies()

    def end_turn(self, now: float) -> list[Any]:
        """Decide once for the whole turn, then send the values."""
        self.now = now
        if self.members.suspension.is_on:
            return self.take_effects()
        if self.logs.touched:
            self.logs.say_begun()
        self._give_work_out()
        if self.bundles.leaving and self.bundles.release():
            self._give_work_out()
        self.let_values_out()
        self._send_seals()
        objects = self.objects
        if objects.bereft_actors or objects.freed_actors:
            self.ends.handles_gone()
        if objects.thinned:
            self.cycles.look()
        if objects.abandoned:
            self.cancels.end_abandoned()
        if self.routes.touched:
            self.routes.pump()
        if self.remote_calls.results:
            self.remote_calls.pump()
        if self.logs.touched or self.logs.copies:
            self.logs.pump()
        if objects.freed_places:
            self.send(self.addresses.object_manager, objects_wire.FreeObjects(objects.take_freed_places()))
        if self.spilling.wanted or self.spilling.to_restore or self.spilling.pullers:
            self.spilling.end_turn()
        self.lineage.end_turn()
        self.remote.end_turn()
        self.small_values.end_turn()
        return self.take_effects()

    def _send_seals(self) -> None:
        if self.to_seal:
            self.send(self.addresses.object_manager, objects_wire.SealObjects(self.to_seal))
            self.to_seal = []

    def check_everything(self) -> None:
        self.objects.check_everything()
        self.dispatch.check_everything()
        self.task_states.check_everything()
        self.bundles.check_everything()
        self.functions.check_everything()
        self.small_values.check_everything()
        self.recovery.puts.check_everything()
        for name, total in self.resources.total.items():
            assert 0 <= self.resources.free[name] <= total
