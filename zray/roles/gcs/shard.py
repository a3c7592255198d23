"""GCS shard: the one authority for the tasks, objects, functions and names that hash to it.

Dialog (who says it -> what we do):

    local scheduler    RecordTasks       keep the specs; the node holds the first returns
    local scheduler    AddLocations, RemoveLocations    keep the directory; tell the subscribers
    local scheduler    HoldAtNode, ReleaseAtNode        keep the holders; with the last one gone, FreeCopies
    local scheduler    SubscribeObject   ObjectLocated, now or when there is a copy; or losses.py
    local scheduler    CannotRebuild     ask another one
    global scheduler   LocateObjects     sizes and places of a task's arguments
    local scheduler    PublishFunction, FetchFunction
    local scheduler    RegisterActor, LookUpActor, ActorRemoved    who has a name
    local scheduler    ActorAt, ActorForgotten, LocateActor        where an actor lives
    monitor            NodeLost          its holds and copies are gone

Source: Ray paper 4.2.1 (tables), 4.2.4 (single-key operations, one authority per key).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...ids import is_put, task_of
from ...wire.actors import (
    ActorAt,
    ActorForgotten,
    ActorLocated,
    ActorNameTaken,
    ActorRegistered,
    ActorRemoved,
    LocateActor,
    LookUpActor,
    LookUpActorReply,
    RegisterActor,
)
from ...wire.gcs import (
    AddLocations,
    CannotRebuild,
    FetchFunction,
    FetchFunctionReply,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    NodeLost,
    ObjectLocated,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
    RemoveLocations,
    SubscribeObject,
)
from ...wire.scheduling import LocateObjects, LocateObjectsReply
from ...wire.tasks import Function, PublishFunction
from ..role import Role
from . import losses
from .tables import ActorHomes, ObjectRecord, TaskTable


class GcsShard(Role):
    """One shard, one replica."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.tasks = TaskTable()
        self.lost: dict[str, None] = {}  # nodes, for good, in the order of the verdicts
        self.functions: dict[bytes, Function] = {}
        self.function_waiters: dict[bytes, dict[str, None]] = {}
        self.actor_by_name: dict[tuple[str, str], RegisterActor] = {}
        self.name_by_actor: dict[bytes, tuple[str, str]] = {}
        self.homes = ActorHomes(self.lost)

    def _is_of_lost_node(self, node: str) -> bool:
        """Whether what it says changes nothing any more."""
        if node in self.lost:
            self.reject("a message of a lost node")
            return True
        return False

    # --- tasks and objects ---

    def on_record_tasks(self, message: RecordTasks) -> None:
        record, node = self.tasks.record, message.node
        if self._is_of_lost_node(node):
            return
        for spec in message.specs:
            record(spec, node)
        if message.request:
            self.send(self.sender, RecordTasksReply(message.request))

    def on_add_locations(self, message: AddLocations) -> None:
        if self._is_of_lost_node(message.node):
            return
        for object_id, size in message.objects:
            item = self.tasks.require_object(object_id)
            item.sizes[message.node] = size
            if not is_put(object_id):
                self.tasks.makers.pop(task_of(object_id), None)
            subscribers, item.subscribers = item.subscribers, {}
            for subscriber in subscribers:
                self._send_location(subscriber, item)
            if not item.holders:
                # Everybody let go while it was being made.
                item.holders[message.node] = None
                self.release(object_id, message.node)

    def on_remove_locations(self, message: RemoveLocations) -> None:
        for object_id in message.object_ids:
            item = self.tasks.find_object(object_id)
            if item is not None:
                item.sizes.pop(message.node, None)

    def on_hold_at_node(self, message: HoldAtNode) -> None:
        if self._is_of_lost_node(message.node):
            return
        for object_id in message.object_ids:
            self.tasks.hold(object_id, message.node)
        if message.request:
            self.send(self.sender, HoldAtNodeReply(message.request))

    def on_release_at_node(self, message: ReleaseAtNode) -> None:
        for object_id in message.object_ids:
            self.release(object_id, message.node)

    def release(self, object_id: bytes, node: str) -> None:
        """The node leaves the holders.  Nobody left: the copies go."""
        item = self.tasks.release(object_id, node)
        if item is not None:
            for holder in dict.fromkeys((*item.sizes, node)):
                if holder not in self.lost:
                    self.send(holder, FreeCopies([object_id]))

    def on_subscribe_object(self, message: SubscribeObject) -> None:
        if self._is_of_lost_node(message.node):
            return
        item = self.tasks.require_object(message.object_id)
        if item.sizes:
            self._send_location(message.node, item)
        else:
            item.subscribers[message.node] = None
            if self.lost:
                losses.see_to(self, item)

    def _send_location(self, node: str, item: ObjectRecord) -> None:
        size = next(iter(item.sizes.values()))
        self.send(node, ObjectLocated(item.object_id, size, list(item.sizes)))

    def on_locate_objects(self, message: LocateObjects) -> None:
        found = []
        for object_id in message.object_ids:
            item = self.tasks.find_object(object_id)
            if item is not None and item.sizes:
                found.append((object_id, next(iter(item.sizes.values())), list(item.sizes)))
        self.send(self.sender, LocateObjectsReply(message.request, found))

    # --- functions ---

    def on_publish_function(self, message: PublishFunction) -> None:
        function = message.function
        self.functions[function.function_id] = function
        for node in self.function_waiters.pop(function.function_id, ()):
            self.send(node, FetchFunctionReply(function))

    def on_fetch_function(self, message: FetchFunction) -> None:
        if self._is_of_lost_node(message.node):
            return
        function = self.functions.get(message.function_id)
        if function is not None:
            self.send(message.node, FetchFunctionReply(function))
        else:
            self.function_waiters.setdefault(message.function_id, {})[message.node] = None

    # --- actors ---

    def on_register_actor(self, message: RegisterActor) -> None:
        key = (message.options.namespace, message.options.name)
        holder = self.actor_by_name.get(key)
        if holder is not None and holder.actor_id != message.actor_id:
            self.send(self.sender, ActorNameTaken(message.actor_id, holder.actor_id))
            return
        self.actor_by_name[key] = message
        self.name_by_actor[message.actor_id] = key
        self.send(self.sender, ActorRegistered(message.actor_id))

    def on_actor_removed(self, message: ActorRemoved) -> None:
        key = self.name_by_actor.pop(message.actor_id, None)
        if key is not None:
            del self.actor_by_name[key]

    def on_look_up_actor(self, message: LookUpActor) -> None:
        found = self.actor_by_name.get((message.namespace, message.name))
        actor_id, handle, node = (found.actor_id, found.options.handle, found.node) if found else (b"", b"", "")
        self.send(self.sender, LookUpActorReply(message.namespace, message.name, actor_id, handle, node))

    def on_actor_at(self, message: ActorAt) -> None:
        for asker in self.homes.settle(message.actor_id, message.node, is_settled=message.is_settled):
            self._send_home(asker, message.actor_id)

    def on_actor_forgotten(self, message: ActorForgotten) -> None:
        self.homes.forget(message.actor_id, message.node)

    def on_locate_actor(self, message: LocateActor) -> None:
        if self.homes.must_wait(message.actor_id, wait=message.wait):
            self.homes.askers.setdefault(message.actor_id, {})[message.node] = None
        else:
            self._send_home(message.node, message.actor_id)

    def _send_home(self, asker: str, actor_id: bytes) -> None:
        home = self.homes.home.get(actor_id, "")
        is_lost = home in self.homes.lost
        self.send(asker, ActorLocated(actor_id, "" if is_lost else home, home if is_lost else ""))

    # --- nodes ---

    def on_node_lost(self, message: NodeLost) -> None:
        if message.node in self.lost:
            return  # a head that was started again says so once more
        losses.node_lost(self, message)
        for actor_id, askers in self.homes.lose(message.node):
            for asker in askers:
                self._send_home(asker, actor_id)
        for key, registered in list(self.actor_by_name.items()):
            if registered.node == message.node:
                del self.actor_by_name[key], self.name_by_actor[registered.actor_id]

    # --- snapshots ---

    def dump(self) -> Iterator[bytes]:
        """Its whole state, in parts."""
        from . import state  # a node alone never needs it

        return state.dump(self)

    def load(self, parts: Iterable[bytes]) -> None:
        """Into a new shard.  Raises: ValueError."""
        from . import state

        state.load(self, parts)

    def check_everything(self) -> None:
        self.tasks.check_everything()

    def statistics(self) -> dict[str, Any]:
        return {"task_records": len(self.tasks.records), "functions": len(self.functions)}

    HANDLERS = {
        RecordTasks: on_record_tasks,
        AddLocations: on_add_locations,
        RemoveLocations: on_remove_locations,
        HoldAtNode: on_hold_at_node,
        ReleaseAtNode: on_release_at_node,
        SubscribeObject: on_subscribe_object,
        LocateObjects: on_locate_objects,
        PublishFunction: on_publish_function,
        FetchFunction: on_fetch_function,
        RegisterActor: on_register_actor,
        ActorRemoved: on_actor_removed,
        LookUpActor: on_look_up_actor,
        ActorAt: on_actor_at,
        ActorForgotten: on_actor_forgotten,
        LocateActor: on_locate_actor,
        NodeLost: on_node_lost,
        CannotRebuild: lambda self, message: losses.cannot_rebuild(self, message),
    }
