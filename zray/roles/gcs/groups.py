"""Placement groups at their shard, the only authority on the places of their bundles.

    RegisterGroup -> KeepGroup (to the keeper) -> TryPlaces -> PrepareBundles to the nodes -> BundlesPrepared of all
        all nodes accept: the places are final; CommitBundles, GroupLocated to the subscribers
        a node refuses, or is lost meanwhile: ReturnBundles to all of them, and KeepGroup again
    NodeLost: its bundles have no place, and KeepGroup again.  RemoveGroup: ReturnBundles to all.

Each search has a number (`trip`), unique in this shard: messages about an earlier search change nothing.  So no bundle
is reserved on two nodes, and no reservation remains without a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...wire import groups as wire
from ...wire.limits import ITEMS_MAX
from ..role import on

if TYPE_CHECKING:
    from .shard import GcsShard


SEARCHING = (wire.PENDING, wire.RESCHEDULING, wire.UNSCHEDULABLE)
# An event without a row here changes nothing.
TRANSITIONS = {
    **{(state, "all placed"): wire.CREATED for state in SEARCHING},
    **{(state, "given up"): wire.UNSCHEDULABLE for state in SEARCHING},
    (wire.CREATED, "places lost"): wire.RESCHEDULING,
    (wire.UNSCHEDULABLE, "tried again"): wire.PENDING,
    (wire.UNSCHEDULABLE, "tried again in part"): wire.RESCHEDULING,
    **{(state, "removed"): wire.REMOVED for state in (*SEARCHING, wire.CREATED)},
}
# The spec of an unknown group.
_NOTHING = wire.GroupSpec([], wire.PACK)


class GroupRecord(Struct, eq=False, array_like=True, forbid_unknown_fields=True):
    """A placement group, as in a snapshot too."""

    PASSING = {"trying": None}

    registered: wire.RegisterGroup
    places: list[str]  # of each bundle; "": none
    keeper: str = ""
    trip: int = 0  # of the present or last search
    state: str = wire.PENDING
    reason: str = ""  # why the present nodes can never hold it
    trying: list[tuple[int, str]] = []  # bundle, and the node asked to reserve it in this search
    awaited: list[str] = []  # nodes that have not answered
    subscribers: list[str] = []

    def happened(self, event: str, reason: str = "") -> None:
        """Apply an event to the group's state.  reason: of the new state."""
        state = TRANSITIONS.get((self.state, event))
        if state is not None:
            self.state, self.reason = state, reason

    def fact(self) -> wire.GroupFact:
        """Return the group as reported to nodes."""
        registered = self.registered
        return wire.GroupFact(registered.group_id, registered.spec, self.state, list(self.places), self.reason)

    def copy(self) -> GroupRecord:
        """Return an independent copy."""
        return replace(self, places=[*self.places], awaited=[*self.awaited], subscribers=[*self.subscribers])

    def nodes(self) -> dict[str, None]:
        """Return the nodes with bundles of the group, or asked to reserve some."""
        return dict.fromkeys(node for node in (*self.places, *self.tried()) if node)

    def tried(self) -> dict[str, None]:
        """Return the nodes asked to reserve bundles in this search."""
        return dict.fromkeys(node for _, node in self.trying)

    def subscribe(self, node: str) -> None:
        """Report later changes to a node."""
        if node not in self.subscribers:
            self.subscribers.append(node)

    def forget(self, node: str) -> None:
        """Expect no answer from a lost node, and report nothing to it."""
        self.awaited = [other for other in self.awaited if other != node]
        self.subscribers = [other for other in self.subscribers if other != node]


class GroupTable:
    """The placement groups of a shard."""

    OF_JOBS = {"records": ..., "by_name": "records"}

    def __init__(self) -> None:
        self.records: dict[bytes, GroupRecord] = {}
        self.frozen: dict[bytes, GroupRecord] | None = None  # as at the start of a dump (state.Frozen)
        self.by_name: dict[tuple[str, str], bytes] = {}
        self.attending: dict[str, None] = {}  # nodes that can be asked for bundles
        self.trips = 0  # searches, ever

    def add(self, record: GroupRecord) -> None:
        """Add a registered or loaded group."""
        group_id, spec = record.registered.group_id, record.registered.spec
        self.records[group_id] = record
        if spec.name:
            self.by_name[(spec.namespace, spec.name)] = group_id

    def take_out(self, group_id: bytes) -> GroupRecord | None:
        """Remove a group, and return it."""
        record = self.records.pop(group_id, None)
        if record is not None:
            self.changes(record)
            spec = record.registered.spec
            if spec.name:
                del self.by_name[(spec.namespace, spec.name)]
        return record

    def node_lost(self, node: str) -> None:
        """Ask a lost node for no more bundles."""
        self.attending.pop(node, None)

    def next_trip(self) -> int:
        """Return the number of a new search."""
        self.trips += 1
        return self.trips

    def load(self, attending: Iterable[str], trips: int) -> None:
        """Add the nodes and searches of a part of a loaded state."""
        self.attending.update(dict.fromkeys(attending))
        self.trips = max(self.trips, trips)

    def require(self, group_id: bytes, trip: int) -> GroupRecord | None:
        """Return the group for a change, if the search is still current."""
        record = self.records.get(group_id)
        if record is None or record.trip != trip:
            return None
        self.changes(record)
        return record

    def changes(self, record: GroupRecord) -> None:
        """Keep the former record for a dump, before a change."""
        group_id = record.registered.group_id
        if self.frozen is not None and self.frozen.get(group_id) is record:
            self.frozen[group_id] = record.copy()


# --- creation ---


def _search(shard: GcsShard, record: GroupRecord) -> None:
    """Search places for bundles without one."""
    table = shard.groups
    if record.keeper in shard.lost:
        record.keeper = next(iter(table.attending), "")
    record.trip = table.next_trip()
    record.trying, record.awaited = [], []
    if record.state != wire.UNSCHEDULABLE:
        record.reason = ""
    if record.keeper:
        registered = record.registered
        record.subscribe(record.keeper)
        shard.send(record.keeper, wire.KeepGroup(record.fact(), record.trip, registered.job_id, registered.home))


# --- two phases ---


def _give_back(shard: GcsShard, record: GroupRecord) -> None:
    """Return the bundles reserved in this search."""
    for node in record.tried():
        if node not in shard.lost:
            shard.send(node, wire.ReturnBundles(record.registered.group_id, record.trip))


# --- ends ---


def _remove(shard: GcsShard, group_id: bytes, reason: str) -> None:
    record = shard.groups.take_out(group_id)
    if record is None:
        return
    for node in record.nodes():
        if node not in shard.lost:
            shard.send(node, wire.ReturnBundles(group_id, 0, reason))
    record.happened("removed", reason)
    record.places = [""] * len(record.places)
    _tell(shard, record)


def node_lost(shard: GcsShard, node: str) -> None:
    """Handle NodeLost: remove the node's groups, and place its bundles of other groups again."""
    table = shard.groups
    table.node_lost(node)
    for record in list(table.records.values()):
        table.changes(record)
        registered = record.registered
        spec, group_id = registered.spec, registered.group_id
        record.forget(node)
        is_over = registered.home == node or (bool(spec.actor_id) and registered.node == node)
        if is_over and not spec.is_detached:
            _remove(shard, group_id, f"the node of its creator, {node}, is lost")
            continue
        had_places = node in record.places
        record.places = ["" if place == node else place for place in record.places]
        if had_places:
            record.happened("places lost")
        was_tried = node in record.tried()
        if was_tried or had_places:
            _give_back(shard, record)
        if was_tried or had_places or (record.keeper == node and "" in record.places):
            _search(shard, record)
        elif record.keeper == node:
            record.keeper = next(iter(table.attending), "")
        if had_places:
            _tell(shard, record)


# --- subscribers ---


def _tell(shard: GcsShard, record: GroupRecord) -> None:
    for node in record.subscribers:
        shard.send(node, wire.GroupLocated(record.fact()))


class GroupRequests:
    """Requests of nodes about the groups of a shard."""

    def __init__(self, shard: GcsShard) -> None:
        self.shard = shard

    @on(wire.AttendShard)
    def attend(self, message: wire.AttendShard) -> None:
        """Handle AttendShard: try groups that fitted on no nodes again with each new node."""
        shard = self.shard
        attending = shard.groups.attending
        if message.node in shard.lost or not message.has_bundles or message.node in attending:
            return
        if shard.tasks.keeping is not None:
            shard.tasks.keeping.met(message.node)
        attending[message.node] = None
        for record in shard.groups.records.values():
            shard.groups.changes(record)
            is_without_keeper, was_given_up = not record.keeper, record.state == wire.UNSCHEDULABLE
            if is_without_keeper:
                record.keeper = message.node
            if was_given_up:
                record.happened("tried again in part" if any(record.places) else "tried again")
            if (is_without_keeper and "" in record.places) or was_given_up:
                _search(shard, record)
            if was_given_up:
                _tell(shard, record)

    @on(wire.RegisterGroup)
    def register(self, message: wire.RegisterGroup) -> None:
        """Handle RegisterGroup; answer a duplicate like the first."""
        shard = self.shard
        table, spec = shard.groups, message.spec
        if message.node in shard.lost or message.home in shard.lost:
            shard.reject("a group of a lost node")
            return
        key = (spec.namespace, spec.name)
        holder = table.by_name.get(key, message.group_id) if spec.name else message.group_id
        if holder == message.group_id and message.group_id not in table.records:
            record = GroupRecord(message, [""] * len(spec.bundles), message.keeper)
            table.add(record)
            _search(shard, record)
        shard.send(message.node, wire.GroupRegistered(message.group_id, b"" if holder == message.group_id else holder))

    @on(wire.TryPlaces)
    def try_places(self, message: wire.TryPlaces) -> None:
        """TryPlaces: the first phase."""
        shard = self.shard
        record = shard.groups.require(message.group_id, message.trip)
        if record is None or record.trying:
            shard.reject("places for a search that is over")
            return
        places = dict(message.places)
        missing = [index for index, node in enumerate(record.places) if not node]
        if sorted(places) != missing or not missing:
            shard.reject("places for other bundles than those that have none")
            return
        if any(node not in shard.groups.attending for node in places.values()):
            _search(shard, record)
            return
        record.trying = list(places.items())
        bundles = record.registered.spec.bundles
        by_node: dict[str, list[int]] = {}
        for index, node in places.items():
            by_node.setdefault(node, []).append(index)
        record.awaited = list(by_node)
        for node, indices in by_node.items():
            wanted = [(index, bundles[index]) for index in indices]
            shard.send(node, wire.PrepareBundles(message.group_id, record.trip, wanted))

    @on(wire.BundlesPrepared)
    def prepared(self, message: wire.BundlesPrepared) -> None:
        """Handle BundlesPrepared: commit when all nodes have accepted, or search again after a refusal."""
        shard = self.shard
        record = shard.groups.require(message.group_id, message.trip)
        if record is None or message.node not in record.awaited:
            shard.reject("bundles of a search that is over")
            return
        record.awaited.remove(message.node)
        if not message.is_done:
            _give_back(shard, record)
            _search(shard, record)
        elif not record.awaited:
            nodes = record.tried()
            for index, node in record.trying:
                record.places[index] = node
            record.trying = []
            record.happened("all placed")
            for node in nodes:
                shard.send(node, wire.CommitBundles(message.group_id, record.trip))
            _tell(shard, record)

    @on(wire.GiveUpGroup)
    def give_up(self, message: wire.GiveUpGroup) -> None:
        """GiveUpGroup."""
        shard = self.shard
        record = shard.groups.require(message.group_id, message.trip)
        if record is None or record.trying or record.state == wire.CREATED:
            return
        if message.waits:
            record.reason = message.reason
        else:
            record.happened("given up", message.reason)
            _tell(shard, record)

    @on(wire.RemoveGroup)
    def remove(self, message: wire.RemoveGroup) -> None:
        """RemoveGroup."""
        _remove(self.shard, message.group_id, message.reason)

    @on(wire.LocateGroup)
    def locate(self, message: wire.LocateGroup) -> None:
        """Handle LocateGroup: an unknown group was removed, since groups are registered before any question."""
        shard = self.shard
        if message.node in shard.lost:
            shard.reject("a message of a lost node")
            return
        record = shard.groups.records.get(message.group_id)
        if record is not None:
            shard.groups.changes(record)
            record.subscribe(message.node)
            shard.send(message.node, wire.GroupLocated(record.fact()))
        else:
            gone = wire.GroupFact(message.group_id, _NOTHING, wire.REMOVED, [])
            shard.send(message.node, wire.GroupLocated(gone))

    @on(wire.LookUpGroups)
    def look_up(self, message: wire.LookUpGroups) -> None:
        """LookUpGroups."""
        shard = self.shard
        table = shard.groups
        group_id = message.group_id or (
            table.by_name.get((message.namespace, message.name), b"") if message.name else b""
        )
        if group_id or message.name:
            found = [record for record in (table.records.get(group_id),) if record is not None]
        else:
            found = list(islice(table.records.values(), ITEMS_MAX))
        shard.send(shard.sender, wire.GroupsListed(message.request, [record.fact() for record in found]))
