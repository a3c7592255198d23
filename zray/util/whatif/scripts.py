"""Scripts of a recorded program for the simulator: each task does its recorded steps, and notes its times."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from ...sim import language as say
from ...sim.machines import PredictedWorld, value_of
from ...sim.values import Handle, Ref
from ...store.event_ring import Kind
from ..report.runs import PROGRAM, Run, Runs, Wait
from .program import DRIVER, Key, Pause, Program, Release, Storage, Submission, Task

__all__: list[str] = []  # for `zray whatif`

Script = Generator[Any, Any, Any]
# Spreads the placement of actors' threads: they hold nothing.
NOTHING: dict[str, int] = {}
LOOKS_MAX, LOOK_SECONDS = 10, 1e-3


class Course:
    """The course of a predicted run: what the scripts look up, and the times that they note.

    speed: how much faster the code of the tasks and of the program is than recorded.
    """

    def __init__(self, program: Program, speed: float = 1.0) -> None:
        self.program = program
        self.speed = speed
        self.submitted: dict[int, float] = {}
        self.begun: dict[int, tuple[float, str, int]] = {}  # with the node and the process
        self.ended: dict[int, float] = {}
        self.waits: list[Wait] = []
        self.start = self.end = 0.0

    def runs(self) -> Runs:
        """The predicted runs, as a record has them."""
        tasks, found = self.program.tasks, []
        for number, (begin, node, pid) in self.begun.items():
            task, end = tasks[number], self.ended.get(number, self.end)
            deps = tuple(tasks[key[0]].task_id for key in task.deps if key[0] != DRIVER)
            parent = tasks[task.parent].task_id
            submitted = self.submitted.get(number, begin) - self.start
            begin, end = begin - self.start, end - self.start
            run = Run(task.task_id, task.name, task.kind, 0, submitted, begin, begin, end, end, parent)
            found.append(run._replace(dependencies=deps, process=(node, pid)))
        waits = [wait._replace(begin=wait.begin - self.start, end=wait.end - self.start) for wait in self.waits]
        return Runs(found, waits, self.end - self.start)


class Life:
    """A running task: its values, and the actors that it knows."""

    def __init__(self, course: Course, task: Task, world: PredictedWorld) -> None:
        self.course, self.task, self.world = course, task, world
        self.refs: dict[Key, Ref] = {}
        self.actors: dict[tuple[int, int], Handle] = {}
        self.pool: dict[Key, None] = {}  # values that `wait` has looked for, and not found yet
        self.seen: set[Key] = set()

    def take(self, values: Iterable[Any]) -> None:
        """Keep the refs inside of values that have arrived."""
        for value in values:
            if type(value) is list:
                for number, place, ref in value[1]:
                    self.refs[number, place] = ref

    def steps(self) -> Script:
        """Do what the task has done."""
        course, task = self.course, self.task
        cursor = task.begin
        for step in task.steps:
            if step.at > cursor:
                yield say.Sleep((step.at - cursor) / course.speed)
                cursor = step.at
            if type(step) is Submission:
                yield from self.submit(course.program.tasks[step.task])
            elif type(step) is Storage:
                self.refs[task.number, step.place] = yield say.Put([value_of(step.size), []])
            elif type(step) is Release:
                handles = [self.actors.pop(key) for key in [*self.actors] if key[0] == step.task]
                yield say.Drop(handles)
            elif type(step) is Pause:
                yield from self.pause(step)
                cursor = max(cursor, step.end)
        if task.end > cursor:
            yield say.Sleep((task.end - cursor) / course.speed)

    def submit(self, child: Task) -> Script:
        """Submit a task or a call, or create an actor."""
        self.course.submitted[child.number] = self.world.now
        deps = [self.refs[key] for key in child.deps if key in self.refs]
        inside = [[*key, self.refs[key]] for key in child.foreign if key in self.refs]
        args = (child.number, [None, inside], *deps)
        name = child.name
        if child.kind == Kind.CONSTRUCTOR:
            for lane in range(max(child.lanes, 1)):
                request = child.request if lane == 0 else NOTHING
                given = args if lane == 0 else (DRIVER, [None, []])
                own = f"{child.number}/{lane}"
                handle = yield say.Create(ACTOR, given, resources=request, name=own, detached=not child.is_released)
                self.actors[child.number, lane] = handle
            return
        if child.kind == Kind.CALL:
            actor = self.actors.get(child.actor) or (yield from self.find(child.actor))
            if actor is None:
                return
            refs = yield say.Call(actor, "call", args)
        else:
            function = function_of(name)
            refs = yield say.Submit(function, args, num_returns=child.returns, resources=child.request)
        for place, ref in enumerate(refs if type(refs) is list else [refs], 1):
            self.refs[child.number, place] = ref

    def find(self, actor: tuple[int, int]) -> Script:
        """Return the handle of another task's actor, which may be on its way yet; None: it has ended."""
        for _ in range(LOOKS_MAX):
            handle = yield say.Find(f"{actor[0]}/{actor[1]}")
            if handle is not None:
                self.actors[actor] = handle
                return handle
            yield say.Sleep(LOOK_SECONDS)
        return None

    def pause(self, step: Pause) -> Script:
        """Wait as the task has waited."""
        begin = self.world.now
        if not step.keys:
            yield say.Sleep(step.end - step.at)
        elif step.is_choice:
            yield from self.choose(step)
        elif refs := {key: self.refs[key] for key in step.keys if key in self.refs}:
            self.take((yield say.Get(list(refs.values()))))
        if self.world.now > begin:
            owner = self.task.task_id if self.task.number else PROGRAM
            self.course.waits.append(Wait(owner, begin, self.world.now, 0))

    def choose(self, step: Pause) -> Script:
        """Wait for those that are ready first.  Others than in the record may be: these are not waited for again."""
        new = [key for key in step.keys if key not in self.seen]
        self.seen.update(new)
        self.pool.update(dict.fromkeys(new))
        refs = {self.refs[key].id: key for key in self.pool if key in self.refs}
        if refs:
            wanted = min(step.wanted, len(refs))
            ready, _ = yield say.Wait([self.refs[key] for key in refs.values()], wanted)
            for ref in ready:
                self.pool.pop(refs[ref.id], None)


def _run(number: int, given: Any, values: tuple[Any, ...]) -> Script:
    """Run a task, and return what it has returned."""
    process = yield say.Surroundings()
    world: PredictedWorld = process.world
    course: Course = world.facts
    task = course.program.tasks[number]
    course.begun[number] = world.now, process.node.name, process.pid
    life = Life(course, task, world)
    life.take((given, *values))
    yield from life.steps()
    course.ended[number] = world.now
    inside = [[*key, life.refs[key]] for key in task.exports if key in life.refs]
    found = [[value_of(task.sizes.get(place, 0)), []] for place in range(1, task.returns + 1)]
    found[0][1] = inside
    return found if task.returns > 1 else found[0]


def function_of(name: str) -> Any:
    """Return the function that stands for one of the program: the scheduler knows how long runs of each take."""
    own = f"replayed {name}"
    found = say.FUNCTIONS.get(own)
    if found is None:

        def run(number: int, given: Any, *values: Any) -> Script:
            return _run(number, given, values)

        run.__name__ = own
        found = say.remote(run)
    return found


class ReplayedActor:
    """A thread of a recorded actor."""

    world: Any
    process: Any

    def __init__(self, number: int, given: Any, *values: Any) -> None:
        self.creation = number, given, values

    def begin(self) -> Script:
        """Run the constructor."""
        number, given, values = self.creation
        if number != DRIVER:
            yield from _run(number, given, values)

    def call(self, number: int, given: Any, *values: Any) -> Script:
        """Run a call."""
        return (yield from _run(number, given, values))


ACTOR = say.remote(ReplayedActor)


def driver(course: Course) -> Script:
    """The program itself."""
    world: PredictedWorld = (yield say.Surroundings()).world
    course.start = world.now
    life = Life(course, course.program.tasks[DRIVER], world)
    yield from life.steps()
    course.end = world.now
