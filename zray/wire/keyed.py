"""The ids of which a request to a shard speaks, and its parts for the shards that own them.

A request without such an id goes to every shard, or to one by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from ..ids import group_name_key, name_key
from . import actors, gcs, groups, handles, homes, scheduling, tasks
from .shards import SlotTable

# Fields with many ids, or with tuples or specs that begin with one.
LISTS: dict[type, tuple[str, ...]] = {
    gcs.RecordTasks: ("specs", "attempts"),
    gcs.AddLocations: ("objects", "attempts", "drawn"),
    gcs.RemoveLocations: ("object_ids",),
    gcs.OfferCopies: ("object_ids",),
    gcs.HoldAtNode: ("object_ids",),
    gcs.ReleaseAtNode: ("object_ids",),
    gcs.FindUnheld: ("object_ids",),
    scheduling.LocateObjects: ("object_ids",),
    handles.FindHolders: ("actor_ids",),
}


def _key_of_group(request: groups.LookUpGroups) -> bytes:
    if request.group_id or not request.name:
        return request.group_id
    return group_name_key(request.namespace, request.name)


_of_object = attrgetter("object_id")
_of_actor = attrgetter("actor_id")
_of_group = attrgetter("group_id")
# Requests about one id; b"": about none.
KEYS: dict[type, Callable[[Any], bytes]] = {
    gcs.SubscribeObject: _of_object,
    gcs.CannotRebuild: _of_object,
    gcs.FetchFunction: attrgetter("function_id"),
    tasks.PublishFunction: attrgetter("function.function_id"),
    actors.RegisterActor: lambda request: name_key(request.options.namespace, request.options.name),
    actors.LookUpActor: lambda request: name_key(request.namespace, request.name),
    actors.ActorRemoved: attrgetter("name_key"),
    **dict.fromkeys((homes.ActorAt, homes.ActorForgotten, homes.ActorUnguarded, homes.ActorKilled), _of_actor),
    homes.LocateActor: _of_actor,
    **dict.fromkeys((groups.RegisterGroup, groups.TryPlaces, groups.BundlesPrepared, groups.GiveUpGroup), _of_group),
    **dict.fromkeys((groups.RemoveGroup, groups.LocateGroup), _of_group),
    groups.LookUpGroups: _key_of_group,
}


def _id_of(item: Any) -> bytes:
    if type(item) is bytes:
        return item
    found: bytes = item[0] if type(item) is tuple else item.task_id
    return found


def has_ids(kind: type) -> bool:
    """Whether requests of this type speak of ids."""
    return kind in LISTS or kind in KEYS


def ids_of(request: Any) -> list[bytes]:
    """Return the ids of which a request speaks."""
    names = LISTS.get(type(request))
    if names is not None:
        return [_id_of(item) for name in names for item in getattr(request, name)]
    key_of = KEYS.get(type(request))
    key = key_of(request) if key_of is not None else b""
    return [key] if key else []


def parts_of(request: Any, table: SlotTable) -> dict[int, Any]:
    """Return the parts of a request with ids: shard -> what it is asked, in the same order of ids."""
    names = LISTS.get(type(request))
    if names is None:
        return {table.owner(key): request for key in ids_of(request)}
    owners = dict.fromkeys(table.owner(any_id) for any_id in ids_of(request))
    if len(owners) == 1:
        return dict.fromkeys(owners, request)
    parts = {}
    for owner in owners:
        fields = {name: [it for it in getattr(request, name) if table.owner(_id_of(it)) == owner] for name in names}
        parts[owner] = replace(request, **fields)
    return parts
