"""The invariants of every run (docs/design/simulator.md): after each turn, and when everything is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ..ids import is_put, task_of
from ..roles.gcs.chain import ChainMember
from ..roles.gcs.shard import GcsShard
from ..roles.gcs.tables import TaskRecord, parents_of
from ..roles.kept import bounds_of, left_of
from ..roles.local_scheduler.pool import LIMITED_MAX
from ..roles.monitor import Monitor
from .gpus import check_shared
from .values import Failed, decode_failure, is_error

if TYPE_CHECKING:
    from .node import Node
    from .simulator import Simulator

# Who was stopped so shortly ago may not have read yet that it was declared lost meanwhile.
STOP_SECONDS = 3.0
# Of tasks: some workers are beyond the cap, so that no task runs inside a wait that has a timeout.
PROGRAMS_WITH_LIMITED_WAITS = frozenset({"polls", "timeouts"})
# Requests to a shard that come of one task, object, actor or node, from its beginning to its end, or of one word of it.
ASKED_FOR_EACH = 4
# Turns of a node from one look at the bounds of its tables to the next: a look costs as much as a turn.  A table that
# grows without bound is too long at the next look too.
BOUNDS_EVERY = 4


class Checkers:
    """Watches one world."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.had_actors = False
        self.actor_ids: set[bytes] = set()  # of all that there have been; membership only
        self.judged: set[str] = set()  # nodes that the monitor has declared lost; membership only
        self.seen: dict[bytes, tuple[bytes, str]] = {}  # object -> digest of what the first to read it saw, and who
        self.shard_turns = 0  # of shards that are roles of the head
        self.shards_seen: tuple[int, ...] = ()  # how far they were when their records were last looked at
        self.workers_max = 0  # seen at once on one node, beyond the actors'
        self.held: dict[str, tuple[int, int]] = {}  # chain clients that hold processes back -> as they began to

    # --- after each turn ---

    def after_turn(self, node: Node) -> None:
        """Invariants of every role; the number of workers."""
        self.actor_ids.update(node.scheduler.calls.actors)
        if node.turns % self.world.options.check_every == 0:
            for address in node.touched:
                node.roles[address].check_everything()
                node.unmeasured[address] = None
            self.shard_turns += any(name in node.touched for name in self.world.shards.names)
            node.touched.clear()
            self.lineage_suffices()
        if node.turns % (BOUNDS_EVERY * self.world.options.check_every) == 0:
            for address in node.unmeasured:
                self.bounds_are_kept(address, node.roles[address])
            node.unmeasured.clear()
        self.what_is_held_back_does_not_grow(node)
        if self.world.options.gpus:
            check_shared(node)
        if any(process.actor_id for process in node.processes.values()):
            self.actors_are_served_once()
        if node.name == self.world.heads.name:
            self.verdicts_come_after_fences(self.world.heads.monitor)
        pool = node.scheduler.pool
        has_limited_waits = not PROGRAMS_WITH_LIMITED_WAITS.isdisjoint(self.world.options.programs)
        limit = 2 * pool.cpus + 4 + (LIMITED_MAX if has_limited_waits else 0)
        workers = [
            process
            for process in node.processes.values()
            if process.kind == "worker" and process.is_alive and not process.actor_id
        ]
        if len(workers) > self.workers_max:
            self.workers_max = len(workers)
        # Tasks of other nodes, actors that wait, tasks of several environments, and tasks that wait for those in groups
        # may need more (start_beyond_cap).  So they may on the last node that is left: those workers go when idle.
        names = self.world.options.programs
        has_one = "environments" not in names and not any(name.startswith("groups") for name in names)
        if has_one and node.scheduler.is_embedded and not node.scheduler.calls.actors and not self.had_actors:
            dying = len(node.is_dying)
            assert len(workers) <= limit + dying, f"{len(workers)} workers on {node.name}, at most {limit} allowed"
        self.had_actors = self.had_actors or bool(node.scheduler.calls.actors)

    def what_is_held_back_does_not_grow(self, node: Node) -> None:
        """While processes are held back for a chain's sake, it is asked for no more than comes of what there was then,
        and of what was heard since: processes and other nodes may say what their links hold.  Time adds nothing.
        """
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

    def bounds_are_kept(self, address: str, *roles: Any) -> None:
        """No table or queue of a role, or of a process, is longer than its bound."""
        for what, count, count_max in (bound for role in roles for bound in bounds_of(role, broken=True)):
            raise AssertionError(f"{count} {what} at {address}, at most {count_max} allowed")

    def actors_are_served_once(self) -> None:
        """No two live processes serve one actor, but for a fenced node's, or one that stood still."""
        served: dict[bytes, str] = {}
        for node in self.world.nodes.values():
            for process in node.processes.values():
                if process.actor_id and process.is_alive and not self.does_nothing(node):
                    other = served.setdefault(process.actor_id, process.address)
                    assert other == process.address, (
                        f"actor {process.actor_id.hex()} is served by {other} and {process.address}"
                    )

    def does_nothing(self, node: Node) -> bool:
        """Nothing that this node's processes do is believed by others; or it cannot know that yet."""
        was_stopped = self.world.faults.stopped_until.get(node.name, -STOP_SECONDS) + STOP_SECONDS > self.world.now
        members = node.scheduler.members
        return members.is_fenced or members.suspension.is_on or node.scheduler.drain.is_done or was_stopped

    def is_read(self, object_id: bytes, data: bytes, address: str) -> None:
        """A process sees these bytes: an object, once seen, never changes.

        But for errors that say that it is lost, or whoever would have made it: they take its place.
        """
        if is_error(data) and decode_failure(data).is_system:
            return
        digest = blake2b(data, digest_size=16).digest()
        first, reader = self.seen.setdefault(object_id, (digest, address))
        assert first == digest, f"object {object_id.hex()} is not what {reader} saw, for {address}: {data[:100]!r}"

    def verdicts_come_after_fences(self, monitor: Monitor) -> None:
        """A node that is declared dead does nothing any more: its processes are dead, fenced, suspended or stopped."""
        for address in sorted(monitor.lost.keys() - self.judged) if len(monitor.lost) != len(self.judged) else ():
            self.judged.add(address)
            name = address.partition("/")[0]
            node = self.world.nodes.get(name)
            assert node is None or self.does_nothing(node), f"{name} works on, and is lost"

    def lineage_suffices(self) -> None:
        """A shard can have each recorded task run again: it has the specs of all that the task takes.

        But for what was put, and for the objects behind actors' handles: neither is made by running a task.  And but
        for what another shard has not been told of yet, or not of its record: until then a node holds it.  When that
        node is lost before, what it takes goes, and its own record stays until one shard has told the other that it is
        needed no more: nobody who lives has heard of it, so nobody asks for it.
        """
        versions = self.shard_turns, *self._chain_versions()
        if versions == self.shards_seen:
            return
        self.shards_seen = versions
        names = self.world.shards.names
        shards = {shard.address: shard for shard in self.world.shards.authorities()}
        for shard in shards.values():
            self.actor_ids.update(shard.homes.homes)  # some are made and end with their driver in one turn
        records = {
            task_id: record
            for shard in shards.values()
            for task_id, record in shard.tasks.records.items()
            if len(names) == 1 or names[shard_of(task_id, len(names))] == shard.address
        }
        unsaid = self.unsaid_words(shards.values())
        missing: list[tuple[bytes, bytes]] = []
        for task_id, record in records.items():
            if record.spec is None:
                continue
            for object_id in parents_of(record.spec):
                parent = task_of(object_id)
                if parent in unsaid and shard_of(parent, len(names)) != shard_of(task_id, len(names)):
                    continue
                if len(names) > 1 and names[shard_of(parent, len(names))] not in shards:
                    continue  # all of its replicas that are left are logs, for now
                if not is_put(object_id) and parent not in self.actor_ids:
                    known = records.get(parent)
                    if known is None or known.spec is None:
                        missing.append((task_id, parent))
        under_way = self.world.shards.records_under_way() if missing and len(names) > 1 else set()
        kept = self.kept_by_the_living(records, shards.values()) if missing else set()
        for task_id, parent in missing:
            is_across = shard_of(parent, len(names)) != shard_of(task_id, len(names))
            is_allowed = is_across and (parent in under_way or task_id not in kept)
            assert is_allowed, "a recorded task whose argument's task is not"

    def kept_by_the_living(self, records: dict[bytes, TaskRecord], shards: Iterable[GcsShard]) -> set[bytes]:
        """Tasks of which a node that is not lost holds something, those that these take something of, and so on."""
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
        """Numbers that change whenever the records of a chain do, or its members."""
        shards = self.world.shards
        for name in shards.names if shards.are_replicated else ():
            if (chain := shards.chain(name)) is not None:
                yield from (chain.epoch, len(chain.tentative), *(member.sequence for member in shards.members(name)))

    def unsaid_words(self, shards: Iterable[GcsShard]) -> set[bytes]:
        """Tasks that a shard needs the records of, and of which another one is not known to have heard."""
        unsaid: set[bytes] = set()
        for shard in shards:
            keeping = shard.tasks.keeping
            for peer in keeping.peers.values() if keeping is not None else ():
                unsaid.update(peer.needed, (task_id for task_id, is_needed in peer.coming.items() if is_needed))
        return unsaid

    def actor_calls(self) -> None:
        """Calls of one caller run in order, each at most once per incarnation."""
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
        """Every script has ended and let go of its refs: nothing is left of them."""
        for node in self.world.nodes.values():
            self.scheduler_is_empty(node)
            for process in node.processes.values():
                if process.is_alive:
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
        """Each bundle is on the one node that its shard says, or on none; none is about to be."""
        said: dict[tuple[bytes, int], str] = {}
        for shard in self.world.shards.authorities():
            for group_id, record in shard.groups.records.items():
                placed = [bool(place) for place in record.places]
                assert all(placed) or not any(placed), f"a group that is half placed: {record.places}"
                said |= {(group_id, index): place for index, place in enumerate(record.places) if place}
        there: dict[tuple[bytes, int], str] = {}
        for node in self.world.nodes.values():
            for key, bundle in node.scheduler.bundles.here.items():
                assert bundle.is_committed, "a bundle that is no group's"
                assert key not in there, "a bundle on two nodes"
                there[key] = node.scheduler.address
        assert there == said, f"bundles are at {there}, and should be at {said}"

    def jobs_are_gone(self) -> None:
        """The drivers have left: so have their workers."""
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
        """The result of a program equals that of the sequential run."""
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


@lru_cache(maxsize=1 << 16)
def shard_of(task_id: bytes, shards: int) -> int:
    """The number of the shard that it hashes to."""
    return int.from_bytes(task_id[6:16], "big") % shards


def nothing(collection: Any, what: str) -> None:
    """It is empty."""
    if collection:
        shown = [item.hex() if isinstance(item, bytes) else repr(item)[:300] for item in list(collection)[:5]]
        raise AssertionError(f"{len(collection)} {what} left: {', '.join(shown)}")


def nothing_left(role: Any, address: str, kind: str = "PASSING") -> None:
    """All its tables of a kind are empty."""
    for path, left in left_of(role, kind).items():
        nothing(left if hasattr(left, "__len__") else [left], f"{path} at {address}")
