"""Lists of tasks, actors, processes and objects (ListWork), of this node and all others.  `Ended` keeps finished work.

A node asked by another lists only its own.  A node that does not answer in ANSWER_SECONDS is listed as silent.

Tasks and actors that ended recently on a node, for the lists of programs (ListWork).

A node remembers facts known only there: the process, the attempts and the kind of error.  No message is sent for them.
Memory is bounded, because tasks end by the million: some 200 bytes for each of the last FINISHED_MAX and FAILED_MAX.
Failed tasks have a table of their own, so many finished tasks do not evict them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import nlargest
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder

from ....exceptions import FIRST_MARK, PAST_MARKS, TASK_ERROR
from ....wire.listing import (
    HEAD_BYTES,
    HOLDERS_MAX,
    ROWS_MAX,
    TASKS_MAX,
    ActorFact,
    ListWork,
    ObjectFact,
    TaskFact,
    WorkerFact,
    WorkListed,
)
from ....wire.task_spec import StoredValue, TaskOptions
from ...kept import Latest
from ...role import on
from ...unfetched import error_in_words
from ...work_effects import ReadHeads
from ..tables import Actor, ActorState
from ..task import FORWARDED, Task, TaskState

if TYPE_CHECKING:
    from ....wire.tasks import Function
    from ..objects.table import ObjectEntry
    from ..scheduler import LocalScheduler
    from ..tables import Actor, Process
    from ..task import Task

FINISHED_MAX = 5_000
FAILED_MAX = 1_000
ACTORS_MAX = 1_000
NAMES_MAX = 1_000

# Ray's names of the kinds of errors, where the name of our class in capitals is another one.
RAISED = "TASK_EXECUTION_EXCEPTION"
KINDS = {
    "ActorDiedError": "ACTOR_DIED",
    "ActorPlacementGroupRemoved": "ACTOR_PLACEMENT_GROUP_REMOVED",
    "ActorUnavailableError": "ACTOR_UNAVAILABLE",
    "ActorUnschedulableError": "ACTOR_UNSCHEDULABLE_ERROR",
    "NodeDiedError": "NODE_DIED",
    "ObjectFreedError": "OBJECT_FREED",
    "ObjectLostError": "OBJECT_LOST",
    "ObjectReconstructionFailedError": "OBJECT_UNRECONSTRUCTABLE",
    "OutOfDiskError": "OUT_OF_DISK_ERROR",
    "OutOfMemoryError": "OUT_OF_MEMORY",
    "OwnerDiedError": "OWNER_DIED",
    "RuntimeEnvSetupError": "RUNTIME_ENV_SETUP_FAILED",
    "TaskCancelledError": "TASK_CANCELLED",
    "TaskForceCancelledError": "TASK_CANCELLED",
    "TaskPlacementGroupRemoved": "TASK_PLACEMENT_GROUP_REMOVED",
    "TaskUnschedulableError": "TASK_UNSCHEDULABLE_ERROR",
    "WorkerCrashedError": "WORKER_DIED",
}
_decode = Decoder(tuple[str, str, dict[str, object]]).decode

# Id, options, function, job, pid, attempts: a tuple costs least, and each task of the node makes one.
Finished = tuple[bytes, TaskOptions, bytes, bytes, int, int]


class Ended:
    """The tasks and actors of a node that ended recently."""

    LASTING = {"finished": "FINISHED_MAX", "failed": "FAILED_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.finished: deque[Finished] = deque(maxlen=FINISHED_MAX)
        self.failed: deque[tuple[Finished, str, str]] = deque(maxlen=FAILED_MAX)
        self.last_error = (b"", "")  # an error value, and what it says: all calls on a dead actor get one
        self.names: Latest[bytes, str] = Latest(NAMES_MAX)  # of functions whose code the node has forgotten
        self.actors: Latest[bytes, ActorFact] = Latest(ACTORS_MAX)

    def task_ended(self, task: Task, value: bytes | StoredValue, writer: Process | None) -> None:
        """Record a task's end with its value.  writer: the process, if known from its own message."""
        if task.entry.actor is not None:
            return  # the creation of an actor, which is listed itself
        spec, pid = task.spec, writer.pid if writer is not None else 0
        if type(value) is bytes and FIRST_MARK <= value < PAST_MARKS:
            kind, died = _kind_of(value)
            row = spec.task_id, task.options, spec.function_id, task.job.job_id, pid or died, task.attempts
            if value is not self.last_error[0]:
                self.last_error = value, error_in_words(value)
            self.failed.append((row, kind, self.last_error[1]))
        else:
            self.finished.append((spec.task_id, task.options, spec.function_id, task.job.job_id, pid, task.attempts))

    def forget_code(self, function: Function) -> None:
        """Keep the name of a function that leaves the node's table."""
        self.names[function.function_id] = function.name

    def actor_ended(self, actor: Actor) -> ActorFact:
        """Record an actor that is dead for good, and return the facts on it."""
        fact = self.node.listings.fact_of(actor)
        self.actors.pop(actor.actor_id, None)  # the youngest of one that was made anew
        self.actors[actor.actor_id] = fact
        return fact

    def tasks(self) -> Iterator[TaskFact]:
        """Yield ended tasks, failed ones first, each latest first."""
        node = self.node.address
        rows = [*reversed(self.failed), *((row, "", "") for row in reversed(self.finished))]
        for (task_id, options, function_id, job_id, pid, attempts), kind, error in rows:
            called = options.name or options.method or self._name_of(function_id)
            state = "FAILED" if kind else "FINISHED"
            place = node, options.actor_id, pid
            yield TaskFact(task_id, called, state, job_id, *place, attempts, error_type=kind, error=error)

    def _name_of(self, function_id: bytes) -> str:
        function = self.node.functions.by_id.get(function_id)
        return function.name if function is not None else self.names.get(function_id, "")


def _kind_of(error: bytes) -> tuple[str, int]:
    """Return Ray's name for the kind of an error value, and the pid in a system error (0: none)."""
    if error[0] == TASK_ERROR:
        return RAISED, 0
    try:
        class_name, _, details = _decode(memoryview(error)[1:])
    except MsgspecError:
        return "UNKNOWN", 0
    pid = details.get("pid")
    return KINDS.get(class_name, class_name), pid if type(pid) is int and pid > 0 else 0


# Less than a process waits for the answer (10 s, host/client/runtime.py).
ANSWER_SECONDS = 3.0
# Questions under way to other nodes; further ones are answered from here alone.
LISTINGS_MAX = 100

PENDING, DEAD = "PENDING_CREATION", "DEAD"
ACTOR_STATES = {
    ActorState.REGISTERING: PENDING,
    ActorState.PENDING: PENDING,
    ActorState.STARTING: PENDING,
    ActorState.ALIVE: "ALIVE",
    ActorState.RESTARTING: "RESTARTING",
    ActorState.DEAD: DEAD,  # its process is about to end
}
TASK_STATES = {
    TaskState.WAITING: "PENDING_ARGS_AVAIL",
    TaskState.READY: "PENDING_NODE_ASSIGNMENT",
    TaskState.SENT: "SUBMITTED_TO_WORKER",
    TaskState.CALL: "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
    **dict.fromkeys((state for state in TaskState if state >= FORWARDED), "PENDING_NODE_ASSIGNMENT"),
}
RUNNING = "RUNNING"

Fact = TypeVar("Fact", TaskFact, ActorFact)


class Listing(Struct, eq=False):
    """A request that other nodes answer in part."""

    asker: str
    request: int  # the asker's
    most: int
    actors: list[ActorFact]
    tasks: list[TaskFact]
    workers: list[WorkerFact]
    objects: list[ObjectFact]
    silent: dict[str, None]  # nodes that have not answered
    left_out: int = 0


class Listings:
    """The requests of a node's processes."""

    PASSING = {"open": "LISTINGS_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.open: dict[int, Listing] = {}
        self.count = 0

    @on(ListWork)
    def on_list(self, message: ListWork) -> None:
        """ListWork, from a local process or another node."""
        node = self.node
        is_ours = node.sender in node.processes
        if not is_ours and node.sender not in node.members.peers:
            node.reject("a question of a process that is gone")
            return
        most, most_tasks = min(message.most, ROWS_MAX), min(message.most, TASKS_MAX)
        if message.are_objects:
            listing = Listing(node.sender, message.request, most, [], [], [], object_facts(node, most), {})
        else:
            tasks, left_out = self._tasks(most_tasks)
            work = self._actors(most), tasks, self._workers(most)
            listing = Listing(node.sender, message.request, most_tasks, *work, [], {}, left_out)
        if not is_ours or len(self.open) >= LISTINGS_MAX or not node.members.peers:
            self._answer(listing)
            return
        self.count += 1
        self.open[self.count] = listing
        share = max(most, most_tasks // len(node.members.peers))  # all answers are kept until the last one
        for peer in node.members.peers:
            listing.silent[peer] = None
            node.send(peer, ListWork(self.count, share, message.are_objects))
        node.after(ANSWER_SECONDS, self.answer_without_silent, self.count)

    @on(WorkListed)
    def on_reply(self, message: WorkListed) -> None:
        """WorkListed, from another node."""
        listing = self.open.get(message.request)
        if listing is None or self.node.sender not in listing.silent:
            return
        del listing.silent[self.node.sender]
        listing.actors += message.actors
        listing.tasks += message.tasks
        listing.workers += message.workers
        listing.objects += message.objects
        listing.left_out += message.left_out
        if not listing.silent:
            self._answer(self.open.pop(message.request))

    def answer_without_silent(self, request: int) -> None:
        """Answer without the nodes that were silent for too long."""
        if listing := self.open.pop(request, None):
            self._answer(listing)

    def _answer(self, listing: Listing) -> None:
        if listing.asker not in self.node.processes and listing.asker not in self.node.members.peers:
            return
        most = min(listing.most, ROWS_MAX)
        tasks, left_out = _cut(latest([(fact.task_id, fact) for fact in listing.tasks]), listing.most)
        actors = latest([(fact.actor_id, fact) for fact in listing.actors])
        silent = [*listing.silent][:ROWS_MAX]
        objects = sorted(listing.objects, key=lambda fact: -fact.size)[:most]
        workers = listing.workers[:most]
        facts = actors[:most], tasks, silent, workers, objects, left_out + listing.left_out
        self.node.send(listing.asker, WorkListed(listing.request, *facts))

    def _actors(self, most: int) -> list[ActorFact]:
        living = (self.fact_of(actor) for actor in self.node.calls.actors.values())
        return [*islice(chain(living, reversed(self.node.ended.actors.values())), most)]

    def _workers(self, most: int) -> list[WorkerFact]:
        node, facts = self.node.address, []
        for process in islice(self.node.processes.values(), most):
            actor = process.worker.actor if process.worker is not None else None
            actor_id = actor.actor_id if actor is not None else b""
            facts.append(
                WorkerFact(process.address, process.kind, process.pid, node, process.job.job_id, actor_id=actor_id)
            )
        return facts

    def fact_of(self, actor: Actor) -> ActorFact:
        """Describe an actor of this node for the list."""
        options, worker = actor.options, actor.worker
        is_dead = actor.state == ActorState.DEAD
        return ActorFact(
            actor.actor_id,
            options.class_name,
            options.name,
            options.namespace,
            ACTOR_STATES[actor.state],
            actor.job.job_id,
            self.node.address,
            actor.pid if worker is not None or is_dead else 0,
            error_in_words(actor.death) if is_dead else "",
        )

    def _tasks(self, most: int) -> tuple[list[TaskFact], int]:
        """At most so many tasks, and how many of the unfinished ones are left out.  Failed ones have room."""
        running = {task.spec.task_id: (pid, run_ms) for task, pid, run_ms in self._running()}
        actors = self.node.calls.actors
        tasks = [t for t in self.node.tasks.values() if t.state in TASK_STATES and t.spec.task_id not in actors]
        room = _room_beside(len(self.node.ended.failed), most)
        living = (self._task(task, running.get(task.spec.task_id)) for task in tasks[:room])
        return [*islice(chain(living, self.node.ended.tasks()), most)], max(0, len(tasks) - room)

    def _running(self) -> Iterator[tuple[Task, int, int]]:
        """Yield all begun tasks, as far as a node can tell, with the pids of their processes and their milliseconds."""
        for worker in self.node.pool.workers.values():
            pid = worker.process.pid if worker.process is not None else 0
            lasted = [max(0, round(1e3 * (self.node.now - frame.began_at))) for frame in worker.frames]
            for actor in worker.actors():
                begun = islice(actor.inflight.values(), actor.options.calls_at_once)
                # The beginnings of further calls, and of those of hosted actors, are not known here.
                first = lasted[0] if lasted and worker.guests is None else 0
                yield from ((task, pid, 0 if number else first) for number, task in enumerate(begun))
            if worker.inflight:
                yield worker.inflight[0], pid, lasted[0] if lasted else 0
            nested = zip(worker.frames, lasted, strict=True)
            yield from ((frame.task, pid, ms) for frame, ms in nested if frame.task is not None)

    def _task(self, task: Task, running: tuple[int, int] | None) -> TaskFact:
        spec, options = task.spec, task.options
        function = self.node.functions.by_id.get(spec.function_id)
        name = options.name or options.method or (function.name if function is not None else "")
        return TaskFact(
            spec.task_id,
            name,
            TASK_STATES[TaskState(task.state)] if running is None else RUNNING,
            task.job.job_id,
            self.node.address,
            options.actor_id,
            running[0] if running is not None else 0,
            task.attempts,
            task.state >= FORWARDED or self._is_of_others(options.actor_id),
            run_ms=running[1] if running is not None else 0,
        )

    def _is_of_others(self, actor_id: bytes) -> bool:
        """Whether the call's actor is on another node."""
        return bool(actor_id) and actor_id not in self.node.calls.actors


def _room_beside(failed: int, most: int) -> int:
    """The largest number of unfinished tasks in a list of `most`: failed ones get up to half of it."""
    return most - min(failed, most // 2)


def _cut(facts: list[TaskFact], most: int) -> tuple[list[TaskFact], int]:
    """At most so many facts, failed tasks with room among them, and how many unfinished tasks are left out."""
    if len(facts) <= most:
        return facts, 0
    living = [fact for fact in facts if not fact.has_ended]
    ended = sorted((fact for fact in facts if fact.has_ended), key=lambda fact: fact.state != "FAILED")
    room = _room_beside(sum(fact.state == "FAILED" for fact in ended), most)
    return (living[:room] + ended)[:most], max(0, len(living) - room)


def latest(facts: list[tuple[bytes, Fact]]) -> list[Fact]:
    """Choose a fact for each id, if several nodes report the same.

    Running work is known best on the node that has the work; finished work, where it ended.
    """
    found: dict[bytes, tuple[int, Fact]] = {}
    for key, fact in facts:
        is_away = type(fact) is TaskFact and fact.is_away
        rank = 1 if fact.has_ended else 0 if is_away else 2
        if key not in found or found[key][0] < rank:
            found[key] = rank, fact
    ended_last = sorted(found.values(), key=lambda ranked: ranked[0] == 1)
    return [fact for _, fact in ended_last]


# Objects among which the largest are found: of a node with millions of them, an answer takes a tenth of a second.
OBJECTS_LOOKED_AT_MAX = 100_000
# Values in the arena whose types are told: of a thousand, a few milliseconds.
HEADS_MAX = 1_000


def object_facts(node: LocalScheduler, most: int) -> list[ObjectFact]:
    """Describe the largest objects of a node, for the list."""
    sized = ((_size_of(entry), entry) for entry in islice(node.objects.entries.values(), OBJECTS_LOOKED_AT_MAX))
    largest = nlargest(most, sized, key=lambda pair: pair[0])
    entries = [(_object_fact(node, entry, size), entry.value) for size, entry in largest if entry.actor is None]
    # Values in files would have to be read from the disk.
    in_arena = ((fact, value) for fact, value in entries if isinstance(value, StoredValue) and not value.segment)
    node.perform(ReadHeads([*islice(in_arena, HEADS_MAX)]))
    return [fact for fact, _ in entries]


def _size_of(entry: ObjectEntry) -> int:
    return len(entry.value) if type(entry.value) is bytes else entry.size


def _object_fact(node: LocalScheduler, entry: ObjectEntry, size: int) -> ObjectFact:
    objects = node.objects
    if entry.value is None:
        state = "DISK" if entry.is_on_disk else "COMING" if entry.task is None else "PENDING"
    else:
        state = "MESSAGE" if type(entry.value) is bytes else "MEMORY"
    made = objects.made.get(entry.object_id, "")
    if not made and entry.task is not None:
        made = f"task {entry.task.options.name or node.lifecycle.function_name(entry.task.spec.function_id)}"
    holders = [process.pid for process in islice(objects.processes_that_hold(entry), HOLDERS_MAX)]
    readers = [process.pid for process in islice(objects.pins.get(entry.object_id, ()), HOLDERS_MAX)]
    head = entry.value[:HEAD_BYTES] if type(entry.value) is bytes else b""
    return ObjectFact(entry.object_id, size, state, node.address, made, holders, readers, max(0, entry.count), head)
