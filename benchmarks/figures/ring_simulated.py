"""The ring of actor calls in the simulator, for E10 and E11: production's roles, links of a rate, costs measured here.

A node's line carries its large frames one after the other; a small one does not wait for those of other connections,
as on TCP.  Adding up a piece and writing it into the store takes
time by its bytes; each call and each message within a node takes a fixed time.  A delay of dispatch is added to the
frame that takes calls to a worker, where the hook of E11 adds it to real nodes.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import zray
from zray.sim import language as say
from zray.sim.machines import SCALE, Machines, PredictedWorld, value_of
from zray.sim.network import Connection, End
from zray.wire.task_spec import RESOURCE_UNIT
from zray.wire.tasks import StartTasks

from . import ring_calls
from .emulated import emulated

SETTLE_SECONDS, END_SECONDS = 0.5, 1e4  # virtual
GATE = 0.20
SMALL_BYTES = 16 << 10  # of a frame
PAPERS_RANKS = 16
TRIPS = 100
HOPS = 4  # of a task and its result within a node
SHARED_BYTES = 100_000_000
PAPERS_LINE = 25e9 / 8  # bytes/s


@dataclass(frozen=True)
class Costs:
    """Seconds: of a message within a node, of one between nodes, and of a byte that is added up and stored."""

    hop: float
    latency: float
    byte: float


def costs_here() -> Costs:
    """Measure them: single tasks here and on another node, and a ring of two ranks that share memory."""

    @zray.remote
    def nothing() -> None:
        pass

    with emulated(1, cpus=1, head_cpus=2):
        there = nothing.options(resources={"node-0": 1})
        times: dict[Any, list[float]] = {nothing: [], there: []}
        for _ in range(TRIPS):
            for task, taken in times.items():
                started = time.perf_counter()
                zray.get(task.remote())
                taken.append(time.perf_counter() - started)
        local, remote = (statistics.median(taken) for taken in times.values())
    with zray.init(num_cpus=2):
        ring = ring_calls.measure(ring_calls.members_of(2), [SHARED_BYTES], ring_calls.ONE_PIECE, 5)[SHARED_BYTES] / 1e3
    return Costs(local / HOPS, max(0.0, remote - local) / 2, ring / (SHARED_BYTES / 2))


class FairConnection(Connection):
    """Connection whose small frames wait only for its own large ones."""

    def _carry(self, end: End, frame: bytes, size: int = 0) -> None:
        home = self.world.homes.get(end.name)
        if home is None or size > SMALL_BYTES:
            super()._carry(end, frame, size)
            return
        free_at, home.line_is_free_at = home.line_is_free_at, 0.0
        super()._carry(end, frame, size)
        home.line_is_free_at = free_at


class RingWorld(PredictedWorld):
    """A world whose calls reach their workers later by a delay."""

    def __init__(self, machines: Machines, delay: float) -> None:
        self.delay = delay
        super().__init__(machines, None)

    def connection(self, node: Any, source: str, target: str) -> Connection:
        found = super().connection(node, source, target)
        found.__class__ = FairConnection
        return found

    def add_node(self, name: str, resources: dict[str, int]) -> None:
        super().add_node(name, resources)
        if self.delay:
            node = self.nodes[name]
            node._send = functools.partial(self._send_later, node, node._send)  # type: ignore[method-assign]

    def _send_later(self, node: Any, send: Any, role: Any, target: str, message: Any) -> None:
        if type(message) is StartTasks:
            self.call_later(self.delay, self._order, node, target, message)
        else:
            send(role, target, message)

    def _order(self, node: Any, target: str, message: Any) -> None:
        if target in node.connections:
            node.connections[target].send(node.name, [message])


@say.remote
class AllreduceRank:
    """Rank of a ring."""

    def chunk(self, size: int) -> Any:
        return value_of(size)

    def add(self, incoming: Any, size: int, seconds: float) -> Generator[Any, Any, Any]:
        yield say.Sleep(seconds)
        return value_of(size)

    def store(self, incoming: Any, size: int, seconds: float, passes: bool) -> Generator[Any, Any, Any]:
        if not passes:
            return 0
        yield say.Sleep(seconds)
        return value_of(size)


def driver(
    ranks: int, pieces: int, size: int, byte: float, times: list[float], world: RingWorld
) -> Generator[Any, Any, None]:
    """Two allreduces, as ring_calls submits them; times: the begin and end of the second one."""
    piece = max(SCALE, size // ranks // pieces)
    members = []
    for rank in range(ranks):
        members.append((yield say.Create(AllreduceRank, (), resources={f"node-{rank}": RESOURCE_UNIT})))
    for _ in range(2):
        flying: list[list[Any]] = []
        for member in members:
            refs = []
            for _ in range(pieces):
                refs.append((yield say.Call(member, "chunk", (piece,))))
            flying.append(refs)
        own = [ref for refs in flying for ref in refs]
        yield say.Wait(own, len(own), None, False)
        times.append(world.now)
        for step in range(2 * (ranks - 1)):
            reduces, is_last = step < ranks - 1, step == 2 * (ranks - 1) - 1
            following = []
            for rank, member in enumerate(members):
                refs = []
                for ref in flying[rank - 1]:
                    given = (ref, piece, piece * byte) if reduces else (ref, piece, piece * byte, not is_last)
                    refs.append((yield say.Call(member, "add" if reduces else "store", given)))
                following.append(refs)
            flying = following
        yield say.Get([ref for refs in flying for ref in refs])
        times.append(world.now)


def milliseconds(ranks: int, size: int, line: float, costs: Costs, *, pieces: int = 1, delay: float = 0.0) -> float:
    """Return the virtual time of an allreduce.  line: bytes/s of each node's; delay: seconds."""
    machines = Machines(
        resources=[{"CPU": 2 * RESOURCE_UNIT, f"node-{rank}": 1_000 * RESOURCE_UNIT} for rank in range(ranks)],
        bandwidth=line,
        latency=costs.latency,
        hop=costs.hop,
    )
    world = RingWorld(machines, delay)
    world.run(SETTLE_SECONDS)
    times: list[float] = []
    program = world.start_driver(
        next(iter(world.nodes.values())), 1, driver, (ranks, pieces, size, costs.byte, times, world)
    )
    assert world.run(END_SECONDS, unless=functools.partial(getattr, program, "is_done")), "a run did not end"
    return (times[-1] - times[-2]) * 1e3


def bound(ranks: int, size: int, line: float) -> float:
    """Milliseconds that a ring takes at least: each rank sends 2 (n - 1) / n of the array."""
    return 2 * (ranks - 1) / ranks * size / line * 1e3
