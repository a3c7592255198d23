"""The simulator with this machine's costs: no-op tasks, submitted in waves by a driver on every node.

Calibrated by what is not the throughput itself: the CPU time of every handler (a stopwatch in the simulator, which runs
the very roles), of the node's system calls (one task at a time, in a real session), of the driver and of the workers
(in a real session; user code, pickling and sockets are not in the simulator).  The gate has two parts, both with the
same limit.  On one node: the tasks per second that were measured.  From one node to 2, 4 and 8: the CPU time per task,
as a multiple of that on one node.  (Not the tasks per second: emulated nodes share the cores of one machine, so theirs
do not grow with the nodes.  And not microseconds: emulated nodes that leave the cores idle now and then are cold after
that, which is not in the simulator.)
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Generator
from dataclasses import astuple, dataclass
from typing import Any

import zray
from zray.cluster_utils import Cluster
from zray.sim import language as say
from zray.sim.costs import Costs, Stopwatch
from zray.sim.options import Options
from zray.sim.simulator import Simulator

from ..timing import Effort
from .emulated import connected, cpu_seconds

WAVE = 1_000
WARM_UP = 16  # so that every node knows how long the task takes
GATE = 0.20
FEW, MANY = 1, 3  # waves, for CPU time per task
SETTLE_SECONDS = 0.5  # virtual: the nodes know each other
TURNS = 3  # of measuring throughput and costs: a machine that others use has one speed now and another in a minute
LOOKS = 4  # at the costs of handlers in each turn, of less than a second each
STEP = 64  # submissions between two looks at the driver's clock
END_SECONDS = 1e4  # virtual


@dataclass
class Model:
    """Costs, and what they are to predict."""

    costs: Costs
    submit: float  # seconds of the driver's CPU time per task
    fetch: float
    measured: float  # tasks per second of one node, for the gate
    predicted: float = 0.0

    @property
    def error(self) -> float:
        return abs(self.predicted / self.measured - 1)

    @property
    def passes(self) -> bool:
        return self.error <= GATE

    def rate(self, nodes: int, waves: int, policy: str = "bottom_up", wave: int = WAVE) -> float:
        """Simulated tasks per second of so many nodes, while all of them are at work.

        (What is shared gives one node more than another: those that are left in the end would be too fast.)
        """
        world, fetched = run_world(self, nodes, waves, wave, policy)
        assert not world.lost_nodes, "a simulated node was lost"
        until = min(of_one[-1][0] for of_one in fetched)
        return sum(count for of_one in fetched for at, count in of_one if at <= until) / until

    def cpu_per_task(self, nodes: int) -> float:
        """Simulated seconds of CPU time of all processes, per task.  The difference of two runs: what comes before the
        waves is in both.
        """
        used = []
        for waves in (FEW, MANY):
            world, _ = run_world(self, nodes, waves, WAVE, "bottom_up")
            assert not world.lost_nodes, "a simulated node was lost"
            used.append(sum(node.cores.used for node in world.nodes.values() if node.cores is not None))
        return (used[1] - used[0]) / ((MANY - FEW) * WAVE * nodes)


Fetched = list[tuple[float, int]]


def growth(costs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """(nodes, what a task takes there / what it takes on the first, fewest nodes)."""
    return [(nodes, cost / costs[0][1]) for nodes, cost in costs]


def farthest_apart(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
    """The largest error of one curve, held against the other at each size."""
    return max(abs(a / b - 1) for (_, a), (_, b) in zip(one, other, strict=True))


@say.remote
def no_op() -> None:
    """A no-op."""


def driver(
    model: Model | None, waves: int, wave: int, since: float, fetched: Fetched, world: Simulator
) -> Generator[Any, Any, None]:
    """A warm-up; then, from the same moment on as all others, the waves.  fetched: how many tasks at what time."""
    refs = []
    for _ in range(WARM_UP):
        refs.append((yield say.Submit(no_op)))
    yield say.Get(refs)
    yield say.Drop(refs)
    yield say.Sleep(max(0.0, since - world.now))
    for _ in range(waves):
        refs = []
        for number in range(1, wave + 1):
            refs.append((yield say.Submit(no_op)))
            if model is not None and (number % STEP == 0 or number == wave):
                yield say.Compute(model.submit * (number % STEP or STEP))
        for start in range(0, wave, STEP):
            some = refs[start : start + STEP]
            yield say.Get(some)
            if model is not None:
                yield say.Compute(model.fetch * len(some))
            fetched.append((world.now - since, len(some)))
        yield say.Drop(refs)


def new_world(nodes: int, policy: str, costs: Costs | None, stopwatch: Stopwatch | None) -> Simulator:
    options = Options(
        seed=1,
        nodes=nodes,
        policy=policy,
        shards=max(1, nodes // 4),
        replicas=1,
        check_every=1 << 60,
        capacity=1 << 30,
        delay="even",
        flush_every=STEP,
    )
    world = Simulator(options, costs=costs, stopwatch=stopwatch)
    world.trace.keeps_messages = False
    return world


def run_world(
    model: Model | None, nodes: int, waves: int, wave: int, policy: str, stopwatch: Stopwatch | None = None
) -> tuple[Simulator, list[Fetched]]:
    """A world at its end, and when in virtual seconds each node's driver had how many of its tasks."""
    world = new_world(nodes, policy, model.costs if model is not None else None, stopwatch)
    world.run(SETTLE_SECONDS)
    since = world.now + SETTLE_SECONDS
    fetched: list[Fetched] = [[] for _ in world.nodes]
    drivers = [
        world.start_driver(node, number, driver, (model, waves, wave, since, fetched[number - 1], world))
        for number, node in enumerate(world.nodes.values(), 1)
    ]
    enabled = gc.isenabled()
    gc.disable()  # as it nearly is in a node's process
    try:
        is_done = world.run(END_SECONDS, unless=lambda: all(one.is_done for one in drivers))
    finally:
        if enabled:
            gc.enable()
    assert is_done, "a simulated run did not end"
    return world, fetched


def handler_costs(wave: int = 4 * WAVE) -> dict[str, float]:
    """CPU seconds per thing, by kind: on one node, and on three where all goes up and where little does."""
    stopwatch = Stopwatch(time.thread_time)
    run_world(None, 1, 4, wave, "bottom_up", stopwatch)
    for policy in ("bottom_up", "central"):
        run_world(None, 3, 1, wave // 4, policy, stopwatch)
    return stopwatch.kinds()


@dataclass
class Session:
    """What a real session of one node takes, in seconds of CPU time per task."""

    rate: float
    submit: float
    fetch: float
    workers: float
    node_alone: float  # per task, where there is one at a time


def measure_session(effort: Effort) -> Session:
    """A head with two CPUs, this process is its driver."""

    @zray.remote
    def nothing() -> None:
        pass

    with Cluster(True, head_node_args={"num_cpus": 2}) as cluster, connected(cluster):
        assert cluster.head_node is not None
        pid = cluster.head_node.pid
        zray.get([nothing.remote() for _ in range(5 * WAVE)])
        rates, submitting, waves = [], 0.0, 0
        node, all_of_it, mine = node_seconds(pid), cpu_seconds([pid]), time.process_time()
        end = time.perf_counter() + (3.0 if effort.quick else 7.0)
        while time.perf_counter() < end:
            started, begun = time.perf_counter(), time.process_time()
            refs = [nothing.remote() for _ in range(WAVE)]
            submitting += time.process_time() - begun
            zray.get(refs)
            del refs
            rates.append(WAVE / (time.perf_counter() - started))
            waves += 1
        done = waves * WAVE
        mine = time.process_time() - mine
        workers = cpu_seconds([pid]) - all_of_it - (node_seconds(pid) - node)
        count = 2_000 if effort.quick else 4_000
        node = node_seconds(pid)
        for _ in range(count):
            zray.get(nothing.remote())
        alone = (node_seconds(pid) - node) / count
    return Session(
        statistics.median(rates), submitting / done, max(0.0, mine - submitting) / done, workers / done, alone
    )


def node_seconds(pid: int) -> float:
    """CPU time of that process alone, all threads of it."""
    return cpu_seconds([pid], with_children=False)


def frame_seconds(kinds: dict[str, float], alone: float) -> float:
    """Of the node's system calls for one frame: what one task at a time takes beyond its handlers."""
    without = Costs(kinds=kinds)
    world, _ = run_world(Model(without, 0.0, 0.0, 1.0), 1, 400, 1, "bottom_up")
    with_one = Costs(kinds=kinds, frame=1e-6)
    other, _ = run_world(Model(with_one, 0.0, 0.0, 1.0), 1, 400, 1, "bottom_up")
    assert world.nodes["n1"].cores is not None and other.nodes["n1"].cores is not None
    used = world.nodes["n1"].cores.used
    frames = (other.nodes["n1"].cores.used - used) / 1e-6 / 400
    return max(0.0, alone - used / 400) / max(1.0, frames)


def calibrated(effort: Effort) -> Model:
    """A model that has been held against its machine: the middle of what some turns of measuring have shown."""
    sessions, costs_seen = [], []
    turns, looks, wave = (1, 1, WAVE) if effort.quick else (TURNS, LOOKS, 4 * WAVE)
    for _ in range(turns):
        sessions.append(measure_session(effort))
        costs_seen += [handler_costs(wave) for _ in range(looks)]
    session = Session(*(statistics.median(values) for values in zip(*map(astuple, sessions), strict=True)))
    kinds = {kind: statistics.median(seen[kind] for seen in costs_seen) for kind in costs_seen[0]}
    frame = frame_seconds(kinds, session.node_alone)
    costs = Costs(kinds=kinds, frame=frame, worker_task=session.workers, cores=2)
    model = Model(costs, session.submit, session.fetch, session.rate)
    model.predicted = model.rate(1, 4 if effort.quick else 20)
    return model
