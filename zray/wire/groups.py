"""Dialog: placement groups: bundles of resources that are reserved on nodes, all of them or none.

driver, worker     CreateGroup -> CreateGroupReply     the creator draws the id
driver, worker     RemoveGroup         to the node, and on to the shard
driver, worker     FindGroups -> GroupsFound           a list of groups; the node asks the shards
local scheduler    AttendShard         to every shard: a node that the shard can reach
local scheduler    RegisterGroup -> GroupRegistered    at the shard of the group's id
GCS shard          KeepGroup           to the keeper: these bundles have no place; trip: the number of this search
local scheduler    FindPlaces -> PlacesFound           at a global scheduler
local scheduler    TryPlaces           to the shard
local scheduler    BundlesLeave        to all global schedulers: the group is about to be removed
GCS shard          PrepareBundles      to each of these nodes: reserve these bundles
local scheduler    BundlesPrepared     reserved, or not
GCS shard          CommitBundles       all nodes have reserved: the bundles belong to the group
GCS shard          ReturnBundles       a node has not reserved, or the group is removed
local scheduler    GiveUpGroup         to the shard: the present nodes could never hold the group
local scheduler    LocateGroup         to the shard: a task or an actor is to run in the group
GCS shard          GroupLocated        now, and at each change: places of the bundles
local scheduler    LookUpGroups -> GroupsListed        at a shard

The shard of the group's id is the authority on the places of its bundles.  One node is the keeper of the group: the
node of the job's driver, or of the creator of a detached group.  The keeper searches for places until the shard has
them.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from ..ids import TaskID
from .limits import Many, ShortBytes, Table, Text
from .message import Message, Natural, routed

PACK, SPREAD, STRICT_PACK, STRICT_SPREAD = STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
# States of a group, as in Ray's table.  UNSCHEDULABLE is zray's own: the present nodes could never hold the group.
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


# Separator in the name of a bundle's resource on its node.  Names given by users never contain it.
SEPARATOR = "\0"


def bundle_name(name: str, group_id: bytes, index: int) -> str:
    """The name of a bundle's resource on its node."""
    return f"{name}{SEPARATOR}{group_id.hex()}{SEPARATOR}{index}"


def plain_name(name: str) -> str:
    """The resource's name for the user: "CPU" for a bundle's CPU too."""
    return name.partition(SEPARATOR)[0]


def plain(amounts: Mapping[str, int]) -> dict[str, int]:
    """The amounts without resources of bundles."""
    return {name: amount for name, amount in amounts.items() if SEPARATOR not in name}


class GroupSpec(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A requested placement group.  `bundles` are in RESOURCE_UNITs by name.

    `actor_id` is the actor that made the group.  The group ends with this actor.
    """

    bundles: Bundles
    strategy: Text
    name: Text = ""
    namespace: Text = ""
    is_detached: bool = False
    actor_id: ShortBytes = b""


class GroupFact(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A group.  `places` has for each bundle the local scheduler of its node; "": no place."""

    group_id: GroupID
    spec: GroupSpec
    state: Text
    places: Many[Text]
    reason: Text = ""


class CreateGroup(Message, tag=routed(240, "driver, worker -> local")):
    """A new placement group."""

    request: int
    group_id: GroupID
    spec: GroupSpec


class CreateGroupReply(Message, tag=routed(241, "local -> driver, worker")):
    """`holder` is the group that already has the name; b"": the group is made."""

    request: int
    holder: ShortBytes


class RemoveGroup(Message, tag=routed(242, "driver, worker -> local -> gcs")):
    """The bundles are given back.  Work inside them is killed."""

    group_id: GroupID
    reason: Text


class FindGroups(Message, tag=routed(243, "driver, worker -> local")):
    """A look-up of the group with this id, or with this name; without both, of all groups."""

    request: int
    group_id: ShortBytes = b""
    namespace: Text = ""
    name: Text = ""


class GroupsFound(Message, tag=routed(244, "local -> driver, worker")):
    """The answer to FindGroups."""

    request: int
    groups: Many[GroupFact]


class AttendShard(Message, tag=routed(245, "local -> gcs")):
    """The node announces itself.  `has_bundles`: bundles may be reserved here."""

    node: Text
    has_bundles: bool


class RegisterGroup(Message, tag=routed(246, "local -> gcs")):
    """A new group.  `keeper` finds places for the group.

    `home` is the local scheduler of the group's driver.
    """

    group_id: GroupID
    spec: GroupSpec
    node: Text
    keeper: Text
    job_id: ShortBytes
    home: Text


class GroupRegistered(Message, tag=routed(247, "gcs -> local")):
    """The answer to RegisterGroup.  `holder` is as in CreateGroupReply."""

    group_id: GroupID
    holder: ShortBytes = b""


class KeepGroup(Message, tag=routed(248, "gcs -> local")):
    """The order to find places for the bundles without a place, in search `trip`."""

    fact: GroupFact
    trip: Natural
    job_id: ShortBytes
    home: Text


class FindPlaces(Message, tag=routed(249, "local -> global")):
    """A request for places for `bundles` that have none, as (index, amounts).

    `taken` lists the nodes of the other bundles.
    """

    group_id: GroupID
    trip: Natural
    bundles: Many[tuple[Natural, Amounts]]
    strategy: Text
    taken: Many[Text]


class PlacesFound(Message, tag=routed(250, "global -> local")):
    """Places for all of the bundles, as (index, node).

    An empty list means: not now.  With a reason, it means: never on the present nodes.
    """

    group_id: GroupID
    trip: Natural
    places: Many[tuple[Natural, Text]]
    reason: Text = ""


class BundlesLeave(Message, tag=routed(269, "local -> global")):
    """Bundles of a group that is removed, as (node, amounts).

    A hint: these amounts count as free until that node's next report.
    """

    bundles: Annotated[list[tuple[Text, Amounts]], Meta(max_length=BUNDLES_MAX)]


class TryPlaces(Message, tag=routed(251, "local -> gcs")):
    """The places that search `trip` has found."""

    group_id: GroupID
    trip: Natural
    places: Many[tuple[Natural, Text]]


class GiveUpGroup(Message, tag=routed(252, "local -> gcs")):
    """The present nodes could never hold the group, for this `reason`.

    `waits`: the group is not given up, and waits for other nodes.  A later message with `waits` and without a reason
    says that the present nodes could hold it.
    """

    group_id: GroupID
    trip: Natural
    reason: Text
    waits: bool = False


class PrepareBundles(Message, tag=routed(253, "gcs -> local")):
    """The order to reserve all of these bundles, or none."""

    group_id: GroupID
    trip: Natural
    bundles: Many[tuple[Natural, Amounts]]


class BundlesPrepared(Message, tag=routed(254, "local -> gcs")):
    """The answer to PrepareBundles.  `is_done`: all bundles are reserved."""

    group_id: GroupID
    trip: Natural
    node: Text
    is_done: bool


class CommitBundles(Message, tag=routed(255, "gcs -> local")):
    """The prepared bundles belong to the group."""

    group_id: GroupID
    trip: Natural


class ReturnBundles(Message, tag=routed(256, "gcs -> local")):
    """The order to give back the bundles of search `trip`; 0: all bundles, because the group is removed."""

    group_id: GroupID
    trip: Natural
    reason: Text = ""


class LocateGroup(Message, tag=routed(257, "local -> gcs")):
    """A request for the places of the group, now and at each change."""

    group_id: GroupID
    node: Text


class GroupLocated(Message, tag=routed(258, "gcs -> local")):
    """The answer to LocateGroup."""

    fact: GroupFact


class LookUpGroups(Message, tag=routed(259, "local -> gcs")):
    """The same look-up as FindGroups, at one shard."""

    request: int
    group_id: ShortBytes = b""
    namespace: Text = ""
    name: Text = ""


class GroupsListed(Message, tag=routed(260, "gcs -> local")):
    """The answer to LookUpGroups."""

    request: int
    groups: Many[GroupFact]
