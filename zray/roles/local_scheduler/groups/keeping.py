"""Placement groups created, removed and looked up by local processes, and groups kept by the local node.

    CreateGroup -> RegisterGroup -> GroupRegistered -> CreateGroupReply
    KeepGroup -> FindPlaces -> PlacesFound -> TryPlaces      again after ASK_AGAIN_SECONDS, if no node had room
    FindGroups -> LookUpGroups -> GroupsListed -> GroupsFound

A group ends with its job, or with the actor that created the group.  The keeper, the node of the job's driver, removes
the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import group_name_key
from ....wire import groups as wire
from ....wire.bundles import plan, sum_of, why_never
from ....wire.events import State
from ....wire.limits import ITEMS_MAX
from ....wire.where import nobody_can
from ...role import on
from ..tables import Process

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# A group that found no places asks again after so long: by then the global schedulers have had a report of every node.
ASK_AGAIN_SECONDS = 0.1
# For this long after a node has joined, an "infeasible" answer is not taken as final.
NEWS_SECONDS = 1.0


class Kept(Struct, eq=False):
    """A group kept by this node."""

    group_id: bytes
    spec: wire.GroupSpec
    places: list[str]  # as the shard last said
    trip: int
    job_id: bytes
    reason: str = ""  # why the present nodes could never have it, as the shard was told


class Question(Struct, eq=False):
    """A process's FindGroups, which shards answer in part."""

    process: Process
    request: int
    missing: int  # shards that have not answered
    found: list[wire.GroupFact] = []


class Keeping:
    """The placement groups of a node."""

    PASSING = {"creating questions": None}
    OF_JOBS = {"kept of_actors maker": None, "later": "kept"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.creating: dict[bytes, list[tuple[Process, int]]] = {}
        self.kept: dict[bytes, Kept] = {}
        self.later: dict[bytes, None] = {}  # those of them that ask again
        self.of_actors: dict[bytes, dict[bytes, None]] = {}  # actor of ours -> the groups that end with it
        self.maker: dict[bytes, bytes] = {}  # such a group -> that actor
        self.questions: dict[int, Question] = {}
        self.count = 0
        self.timer_is_set = False
        self.changed_at = -NEWS_SECONDS  # what nodes there are, as far as we know

    # --- made, removed, looked up ---

    @on(wire.CreateGroup)
    def create(self, message: wire.CreateGroup) -> None:
        """CreateGroup."""
        node, spec, group_id = self.node, message.spec, message.group_id
        process = node.processes.get(node.sender)
        if process is None or process.job.is_over:
            node.reject("a group of a process or a job that is gone")
            return
        self.creating.setdefault(group_id, []).append((process, message.request))
        if spec.actor_id and not spec.is_detached:
            self.of_actors.setdefault(spec.actor_id, {})[group_id] = None
            self.maker[group_id] = spec.actor_id
        home = process.job.home or node.address
        keeper = node.address if spec.is_detached else home
        register = wire.RegisterGroup(group_id, spec, node.address, keeper, process.job.job_id, home)
        shard = node.addresses.shard_of(group_id)
        if node.is_embedded:
            node.send(shard, wire.AttendShard(node.address, True))  # elsewhere it has joined, and said so
        node.send(shard, register)

    @on(wire.GroupRegistered)
    def registered(self, message: wire.GroupRegistered) -> None:
        """GroupRegistered."""
        for process, request in self.creating.pop(message.group_id, ()):
            if process.address in self.node.processes:
                self.node.send(process.address, wire.CreateGroupReply(request, message.holder))

    @on(wire.RemoveGroup)
    def remove(self, message: wire.RemoveGroup) -> None:
        """RemoveGroup, from a local process; or by the node itself."""
        node, group_id = self.node, message.group_id
        kept = self.kept.pop(group_id, None)
        self.later.pop(group_id, None)
        self._is_nobodys(group_id)
        node.changes.group(group_id, State.REMOVED, kept.spec.name if kept is not None else "", message.reason)
        if kept is not None and node.members.peers:
            spec, places = kept.spec, kept.places
            bundles = [(place, amounts) for place, amounts in zip(places, spec.bundles, strict=True) if place]
            for scheduler in node.addresses.global_schedulers if bundles else ():
                node.send(scheduler, wire.BundlesLeave(bundles))
        node.send(node.addresses.shard_of(group_id), message)

    def _is_nobodys(self, group_id: bytes) -> None:
        """Forget the creator of a removed group, to keep only existing groups in an actor's list."""
        actor_id = self.maker.pop(group_id, b"")
        groups = self.of_actors.get(actor_id)
        if groups is not None:
            groups.pop(group_id, None)
            if not groups:
                del self.of_actors[actor_id]

    @on(wire.FindGroups)
    def find(self, message: wire.FindGroups) -> None:
        """FindGroups: the group's shard, or all shards."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None:
            return
        shards = list(node.addresses.shards)
        if message.group_id:
            shards = [node.addresses.shard_of(message.group_id)]
        elif message.name:
            shards = [node.addresses.shard_of(group_name_key(message.namespace, message.name))]
        self.count += 1
        self.questions[self.count] = Question(process, message.request, len(shards))
        for shard in shards:
            node.send(shard, wire.LookUpGroups(self.count, message.group_id, message.namespace, message.name))

    @on(wire.GroupsListed)
    def listed(self, message: wire.GroupsListed) -> None:
        """GroupsListed."""
        question = self.questions.get(message.request)
        if question is None:
            return
        question.found.extend(message.groups)
        question.missing -= 1
        if not question.missing:
            del self.questions[message.request]
            if question.process.address in self.node.processes:
                self.node.send(question.process.address, wire.GroupsFound(question.request, question.found[:ITEMS_MAX]))

    # --- kept ---

    @on(wire.KeepGroup)
    def keep(self, message: wire.KeepGroup) -> None:
        """KeepGroup: places are requested, at once the first time."""
        node, fact = self.node, message.fact
        group_id = fact.group_id
        is_over = message.home == node.address and message.job_id not in node.jobs
        if is_over and not fact.spec.is_detached:
            self.remove(wire.RemoveGroup(group_id, "the driver of its job has ended"))
            return
        is_again = group_id in self.kept
        kept = self.kept[group_id] = Kept(group_id, fact.spec, list(fact.places), message.trip, message.job_id)
        node.changes.group(group_id, State.RESCHEDULING if any(fact.places) else State.PENDING, fact.spec.name)
        if is_again:
            self._ask_later(group_id)
        else:
            self._find_places(kept)

    def _ask_later(self, group_id: bytes) -> None:
        self.later[group_id] = None
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.after(ASK_AGAIN_SECONDS, self.ask_in_time)

    def ask_in_time(self) -> None:
        """Request places again for groups without them."""
        self.timer_is_set = False
        self._ask_now()

    def room_changed(self) -> None:
        """Request places again after a change of room here; a node alone need not wait for reports."""
        if self.node.is_embedded:
            self._ask_now()

    def _ask_now(self) -> None:
        later, self.later = self.later, {}
        for group_id in later:
            if group_id in self.kept:
                self._find_places(self.kept[group_id])

    def nodes_changed(self) -> None:
        """Note a new node, which global schedulers may not know yet."""
        self.changed_at = self.node.now

    def ask_again(self) -> None:
        """Repeat requests to a lost global scheduler; the next may know no node yet."""
        self.nodes_changed()
        for group_id, kept in self.kept.items():
            if "" in kept.places and group_id not in self.later:
                self._find_places(kept)

    def _find_places(self, kept: Kept) -> None:
        node, group_id, spec = self.node, kept.group_id, kept.spec
        missing = [(index, spec.bundles[index]) for index, place in enumerate(kept.places) if not place]
        taken = [place for place in kept.places if place]
        if not node.is_embedded:
            schedulers = node.addresses.global_schedulers
            question = wire.FindPlaces(group_id, kept.trip, missing, spec.strategy, taken)
            node.send(schedulers[group_id[-1] % len(schedulers)], question)
            return
        reason = ""
        found, _ = plan([(node.address, wire.plain(node.resources.free))], missing, spec.strategy, taken)
        if found is None:
            total = wire.plain(node.resources.total)
            most, is_certain = plan([(node.address, total)], missing, spec.strategy, taken)
            if most is None and is_certain:
                reason = why_never({node.address: total}, missing, spec.strategy)
        self.places_found(wire.PlacesFound(group_id, kept.trip, found or [], reason))

    @on(wire.PlacesFound)
    def places_found(self, message: wire.PlacesFound) -> None:
        """PlacesFound."""
        kept = self.kept.get(message.group_id)
        if kept is None or kept.trip != message.trip:
            return
        shard = self.node.addresses.shard_of(message.group_id)
        if message.places:
            self.node.send(shard, wire.TryPlaces(message.group_id, message.trip, message.places))
        elif message.reason and not self._is_patient(kept) and self.node.now - self.changed_at >= NEWS_SECONDS:
            text = self._never(kept, message.reason)
            self.node.send(shard, wire.GiveUpGroup(message.group_id, message.trip, text))
            self.node.changes.group(message.group_id, State.UNSCHEDULABLE, kept.spec.name, text)
        else:
            job = self.node.jobs.get(kept.job_id)
            if message.reason and job is not None and self._is_patient(kept):
                name = kept.spec.name or message.group_id.hex()
                self.node.infeasible.note_group(job, f"placement group {name}", message.group_id, message.reason)
            if message.reason != kept.reason:
                kept.reason = message.reason
                self.node.send(shard, wire.GiveUpGroup(message.group_id, message.trip, message.reason, waits=True))
            self._ask_later(message.group_id)

    def _never(self, kept: Kept, reason: str) -> str:
        """Return the error text for the user."""
        what, bundles = f"hold placement group {kept.group_id.hex()}", kept.spec.bundles
        if self.node.is_embedded and kept.spec.strategy == wire.STRICT_SPREAD and len(bundles) > 1:
            return f"{nobody_can(what, reason)}  Use another strategy, or a cluster of {len(bundles)} nodes."
        return self.node.infeasible.text(what, reason, sum_of(bundles))

    def _is_patient(self, kept: Kept) -> bool:
        job = self.node.jobs.get(kept.job_id)
        return job is None or self.node.infeasible.is_patient(job)

    def located(self, fact: wire.GroupFact) -> None:
        """GroupLocated, for a group with local tasks."""
        kept = self.kept.get(fact.group_id)
        if fact.state == wire.REMOVED:
            self._is_nobodys(fact.group_id)
            self.kept.pop(fact.group_id, None)
            self.later.pop(fact.group_id, None)
        elif kept is not None:
            kept.places = list(fact.places)

    def is_without_place(self, group_id: bytes) -> bool:
        """Whether the group is kept here without places."""
        return group_id in self.later

    def job_ended(self, job_id: bytes) -> None:
        """Remove the groups of a finished job."""
        for group_id, kept in list(self.kept.items()):
            if kept.job_id == job_id and not kept.spec.is_detached:
                self.remove(wire.RemoveGroup(group_id, "the driver of its job has ended"))

    def actor_ended(self, actor_id: bytes) -> None:
        """Remove the groups that an ended actor has created."""
        for group_id in list(self.of_actors.get(actor_id, ())):
            self.remove(wire.RemoveGroup(group_id, "the actor that made it has ended"))
