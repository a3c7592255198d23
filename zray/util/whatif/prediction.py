"""Predictions: a recorded program on given machines, and which resource would make it end sooner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...api.run_records import RunRecord
from ...sim.machines import Machines, PredictedWorld
from ...store.event_ring import GROUPED, PLACED, STREAMS, Kind, Outcome
from ...wire.task_spec import RESOURCE_UNIT
from ..report.critical_path import PROGRAM_CODE, RUN, Path, critical_path
from ..report.findings import text_of
from ..report.idle import usage_of
from ..report.runs import Runs
from .delays import Delays, corrected, delays_of
from .program import PLACES, Program, creations, is_program, program_of
from .scripts import Course, driver

__all__: list[str] = []  # for `zray whatif`

# A prediction of so many tasks takes minutes.
TASKS_MAX = 200_000
NODES_MAX = 256
# Virtual seconds until the nodes know each other.
SETTLE_SECONDS = 0.5
# A predicted run that takes so many times all of its work will not end.
PATIENCE = 20.0
PATIENCE_SECONDS = 3_600.0
# A resource is worth buying if twice as much saves so large a part of the run.
GAIN_MIN = 0.05
# Twice as fast cores make all code faster; another resource that saves nearly as much is named in their place.
CORES_SHARE = 0.8
# What the marks of runs mean, for the user.
NOT_MODELLED = {
    STREAMS: "items of streaming generators, which come together at the end",
    GROUPED: "places of placement groups",
    PLACED: "node affinity, labels, and spreading, as of actors without num_cpus",
}
NAMES_MAX = 3  # of functions that are named for each
FAST_LINE, LATENCY = 1.25e9, 1e-4  # of a network that nothing is known of: 10 Gbit/s, 0.1 ms


class Shape(NamedTuple):
    """Machines that a user asks for; None: as recorded.

    bandwidth: bytes/s.  latency: seconds.  doubled: a resource that each node has twice as much of.  speed: how much
    faster all code is than recorded.
    """

    nodes: int | None = None
    cpus: float | None = None
    gpus: float | None = None
    bandwidth: float = FAST_LINE
    latency: float = LATENCY
    policy: str = "bottom_up"
    doubled: str = ""
    speed: float = 1.0


@dataclass
class Prediction:
    """A predicted run.  utilisation: share of the CPUs' time, from 0 to 1."""

    shape: Shape
    nodes: int
    cpus: float
    makespan: float
    utilisation: float
    bytes_moved: int
    runs: Runs
    path: Path


class Model:
    """A recorded run that can be predicted on other machines.

    Raises:
        ValueError: no task has ended, or there are too many.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.program: Program = program_of(record)
        self.recorded = self.program.runs
        count = len(self.program.tasks) - 1
        if count > TASKS_MAX:
            raise ValueError(
                f"{count:,} tasks are too many: a prediction takes {TASKS_MAX:,} at most.  Record a shorter run of "
                "the program, or one with larger tasks."
            )
        self.ids: list[str] = []
        self.nodes = self._recorded_nodes()
        self.cores = sum(node.get("CPU", 0.0) for node in self.nodes)
        self.delays: Delays = delays_of(self.recorded, self.cores, self.ids, creations(self.program))
        self.delays = corrected(self.delays, self.recorded, self.predict(Shape()).runs, self.cores)
        self.calibration = self.predict(Shape())

    def _recorded_nodes(self) -> list[dict[str, float]]:
        """Resources of the recorded nodes, that of the program first."""
        pid = self.record.header.get("pid")
        home = {node for node, rings in self.record.rings.items() if any(is_program(ring, pid) for ring in rings)}
        rows = sorted(self.record.nodes.values(), key=lambda row: row["node"] not in home)
        nodes = [
            {name: amount for name, amount in row["resources"].items() if not name.startswith(PLACES)} for row in rows
        ]
        self.ids = [row["node"] for row in rows]
        return nodes or [{"CPU": float(len({run.process for run in self.recorded.runs}) or 1)}]

    def resources(self, shape: Shape) -> list[dict[str, int]]:
        """The resources of each node of a shape; what the shape leaves open is as recorded.

        Raises:
            ValueError: no node has what a task requests.
        """
        count = shape.nodes if shape.nodes is not None else len(self.nodes)
        found = []
        for number in range(count):
            node = dict(self.nodes[number % len(self.nodes)])
            if shape.cpus is not None:
                node["CPU"] = shape.cpus
            if shape.gpus is not None:
                node["GPU"] = shape.gpus
            if shape.doubled in node:
                node[shape.doubled] *= 2
            found.append({name: round(amount * RESOURCE_UNIT) for name, amount in node.items()})
        for task in self.program.tasks:
            if not any(all(node.get(name, 0) >= most for name, most in task.request.items()) for node in found):
                asked = ", ".join(f"{name}: {amount / RESOURCE_UNIT:g}" for name, amount in task.request.items())
                raise ValueError(
                    f"`{task.name}` requests {asked}, and no node has that: each has {_size_of(found)}.  Give --cpus "
                    "or --gpus that suffice."
                )
        return found

    def notes(self) -> list[str]:
        """Sentences on what the predictions lack."""
        found = []
        lost = sum(ring.lost for rings in self.record.rings.values() for ring in rings)
        if self.record.end is None:
            found.append("The record ends early: its program was killed.  The prediction is of what it has.")
        if lost or self.record.left_out:
            found.append("Records are missing: processes wrote faster than they were read, or did not answer.")
        if self.program.left_out:
            found.append(f"{self.program.left_out:,} tasks are left out: the record lacks what has submitted them.")
        if absent := self._not_modelled():
            found.append(f"Not modelled: {'; '.join(absent)}.  Predictions leave out what that changes.")
        if count := sum(run.outcome == Outcome.FAILED for run in self.recorded.runs):
            found.append(f"Failed runs: {count:,}.  Predicted ones take as long, and do not fail.")
        if count := len(self.recorded.runs) - len(self.recorded.places):
            found.append(f"Repeated runs: {count:,}.  The last run of each task counts, and predicted ones run once.")
        return found

    def _not_modelled(self) -> list[str]:
        """Return what runs of the record have that predictions do not, each with names of functions."""
        names: dict[str, dict[str, None]] = {mark: {} for mark in NOT_MODELLED}
        for run in self.recorded.runs:
            for mark in set(run.request.split(",")) & NOT_MODELLED.keys() if run.request else ():
                names[mark][run.name] = None
        return [
            f"{NOT_MODELLED[mark]} ({', '.join([*known][:NAMES_MAX])}{', ...' * (len(known) > NAMES_MAX)})"
            for mark, known in names.items()
            if known
        ]

    def predict(self, shape: Shape) -> Prediction:
        """Run the program on other machines, in the simulator.

        Raises:
            ValueError: the program cannot run there, or would not end.
        """
        resources = self.resources(shape)
        course = Course(self.program, shape.speed)
        machines = Machines(
            resources=resources,
            bandwidth=shape.bandwidth if len(resources) > 1 else 0.0,
            latency=shape.latency,
            hop=self.delays.hop,
            start=self.delays.start,
            boots=self.delays.boots,
            task=self.delays.task,
            call=self.delays.call,
            policy=shape.policy,
        )
        world = PredictedWorld(machines, course)
        world.run(SETTLE_SECONDS if len(resources) > 1 else 0.0)
        world.bytes_moved = 0
        world.start = world.now
        process = world.start_driver(world.nodes["n1"], 1, driver, (course,))
        limit = PATIENCE * (self.recorded.end + sum(task.end - task.begin for task in self.program.tasks))
        if not world.run(world.now + limit + PATIENCE_SECONDS, unless=lambda: process.is_done):
            raise ValueError(
                f"The program does not end on {_count_of(len(resources))}, each with {_size_of(resources)}: actors may "
                "hold all of that.  Give more."
            )
        runs = course.runs()
        cpus = sum(node.get("CPU", 0) for node in resources) / RESOURCE_UNIT
        usage = usage_of(runs, max(cpus, 1e-9))
        total = max(sum(usage.seconds.values()), 1e-9)
        return Prediction(
            shape,
            len(resources),
            cpus,
            runs.end,
            usage.seconds["busy"] / total,
            world.bytes_moved,
            runs,
            critical_path(runs),
        )

    def advice(self, base: Prediction) -> str:
        """The sentence on what to buy: each resource is doubled in turn, in the simulator."""
        shape = base.shape
        trials = {"more CPUs": shape._replace(doubled="CPU"), "faster cores": shape._replace(speed=2.0)}
        if any("GPU" in task.request for task in self.program.tasks):
            trials["more GPUs"] = shape._replace(doubled="GPU")
        if base.bytes_moved:
            trials["more bandwidth"] = shape._replace(bandwidth=2 * shape.bandwidth)
        spans = {name: self.predict(trial).makespan for name, trial in trials.items()}
        gains = {name: 1 - seconds / max(base.makespan, 1e-9) for name, seconds in spans.items()}
        weights = {name: gain * (CORES_SHARE if name == "faster cores" else 1.0) for name, gain in gains.items()}
        best = max(weights, key=lambda name: weights[name])
        if gains[best] < GAIN_MIN:
            return "Buy nothing: twice as much of any resource saves less than 5 %."
        if best == "faster cores" and self._is_program(base):
            return (
                "Buy nothing: the program itself is the bottleneck.  Its own code runs on one core, and is "
                f"{100 * _share(base, PROGRAM_CODE):.0f} % of the critical path."
            )
        return f"Buy {best}: {HOW[best]} saves {100 * gains[best]:.0f} %, {text_of(spans[best])} remain."

    def _is_program(self, base: Prediction) -> bool:
        return _share(base, PROGRAM_CODE) > _share(base, RUN)


HOW = {
    "more CPUs": "twice as many",
    "more GPUs": "twice as many",
    "more bandwidth": "twice as much",
    "faster cores": "the longest chain of tasks cannot be spread.  Code that runs twice as fast",
}


def _share(base: Prediction, kind: str) -> float:
    return base.path.seconds_by_kind().get(kind, 0.0) / max(base.makespan, 1e-9)


def _size_of(resources: list[dict[str, int]]) -> str:
    """The size of the nodes in words."""
    sizes: dict[str, None] = {}
    for node in resources:
        cpus, gpus = (node.get(name, 0) / RESOURCE_UNIT for name in ("CPU", "GPU"))
        sizes[f"{cpus:g} CPU{'s' * (cpus != 1)}" + (f" and {gpus:g} GPU{'s' * (gpus != 1)}" if gpus else "")] = None
    return " or ".join(sizes)


def _count_of(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def facts_of(model: Model) -> dict[str, Any]:
    """Facts on the record for a user: what predictions are made of, and what they lack."""
    program = model.program
    calls = sum(task.kind == Kind.CALL for task in program.tasks)
    return {
        "makespan": model.recorded.end,
        "tasks": len(program.tasks) - 1 - calls,
        "calls": calls,
        "nodes": len(model.nodes),
        "cpus": model.cores,
        "overhead": 2 * model.delays.hop + model.delays.task,
        "left_out": program.left_out,
    }
