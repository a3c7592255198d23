"""Program of a recorded run: each task as a list of steps, with what it submits, puts and waits for, and when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...api.run_records import RunRecord
from ...ids import PARENT_HASH_BYTES, counter_of
from ...store.event_ring import PUT_BIT, Kind, Need, RingContent
from ...wire.groups import plain_name
from ...wire.task_spec import RESOURCE_UNIT
from ..report.runs import OTHERS, PROGRAM, Run, Runs, Wait, runs_of, waits_by_owner

__all__: list[str] = []  # for `zray whatif`

# A value: the task that made it, as its number, and its place among the task's values.
Key = tuple[int, int]
DRIVER = 0  # the number of the program among the tasks
# Clocks of processes agree to so many seconds.
CLOCK_SECONDS = 1e-4
DEFAULT_REQUEST = {"CPU": RESOURCE_UNIT}
# Resources that tie work to one of the recorded nodes.
PLACES = "node:"


class Submission(NamedTuple):
    """A task is submitted."""

    at: float
    task: int


class Storage(NamedTuple):
    """A large value is put."""

    at: float
    place: int
    size: int


class Release(NamedTuple):
    """An actor is let go of: it ends after its last call."""

    at: float
    task: int


class Pause(NamedTuple):
    """A wait from `at` to `end` for `wanted` of some values.  is_choice: those that are ready first."""

    at: float
    end: float
    keys: tuple[Key, ...]
    wanted: int
    is_choice: bool


Step = Submission | Storage | Release | Pause


@dataclass
class Task:
    """A task, a call, a constructor, or the program.

    begin, end: seconds since the start of the program.  deps: values among its arguments.  foreign: values of others
    that it waits for or passes on.  exports: own values that others use which have not submitted it.  sizes: of its
    large returns, by place.  actor: the number of a call's constructor, and of a thread of the actor.
    """

    number: int
    task_id: bytes
    name: str
    kind: Kind
    begin: float
    end: float
    parent: int = DRIVER
    request: dict[str, int] = field(default_factory=dict)
    deps: tuple[Key, ...] = ()
    steps: list[Step] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    returns: int = 1
    actor: tuple[int, int] = (DRIVER, 0)
    lanes: int = 1  # of an actor: calls that ran at once
    is_released: bool = False  # an actor that ends before the program does
    exports: dict[Key, None] = field(default_factory=dict)
    foreign: dict[Key, None] = field(default_factory=dict)


@dataclass
class Program:
    """A recorded run.  tasks: the program itself, and all others.  left_out: runs whose submission is unknown."""

    tasks: list[Task]
    runs: Runs
    left_out: int


def program_of(record: RunRecord) -> Program:
    """Return the program of a record.

    Raises:
        ValueError: no task has ended.
    """
    runs = runs_of(record.rings, record.header.get("start"), record.end, record.header.get("pid"))
    if not runs.runs:
        raise ValueError("no task has ended in this run: there is nothing to predict.")
    return _Reader(record, runs).program()


class _Reader:
    """Reads a program from the runs and waits of a record."""

    def __init__(self, record: RunRecord, runs: Runs) -> None:
        self.record, self.runs = record, runs
        self.waits = waits_by_owner(runs)
        own = [run for run in self._last_runs() if run.parent != OTHERS]
        known = {PROGRAM, *(run.task_id for run in own)}
        kept = [run for run in own if run.parent in known]
        self.left_out = len({run.task_id for run in runs.runs}) - len(kept)
        self.tasks = [Task(DRIVER, PROGRAM, "", Kind.NONE, 0.0, runs.end)]
        self.by_id: dict[bytes, Task] = {PROGRAM: self.tasks[0]}
        self.actors: dict[tuple[str, int], list[Task]] = {}  # constructors, by process
        self.run_of: dict[int, Run] = {}
        self.lanes: dict[int, dict[int, int]] = {}  # of an actor: row of the timeline -> number of a thread
        for run in kept:
            self._add(run)
        for task in self.tasks[1:]:
            task.parent = self.by_id[self.run_of[task.number].parent].number
        self.drivers = self._drivers()

    def _last_runs(self) -> list[Run]:
        """The last run of each task: without faults there is one attempt."""
        return [self.runs.runs[places[-1]] for places in self.runs.places.values()]

    def _add(self, run: Run) -> None:
        task = Task(len(self.tasks), run.task_id, run.name, run.kind, run.begin, run.stored)
        if run.kind != Kind.CALL:
            task.request = _request(run)
        if run.kind == Kind.CONSTRUCTOR:
            self.actors.setdefault(run.process, []).append(task)
        self.tasks.append(task)
        self.by_id[run.task_id] = task
        self.run_of[task.number] = run

    def _drivers(self) -> set[bytes]:
        """The ids under which the program has put values and waited."""
        pid = self.record.header.get("pid")
        found = {self.record.header.get("task_id", b"")} - {b""}
        for rings in self.record.rings.values():
            for ring in rings:
                if is_program(ring, pid):
                    found |= {event.task_id for event in ring.events if event.kind in (Kind.SIZE, Kind.GET, Kind.WAIT)}
        return found

    def program(self) -> Program:
        """Put all together."""
        for key, moment, size in self._sizes():
            owner = self.tasks[key[0]]
            if key[1] & PUT_BIT:
                owner.steps.append(Storage(moment, key[1], size))
            else:
                owner.sizes[key[1]] = size
        for task in self.tasks[1:]:
            self._place_call(task)
            run = self.run_of[task.number]
            places = run.places or (1,) * len(run.dependencies)
            keys = (self._key(task_id, place) for task_id, place in zip(run.dependencies, places, strict=False))
            task.deps = tuple(key for key in keys if key is not None)
        self._submissions()
        self._releases()
        for task in self.tasks:
            self._pauses(task)
            task.steps.sort(key=lambda step: step.at)
        self._returns()
        self._foreigners()
        return Program(self.tasks, self.runs, self.left_out)

    def _key(self, task_id: bytes, place: int) -> Key | None:
        """The key of a value; None: it is small, and not made by a known task."""
        task = self.tasks[DRIVER] if task_id in self.drivers else self.by_id.get(task_id)
        if task is None or (task.number == DRIVER and not place & PUT_BIT):
            return None
        return task.number, place or 1

    def _sizes(self) -> Iterator[tuple[Key, float, int]]:
        """Large values: key, moment, bytes."""
        for rings in self.record.rings.values():
            shift = min(ring.offset for ring in rings) - self.runs.start
            for ring in rings:
                for event in ring.events:
                    key = self._key(event.task_id, event.place) if event.kind == Kind.SIZE else None
                    if key is not None:
                        yield key, event.begin + shift, event.size

    def _place_call(self, task: Task) -> None:
        """Find the actor of a call: the last one of its class that began in its process."""
        if task.kind != Kind.CALL:
            return
        run = self.run_of[task.number]
        makers = self.actors.get(run.process, ())
        own = [maker for maker in makers if maker.begin <= run.begin]
        alike = [maker for maker in own if run.name.rpartition(".")[0] == maker.name]
        if own:
            maker = (alike or own)[-1]
            rows = self.lanes.setdefault(maker.number, {})
            task.actor = maker.number, rows.setdefault(run.row, len(rows))
            maker.lanes = len(rows)

    def _submissions(self) -> None:
        """Have each task submitted by its parent, at the recorded moment."""
        by_parent: dict[int, list[Task]] = {}
        for task in self.tasks[1:]:
            by_parent.setdefault(task.parent, []).append(task)
        for parent, children in by_parent.items():
            children.sort(key=lambda task: counter_of(task.task_id))
            moment = self.tasks[parent].begin
            later = self.tasks[parent].end
            following: list[float] = []
            for task in reversed(children):
                submitted = self.run_of[task.number].submitted
                later = later if submitted is None else min(later, submitted)
                following.append(later)
            for task, bound in zip(children, reversed(following), strict=True):
                run = self.run_of[task.number]
                # Creations of actors have no record: they come before what is submitted next, and what has begun.
                at = min(bound, run.begin) if run.submitted is None else run.submitted
                moment = max(moment, at) if run.submitted is None else at
                self.tasks[parent].steps.append(Submission(moment, task.number))

    def _releases(self) -> None:
        """Have actors end after their last call, if the nodes could not hold them all at once.

        Ends of actors have no record.
        """
        total: dict[str, float] = {}
        for row in self.record.nodes.values():
            for name, amount in row["resources"].items():
                total[name] = total.get(name, 0.0) + amount * RESOURCE_UNIT
        actors = {task.number: task for task in self.tasks if task.kind == Kind.CONSTRUCTOR}
        held: dict[str, int] = {}
        for actor in actors.values():
            for name, amount in actor.request.items():
                held[name] = held.get(name, 0) + amount
        scarce = {name for name, amount in held.items() if total and amount > total.get(name, 0.0)}
        last = {number: actor.end for number, actor in actors.items()}
        for task in self.tasks:
            if task.kind == Kind.CALL and task.actor[0] in last:
                submitted = self.run_of[task.number].submitted
                last[task.actor[0]] = max(last[task.actor[0]], task.begin if submitted is None else submitted)
        for number, actor in actors.items():
            if not scarce.isdisjoint(actor.request):
                actor.is_released = True
                self.tasks[actor.parent].steps.append(Release(last[number], number))

    def _pauses(self, task: Task) -> None:
        """The waits of a task, each with what it was for."""
        own = sorted(self.waits.get(task.task_id, ()), key=lambda wait: wait.begin)
        submitted = sorted((step.at, step.task) for step in task.steps if type(step) is Submission)
        awaited: set[Key] = set()
        for wait in own:
            if not task.begin - CLOCK_SECONDS <= wait.begin <= task.end:
                continue
            keys = self._needed(wait) if wait.needs else self._guessed(wait, submitted, awaited)
            is_choice = wait.kind == "wait"
            made = [key for key in keys if self.tasks[key[0]].end <= wait.end + CLOCK_SECONDS]
            wanted = min(wait.wanted or len(keys), len(keys))
            if len(made) < wanted:  # a wait that has ended at its time limit, or that was for something else too
                keys, made, wanted = [], [], 0
            awaited.update(made)
            task.steps.append(Pause(wait.begin, wait.end, tuple(keys if is_choice else made), wanted, is_choice))
        if own:  # values that were there when they were asked for have no record: they were needed by the end
            rest = [
                (number, 1)
                for _, number in submitted
                if self.tasks[number].end <= task.end and self.tasks[number].kind != Kind.CONSTRUCTOR
            ]
            task.steps.append(Pause(task.end, task.end, tuple(rest), len(rest), False))

    def _needed(self, wait: Wait) -> list[Key]:
        keys = (self._key(task_id, need.place) for need in wait.needs for task_id in _ids(need))
        return [key for key in keys if key is not None and not key[1] & PUT_BIT]

    def _guessed(self, wait: Wait, submitted: list[tuple[float, int]], awaited: set[Key]) -> list[Key]:
        """Guess the needs of a wait without a record: children that had ended by its end."""
        children = submitted[: bisect_right(submitted, (wait.begin, len(self.tasks)))]
        ended = [(number, 1) for _, number in children if self.tasks[number].end <= wait.end + CLOCK_SECONDS]
        return [key for key in ended if key not in awaited]

    def _returns(self) -> None:
        """The number of returns of each task: as many as anybody has used."""
        for task in self.tasks:
            pauses = (step.keys for step in task.steps if type(step) is Pause)
            for number, place in (*task.deps, *(key for keys in pauses for key in keys)):
                if not place & PUT_BIT:
                    self.tasks[number].returns = max(self.tasks[number].returns, place)
        for task in self.tasks:
            if task.sizes:
                task.returns = max(task.returns, *task.sizes)
            if task.kind == Kind.CALL:
                task.returns = 1

    def _foreigners(self) -> None:
        """Have values reach those who use them: with the results of their makers, or with the arguments."""
        for task in self.tasks:
            pauses = (step.keys for step in task.steps if type(step) is Pause)
            used = [(task, key) for keys in pauses for key in keys]
            used += [(self.tasks[task.parent], key) for key in task.deps if task.number]
            for user, key in used:
                self._bring(user, key)

    def _bring(self, user: Task, key: Key) -> None:
        made = self.tasks[key[0]]
        owner = made.number if key[1] & PUT_BIT else made.parent
        if owner == user.number:
            return
        above = self._above(user.number)
        for number in self._above(owner):
            if number in above:
                break
            self.tasks[number].exports[key] = None
        else:
            return
        for step in above:
            if step == number:
                break
            self.tasks[step].foreign[key] = None

    def _above(self, number: int) -> list[int]:
        """A task, its parent, and so on up to the program."""
        found = [number]
        while number != DRIVER:
            number = self.tasks[number].parent
            found.append(number)
        return found


def _request(run: Run) -> dict[str, int]:
    """The resources of a run: those of a group as plain ones, without those that name a node."""
    if not run.request:
        return {} if run.kind == Kind.CONSTRUCTOR else dict(DEFAULT_REQUEST)
    found: dict[str, int] = {}
    for part in run.request.split(","):
        name, _, amount = part.rpartition(":")
        plain = plain_name(name)
        if amount.isdigit() and not plain.startswith(PLACES):
            found[plain] = max(found.get(plain, 0), int(amount))
    return found


def is_program(ring: RingContent, pid: int | None) -> bool:
    """Whether a ring is that of the program, and not of a worker with the same pid on another machine."""
    return ring.pid == pid and ring.label.startswith("driver")


def creations(program: Program) -> list[tuple[float, float]]:
    """When each actor was created, and when its constructor began."""
    steps = (step for task in program.tasks for step in task.steps)
    made = [step for step in steps if type(step) is Submission]
    actors = [(step.at, program.tasks[step.task]) for step in made]
    return [(at, actor.begin) for at, actor in actors if actor.kind == Kind.CONSTRUCTOR and at < actor.begin]


def _ids(need: Need) -> Iterator[bytes]:
    first = counter_of(need.first)
    for number in range(first, first + need.tasks):
        yield need.first[:PARENT_HASH_BYTES] + number.to_bytes(6, "big")
