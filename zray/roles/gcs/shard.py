"""GCS shard: the only authority for the tasks, objects, functions and names that hash to it.

Dialog (sender, message, reaction):

    local scheduler    RecordTasks       keep the specs; the node holds the first returns
    local scheduler    AddLocations, RemoveLocations    keep the directory; tell the subscribers
    local scheduler    OfferCopies       FreeCopies, of copies that are spare, or that nobody holds
    local scheduler    HoldAtNode, ReleaseAtNode        keep the holders; with the last one gone, FreeCopies, unless the
                                                        object is not made again, and taken by what may be (tables.py)
    local scheduler    FindUnheld        objects that no other node holds
    local scheduler    FindHolders       nodes that hold the handles of actors
    local scheduler    SubscribeObject   ObjectLocated, now or when a copy exists; or losses.py
    local scheduler    CannotRebuild     ask another one
    local scheduler    LineageNeeded, LineageNeededReply    carried from another shard: see keeping.py
    global scheduler   LocateObjects     sizes and places of a task's arguments
    local scheduler    PublishFunction, FetchFunction, ReleaseFunctions     functions.py
    local scheduler    RegisterActor, LookUpActor, LookUpActorNames, ActorRemoved    owners of names
    local scheduler    ActorAt, ActorUnguarded, ActorKilled, ActorForgotten, LocateActor    where an actor lives (homes)
    any                a request for an id of another shard, SlotsChanged, AwaitReturns    slots.py
    local scheduler    ...Group, ...Bundles, TryPlaces             placement groups: groups.py
    monitor            NodeLost          its holds and copies are gone

Source: Ray paper 4.2.1 (tables), 4.2.4 (single-key operations, one authority per key).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...ids import FIRST_RETURN, task_of
from ...wire import actors, chain, gcs, handles, homes, limits, scheduling, tasks
from ..effects import Effect
from ..role import Role, on
from . import groups, keeping, losses, slots, tables
from .functions import FunctionTable
from .groups import GroupTable
from .homes import ActorHomes

if TYPE_CHECKING:
    from .state import Frozen

# Functions that nodes ask for and that nobody has published yet: each costs some 200 bytes, and a name per node.
AWAITED_MAX = 10_000


class GcsShard(Role):
    """A replica of a shard.  is_chained: a chain replicates the shard, and its head looks up `wanted` specs.

    is_alone: as in TaskTable.
    """

    PASSING = {"function_waiters": "AWAITED_MAX", "actor_by_name wanted": None, "name_by_actor": "actor_by_name"}

    def __init__(self, address: str, *, is_chained: bool = False, is_alone: bool = False) -> None:
        super().__init__(address)
        self.is_chained = is_chained
        self.wanted: dict[bytes, None] = {}  # objects whose tasks' specs are asked for (losses)
        self.tasks = tables.TaskTable(is_weighed=is_chained, is_alone=is_alone, free=self._free_copies)
        self.lost: dict[str, None] = {}  # nodes, for good, in the order of the verdicts
        self.has_lost_copies = False  # the last copy of a held object, on the disk of a node that lives
        self.functions = FunctionTable()
        self.function_waiters: dict[bytes, dict[str, None]] = {}
        self.actor_by_name: dict[tuple[str, str], actors.RegisterActor] = {}
        self.name_by_actor: dict[bytes, tuple[str, str]] = {}
        self.homes = ActorHomes(self.lost, self.send, self.tasks.is_held)
        self.groups = GroupTable()
        self.handle_with(self.homes, groups.GroupRequests(self), slots.SlotRequests(self))

    @property
    def may_lose_objects(self) -> bool:
        """Whether held objects may have lost all their copies."""
        return bool(self.lost) or self.has_lost_copies

    def _is_of_lost_node(self, node: str) -> bool:
        """Whether the sender is a lost node, and the message therefore rejected."""
        if node in self.lost:
            self.reject("a message of a lost node")
            return True
        if self.tasks.keeping is not None:
            self.tasks.keeping.met(self.sender)
        return False

    # --- tasks and objects ---

    @on(gcs.RecordTasks)
    def on_record_tasks(self, message: gcs.RecordTasks) -> None:
        record, node = self.tasks.record, message.node
        if self._is_of_lost_node(node):
            return
        if message.shards > 1:
            self.tasks.keep(message.shards, self.address, (*self.groups.attending, self.sender))
        for spec in message.specs:
            record(spec, node)
        for task_id, attempts in message.attempts:
            self.tasks.has_run_again(task_id, attempts)
        if message.request:
            self._acknowledge(gcs.RecordTasksReply(message.request))

    @on(gcs.AddLocations)
    def on_add_locations(self, message: gcs.AddLocations) -> None:
        if self._is_of_lost_node(message.node):
            return
        for task_id, attempts in message.attempts:
            self.tasks.has_run_again(task_id, attempts)
        for task_id, count in message.drawn:
            self.tasks.was_left(task_id, count)
        for object_id, size in message.objects:
            item = self.tasks.require_object(object_id)
            item.lies_at(message.node, size)
            if self.tasks.ends(object_id) and self.may_lose_objects:
                losses.task_is_over(self, task_of(object_id))
            for subscriber in item.take_subscribers():
                self._send_location(subscriber, item)
            if not item.holders:
                # Everybody let go while it was being made.
                item.held_by(message.node)
                self.release(object_id, message.node)

    @on(gcs.RemoveLocations)
    def on_remove_locations(self, message: gcs.RemoveLocations) -> None:
        for object_id in message.object_ids:
            item = self.tasks.find_object(object_id)
            if item is None or not item.leaves(message.node) or item.sizes:
                continue
            # The last copy of a held object went by an old word of ours, or with a damaged file.
            self.has_lost_copies = True
            if not item.holders:
                self.tasks.drop_if_unused(item)  # it was kept for those that took it
            elif not item.subscribers:
                item.awaited_by(next(iter(item.holders)))
            if item.subscribers:
                losses.see_to(self, item)

    @on(gcs.OfferCopies)
    def on_offer_copies(self, message: gcs.OfferCopies) -> None:
        """Evict spare copies, but never the last copy of a held object."""
        if self._is_of_lost_node(message.node):
            return
        spare = []
        for object_id in message.object_ids:
            item = self.tasks.find_object(object_id)
            if item is None or message.node in item.holders:
                continue  # it holds it again
            if message.node in item.sizes and (len(item.sizes) > 1 or not item.holders):
                item.leaves(message.node)
                spare.append(object_id)
                self.tasks.drop_if_unused(item)
        if spare:
            self.send(message.node, gcs.FreeCopies(spare))

    @on(gcs.HoldAtNode)
    def on_hold_at_node(self, message: gcs.HoldAtNode) -> None:
        if self._is_of_lost_node(message.node):
            return
        there = [item for item in message.object_ids if not message.are_inside or self.tasks.is_there(item)]
        for object_id in there:
            self.tasks.hold(object_id, message.node)
        if message.are_inside:
            # Other shards have heard what these need: before the value was anybody's to take.
            self.send(self.sender, gcs.HoldAtNodeReply(message.request, len(there) < len(message.object_ids)))
        elif message.request:
            self._acknowledge(gcs.HoldAtNodeReply(message.request))

    def _acknowledge(self, reply: keeping.Reply) -> None:
        """Send the reply now, or after other shards have recorded the reply's prerequisites."""
        if self.tasks.keeping is None or not self.tasks.keeping.waits(self.sender, reply):
            self.send(self.sender, reply)

    @on(gcs.ReleaseAtNode)
    def on_release_at_node(self, message: gcs.ReleaseAtNode) -> None:
        for object_id in message.object_ids:
            self.release(object_id, message.node, by_death=message.by_death)

    def release(self, object_id: bytes, node: str, *, by_death: bool = False) -> None:
        """Remove the node from the holders.  Without any holder the copies are freed."""
        is_handle = bool(self.homes.homes or self.homes.askers) and object_id[-4:] == FIRST_RETURN
        was_holder = is_handle and node in self.tasks.holders_of(object_id)
        item = self.tasks.release(object_id, node)
        home = self.homes.let_go(task_of(object_id), node, was_holder=was_holder) if is_handle else ""
        if item is not None or home:
            sizes = item.sizes if item is not None else {}
            for holder in dict.fromkeys((*sizes, node, home or node)):
                if holder not in self.lost:
                    self.send(holder, gcs.FreeCopies([object_id], by_death))
        if self.may_lose_objects:
            losses.is_let_go(self, object_id)

    def _free_copies(self, item: tables.ObjectRecord) -> None:
        """Free all copies of an object that was kept for dependent tasks."""
        for node in item.sizes:
            if node not in self.lost:
                self.send(node, gcs.FreeCopies([item.object_id]))

    @on(gcs.FindUnheld)
    def on_find_unheld(self, message: gcs.FindUnheld) -> None:
        if self._is_of_lost_node(message.node):
            return
        aside = {message.node, message.lost, *self.lost}  # membership only
        found = [item for item in message.object_ids if aside.issuperset(self.tasks.holders_of(item))]
        self.send(self.sender, gcs.FindUnheldReply(message.request, found))

    @on(handles.FindHolders)
    def on_find_holders(self, message: handles.FindHolders) -> None:
        if not self._is_of_lost_node(self.sender):
            found = [(item, list(self.tasks.holders_of(item + FIRST_RETURN))) for item in message.actor_ids]
            self.send(self.sender, handles.FindHoldersReply(message.number, found))

    @on(gcs.SubscribeObject)
    def on_subscribe_object(self, message: gcs.SubscribeObject) -> None:
        if self._is_of_lost_node(message.node):
            return
        item = self.tasks.require_object(message.object_id)
        if item.sizes:
            self._send_location(message.node, item)
        elif message.node in item.holders:
            item.awaited_by(message.node)
            is_made = task_of(message.object_id) in self.tasks.makers
            if self.lost or (self.has_lost_copies and not is_made):
                losses.see_to(self, item)
        else:
            # The node has released the object, or never held it, so no process there can wait.  (A release may cross
            # the request.)
            self.tasks.drop_if_unused(item)
            self.send(
                message.node, gcs.ObjectLost(message.object_id, "It is gone: this node did not hold it any more.")
            )

    def _send_location(self, node: str, item: tables.ObjectRecord) -> None:
        size = next(iter(item.sizes.values()))
        self.send(node, gcs.ObjectLocated(item.object_id, size, list(item.sizes)))

    @on(scheduling.LocateObjects)
    def on_locate_objects(self, message: scheduling.LocateObjects) -> None:
        found = []
        for object_id in message.object_ids:
            item = self.tasks.find_object(object_id)
            if item is not None and item.sizes:
                found.append((object_id, next(iter(item.sizes.values())), list(item.sizes)))
        self.send(self.sender, scheduling.LocateObjectsReply(message.request, found))

    # --- functions ---

    @on(tasks.PublishFunction)
    def on_publish_function(self, message: tasks.PublishFunction) -> None:
        function = message.function
        # In its own name a node speaks in order; others may not have heard yet that the job has ended.
        is_over = not message.node or message.node in self.lost
        is_over = is_over or (message.node != self.sender and (message.node, message.job_id) in self.functions.ended)
        self.functions.publish(function, (message.node, message.job_id, self.sender), is_over=is_over)
        for node in self.function_waiters.pop(function.function_id, ()):
            self.send(node, gcs.FetchFunctionReply(function))

    @on(gcs.ReleaseFunctions)
    def on_release_functions(self, message: gcs.ReleaseFunctions) -> None:
        self.functions.release((message.node, message.job_id))

    @on(gcs.FetchFunction)
    def on_fetch_function(self, message: gcs.FetchFunction) -> None:
        if self._is_of_lost_node(message.node):
            return
        if message.is_over:
            self._forget_waiter(message.function_id, message.node)
            return
        function = self.functions.find(message.function_id)
        if function is not None:
            self.send(message.node, gcs.FetchFunctionReply(function))
        elif message.function_id in self.function_waiters or len(self.function_waiters) < AWAITED_MAX:
            self.function_waiters.setdefault(message.function_id, {})[message.node] = None
        else:
            self.reject("a question for code, while as many are awaited as may be: its node asks again")
            self.send(message.node, gcs.FetchFunctionReply(tasks.Function(message.function_id, "", b"")))

    def _forget_waiter(self, function_id: bytes, node: str) -> None:
        nodes = self.function_waiters.get(function_id, {})
        nodes.pop(node, None)
        if not nodes:
            self.function_waiters.pop(function_id, None)

    # --- actors ---

    @on(actors.RegisterActor)
    def on_register_actor(self, message: actors.RegisterActor) -> None:
        if self._is_of_lost_node(self.sender):
            return
        key = (message.options.namespace, message.options.name)
        holder = self.actor_by_name.get(key)
        is_own = holder is not None and holder.actor_id == message.actor_id
        if message.node != self.sender and not (holder and is_own and self.sender in (holder.node, holder.guardian)):
            self.reject("a name given away by somebody who does not have it")
            return
        if message.node in self.lost:
            # Handed over to a node that has died since.
            if not message.guardian or message.guardian in self.lost:
                self.on_actor_removed(actors.ActorRemoved(message.actor_id))
                return
            message = replace(message, node=message.guardian, guardian="")
        if holder is not None and not is_own:
            self.send(self.sender, actors.ActorNameTaken(message.actor_id, holder.actor_id))
            return
        self.actor_by_name[key] = message
        self.name_by_actor[message.actor_id] = key
        self.send(self.sender, actors.ActorRegistered(message.actor_id))

    @on(actors.ActorRemoved)
    def on_actor_removed(self, message: actors.ActorRemoved) -> None:
        key = self.name_by_actor.pop(message.actor_id, None)
        if key is not None:
            del self.actor_by_name[key]

    @on(actors.LookUpActor)
    def on_look_up_actor(self, message: actors.LookUpActor) -> None:
        found = self.actor_by_name.get((message.namespace, message.name))
        actor_id, handle, node = (found.actor_id, found.options.handle, found.node) if found else (b"", b"", "")
        is_detached = found is not None and found.options.detached
        reply = actors.LookUpActorReply(message.namespace, message.name, actor_id, handle, node, is_detached)
        self.send(self.sender, reply)

    @on(actors.LookUpActorNames)
    def on_look_up_actor_names(self, message: actors.LookUpActorNames) -> None:
        found = [key for key in self.actor_by_name if key[1] and (message.in_all or key[0] == message.namespace)]
        self.send(self.sender, actors.ActorNamesListed(message.request, found[: limits.ITEMS_MAX]))

    # --- nodes ---

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        if message.node in self.lost:
            return  # a head that was started again says so once more
        self.lost[message.node] = None
        for function_id in list(self.function_waiters):
            self._forget_waiter(function_id, message.node)
        losses.node_lost(self, message)
        groups.node_lost(self, message.node)
        self.homes.node_lost(message.node)
        self.functions.node_lost(message.node)
        for key, registered in list(self.actor_by_name.items()):
            guardian = "" if registered.guardian in self.lost else registered.guardian
            if registered.node not in self.lost:
                self.actor_by_name[key] = replace(registered, guardian=guardian)
            elif guardian:  # who has it made again, and says then where
                self.actor_by_name[key] = replace(registered, node=guardian, guardian="")
            else:
                del self.actor_by_name[key], self.name_by_actor[registered.actor_id]

    # --- the end of the turn ---

    def end_turn(self, now: float) -> list[Effect]:
        """End the turn; messages to other shards are sent."""
        if self.tasks.keeping is not None:
            self.tasks.keeping.end_turn(self)
        return super().end_turn(now)

    def wants(self, object_id: bytes) -> None:
        """Have the head of the chain look up the spec of an object's task."""
        self.wanted[object_id] = None

    # --- snapshots ---

    def dump(self) -> Iterator[bytes]:
        """Yield the whole state, in parts."""
        from . import state  # a node alone never needs it

        return state.dump(self)

    def freeze(self) -> Frozen:
        """Return the whole state as of now, in parts; the shard may go on changing."""
        from . import state

        return state.Frozen(self)

    def load(self, parts: Iterable[bytes], pages: Mapping[int, list[bytes]] | None = None) -> None:
        """Load a state into a new shard.  pages: as in state.load.

        Raises:
            ValueError: as in state.load.
        """
        from . import state

        state.load(self, parts, pages)

    def lineage_found(self, message: chain.LineageFound, now: float) -> list[Effect]:
        """LineageFound: the head has looked up `wanted` specs."""
        self.now = now
        self.wanted.pop(message.object_id, None)
        losses.lineage_found(self, message)
        return self.take_effects()

    def check_everything(self) -> None:
        self.tasks.check_everything()
        self.functions.check_everything()
        assert self.is_chained or not self.wanted, "a question to the head of a chain, and there is no chain"

    def statistics(self) -> dict[str, Any]:
        counts = {"task_records": len(self.tasks.records), "functions": len(self.functions.by_id)}
        if self.tasks.pages:
            counts["flushed"] = sum(self.tasks.pages.values())
        if self.tasks.unlike:
            counts["recorded_unlike"] = self.tasks.unlike
        return counts

    # --- requests that other modules answer ---

    @on(homes.ActorAt)
    def on_actor_at(self, message: homes.ActorAt) -> None:
        self.homes.actor_at(message, self.sender)

    @on(homes.ActorUnguarded)
    def on_actor_unguarded(self, message: homes.ActorUnguarded) -> None:
        self.homes.actor_unguarded(message, self.sender)

    on_cannot_rebuild = on(gcs.CannotRebuild)(losses.cannot_rebuild)
    on_lineage_needed = on(gcs.LineageNeeded)(keeping.on_lineage_needed)
    on_lineage_needed_reply = on(gcs.LineageNeededReply)(keeping.on_lineage_needed_reply)
