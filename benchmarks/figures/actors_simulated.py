"""E5 in the simulator: as many actors as the paper has, on ten nodes, two of which are killed.

Calls are what they are in `e5`: 100 ms each, and all of them submitted ahead.  Those of actors that stay where they are
are fewer: they cost the simulator as much as others, and nothing of them is run again.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from zray.sim import language as say
from zray.sim.costs import Costs
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.where import Where

from ..timing import Effort
from .model import GATE, calibrated
from .results import SIMULATED, Figure

SEED = 1
INTERVAL = 10  # calls from one checkpoint to the next
STEP_SECONDS = 0.05  # virtual: between two looks whether it is time to kill
SETTLE_SECONDS = 1.0  # virtual: the nodes know each other
END_SECONDS = 1e4  # virtual


@dataclass(frozen=True)
class Plan:
    """As the paper has it: a fifth of the nodes is killed, and of the actors.

    calls: of each actor that is lost; before: as many of them are over then.  of_others: calls of each other one.
    """

    actors: int
    calls: int = 90
    before: int = 80
    of_others: int = 10
    nodes: int = 10
    nodes_lost: int = 2
    call_seconds: float = 0.1

    def seconds_of(self, actor: int) -> float:
        """How long its calls take: not all alike, so that actors are not in step."""
        return self.call_seconds * (1 + 0.1 * (actor % 97) / 97)


FULL, QUICK = Plan(2_000), Plan(200)


@dataclass
class Course:
    """What has happened.  doomed: the nodes that are to be killed."""

    doomed: frozenset[str]
    first: dict[int, str] = field(default_factory=dict)  # where each actor was made
    runs: dict[tuple[int, int], int] = field(default_factory=dict)  # (actor, call) -> how often it was run
    done: dict[int, int] = field(default_factory=dict)  # actor -> the last call that it has run
    early: int = 0  # calls run again before the kill
    is_killed: bool = False
    wrong: int = 0
    answers: int = 0

    def lost(self) -> set[int]:
        """The actors that were first made on a doomed node."""
        return {actor for actor, node in self.first.items() if node in self.doomed}

    def again(self) -> int:
        """Calls that were run again, each time."""
        return sum(count - 1 for count in self.runs.values())

    def ran(self, actor: int, number: int, node: str) -> None:
        self.first.setdefault(actor, node)
        count = self.runs[actor, number] = self.runs.get((actor, number), 0) + 1
        self.early += count > 1 and not self.is_killed
        self.done[actor] = max(number, self.done.get(actor, 0))


@say.remote
class SimulatedCounter:
    """Counts its calls."""

    world: Any
    process: Any

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0

    def save(self) -> Any:
        return [self.number, self.count]

    def restore(self, state: Any) -> Generator[Any, Any, None]:
        self.number, self.count = state
        yield from ()

    def step(self, number: int, seconds: float) -> Generator[Any, Any, int]:
        yield say.Sleep(seconds)
        self.count += 1
        self.world.course.ran(self.number, number, self.process.node.name)
        return self.count

    def state(self) -> int:
        return self.count


def driver(plan: Plan, interval: int, course: Course) -> Generator[Any, Any, None]:
    """Submits all calls ahead, and compares what they return."""
    actors = []
    for number in range(plan.actors):
        actors.append(
            (
                yield say.Create(
                    SimulatedCounter,
                    (number,),
                    max_restarts=-1,
                    checkpoint_interval=interval,
                    resources={"CPU": 10_000},
                    where=Where(is_spread=True),
                )
            )
        )
    refs = []
    for index, actor in enumerate(actors):
        refs.append([(yield say.Call(actor, "step", (1, plan.seconds_of(index)), max_retries=-1))])
    yield say.Get([of_one[0] for of_one in refs])
    lost = course.lost()
    counts = [plan.calls if index in lost else plan.of_others for index in range(plan.actors)]
    for number in range(2, plan.calls + 1):
        for index, actor in enumerate(actors):
            if number <= counts[index]:
                args = (number, plan.seconds_of(index))
                refs[index].append((yield say.Call(actor, "step", args, max_retries=-1)))
    for of_one, count in zip(refs, counts, strict=True):
        found = yield say.Get(of_one)
        course.wrong += sum(got != wanted for got, wanted in zip(found, range(1, count + 1), strict=True))
    states = []
    for actor in actors:
        states.append((yield say.Call(actor, "state", (), max_retries=-1, readonly=True)))
    found = yield say.Get(states)
    course.wrong += sum(state != count for state, count in zip(found, counts, strict=True))
    course.answers = sum(counts) + plan.actors


def new_world(plan: Plan, costs: Costs | None) -> Simulator:
    """With room for all actors on the nodes that are left."""
    room = -(-plan.actors // (plan.nodes - plan.nodes_lost)) + 1
    options = Options(seed=SEED, nodes=plan.nodes, cpus=room, check_every=1 << 60, capacity=1 << 30, delay="even")
    world = Simulator(options, costs=costs)
    world.trace.keeps_messages = False
    # It looks at every process of a node, each turn.
    world.checkers.after_turn = lambda node: node.touched.clear()  # type: ignore[method-assign]
    return world


def run(plan: Plan, interval: int, costs: Costs | None) -> Course:
    """interval: calls from one checkpoint to the next; 0: none."""
    world = new_world(plan, costs)
    world.run(SETTLE_SECONDS)
    home, *others = world.nodes.values()
    doomed = others[-plan.nodes_lost :]
    course = Course(frozenset(node.name for node in doomed))
    world.course = course  # type: ignore[attr-defined]
    program = world.start_driver(home, 1, driver, (plan, interval, course))
    enabled = gc.isenabled()
    gc.disable()
    try:
        while len(course.first) < plan.actors or any(course.done[actor] < plan.before for actor in course.lost()):
            assert not program.is_done and world.now < END_SECONDS, "the lost ones never got so far"
            world.run(world.now + STEP_SECONDS)
        course.is_killed = True
        for node in doomed:
            world.faults.kill_node(node, "is killed")
        is_done = world.run(world.now + END_SECONDS, unless=lambda: program.is_done)
    finally:
        if enabled:
            gc.enable()
    assert is_done, "a simulated run did not end"
    return course


def measure(figure: Figure, effort: Effort) -> None:
    """Without checkpoints, and with; nothing where the simulator does not predict one node, as in E1."""
    plan = QUICK if effort.quick else FULL
    what = f"{plan.actors:,} actors, nodes killed"
    model = calibrated(effort)
    words = (
        f"{model.predicted:,.0f} tasks/s predicted for one node, {model.measured:,.0f} measured: {model.error:.0%} off"
    )
    figure.add_fact(f"the simulator predicts one node within {GATE:.0%}", model.passes, words, SIMULATED)
    if not model.passes:
        why = f"the simulator is {model.error:.0%} off the measured throughput of one node: no simulated point is shown"
        figure.leave_out(f"simulated: {what}", why)
        return
    figure.seeds.append(SEED)
    without, saved = run(plan, 0, model.costs), run(plan, INTERVAL, model.costs)
    judge(figure, what, without, saved)
    lost = f"{len(without.lost())} and {len(saved.lost())} of {plan.actors:,}"
    figure.notes.append(
        f"Simulated: {plan.nodes_lost} of {plan.nodes} nodes are killed when the actors there, {lost}, have run "
        f"{plan.before} calls each of {plan.call_seconds * 1e3:.0f} ms; the others make {plan.of_others} calls each, "
        "which are not run again."
    )


def judge(figure: Figure, what: str, without: Course, saved: Course) -> None:
    """The figure's rows: calls that were run again, without and with checkpoints."""
    wrong = without.wrong + saved.wrong
    words = f"{without.answers + saved.answers:,} results and states, {wrong} wrong"
    figure.add_fact(
        f"{what}: each call's effect is in the state once, and no caller notices", not wrong, words, SIMULATED
    )
    early = without.early + saved.early
    figure.add_fact(f"{what}: calls run again only after the kill", not early, f"{early} before it", SIMULATED)
    label = f"{what}: calls run again without checkpoints"
    figure.add(label, without.again(), "", SIMULATED, paper="10,000 of 400 actors")
    label = f"{what}: calls run again with a checkpoint every {INTERVAL} calls"
    most = INTERVAL * len(saved.lost())
    figure.add(label, saved.again(), "", SIMULATED, paper="500", at_most=most)
    by_actor = [found.again() / max(1, len(found.lost())) for found in (without, saved)]
    times = by_actor[0] / by_actor[1] if by_actor[1] else 0.0  # that none was run again proves nothing
    figure.add(f"{what}: so many times fewer calls run again", times, "x", SIMULATED, paper="20 x", at_least=10)
