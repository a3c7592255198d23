"""Global scheduler: places tasks and actors that local schedulers pass up.  All state is rebuilt from load reports.

Dialog (sender, message, reaction):

    local scheduler    LoadReport            replaces the last one; from members only.  Now and then StealTasks, to
                                             nodes with long queues while others are idle
    local scheduler    SpillTask             ask the shards where its arguments are, then PlaceTask; TaskPlaced
                                             nobody has room beside its actors: TaskDeferred
    local scheduler    SpillActor            PlaceActor where there is room now, and TaskPlaced, else ActorDeferred
    GCS shard          LocateObjectsReply    all answered: choose the node
    monitor            NodeJoined, NodeLost
    local scheduler    FindPlaces            PlacesFound: for the bundles of a placement group
    local scheduler    BundlesLeave          the group is removed: its bundles count as free
    any host           GetNodes              the known loads of all nodes
    scheduler count    WatchLoad             SchedulerLoad, from now on

Source: Ray paper 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from ...wire import actors, gcs, groups, hosts, limits, scheduling
from ...wire import bundles as bundles_wire
from ...wire.amounts import is_enough, why_nowhere
from ...wire.chain import SlotsMoved
from ...wire.scheduling import LOCATING_MAX
from ...wire.shards import SlotTable
from ...wire.task_spec import parse_options
from ...wire.where import Where, no_such_labels, no_such_node
from ..kept import LOST_MAX, Latest
from ..role import Role, on
from . import placement
from .stealing import LOOK_SECONDS, thefts
from .watch import Watch

BANDWIDTH_FIRST_GUESS = 1e9  # bytes per second, of a node that has not reported
# How much one report counts for what a task takes, where a node does not know.
MEAN_WEIGHT = 0.1
# Nodes that have left and are still shown, some 500 bytes each: enough for whoever looks what has happened.
DEAD_MAX = 100


class GlobalScheduler(Role):
    """A global scheduler, of `equals` in all.  policy: as in wire/scheduling.POLICIES."""

    PASSING = {"locating": "LOCATING_MAX"}
    LASTING = {"loads": ...}

    def __init__(self, address: str, shards: list[str], *, policy: str = scheduling.BOTTOM_UP, equals: int = 1) -> None:
        super().__init__(address)
        self.shards = shards
        self.slots = SlotTable.at_birth(len(shards))
        self.policy = policy
        self.equals = equals
        self.task_s_mean = placement.FIRST_GUESS_SECONDS  # over the nodes
        self.loads: dict[str, placement.NodeLoad] = {}
        self.lost: Latest[str, None] = Latest(LOST_MAX)  # nodes, for good
        self.dead: Latest[str, tuple[hosts.NodeFact, float]] = Latest(DEAD_MAX)  # the last of those, and since when
        self.request = 0
        self.looked_at = 0.0  # for nodes with nothing to do
        self.spread_count = 0  # tasks and actors that go to one node after the other
        # request -> the task, since when, replies still missing, what is known of its arguments
        self.locating: dict[int, tuple[scheduling.SpillTask, float, list[int], list[tuple[bytes, int, list[str]]]]] = {}
        self.watch = Watch(self)
        self.handle_with(self.watch)

    def shares_with(self, equals: int) -> None:
        """Set the number of global schedulers, which is at least one."""
        self.equals = max(1, equals)

    @on(gcs.NodeJoined)
    def on_node_joined(self, message: gcs.NodeJoined) -> None:
        node, total = message.node, message.total
        load = self.loads.get(node)
        if load is None:
            # Equals differ in which of several equal nodes they take first.
            rank = crc32(f"{self.address} {node}".encode())
            load = placement.NodeLoad(node, total, dict(total), 0, 0.0, BANDWIDTH_FIRST_GUESS, rank=rank)
            self.loads[node] = load
        load.joined(message)

    @property
    def _knows_nodes(self) -> bool:
        """Whether any node has reported.

        A global scheduler that has just replaced another knows none, not even the head, and may not call a request
        infeasible.
        """
        return any(load.kind != "driver" for load in self.loads.values())

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        self.lost[message.node] = None
        load = self.loads.pop(message.node, None)
        if load is not None and load.kind != "driver":
            fact = replace(load.fact(), total={}, free={}, queue_count=0, death=message.reason or "lost")
            self.dead[message.node] = fact, self.now

    @on(scheduling.LoadReport)
    def on_load_report(self, message: scheduling.LoadReport) -> None:
        load = self.loads.get(message.node)
        if load is None:
            # Lost; or the monitor's word of it is still on its way, and the next report is not long in coming.
            self.reject("a report of a node that is no member")
            return
        load.renew(message)
        self.watch.heard(message)
        if message.task_s_mean:
            self.task_s_mean += MEAN_WEIGHT * (message.task_s_mean - self.task_s_mean)
        if self.now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = self.now
            self._have_tasks_stolen()

    def _have_tasks_stolen(self) -> None:
        """Ask nodes with long queues to pass tasks up again, for idle nodes."""
        if len(self.loads) < 2 or self.policy in (
            scheduling.CENTRAL,
            scheduling.RANDOM,
        ):  # these are there to be compared with
            return
        for victim, orders in thefts(self.loads.values(), self.task_s_mean, self.equals, self.now):
            self.send(
                victim.node,
                scheduling.StealTasks([scheduling.Thief(load.node, count, load.held) for load, count in orders]),
            )

    def _shard_of(self, object_id: bytes) -> str:
        return self.shards[self.slots.owner(object_id)]

    def _by_shard(self, object_ids: Iterable[bytes]) -> dict[str, list[bytes]]:
        by_shard: dict[str, list[bytes]] = {}
        for object_id in object_ids:
            by_shard.setdefault(self._shard_of(object_id), []).append(object_id)
        return by_shard

    @on(scheduling.SpillTask)
    def on_spill_task(self, message: scheduling.SpillTask) -> None:
        origin = self.loads.get(message.origin)
        where = parse_options(message.spec.options).where
        if origin is not None and message.trip == 1 and not (where is not None and where.is_spread):
            origin.passed_up()
        is_asked = self.policy not in (scheduling.RANDOM, scheduling.NO_LOCALITY)
        by_shard = self._by_shard(message.spec.deps[: limits.ITEMS_MAX]) if is_asked else {}
        if not by_shard or len(self.locating) >= LOCATING_MAX:
            self._place(message, message.located if is_asked else [])
            return
        self.request += 1
        self.locating[self.request] = (message, self.now, [len(by_shard)], [])
        for shard, ids in by_shard.items():
            self.send(shard, scheduling.LocateObjects(self.request, ids))

    @on(SlotsMoved)
    def on_slots_moved(self, message: SlotsMoved) -> None:
        """SlotsMoved: the owners are asked; not a shard with another table, for it would return that again."""
        table, request = message.table, message.request
        if type(request) is not scheduling.LocateObjects or request.request not in self.locating:
            return
        if table.epoch > self.slots.epoch and max(table.owners) < len(self.shards):
            self.slots = table
        by_shard = self._by_shard(request.object_ids)
        if table.epoch != self.slots.epoch:
            by_shard.pop(self.sender, None)
        self.locating[request.request][2][0] += len(by_shard)
        for shard, ids in by_shard.items():
            self.send(shard, scheduling.LocateObjects(request.request, ids))
        self.on_locate_objects_reply(scheduling.LocateObjectsReply(request.request, []))

    @on(scheduling.LocateObjectsReply)
    def on_locate_objects_reply(self, message: scheduling.LocateObjectsReply) -> None:
        pending = self.locating.get(message.request)
        if pending is None:
            return
        spill, _, missing, known = pending
        known.extend(message.objects)
        missing[0] -= 1
        if not missing[0]:
            del self.locating[message.request]
            found = {object_id for object_id, _, _ in known}
            # The shard may not know an object just made, but the node that spilled the task may.
            known.extend([told for told in spill.located if told[0] not in found])
            self._place(spill, known)

    def _place(self, spill: scheduling.SpillTask, objects: list[tuple[bytes, int, list[str]]]) -> None:
        if spill.origin in self.lost:
            self.reject("a task of a lost node")
            return
        options = parse_options(spill.spec.options)
        request, where, task_id = options.resources, options.where, spill.spec.task_id
        able = placement.eligible(self.loads.values(), where, request)
        load = self._choose(spill, able, objects)
        if load is None:
            if not self._knows_nodes or any(is_enough(load.total, request) for load in able):
                self.send(spill.origin, scheduling.TaskDeferred(task_id, spill.trip))
            else:
                self._refuse(spill.origin, task_id, request, where, able)
            return
        load.assign(request)
        of_job = (spill.job_id, spill.job)
        self.send(
            load.node,
            scheduling.PlaceTask(spill.spec, spill.origin, *of_job, spill.trip, spill.attempts, spill.is_quiet),
        )
        if load.node != spill.origin:
            # If that node is lost before it has done it, whoever spilled it passes it up again.
            self.send(spill.origin, scheduling.TaskPlaced(task_id, load.node, spill.trip))

    def _choose(
        self, spill: scheduling.SpillTask, able: list[placement.NodeLoad], objects: list[tuple[bytes, int, list[str]]]
    ) -> placement.NodeLoad | None:
        options = parse_options(spill.spec.options)
        request, where = options.resources, options.where
        if where is not None and where.is_spread:
            return self._next_in_turn(placement.preferred(able, where), request) or self._next_in_turn(able, request)
        if self.policy == scheduling.RANDOM:
            return placement.random_node(able, request, spill.spec.task_id + spill.trip.to_bytes(8, "big"))
        for loads in (placement.preferred(able, where), able):
            load = placement.best_node(loads, request, objects, self.task_s_mean, self.equals)
            if load is not None:
                return load
        return None

    def _next_in_turn(
        self, loads: list[placement.NodeLoad], request: dict[str, int], *, must_start: bool = False
    ) -> placement.NodeLoad | None:
        load = placement.next_in_turn(loads, request, must_start=must_start)
        if load is not None:
            self.spread_count += 1
            load.has_turn(self.spread_count)
        return load

    def _refuse(
        self, origin: str, task_id: bytes, request: dict[str, int], where: Where | None, able: list[placement.NodeLoad]
    ) -> None:
        """Refuse a request that no node could ever hold."""
        is_final = where is not None and bool(where.node)
        if able or where is None:
            reason = why_nowhere(request, {load.node: load.total for load in able})
        elif where.node:
            reason = no_such_node(where.node)
        else:
            reason = no_such_labels(where)
        leaving = [load.node for load in self.loads.values() if load.is_draining]
        self.send(origin, scheduling.SpillRefused(task_id, reason, is_final, leaving))

    @on(actors.SpillActor)
    def on_spill_actor(self, message: actors.SpillActor) -> None:
        parse_options(message.spec.options)  # bytes that are no options are refused here, not where the actor is placed
        if not all(message.options.resources.values()):
            self.reject("an actor that asks for 0 of a resource")
            return
        request, where, actor_id = message.options.resources, message.options.where, message.spec.task_id
        able = placement.eligible(self.loads.values(), where, request)
        of_job = (message.job_id, message.job)
        place = actors.PlaceActor(
            message.spec, message.options, message.origin, message.life, *of_job, message.may_borrow
        )
        load = self._home(able, message)
        if load is not None:
            load.reserve(request)
            self._offer(place, load)
        elif (load := self._hope(able, message)) is not None:
            self._offer(place, load)
        elif not self._knows_nodes or any(is_enough(load.total, request) for load in able):
            self.send(message.origin, actors.ActorDeferred(actor_id))
        else:
            self._refuse(message.origin, actor_id, request, where, able)

    def _offer(self, place: actors.PlaceActor, load: placement.NodeLoad) -> None:
        """Send the actor to the chosen node, and tell the origin, which may already know of the node's loss."""
        self.send(load.node, place)
        self.send(place.origin, scheduling.TaskPlaced(place.spec.task_id, load.node))

    def _home(self, able: list[placement.NodeLoad], message: actors.SpillActor) -> placement.NodeLoad | None:
        """Return the node for an actor; None if no node has room, or the origin should keep it."""
        request, where = message.options.resources, message.options.where
        # The origin has no room, or would not ask; a spread actor stays there only in its turn.
        if where is not None and where.is_spread:
            for loads in (placement.preferred(able, where), able):
                load = self._next_in_turn(loads, request, must_start=True)
                if load is not None:
                    return load if load.node != message.origin else None
            return None
        others = [load for load in able if load.node != message.origin]
        home = placement.best_home(placement.preferred(others, where), request) or placement.best_home(others, request)
        if home is not None and home.gpus_left_idle(request):
            own = [load for load in able if load.node == message.origin]
            return home if placement.best_home(own, request) is None else None
        return home

    def _hope(self, able: list[placement.NodeLoad], message: actors.SpillActor) -> placement.NodeLoad | None:
        """Choose a node to reserve room for an actor that found none before; nodes take turns."""
        where = message.options.where
        if not message.may_borrow or (where is not None and where.is_spread):
            return None
        return self._next_in_turn([load for load in able if load.node != message.origin], message.options.resources)

    @on(groups.FindPlaces)
    def on_find_places(self, message: groups.FindPlaces) -> None:
        wanted = bundles_wire.sum_of(amounts for _, amounts in message.bundles)
        loads = sorted(
            (load for load in self.loads.values() if load.kind != "driver" and not load.is_draining),
            key=lambda load: (load.gpus_left_idle(wanted), load.rank),
        )
        found, _ = bundles_wire.plan(
            [(load.node, load.free) for load in loads], message.bundles, message.strategy, message.taken
        )
        reason = ""
        if found is None and self._knows_nodes:
            totals = [(load.node, load.total) for load in loads]
            most, is_certain = bundles_wire.plan(totals, message.bundles, message.strategy, message.taken)
            if most is None and is_certain:
                reason = bundles_wire.why_never(dict(totals), message.bundles, message.strategy)
        bundles = dict(message.bundles)
        for index, node in found or ():
            self.loads[node].reserve(bundles[index])
        self.send(self.sender, groups.PlacesFound(message.group_id, message.trip, found or [], reason))

    @on(groups.BundlesLeave)
    def on_bundles_leave(self, message: groups.BundlesLeave) -> None:
        """BundlesLeave: a removed group's bundles count as free before the reports of the nodes arrive."""
        for node, amounts in message.bundles:
            load = self.loads.get(node)
            if load is not None:
                load.give_back(amounts)

    @on(hosts.GetNodes)
    def on_get_nodes(self, message: hosts.GetNodes) -> None:
        facts = [load.fact() for load in self.loads.values()]
        if message.with_dead:
            facts += [replace(fact, lost_seconds=max(0.0, self.now - at)) for fact, at in self.dead.values()]
        self.send(self.sender, hosts.NodesReply(message.request, facts))

    def statistics(self) -> dict[str, Any]:
        return {"nodes": len(self.loads), "locating": len(self.locating)}
