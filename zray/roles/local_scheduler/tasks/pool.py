"""The node's worker processes: started, assigned to a job and environment for life, reused, replaced when they die.

Workers of an environment with packages come from that environment's fork server, and run only its tasks.

The pool has at most 2 x CPUs + 4 workers, not counting actors.  If all of them are blocked, a blocked worker itself
runs the tasks that it waits for.  If none of them waits for a ready task, an extra worker is started, and ends when
idle.  A wait with a timeout would delay a task run inside it, so up to LIMITED_MAX extra workers are started for such
tasks.  Hosted actors share processes (`hosts`).

A failed worker start is repeated START_FAILURES_MAX times in a row; then the tasks that need the worker fail with the
reason.

    STARTING -> IDLE -> LEASED -> IDLE         works off a queue
    STARTING, IDLE -> ACTOR                    for life
    STARTING, IDLE, LEASED, ACTOR -> STOPPING  in order: submitted tasks go on
    all -> DEAD

Rule 1: `starting` counts workers in STARTING, `idle` has those in IDLE and `leased` those in LEASED.

Rule 2: A worker has frames in LEASED and ACTOR, and a queue in LEASED.  A process for hosted actors has a frame while
it has any.

Rule 3: Nothing else changes a worker's state, queue, job or actor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from ....wire.amounts import name_of
from ....wire.environment import Environment
from ....wire.events import State
from ....wire.scheduling import JobFacts
from ....wire.task_spec import RESOURCE_UNIT
from ....wire.tasks import JobStarted
from ... import effects
from ...role import on
from ..gpus import Shares
from ..resources import CPU, cpu_of
from ..tables import Actor, Job, Process, ReadyQueue
from ..task import Task, TaskState
from ..worker import Worker, WorkerState
from .hosts import Hosts

if TYPE_CHECKING:
    from ....wire.task_spec import ActorOptions
    from ..scheduler import LocalScheduler

# The cause of a worker's end where that was in order.
EXITED_IN_ORDER = "exited with code 0"
START_FAILURES_MAX = 3
# Beyond the cap, for what waits with a timeout are for: a program may have thousands of these inside each other.
LIMITED_MAX = 32
# A machine that is said to have hundreds of CPUs shall have its first result in a second all the same.
PRESTARTED_MAX = 64
# Idle workers of a job and an environment.  Those that have not worked for anybody: b"", and their packages.
Kind = tuple[bytes, Environment | str]

STARTING, IDLE, LEASED, ACTOR, STOPPING, DEAD = list(WorkerState)
Event = Literal["leased", "made an actor", "rests", "stops", "exits"]
TRANSITIONS: dict[tuple[WorkerState, str], WorkerState] = {
    (state, event): then
    for states, event, then in (
        ((IDLE,), "leased", LEASED),
        ((STARTING, IDLE), "made an actor", ACTOR),
        ((STARTING, LEASED), "rests", IDLE),
        ((STARTING, IDLE, LEASED, ACTOR, STOPPING), "stops", STOPPING),
        ((STARTING, IDLE, LEASED, ACTOR, STOPPING), "exits", DEAD),
    )
    for state in states
}


class WorkerPool:
    """The workers of a node, by address."""

    PASSING = {"leased": "workers"}
    LASTING = {"workers": ..., "idle": lambda pool: len(pool.workers) + 1, "starting": "workers"} | {
        "idle workers": (lambda pool: sum(map(len, pool.idle.values())), "workers")
    }

    def __init__(self, node: LocalScheduler, prefix: str) -> None:
        self.node = node
        self.prefix = prefix
        cpus = -(-node.resources.total.get(CPU, 0) // RESOURCE_UNIT)
        self.cpus = max(1, cpus)
        self.count_max = 2 * self.cpus + 4
        self.workers: dict[str, Worker] = {}
        self.idle: dict[Kind, dict[str, Worker]] = {}  # by address; the last one is warmest
        self.leased: dict[str, Worker] = {}  # by address
        self.lease_count = 0  # ever
        self.starting: Counter[str] = Counter()  # by their packages; those that have not said Hello
        self.has_packages = False  # some worker had any
        self.has_hosted = False  # some actor that waited was hosted
        self.started_count = 0
        self.failures = 0  # starts that failed, in a row
        self.hosts = Hosts(node, self)

    def happened(self, worker: Worker, event: Event) -> None:
        """Apply an event to the worker's state."""
        former = worker.state
        state = TRANSITIONS[former, event]
        if former == STARTING:
            self.starting -= Counter([worker.packages])
        elif former == IDLE:
            key = self._key_of(worker)
            del self.idle[key][worker.address]
            if not self.idle[key] and not worker.job:
                del self.idle[key]
        elif former == LEASED:
            del self.leased[worker.address]
        worker.enters(state)
        if state is IDLE:
            self.idle.setdefault(self._key_of(worker), {})[worker.address] = worker
        elif state is LEASED:
            self.leased[worker.address] = worker

    # --- starting ---

    def prestart(self) -> None:
        """Start a worker per CPU ahead of the first task; more are started on demand."""
        while len(self.workers) < min(self.cpus, PRESTARTED_MAX):
            self._start()

    def _start(self, packages: str = "") -> None:
        self.started_count += 1
        address = f"{self.prefix}{self.started_count}"
        worker = self.workers[address] = Worker(address, self.started_count, self.node.now, packages)
        self.node.changes.worker(worker, State.STARTING)
        self.starting[packages] += 1
        self.has_packages |= bool(packages)
        self.node.perform(effects.StartWorker(address, self.started_count, packages))

    def _task_worker_count(self) -> int:
        return sum(1 for worker in self.workers.values() if worker.actor is None and worker.guests is None)

    def start_for(self, queue: ReadyQueue) -> bool:
        """Start workers for the queue's tasks.  False: the pool is at its cap, and no worker is starting."""
        packages = queue.options.environment.packages
        wanted = min(len(queue.tasks), self._slots(queue))
        while self.starting[packages] < wanted:
            if self._task_worker_count() >= self.count_max and not self._retire_stranger(queue):
                break
            self._start(packages)
        return self.starting[packages] > 0

    def may_have(self, queue: ReadyQueue) -> bool:
        """Whether a worker for the queue's tasks is idle, starting, or may be started."""
        environment = queue.options.environment
        if self.idle.get((queue.job.job_id, environment)) or self.idle.get((b"", environment.packages)):
            return True
        may_start = self.starting[""] > 0 or self._task_worker_count() < self.count_max
        return may_start and not environment.packages  # to install them may take minutes

    def start_beyond_cap(self, queue: ReadyQueue, *, is_limited: bool = False) -> bool:
        """Start a worker although the pool is at its cap.  False: the limit beyond the cap is reached.

        All workers are blocked, and none waits for a ready task, so without an extra worker all may hang.  is_limited:
        the worker is for tasks awaited with a timeout.
        """
        packages = queue.options.environment.packages
        if not self.starting[packages]:
            if is_limited and self._task_worker_count() >= self.count_max + LIMITED_MAX:
                return False
            self._start(packages)
        return True

    def start_for_actor(self, options: ActorOptions) -> None:
        """Start a process for an actor; actors do not count toward the cap."""
        packages, wanting = options.environment.packages, self.node.calls.wanting
        wanted = 1 if options.hosted else len(wanting)  # thousands, perhaps
        if options.hosted:
            self.has_hosted = True
        elif packages or self.has_packages or self.has_hosted:
            others = (actor.options for actor in wanting.values() if not actor.options.hosted)
            wanted = sum(each.environment.packages == packages for each in others)
        if self.starting[packages] < wanted:
            self._start(packages)

    def _slots(self, queue: ReadyQueue) -> int:
        """Return how many of the queue's tasks could run at once, as far as CPUs suffice."""
        share = cpu_of(queue.resources)
        return max(1, self.node.resources.count_that_fits(share, self.count_max)) if share else self.count_max

    def _retire_stranger(self, queue: ReadyQueue) -> bool:
        """End an idle worker of another job or environment, to make room."""
        environment = queue.options.environment
        own: tuple[Kind, Kind] = (queue.job.job_id, environment), (b"", environment.packages)
        others = (workers for key, workers in self.idle.items() if key not in own and workers)
        stranger = next((next(reversed(workers.values())) for workers in others), None)
        if stranger is not None:
            self.retire(stranger)
        return stranger is not None

    @on(effects.WorkerStarted)
    def started(self, message: effects.WorkerStarted) -> None:
        """WorkerStarted: the process exists, and becomes a worker with its Hello."""

    def join(self, message: effects.ProcessJoined) -> None:
        """Make the process a worker after its Hello."""
        worker = self.workers.get(message.process)
        if worker is None or worker.process is not None:
            self.node.reject("a worker that was not ordered")
            return
        self.failures = 0
        process = Process(message.process, "worker", message.pid, Job(b"", JobFacts()))  # nobody's yet
        worker.joins(process)
        self.node.processes[message.process] = process
        self.node.changes.worker(worker, State.ALIVE, pid=message.pid)
        if self.node.small_values.are_many:
            self.node.small_values.tell(process)
        self.has_nothing_to_do(worker)

    @on(effects.WorkerStartFailed)
    def start_failed(self, message: effects.WorkerStartFailed) -> None:
        """Start a worker again, up to a limit; then fail waiting tasks.  Unavailable packages are not tried again."""
        worker = self.workers.pop(message.worker, None)
        if worker is None:
            return
        self.happened(worker, "exits")
        self.node.changes.worker(worker, State.DEAD, message.reason)
        if message.is_unfit:
            self._give_up(worker.packages, "RuntimeEnvSetupError", message.reason)
        else:
            self._start_ended_badly(worker, f"No worker process could be started: {message.reason}")

    def _start_ended_badly(self, worker: Worker, reason: str) -> None:
        self.failures += 1
        node = self.node
        if self.failures <= START_FAILURES_MAX:
            node.dispatch.is_dirty = True
            node.calls.wanting_worker_changed()
            return
        self.failures = 0
        self._give_up(worker.packages, "WorkerCrashedError", reason)

    def _give_up(self, packages: str, error: str, reason: str) -> None:
        """Fail all tasks and actors waiting for a worker with these packages."""
        node = self.node
        for queue in list(node.dispatch.queues):
            while queue.tasks and queue.options.environment.packages == packages:
                task = queue.tasks[0]
                queue.remove(task)
                node.dispatch.ready_count -= 1
                node.lifecycle.fail(task, error, reason)
        node.calls.no_worker_to_be_had(packages, "ActorDiedError" if error == "WorkerCrashedError" else error, reason)

    # --- idle workers ---

    def has_nothing_to_do(self, worker: Worker) -> None:
        """Give a free worker to an actor that waits for a process, or make the worker idle."""
        # Also when an actor takes it: the tasks that it was started for need another one.
        self.node.dispatch.is_dirty = True
        if worker.job is None and self.node.calls.take_worker(worker):
            return
        is_many = len(self.workers) > self.count_max and self._task_worker_count() > self.count_max
        has_no_job = worker.packages and worker.job is None and not self._is_wanted(worker.packages)  # any more
        if (is_many and not self.node.dispatch.ready_count) or has_no_job:
            self.retire(worker)
        else:
            self.happened(worker, "rests")

    @staticmethod
    def _key_of(worker: Worker) -> Kind:
        return (worker.job.job_id, worker.environment) if worker.job is not None else (b"", worker.packages)

    def _is_wanted(self, packages: str) -> bool:
        """Whether queued tasks or an unfinished job's workers need these packages."""
        queues, workers = self.node.dispatch.queues, self.workers.values()
        return any(queue.options.environment.packages == packages for queue in queues) or any(
            worker.packages == packages and worker.job is not None and not worker.job.is_over for worker in workers
        )

    def _warmest(self, kind: Kind) -> Worker | None:
        return next(reversed(self.idle.get(kind, {}).values()), None)

    def take_idle(self, queue: ReadyQueue) -> Worker | None:
        """Lease a worker to the queue: an idle worker of the job and environment, or a worker without a job."""
        job, environment = queue.job, queue.options.environment
        worker = self._warmest((job.job_id, environment)) or self._warmest((b"", environment.packages))
        if worker is None:
            return None
        self.happened(worker, "leased")
        if worker.job is None:
            self._give_to(worker, job, environment)
        self.lease_count += 1
        worker.works_off(queue, self.node.now, self.lease_count)
        self.node.memory.leased(worker, queue.options.resources)
        return worker

    def take_for(self, actor: Actor, worker: Worker | None = None) -> Worker | None:
        """Give the actor a fresh worker for life: `worker`, or an idle one."""
        environment = actor.options.environment
        if actor.options.hosted and worker is None and self.hosts.find(actor) is not None:
            return self.hosts.take_in(actor, None)
        worker = worker or self._warmest((b"", environment.packages))
        if worker is None:
            return None
        if actor.options.hosted:
            return self.hosts.take_in(actor, worker)
        self.happened(worker, "made an actor")
        self._give_to(worker, actor.job, environment)
        worker.is_made(actor)
        self.node.memory.leased(worker, actor.options.resources)
        return worker

    def becomes_host(self, worker: Worker, actor: Actor) -> None:
        """Give a fresh worker to hosted actors of the job and environment for life."""
        self.happened(worker, "made an actor")
        self._give_to(worker, actor.job, actor.options.environment)
        worker.has_guests()

    def _give_to(self, worker: Worker, job: Job, environment: Environment) -> None:
        """Assign the worker to the job and environment for good."""
        assert worker.packages == environment.packages
        worker.belongs_to(job, environment)
        self.node.send(worker.address, JobStarted(job.job_id, job.facts, environment))
        self.node.output.joins(job)

    def gpus_of_actors(self) -> Iterator[Shares]:
        """Yield the GPU shares that actors hold for life."""
        return (frame.gpus for worker in self.workers.values() if worker.actor is not None for frame in worker.frames)

    # --- ends ---

    def kill(self, worker: Worker, error: bytes = b"") -> None:
        """Kill a worker at once; WorkerExited settles the rest.  error: for tasks of a removed group."""
        if worker.host is not None:
            self.hosts.end(worker, is_killed=True)
            return
        worker.dies_of(error)
        self.node.perform(effects.KillWorker(worker.address))

    def retire(self, worker: Worker) -> None:
        """End an idle worker; its submitted tasks go on."""
        self.happened(worker, "stops")
        self.kill(worker)

    def end_job(self, job: Job) -> None:
        """End the workers of a job whose driver is gone."""
        for worker in list(self.workers.values()):
            if worker.job is not job:
                continue
            if any(actor.options.detached for actor in worker.actors()):
                self.outlive(worker.actors(), job, worker)
            elif worker.state == IDLE:
                self.retire(worker)
            elif not self.node.ends.waits_for(worker):
                self.kill(worker)
        for key in [key for key in self.idle if key[0] == job.job_id]:
            del self.idle[key]
        self._retire_fresh(job)

    def _retire_fresh(self, ended: Job) -> None:
        """End fresh workers with packages not requested by another job, and thereby end their fork server."""
        left = {worker.packages for worker in self.workers.values() if worker.job not in (None, ended)}
        for (job_id, packages), workers in list(self.idle.items()):
            if not job_id and packages and packages not in left:
                for worker in list(workers.values()):
                    self.retire(worker)

    def outlive(self, actors: Iterable[Actor], job: Job, worker: Worker | None = None) -> None:
        """Let detached actors go on: later tasks belong to an heir of the job, which is not over.

        worker: their process, if they have one.
        """
        heir = Job(job.job_id, replace(job.facts, is_heir=True))
        if worker is not None:
            worker.belongs_to(heir, worker.environment)
        for actor in actors:
            if actor.options.detached:
                actor.outlives(heir)
                self.node.functions.outlives(actor, job)

    @on(effects.WorkerExited)
    def exited(self, message: effects.WorkerExited) -> None:
        """Handle a dead worker: only the task begun last is blamed; unbegun tasks are not."""
        node = self.node
        message = node.memory.explained(message)
        worker = self.workers.pop(message.worker, None)
        if worker is None:
            return
        is_in_order = worker.state == STOPPING
        self.happened(worker, "exits")
        node.changes.worker(worker, State.DEAD, message.cause, message.pid)
        if worker.process is None:
            log = "".join(f"\n  | {line}" for line in message.log)
            self._start_ended_badly(worker, f"A worker process died before it was ready: {message.cause}{log}")
            return
        key = self._key_of(worker)
        if not self.idle.get(key, True):
            del self.idle[key]  # perhaps the last one of this job, or environment
        nested = [frame.task for frame in worker.frames if frame.task is not None]
        inflight = worker.take_all()
        node.dispatch.lending.end_all(worker)
        if worker.actor is not None:
            node.ends.worker_exited(worker.actor, message)
        elif worker.guests is not None:
            self.hosts.exited(worker, message)
        else:
            begun = inflight[: max(0, len(inflight) - message.unclaimed)] + nested
            is_in_order = is_in_order or (not begun and message.cause == EXITED_IN_ORDER)  # the last of max_calls
            if worker.error:
                begun, inflight, nested = [], node.bundles.fail_of_doomed(worker, inflight + nested), []
            for task in reversed(inflight[len(begun) - len(nested) :]):
                if task.state != TaskState.DONE:  # it has ended with who had asked for it
                    node.lifecycle.run_again(task)
            self._settle(begun, message)
        has_died = not (is_in_order or worker.process.job.is_over)
        node.forget_process(worker.process, has_died=has_died)
        node.ends.has_stopped(worker.address)
        if len(self.workers) < self.cpus and node.jobs:
            self._start()

    def _settle(self, begun: list[Task], death: effects.WorkerExited) -> None:
        """Retry the begun tasks, or fail them.  Only the last can have killed the worker."""
        node = self.node
        for task in reversed(begun):
            is_blamed = task is begun[-1]
            if task.state == TaskState.DONE:
                continue  # it has ended with who had asked for it, and its worker was killed for that
            if task.job.is_over:
                node.lifecycle.fail(task, "WorkerCrashedError", "The driver of this task has ended.")
            elif task.spec.task_id in node.cancels.asked:
                node.cancels.fail(task)
            elif node.lifecycle.may_retry(task):
                if is_blamed:
                    task.tried(task.attempts + 1)
                    node.notices.worker_died(task, death)
                    if death.freed:
                        node.memory.hold(task, death.freed)
                        continue
                node.lifecycle.run_again(task)
            elif is_blamed or task.options.max_retries == 0:
                name = task.options.name or self.node.lifecycle.function_name(task.spec.function_id)
                often = f", in the last of {task.attempts + 1} attempts" if task.attempts else ""
                error, text = "WorkerCrashedError", f"The worker that ran task {name} died{often}."
                if death.freed:
                    error, text = "OutOfMemoryError", f"The node has ended task {name}{often}."
                node.lifecycle.fail(task, error, text, death.details(name_of(node.address)))
            else:
                node.lifecycle.run_again(task)

    def check_everything(self) -> None:
        """Assert rules 1 and 2."""
        starting, leased, idle = 0, 0, set()  # membership only
        for worker in self.workers.values():
            state = worker.state
            has_work = state in (LEASED, ACTOR) and worker.guests != {}
            assert bool(worker.frames) == has_work or state == STOPPING, worker.address
            assert (worker.queue is not None) == (state == LEASED), worker.address
            assert state != DEAD, worker.address
            if state == LEASED:
                assert worker.address in self.leased, worker.address
                leased += 1
            elif state == IDLE:
                idle.add(worker.address)
            elif state == STARTING:
                starting += 1
        assert self.starting.total() == starting and len(self.leased) == leased
        assert sum(map(len, self.idle.values())) == len(idle)
        assert all(workers.keys() <= idle for workers in self.idle.values())
