"""Dialog: placement groups: bundles of resources that are reserved on nodes, all of them or none.

driver, worker     CreateGroup -> CreateGroupReply     its id is drawn by the creator
driver, worker     RemoveGroup         to the node, and on to the shard
driver, worker     FindGroups -> GroupsFound           what there is; the node asks the shards
local scheduler    AttendShard         to every shard: a node that it can speak to
local scheduler    RegisterGroup -> GroupRegistered    at the shard of the group's id
GCS shard          KeepGroup           to the keeper: these bundles have no place; trip: the number of this search
local scheduler    FindPlaces -> PlacesFound           at a global scheduler
local scheduler    TryPlaces           to the shard
local scheduler    BundlesLeave        to all global schedulers: the group is about to be removed
GCS shard          PrepareBundles      to each of these nodes: reserve them
local scheduler    BundlesPrepared     or not
GCS shard          CommitBundles       all have: they are the group's
GCS shard          ReturnBundles       one has not, or the group is removed
local scheduler    GiveUpGroup         to the shard: no nodes could ever have it
local scheduler    LocateGroup         to the shard: a task or an actor is to run in it
GCS shard          GroupLocated        now, and at each change: where its bundles are
local scheduler    LookUpGroups -> GroupsListed        at a shard

The shard of the group's id is the authority on where its bundles are.  One node keeps it: that of the job's driver, or
of whoever made a detached one; it finds places, again and again, until the shard has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from ..ids import TaskID
from .limits import Many, ShortBytes, Table, Text
from .message import Message, Natural

PACK, SPREAD, STRICT_PACK, STRICT_SPREAD = STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
# What a group is, as Ray's table has it.  UNSCHEDULABLE is zray's own: no nodes that there are could ever have it.
PENDING, CREATED, RESCHEDULING, REMOVED, UNSCHEDULABLE = (
    "PENDING",
    "CREATED",
    "RESCHEDULING",
    "REMOVED",
    "UNSCHEDULABLE",
)
BUNDLES_MAX = 1_000
GroupID = TaskID
Amounts = Table[Text, Natural]
Bundles = Annotated[list[Amounts], Meta(max_length=BUNDLES_MAX)]


# Between the parts of the name that a resource of a bundle has on its node; no name of a user's has it.
SEPARATOR = "\0"


def bundle_name(name: str, group_id: bytes, index: int) -> str:
    """What a resource of a bundle is called on its node."""
    return f"{name}{SEPARATOR}{group_id.hex()}{SEPARATOR}{index}"


def plain_name(name: str) -> str:
    """What it is for the user: "CPU" of a bundle's CPU too."""
    return name.partition(SEPARATOR)[0]


def plain(amounts: Mapping[str, int]) -> dict[str, int]:
    """Without what bundles have."""
    return {name: amount for name, amount in amounts.items() if SEPARATOR not in name}


class GroupSpec(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What is asked for.  bundles: in RESOURCE_UNITs by name.  actor_id: of the actor that made it, and with which it
    ends.
    """

    bundles: Bundles
    strategy: Text
    name: Text = ""
    namespace: Text = ""
    is_detached: bool = False
    actor_id: ShortBytes = b""


class GroupFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One group.  places: for each bundle the local scheduler of its node; "": it has none."""

    group_id: GroupID
    spec: GroupSpec
    state: Text
    places: Many[Text]
    reason: Text = ""


class CreateGroup(Message, tag=240):
    """driver, worker -> local scheduler."""

    request: int
    group_id: GroupID
    spec: GroupSpec


class CreateGroupReply(Message, tag=241):
    """local scheduler -> driver, worker.  holder: the group that has the name already; b"": it is made."""

    request: int
    holder: ShortBytes


class RemoveGroup(Message, tag=242):
    """driver, worker -> local scheduler -> GCS shard.  Its bundles are given back; what runs in them is killed."""

    group_id: GroupID
    reason: Text


class FindGroups(Message, tag=243):
    """driver, worker -> local scheduler.  The group of that id, or of that name; neither: all."""

    request: int
    group_id: ShortBytes = b""
    namespace: Text = ""
    name: Text = ""


class GroupsFound(Message, tag=244):
    """local scheduler -> driver, worker."""

    request: int
    groups: Many[GroupFact]


class AttendShard(Message, tag=245):
    """local scheduler -> GCS shard.  Here I am; has_bundles: bundles may be reserved here."""

    node: Text
    has_bundles: bool


class RegisterGroup(Message, tag=246):
    """local scheduler -> GCS shard.  keeper: who finds places for it; home: its driver's local scheduler."""

    group_id: GroupID
    spec: GroupSpec
    node: Text
    keeper: Text
    job_id: ShortBytes
    home: Text


class GroupRegistered(Message, tag=247):
    """GCS shard -> local scheduler.  holder: as in CreateGroupReply."""

    group_id: GroupID
    holder: ShortBytes = b""


class KeepGroup(Message, tag=248):
    """GCS shard -> local scheduler.  Find places for what has none, on search `trip`."""

    fact: GroupFact
    trip: Natural
    job_id: ShortBytes
    home: Text


class FindPlaces(Message, tag=249):
    """local scheduler -> global scheduler.  bundles: (index, amounts) without a place.  taken: nodes of the others."""

    group_id: GroupID
    trip: Natural
    bundles: Many[tuple[Natural, Amounts]]
    strategy: Text
    taken: Many[Text]


class PlacesFound(Message, tag=250):
    """global scheduler -> local scheduler.  places: (index, node) for all of them; none: not now, or, with a reason,
    never on the nodes that there are.
    """

    group_id: GroupID
    trip: Natural
    places: Many[tuple[Natural, Text]]
    reason: Text = ""


class BundlesLeave(Message, tag=269):
    """local scheduler -> global scheduler.  (node, amounts) that a group has, which is removed.  A hint: they count as
    free until that node's next report.
    """

    bundles: Annotated[list[tuple[Text, Amounts]], Meta(max_length=BUNDLES_MAX)]


class TryPlaces(Message, tag=251):
    """local scheduler -> GCS shard."""

    group_id: GroupID
    trip: Natural
    places: Many[tuple[Natural, Text]]


class GiveUpGroup(Message, tag=252):
    """local scheduler -> GCS shard.  No nodes could ever have it, and nobody is to wait for others."""

    group_id: GroupID
    trip: Natural
    reason: Text


class PrepareBundles(Message, tag=253):
    """GCS shard -> local scheduler.  Reserve all of these, or none."""

    group_id: GroupID
    trip: Natural
    bundles: Many[tuple[Natural, Amounts]]


class BundlesPrepared(Message, tag=254):
    """local scheduler -> GCS shard."""

    group_id: GroupID
    trip: Natural
    node: Text
    is_done: bool


class CommitBundles(Message, tag=255):
    """GCS shard -> local scheduler.  What was prepared is the group's."""

    group_id: GroupID
    trip: Natural


class ReturnBundles(Message, tag=256):
    """GCS shard -> local scheduler.  Those of that trip; trip 0: all, because the group is removed."""

    group_id: GroupID
    trip: Natural
    reason: Text = ""


class LocateGroup(Message, tag=257):
    """local scheduler -> GCS shard.  Tell me of it, now and when it changes."""

    group_id: GroupID
    node: Text


class GroupLocated(Message, tag=258):
    """GCS shard -> local scheduler."""

    fact: GroupFact


class LookUpGroups(Message, tag=259):
    """local scheduler -> GCS shard.  As in FindGroups."""

    request: int
    group_id: ShortBytes = b""
    namespace: Text = ""
    name: Text = ""


class GroupsListed(Message, tag=260):
    """GCS shard -> local scheduler."""

    request: int
    groups: Many[GroupFact]
