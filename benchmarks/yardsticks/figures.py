"""The figures, and the groups in which they are measured: a process of its own for each group, tree and turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """A figure.  unit: of its samples.  more_is_better: otherwise less is."""

    name: str
    unit: str
    words: str
    more_is_better: bool = False


MICROSECONDS, MILLISECONDS, BYTES, MEGABYTES, MODULES = "us", "ms", "bytes", "MB", "modules"

GROUPS: dict[str, tuple[Figure, ...]] = {
    "tasks": (
        Figure("task.node", MICROSECONDS, "CPU of the node process for a no-op task, in bursts"),
        Figure("task.driver", MICROSECONDS, "CPU of the driver for it"),
        Figure("call.node", MICROSECONDS, "CPU of the node process for a no-op call of an actor, in bursts"),
        Figure("call.driver", MICROSECONDS, "CPU of the driver for it"),
    ),
    "spilled": (
        Figure("spilled.control", MICROSECONDS, "CPU of all control processes for a task that leaves the head"),
    ),
    "actors": (
        Figure("actor.here", MICROSECONDS, "CPU of all control processes for an actor on the driver's node"),
        Figure("actor.there", MICROSECONDS, "CPU of all control processes for an actor on another node"),
    ),
    "ready": (
        Figure("ready.turn", MILLISECONDS, "longest turn of a local scheduler while 100,000 tasks are submitted"),
        Figure("ready.next", MICROSECONDS, "turn of one more message after that"),
        Figure("ready.cpu", MICROSECONDS, "CPU of the local scheduler for each of these tasks"),
    ),
    "departing": (
        Figure("departing.turn", MILLISECONDS, "longest turn of a full local scheduler while 100,000 tasks leave it"),
        Figure("departing.cpu", MICROSECONDS, "CPU of the local scheduler for each of these tasks"),
    ),
    "ended": (
        Figure("ended.turn", MILLISECONDS, "longest turn of a local scheduler up to 1,000,000 ended tasks"),
        Figure("ended.next", MICROSECONDS, "turn of one more message after that"),
        Figure("ended.cpu", MICROSECONDS, "CPU of the local scheduler for each of these tasks"),
        Figure("ended.memory", BYTES, "memory of an ended task whose result is referred to"),
    ),
    "bytecodes": (
        Figure("ended.bytecodes", "bytecodes", "instructions of Python of a local scheduler for a task that runs"),
        Figure("departing.bytecodes", "bytecodes", "the same for a task that leaves its node"),
    ),
    "waiting": (Figure("waiting.memory", BYTES, "memory of a task that waits for two arguments, its spec included"),),
    "simulation": (
        Figure("simulation.seeds", "1/s", "simulated runs of three nodes in a second of CPU time", more_is_better=True),
    ),
    "life": (
        Figure("import.modules", MODULES, "modules that `import zray` loads"),
        Figure("import.cpu", MILLISECONDS, "CPU of `import zray`"),
        Figure("driver.modules", MODULES, "modules of a driver after `init` and a task"),
        Figure("worker.modules", MODULES, "modules of a worker"),
        Figure("node.modules", MODULES, "modules of the node process"),
        Figure(
            "session.cpu", MILLISECONDS, "CPU of all processes from the start of a program to the end of its session"
        ),
        Figure("node.memory", MEGABYTES, "PSS of an idle node, files left out"),
        Figure("fork_server.memory", MEGABYTES, "PSS of the fork server, files left out"),
        Figure("worker.memory", MEGABYTES, "PSS of an idle worker, files left out"),
    ),
}

FIGURES = {figure.name: figure for group in GROUPS.values() for figure in group}


def chosen(names: Iterable[str]) -> dict[str, tuple[Figure, ...]]:
    """The groups to measure, each with its figures that are asked for.  names: of groups and figures; none: all.

    Raises:
        ValueError: a name is unknown; says which there are.
    """
    wanted = set(names)
    unknown = wanted - GROUPS.keys() - FIGURES.keys()
    if unknown:
        known = ", ".join([*GROUPS, *FIGURES])
        raise ValueError(f"no such figure or group: {', '.join(sorted(unknown))}; there are {known}")
    found = {}
    for name, group in GROUPS.items():
        figures = tuple(one for one in group if not wanted or name in wanted or one.name in wanted)
        if figures:
            found[name] = figures
    return found
