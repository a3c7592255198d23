"""The invariants of every run (docs/design/simulator.md): after each turn, and when everything is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ..ids import is_put, task_of
from ..roles.gcs.chain import ChainMember
from ..roles.gcs.shard import GcsShard
from ..roles.gcs.tables import TaskRecord, parents_of
from ..roles.kept import exceeded_bounds_of, left_of
from ..roles.local_scheduler.groups.bundles import COMMITTED
from ..roles.local_scheduler.tasks.pool import LIMITED_MAX
from ..roles.monitor import Monitor
from .gpus import check_shared
from .values import Failed, decode_failure, is_error

if TYPE_CHECKING:
    from .node import Node
    from .process import Process
    from .simulator import Simulator

# A node stopped so recently may not have read yet that it was declared dead meanwhile.
STOP_SECONDS = 3.0
# Programs of tasks in which some workers are beyond the cap, so that no task runs inside a wait with a timeout.
PROGRAMS_WITH_LIMITED_WAITS = frozenset({"polls", "timeouts"})
# Requests to a shard caused by a task, object, actor or node, from beginning to end, or by a message about one.
ASKED_FOR_EACH = 4
# Turns of a node, or runs of a process, between checks of the sizes of tables: a check costs as much as a turn.  A
# table that grows without limit is too long at the next check too.
BOUNDS_EVERY = 4


class Checkers:
    """The checks of a world."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.had_actors = False
        self.actor_ids: set[bytes] = set()  # of all actors ever; membership only
        self.judged: set[str] = set()  # nodes that the monitor has declared dead; membership only
        self.seen: dict[bytes, tuple[bytes, str]] = {}  # object -> digest of its bytes at first, and the reader
        self.shard_turns = 0  # of shards that are roles of the head
        self.shards_seen: tuple[int, ...] = ()  # versions of the records at the last check
        self.workers_max = 0  # seen at once on a node, without actors' workers
        self.held: dict[str, tuple[int, int]] = {}  # chain clients that hold processes back -> counts at the start

    # --- after each turn ---

    def is_due(self, turns: int, every: int = 1) -> bool:
        """Return whether a check is due after so many turns of a node or runs of a process."""
        return turns % (every * self.world.options.check_every) == 0

    def after_turn(self, node: Node) -> None:
        """Invariants of every role; the number of workers."""
        self.actor_ids.update(node.scheduler.calls.actors)
        if self.is_due(node.turns):
            for address in node.touched:
                node.roles[address].check_everything()
                node.unmeasured[address] = None
            self.shard_turns += any(name in node.touched for name in self.world.shards.names)
            node.touched.clear()
            self.lineage_suffices()
        if self.is_due(node.turns, BOUNDS_EVERY):
            for address in node.unmeasured:
                self.bounds_are_kept(address, node.roles[address])
            node.unmeasured.clear()
        self.what_is_held_back_does_not_grow(node)
        if self.world.options.gpus:
            check_shared(node)
        if any(process.actor_id or process.is_host for process in node.processes.values()):
            self.actors_are_served_once()
        if node.name == self.world.heads.name:
            self.verdicts_come_after_fences(self.world.heads.monitor)
        workers = 0
        for process in node.processes.values():
            if process.kind == "worker" and process.is_alive and not (process.actor_id or process.is_host):
                workers += 1
        if workers > self.workers_max:
            self.workers_max = workers
        # Tasks of other nodes, waiting actors, tasks of several environments, and tasks that wait for tasks in groups
        # may need more workers (start_beyond_cap).  So may they on the last remaining node: those workers end when
        # idle.
        if node.scheduler.is_embedded and not node.scheduler.calls.actors and not self.had_actors:
            names = self.world.options.programs
            limit = 2 * node.scheduler.pool.cpus + 4 + len(node.is_dying)
            limit += 0 if PROGRAMS_WITH_LIMITED_WAITS.isdisjoint(names) else LIMITED_MAX
            if "environments" not in names and not any(name.startswith("groups") for name in names):
                assert workers <= limit, f"{workers} workers on {node.name}, at most {limit} allowed"
        self.had_actors = self.had_actors or bool(node.scheduler.calls.actors)

    def what_is_held_back_does_not_grow(self, node: Node) -> None:
        """Check that a chain client that holds processes back has a bounded number of requests.

        The bound covers requests caused by work known at the start, and by messages received since: processes and other
        nodes may send what their links allow.  Time adds nothing.
        """
        if not self.held and not node.holders:
            return
        for address in [name for name in self.held if name in node.roles and name not in node.holders]:
            del self.held[address]
        for address in node.holders:
            if address == node.scheduler.address:
                continue  # suspended: for no chain's sake
            client: Any = node.roles[address]
            pending = len(client.pending)
            if address not in self.held:
                here = node.scheduler
                alive = len(here.tasks) + len(here.objects.entries) + len(here.calls.actors) + len(self.world.nodes)
                self.held[address] = (pending + ASKED_FOR_EACH * alive, node.heard)
            base, heard = self.held[address]
            most = base + ASKED_FOR_EACH * (node.heard - heard)
            assert pending <= most, f"{pending} requests wait at {address}, at most {most} may come of what is known"

    def after_run(self, process: Process) -> None:
        """The sizes of a process's tables."""
        process.runs += 1
        if self.is_due(process.runs, BOUNDS_EVERY):
            self.bounds_are_kept(process.address, process.client, process.executor)

    def bounds_are_kept(self, address: str, *roles: Any) -> None:
        """Check that all tables and queues of a role, or of a process, are within their limits."""
        for what, count, count_max in (bound for role in roles for bound in exceeded_bounds_of(role)):
            raise AssertionError(f"{count} {what} at {address}, at most {count_max} allowed")

    def actors_are_served_once(self) -> None:
        """Check that no two live processes serve one actor, except on fenced or suspended nodes."""
        served: dict[bytes, str] = {}
        for node in self.world.nodes.values():
            for process in node.processes.values():
                if not process.is_alive or self.does_nothing(node):
                    continue
                for actor_id in process.served():
                    other = served.setdefault(actor_id, process.address)
                    assert other == process.address, (
                        f"actor {actor_id.hex()} is served by {other} and {process.address}"
                    )

    def does_nothing(self, node: Node) -> bool:
        """Return whether others ignore this node's processes, or the node cannot know its loss yet."""
        was_stopped = self.world.faults.stopped_until.get(node.name, -STOP_SECONDS) + STOP_SECONDS > self.world.now
        members = node.scheduler.members
        return members.is_fenced or members.suspension.is_on or node.scheduler.drain.is_done or was_stopped

    def is_read(self, object_id: bytes, data: bytes, address: str) -> None:
        """Check that the bytes of an object never change after the first read.

        Errors about the loss of the object, or of its task, may replace the bytes.
        """
        if is_error(data) and decode_failure(data).is_system:
            return
        digest = blake2b(data, digest_size=16).digest()
        first, reader = self.seen.setdefault(object_id, (digest, address))
        assert first == digest, f"object {object_id.hex()} is not what {reader} saw, for {address}: {data[:100]!r}"

    def verdicts_come_after_fences(self, monitor: Monitor) -> None:
        """Check that a node declared dead does nothing any more: its processes are dead, fenced, suspended or
        stopped.
        """
        for address in sorted(monitor.lost.keys() - self.judged) if len(monitor.lost) != len(self.judged) else ():
            self.judged.add(address)
            name = address.partition("/")[0]
            node = self.world.nodes.get(name)
            assert node is None or self.does_nothing(node), f"{name} works on, and is lost"

    def lineage_suffices(self) -> None:
        """Check that a shard can have each recorded task re-executed: it has the specs of all tasks for its arguments.

        Excluded are puts, and objects behind actors' handles: tasks do not make these.  Excluded too is a record, or
        its need, of which another shard has not been told yet: a node holds it until then.  If that node is lost
        before, the arguments go, and the record stays until the other shard is told that nothing needs it.  No live
        node knows of the task then, so none asks for it.
        """
        versions = self.shard_turns, *self._chain_versions()
        if versions == self.shards_seen:
            return
        self.shards_seen = versions
        names, owner = self.world.shards.names, self.world.shards.owner
        shards = {shard.address: shard for shard in self.world.shards.authorities()}
        for shard in shards.values():
            self.actor_ids.update(shard.homes.homes)  # some are created and end with their driver in one turn
        records: dict[bytes, TaskRecord] = {}
        for shard in shards.values():
            for task_id, record in shard.tasks.records.items():
                if len(names) == 1 or names[owner(task_id)] == shard.address:
                    records[task_id] = record
        unsaid = self.unsaid_words(shards.values())
        missing: list[tuple[bytes, bytes]] = []
        for task_id, record in records.items():
            if record.spec is None:
                continue
            for object_id in parents_of(record.spec):
                parent = task_of(object_id)
                known = records.get(parent)
                if known is not None and known.spec is not None or is_put(object_id) or parent in self.actor_ids:
                    continue
                if len(names) > 1 and names[owner(parent)] not in shards:
                    continue  # all remaining replicas are only logs, for now
                is_across = owner(parent) != owner(task_id)
                if not (is_across and parent in unsaid):
                    missing.append((task_id, parent))
        under_way = self.world.shards.records_under_way() if missing and len(names) > 1 else set()
        kept = self.kept_by_the_living(records, shards.values()) if missing else set()
        for task_id, parent in missing:
            is_across = owner(parent) != owner(task_id)
            is_allowed = is_across and (parent in under_way or task_id not in kept)
            assert is_allowed, "a recorded task whose argument's task is not"

    def kept_by_the_living(self, records: dict[bytes, TaskRecord], shards: Iterable[GcsShard]) -> set[bytes]:
        """Return tasks held by nodes not lost, tasks whose results these take, and so on."""
        lost = {node for shard in shards for node in shard.lost}
        kept: set[bytes] = set()
        to_look_at: list[bytes] = []
        for task_id, record in records.items():
            holders = {record.holder}.union(*(item.holders for item in (record.objects or {}).values())) - lost
            if any(holder.partition("/")[0] in self.world.nodes for holder in holders):
                to_look_at.append(task_id)
        while to_look_at:
            task_id = to_look_at.pop()
            spec = records[task_id].spec if task_id in records else None
            if task_id not in kept and spec is not None:
                kept.add(task_id)
                to_look_at += map(task_of, parents_of(spec))
        return kept

    def _chain_versions(self) -> Iterator[int]:
        """Yield numbers that change with the records of a chain, or its members."""
        shards = self.world.shards
        for name in shards.names if shards.are_replicated else ():
            if (chain := shards.chain(name)) is not None:
                yield from (chain.epoch, len(chain.tentative), *(member.sequence for member in shards.members(name)))

    def unsaid_words(self, shards: Iterable[GcsShard]) -> set[bytes]:
        """Return tasks whose records a shard needs, if another shard may not have been told."""
        unsaid: set[bytes] = set()
        for shard in shards:
            keeping = shard.tasks.keeping
            for peer in keeping.peers.values() if keeping is not None else ():
                unsaid.update(peer.needed, (task_id for task_id, is_needed in peer.coming.items() if is_needed))
        return unsaid

    def actor_calls(self) -> None:
        """Check that calls of a caller run in order, each at most once per incarnation."""
        for (actor_id, incarnation), log in self.world.actor_logs.items():
            last: dict[str, int] = {}
            for caller, number in log:
                assert number > last.get(caller, 0), (
                    f"actor {actor_id.hex()} incarnation {incarnation}: call {number} of {caller} came after "
                    f"{last[caller]}"
                )
                last[caller] = number

    # --- at rest ---

    def at_rest(self) -> None:
        """Check that nothing is left after every script has ended and dropped its refs."""
        for node in self.world.nodes.values():
            self.scheduler_is_empty(node)
            for process in node.processes.values():
                if process.is_alive:
                    self.bounds_are_kept(process.address, process.client, process.executor)
                    nothing_left(process.client, process.address)
                    nothing_left(process.executor, process.address)
                    questions = process.questions - process.answers
                    assert not questions, f"questions of {process.address} that nobody has answered: {questions}"
            for role in node.roles.values():
                role.check_everything()
        homes = {home.name: home for home in self.world.homes.values() if home.is_alive}
        roles = [role for home in homes.values() for role in home.roles.values() if type(role) is not ChainMember]
        for role in (*roles, *self.world.shards.authorities()):
            nothing_left(role, role.address)
        assert self.world.shards.have_said_all(), "words for other shards"
        self.groups_are_whole()
        self.world.shards.at_rest()
        self.world.schedulers.at_rest()

    def scheduler_is_empty(self, node: Node) -> None:
        """All resources are free, and promised to nobody."""
        scheduler = node.scheduler
        assert not any(scheduler.calls.promised.values()), f"promised: {scheduler.calls.promised}"
        assert scheduler.resources.all_free(), f"resources not free: {scheduler.resources.free}"
        assert node.manager.growing is None

    def groups_are_whole(self) -> None:
        """Check that each bundle is on the node that its shard names, or on none, and no reservation is pending."""
        said: dict[tuple[bytes, int], str] = {}
        for shard in self.world.shards.authorities():
            for group_id, record in shard.groups.records.items():
                placed = [bool(place) for place in record.places]
                assert all(placed) or not any(placed), f"a group that is half placed: {record.places}"
                said |= {(group_id, index): place for index, place in enumerate(record.places) if place}
        there: dict[tuple[bytes, int], str] = {}
        for node in self.world.nodes.values():
            for key, bundle in node.scheduler.bundles.here.items():
                assert bundle.state == COMMITTED, "a bundle that is no group's"
                assert key not in there, "a bundle on two nodes"
                there[key] = node.scheduler.address
        assert there == said, f"bundles are at {there}, and should be at {said}"

    def jobs_are_gone(self) -> None:
        """Check that the workers of drivers that left have ended."""
        for shard in self.world.shards.authorities():
            nothing_left(shard, shard.address, "OF_JOBS")
        for node in self.world.nodes.values():
            scheduler = node.scheduler
            nothing_left(scheduler, scheduler.address, "OF_JOBS")
            of_jobs = [worker.address for worker in scheduler.pool.workers.values() if worker.job is not None]
            nothing(of_jobs, "workers of jobs that are over")
            drivers = [process.address for process in scheduler.processes.values() if process.kind == "driver"]
            nothing(drivers, "drivers")
            known = {address for address in scheduler.processes}
            alive = {process.address for process in node.processes.values() if process.is_alive}
            assert known <= alive, f"processes that the scheduler believes in: {sorted(known - alive)}"

    # --- results ---

    def compare(self, expected: Any, got: Any, where: str) -> None:
        """Check that the result of a program equals the result of the sequential run."""
        if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
            assert len(expected) == len(got), f"{where}: {expected!r} expected, {got!r} came"
            for index, (one, other) in enumerate(zip(expected, got, strict=True)):
                self.compare(one, other, f"{where}[{index}]")
            return
        if type(got) is Failed and type(expected) is Failed and got.kind == expected.kind:
            return
        if type(got) is Failed and got.is_system:
            allowed = self.world.options.loses_work or self.world.heads.has_lost_actors
            assert allowed, f"{where}: {got.kind} ({got.text}) came where nothing had failed"
            return
        assert got == expected, f"{where}: {expected!r} expected, {got!r} came"


def nothing(collection: Any, what: str) -> None:
    """Check that a collection is empty."""
    if collection:
        shown = [item.hex() if isinstance(item, bytes) else repr(item)[:300] for item in list(collection)[:5]]
        raise AssertionError(f"{len(collection)} {what} left: {', '.join(shown)}")


def nothing_left(role: Any, address: str, kind: str = "PASSING") -> None:
    """Check that all of a role's tables of a kind are empty."""
    for path, left in left_of(role, kind).items():
        nothing(left if hasattr(left, "__len__") else [left], f"{path} at {address}")
