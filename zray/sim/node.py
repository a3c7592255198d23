"""A simulated node process: hosts roles, takes turns, performs effects.

A turn: handle every arrived message, and perform its effects at once; then end the turn of each role in the order of
ORDER, with the resulting local messages, until none is left; then send the messages, a frame per connection.  Local
messages are passed as the same objects, as in production: a role that changes a sent message is detected.
"""

from __future__ import annotations

from collections import deque
from mmap import mmap
from typing import TYPE_CHECKING, Any

from ..roles import effects as e
from ..roles.gcs import GcsShard
from ..roles.gcs.chain import ChainMember
from ..roles.gcs.client import ChainClient
from ..roles.gcs.master import ChainMaster
from ..roles.global_scheduler import GlobalScheduler
from ..roles.hosting import Hosting, ReplicaKeeper
from ..roles.local_scheduler import LocalScheduler
from ..roles.monitor import Monitor
from ..roles.object_manager import ObjectManager
from ..roles.replica_effects import (
    EndReplicaProcess,
    EndScheduler,
    LetInReplica,
    MeasureCpu,
    NoteChain,
    ShutOutReplica,
    StartReplicaProcess,
    StartScheduler,
)
from ..roles.role import Role, acts_at_end_of_turn
from ..roles.scheduler_count import SchedulerCount
from ..roles.services import Services
from ..roles.work_effects import (
    EventsRead,
    HeadIsAlone,
    HearAgain,
    HoldBack,
    InterruptWorker,
    MemoryUse,
    ReadEvents,
    ReadHeads,
    RecordChange,
    RecordFetch,
    RecordWait,
    StopWorkers,
    WatchMemory,
    WriteLine,
)
from ..wire.events import State, Thing
from ..wire.message import Bulk
from ..wire.objects import AbandonObject, AllocateObject, ObjectChunk
from ..wire.session import Ack, Goodbye
from .costs import END_OF_TURN, PACK, QUIET_END_OF_TURN, UNPACK, Cores, Costs, kind_of, things_done, things_in
from .desk import Desk
from .network import Connection, End
from .permissions import check_permission, check_route
from .spill_folder import SpillFolder

# The time between looks at a node's memory while tasks wait for it.
MEMORY_SECONDS = 0.5

if TYPE_CHECKING:
    from .process import Process
    from .simulator import Simulator

ORDER = (
    *(LocalScheduler, GcsShard, ChainMember, GlobalScheduler, Monitor, ChainMaster, ObjectManager),
    *(Services, Hosting, ReplicaKeeper, SchedulerCount, Desk),
    ChainClient,  # sends the others' requests to shards
)
PAGE = 4096
MAPPED_BYTES = 1 << 24
# An endless turn is a loop between roles.
PASSES_MAX = 1_000


class Arena:
    """Shared memory of a node: bytes by segment, and the reserved pages."""

    def __init__(self, *, pages_max: int) -> None:
        self.segments: dict[int, bytearray | mmap] = {}
        self.pages: set[int] = set()  # membership only
        self.pages_max = pages_max

    def reserve(self, offset: int, length: int) -> bool:
        """Have pages for the range; False: the memory is full."""
        wanted = set(range(offset // PAGE, -(-(offset + length) // PAGE))) - self.pages
        if len(self.pages) + len(wanted) > self.pages_max:
            return False
        self.pages |= wanted
        return True

    def write(self, segment: int, offset: int, data: bytes | memoryview) -> None:
        """Only where pages have been reserved."""
        for page in () if segment else range(offset // PAGE, -(-(offset + len(data)) // PAGE)):
            assert page in self.pages, "written where no page was reserved"
        self.segments[segment][offset : offset + len(data)] = data

    def read(self, segment: int, offset: int, size: int) -> bytes:
        """Return the present bytes."""
        return bytes(self.segments[segment][offset : offset + size])

    def view(self, segment: int, offset: int, size: int) -> memoryview:
        """Return a view of the bytes, which shows later changes."""
        return memoryview(self.segments[segment]).toreadonly()[offset : offset + size]


class Node:
    """A node."""

    def __init__(self, world: Simulator, name: str, *, pages_max: int) -> None:
        self.world = world
        self.name = name
        self.roles: dict[str, Role] = {}
        self.scheduler: LocalScheduler
        self.manager: ObjectManager
        self.inbox: list[tuple[str, str, Any]] = []
        self.local: deque[tuple[str, str, Any]] = deque()  # within this turn
        self.turn_is_due = False
        self.connections: dict[str, Connection] = {}  # to processes
        self.processes: dict[str, Process] = {}
        self.windows: dict[str, int] = {}  # tasks that a worker may still claim
        self.outgoing: dict[tuple[str, str], list[Any]] = {}
        self.arena = Arena(pages_max=pages_max)
        self.spill_folder = SpillFolder(self)
        self.holders: dict[str, None] = {}  # roles that hold processes back
        self.heard = 0  # items received in messages while processes were held back, ever
        self.is_dying: set[str] = set()  # workers told to end; membership only
        self.turns = 0
        self.touched: dict[str, None] = {}  # roles with messages, in or out, since the last check
        self.unmeasured: dict[str, None] = {}  # the same, since the last check of their tables' sizes
        self.is_alive, self.is_frozen, self.is_memory_followed = True, False, False
        self.line_is_free_at = 0.0  # of all frames sent to other nodes
        self.chunks: deque[tuple[Connection, End, ObjectChunk]] = deque()  # of objects, that wait for that
        self.looks_at_line = 0.0  # when a look at these is due
        self.ahead, self.pace = world.weather.clock()
        self.turn_seconds, self.drag = 0.0, 1.0  # while the node is slow
        # Where time costs something (costs.py):
        self.cores = Cores(world.costs.cores) if world.costs else None
        self.spent = 0.0  # in this turn
        self.cpu_seconds = 0.0  # in all turns before
        self.free_at = 0.0  # the turn before is over

    @property
    def now(self) -> float:
        """The time by the node's own clock."""
        return self.world.now * self.pace + self.ahead

    def add_role(self, role: Role) -> None:
        """Before the first turn."""
        self.roles[role.address] = role
        self.world.homes[role.address] = self
        self.roles = dict(sorted(self.roles.items(), key=lambda item: ORDER.index(type(item[1]))))

    # --- arrivals ---

    def arrive(self, sender: str, target: str, message: Any) -> None:
        """A message for the next turn."""
        if not self.is_alive:
            return
        self.inbox.append((sender, target, message))
        if not self.turn_is_due:
            self.turn_is_due = True
            delay = self.world.draw_turn_delay() + self.turn_seconds
            self.world.call_at(max(self.world.now + delay, self.free_at), self.turn)

    def from_process(self, address: str, messages: Any) -> None:
        """Pass a process's frame to the roles; the type tells messages for the object manager."""
        local, manager = self.scheduler.address, self.manager.address
        for message in messages:
            if type(message) is Goodbye:
                message = e.ProcessLeft(address, message.reason)
            is_for_manager = type(message) in (AllocateObject, AbandonObject)
            self.arrive(address, manager if is_for_manager else local, message)

    # --- the turn ---

    def turn(self) -> None:
        """See above."""
        if not self.is_alive or self.is_frozen:
            return
        self.turn_is_due = False
        self.turns += 1
        inbox, self.inbox = self.inbox, []
        self.local.extend(inbox)
        self._drain()
        if self.turns % 2 and self.world.costs is None:
            self._say_first_words()
        for _ in range(PASSES_MAX):
            is_quiet = True
            for role in self.roles.values():
                if effects := self._end_turn(role):
                    self.touched[role.address] = None
                    self._perform_all(role, effects)
                if self.local:
                    is_quiet = False
                    self._drain()
            if is_quiet:
                break
        else:
            raise AssertionError("a turn that does not end: roles of one node send each other in circles")
        outgoing, self.outgoing = self.outgoing, {}
        if self.world.costs is None:
            self._let_out(outgoing)
        else:
            spent = self._take_spent(self.world.costs, outgoing)
            self.cpu_seconds += spent
            self.free_at = self.occupy(spent)
            self.world.call_at(self.free_at, self._let_out, outgoing)
        self.check()

    def _say_first_words(self) -> None:
        """Send the first role's messages early, as a real host does in a light turn."""
        role = next(iter(self.roles.values()))
        if effects := role.first_words(self.now):
            self.touched[role.address] = None
            self._perform_all(role, effects)
            outgoing, self.outgoing = self.outgoing, {}
            self._let_out(outgoing)

    def _let_out(self, outgoing: dict[tuple[str, str], list[Any]]) -> None:
        for (source, target), messages in outgoing.items():
            self.world.connection(self, source, target).send(source, messages)

    def check(self) -> None:
        """After each turn."""
        self.world.checkers.after_turn(self)

    def _drain(self) -> None:
        local = self.local
        while local:
            sender, target, message = local.popleft()
            if type(message) is e.WorkerExited:
                # Read as late as possible: the window was opened further while the report was on its way.
                message.unclaimed = self.windows.get(message.worker, 0)
            self.world.trace.message(self.world.now, sender, target, message)
            if sender not in self.roles and sender not in ("host", "timer"):
                check_permission(sender, target, message)
            if self.holders and sender not in self.roles and sender != "timer":
                self.heard += things_in(message) if sender != "host" else 1
            role = self.roles[target]
            self.touched[target] = None
            self._perform_all(role, self._handle(role, sender, message))

    def _handle(self, role: Role, sender: str, message: Any) -> list[Any]:
        world = self.world
        if world.stopwatch is None and world.costs is None:
            return role.handle(sender, message, self.now)
        begun = world.stopwatch.clock() if world.stopwatch is not None else 0.0
        effects = role.handle(sender, message, self.now)
        self._account(kind_of(role, message), things_done(message, effects), begun)
        if world.costs is not None and sender not in self.roles and sender not in ("host", "timer"):
            self.spent += world.costs.of(UNPACK, things_in(message)) + world.costs.frame
        return effects

    def _end_turn(self, role: Role) -> list[Any]:
        world = self.world
        if world.stopwatch is None and world.costs is None or not acts_at_end_of_turn(role):
            return role.end_turn(self.now)
        begun = world.stopwatch.clock() if world.stopwatch is not None else 0.0
        effects = role.end_turn(self.now)
        # A role without messages takes next to no time, and there are many: a client of each shard.
        which = END_OF_TURN if effects else QUIET_END_OF_TURN
        self._account(f"{which}: {type(role).__name__}", things_done(None, effects), begun)
        return effects

    def _account(self, kind: str, things: int, begun: float) -> None:
        if self.world.stopwatch is not None:
            self.world.stopwatch.note(kind, things, begun)
        if self.world.costs is not None:
            self.spent += self.world.costs.of(kind, things)

    def _take_spent(self, costs: Costs, outgoing: dict[tuple[str, str], list[Any]]) -> float:
        """Return the cost of this turn, with its outgoing messages."""
        spent, self.spent = self.spent, 0.0
        for messages in outgoing.values():
            spent += costs.frame + sum(costs.of(PACK, things_in(message)) for message in messages)
        return spent

    def occupy(self, seconds: float) -> float:
        """Return the end of work begun now by a process of this machine."""
        return self.world.now + seconds if self.cores is None else self.cores.occupy(self.world.now, seconds)

    def _perform_all(self, role: Role, effects: list[Any]) -> None:
        for effect in effects:
            if type(effect) is e.Send:
                self._send(role, effect.destination, effect.message)
            else:
                PERFORM[type(effect)](self, role, effect)

    def _send(self, role: Role, target: str, message: Any) -> None:
        check_route(role.address, target, message, is_here=target in self.roles)
        if target in self.roles:
            self.local.append((role.address, target, message))
        elif target in self.connections:
            self.outgoing.setdefault((self.name, target), []).append(message)
        elif target in self.world.homes:
            self.outgoing.setdefault((role.address, target), []).append(message)
        else:
            self.world.dropped += 1  # the peer is gone

    # --- effects ---

    def _set_timer(self, role: Role, effect: e.SetTimer) -> None:
        self.world.call_later(effect.delay / self.pace, self.arrive, "timer", role.address, effect.message)

    def _start_worker(self, role: Role, effect: e.StartWorker) -> None:
        self.world.start_worker(self, role.address, effect)

    def _kill_worker(self, role: Role, effect: e.KillWorker) -> None:
        self.is_dying.add(effect.worker)
        process = self.processes.get(effect.worker)
        if process is not None:
            self.world.end_process(process, "killed by signal 9")
        else:
            self.world.kill_before_birth.add(effect.worker)

    def _watch_memory(self, role: Role, effect: WatchMemory) -> None:
        """Tell of free memory until no task waits for it; more or less of it, in turn."""
        was_followed, self.is_memory_followed = self.is_memory_followed, effect.is_followed
        if effect.is_followed and not was_followed:
            self.world.call_later(MEMORY_SECONDS, self._tell_memory, role)

    def _tell_memory(self, role: Role) -> None:
        if self.is_memory_followed and self.is_alive:
            self.arrive("host", role.address, MemoryUse(self.world.random.choice((5, 50, 95)), 95, 100))
            self.world.call_later(MEMORY_SECONDS, self._tell_memory, role)

    def _interrupt_worker(self, role: Role, effect: InterruptWorker) -> None:
        """Have an actor read InterruptTask in the middle of a call.  A task that runs reads it at its next step."""
        process = self.processes.get(effect.worker)
        if process is not None and process.actor_id and process.is_alive:
            process.read()

    def _open_window(self, role: Role, effect: e.OpenWindow) -> None:
        if effect.worker in self.windows:
            self.windows[effect.worker] += effect.count

    def _reclaim_tasks(self, role: Role, effect: e.ReclaimTasks) -> None:
        count = min(effect.count, self.windows.get(effect.worker, 0))
        if count:
            self.windows[effect.worker] -= count
        # Ahead of all else: the role's view of that queue is true again before its next look.
        self.local.appendleft(("host", role.address, e.TasksReclaimed(effect.worker, count, effect.sought)))

    def _forget_process(self, role: Role, effect: e.ForgetProcess) -> None:
        connection = self.connections.pop(effect.process, None)
        if connection is not None:
            connection.close()
        self.windows.pop(effect.process, None)
        self.outgoing.pop((self.name, effect.process), None)

    def _hold_processes(self, role: Role, effect: HoldBack) -> None:
        if effect.is_held:
            self.holders[role.address] = None
        else:
            self.holders.pop(role.address, None)
        for connection in self.connections.values():
            if connection.ends[self.name].link.hold(bool(self.holders)):
                connection.send(self.name, [Ack()])

    def _check_wait(self, role: Role, effect: RecordWait) -> None:
        """Check the times of a recorded wait; nothing is kept."""
        first, last = sorted((effect.begin, effect.last_begin))  # a prediction begins at 0
        assert 0 <= first <= last <= effect.end and effect.count > 0, effect

    def _check_fetch(self, role: Role, effect: RecordFetch) -> None:
        """Check the times of a recorded fetch; nothing is kept."""
        assert 0 < effect.begin < effect.end and effect.size >= 0, effect

    def _check_change(self, role: Role, effect: RecordChange) -> None:
        """Check a recorded change of state; nothing is kept."""
        assert effect.time >= 0 and effect.thing in list(Thing) and effect.state in list(State), effect

    def _stop_workers(self, role: Role, effect: StopWorkers) -> None:
        """Let workers continue, like a suspended node's: the worse case."""

    def _hear_again(self, role: Role, effect: HearAgain) -> None:
        for sender, message in effect.kept:
            self.heard += things_in(message)
            self._perform_all(role, self._handle(role, sender, message))

    def _create_segment(self, role: Role, effect: e.CreateSegment) -> None:
        # Pages of a mapping take memory once they are written; tests create thousands of small segments.
        is_large = effect.size > MAPPED_BYTES
        self.arena.segments[effect.segment] = mmap(-1, effect.size) if is_large else bytearray(effect.size)
        self._later(role, e.SegmentCreated(effect.segment))

    def _reserve_pages(self, role: Role, effect: e.ReservePages) -> None:
        if self.arena.reserve(effect.offset, effect.length):
            self._later(role, e.PagesAreThere(effect.token))
        else:
            self._later(role, e.PagesRefused(effect.token, "no space left on device"))

    def _read_range(self, role: Role, effect: e.ReadRange) -> None:
        self.local.append(
            (
                "host",
                role.address,
                e.RangeRead(effect.token, Bulk(self.arena.view(effect.segment, effect.offset, effect.size))),
            )
        )

    def _write_range(self, role: Role, effect: e.WriteRange) -> None:
        self.arena.write(effect.segment, effect.offset, effect.data.data)
        self._later(role, e.RangeWritten(effect.token))

    def _spill(self, role: Role, effect: Any) -> None:
        self.spill_folder.order(role.address, effect)

    def _end_session(self, role: Role, effect: e.EndSession) -> None:
        if self.name in self.world.nodes:  # a replica's process ends when it is out of its chain
            self.world.faults.node_ends_itself(self, effect.reason)

    def _output(self, role: Role, effect: Any) -> None:
        self.world.output.perform(self, role, effect)

    def _meet_host(self, role: Role, effect: e.MeetHost) -> None:
        """All hosts of a simulated world can reach each other."""

    def _forget_host(self, role: Role, effect: e.ForgetHost) -> None:
        """Cut the connections between this host and another for good."""
        gone = effect.node.partition("/")[0]
        for connection in self.world.faults.between(self.name, gone):
            connection.close()
        self.outgoing = {key: sent for key, sent in self.outgoing.items() if key[1].partition("/")[0] != gone}
        if self.name == self.world.heads.name:
            self.world.faults.expel(gone, effect.reason)

    def _probe_host(self, role: Role, effect: e.ProbeHost) -> None:
        """Deliver the outcome of a probe, a moment later."""
        found = e.HostProbed(effect.role, self.world.faults.finding(self.name, effect.role.partition("/")[0]))
        self.world.call_later(self.world.draw_delay(), self.arrive, "host", role.address, found)

    def _note(self, role: Role, effect: e.NoteMember | e.NoteLost) -> None:
        self.world.heads.note(self, effect)

    def _on_disk(self, role: Role, effect: e.AppendToLog | e.SaveSnapshot | e.WritePage | e.ReadPage) -> None:
        self.world.heads.write(self, role.address, effect)

    def _start_replica(self, role: Role, effect: StartReplicaProcess) -> None:
        self.world.shards.order(self, effect)

    def _end_replica(self, role: Role, effect: EndReplicaProcess) -> None:
        self.world.shards.end_replica(effect.host)

    def _let_in(self, role: Role, effect: LetInReplica) -> None:
        self.world.shards.let_in_replica(self, effect)

    def _shut_out(self, role: Role, effect: ShutOutReplica) -> None:
        self.world.shards.shut_out(effect)

    def _note_chain(self, role: Role, effect: NoteChain) -> None:
        self.world.shards.notes[effect.shard] = effect

    def _later(self, role: Role, message: Any) -> None:
        """Deliver the outcome of a slow effect, as from a pool; outcomes come in any order."""
        delay = self.world.random.choice((0.0, 20e-6, 1e-3))
        self.world.call_later(delay, self.arrive, "host", role.address, message)

    # --- processes ---

    def attach(self, process: Process) -> None:
        """A process has connected."""
        address = process.address
        self.processes[address] = process
        self.connections[address] = process.connection = Connection(
            self.world,
            End(self.name, lambda messages: self.from_process(address, messages)),
            End(address, process.receive),
        )
        process.connection.ends[self.name].link.hold(bool(self.holders))


PERFORM: dict[type, Any] = {
    e.SetTimer: Node._set_timer,
    e.StartWorker: Node._start_worker,
    e.KillWorker: Node._kill_worker,
    InterruptWorker: Node._interrupt_worker,
    e.OpenWindow: Node._open_window,
    e.ReclaimTasks: Node._reclaim_tasks,
    e.ForgetProcess: Node._forget_process,
    HoldBack: Node._hold_processes,
    WatchMemory: Node._watch_memory,
    WriteLine: lambda self, role, effect: None,
    RecordWait: Node._check_wait,
    RecordFetch: Node._check_fetch,
    RecordChange: Node._check_change,
    ReadEvents: lambda self, role, effect: self.arrive("host", role.address, EventsRead(effect.request, [])),
    ReadHeads: lambda self, role, effect: None,
    StopWorkers: Node._stop_workers,
    HearAgain: Node._hear_again,
    HeadIsAlone: lambda self, role, effect: self.world.heads.note_loneliness(effect),
    **dict.fromkeys(e.OUTPUT_EFFECTS, Node._output),
    e.CreateSegment: Node._create_segment,
    e.ReservePages: Node._reserve_pages,
    e.ReadRange: Node._read_range,
    e.WriteRange: Node._write_range,
    **dict.fromkeys(e.SPILL_EFFECTS, Node._spill),
    e.EndSession: Node._end_session,
    e.MeetHost: Node._meet_host,
    e.ForgetHost: Node._forget_host,
    e.ProbeHost: Node._probe_host,
    e.NoteMember: Node._note,
    e.NoteLost: Node._note,
    e.AppendToLog: Node._on_disk,
    e.SaveSnapshot: Node._on_disk,
    e.WritePage: Node._on_disk,
    e.ReadPage: Node._on_disk,
    StartReplicaProcess: Node._start_replica,
    EndReplicaProcess: Node._end_replica,
    LetInReplica: Node._let_in,
    ShutOutReplica: Node._shut_out,
    NoteChain: Node._note_chain,
    StartScheduler: lambda self, role, effect: self.world.schedulers.start_one(effect.equals),
    EndScheduler: lambda self, role, effect: self.world.schedulers.end_one(effect),
    MeasureCpu: lambda self, role, effect: self.world.schedulers.measure(self, role),
}
