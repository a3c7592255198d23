"""Placement groups: bundles of resources that are reserved on nodes, all of them or none.

    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    zray.get(group.ready(), timeout=60)
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    zray.get(f.options(scheduling_strategy=strategy).remote())
    remove_placement_group(group)

A group waits until nodes have resources for all of its bundles.  The group ends with the program or actor that created
it; with lifetime="detached", it ends when it is removed.  The bundles of a lost node are placed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..api import objects, runtime_context, sessions
from ..api.decorator import remote
from ..exceptions import GetTimeoutError
from ..ids import named_group_id
from ..object_ref import ObjectRef
from ..on_import import shadows
from ..options.checks import check_number
from ..options.remote_options import MEMORY, check_memory, in_units
from ..ray_names import absent
from ..wire.amounts import STORE_MEMORY
from ..wire.groups import (
    BUNDLES_MAX,
    CREATED,
    PACK,
    REMOVED,
    STRATEGIES,
    CreateGroup,
    FindGroups,
    GroupFact,
    GroupSpec,
    RemoveGroup,
)
from ..wire.task_spec import RESOURCE_UNIT

if TYPE_CHECKING:
    from .scheduling_strategies import PlacementGroupSchedulingStrategy

__all__ = [
    "VALID_PLACEMENT_GROUP_STRATEGIES",
    "PlacementGroup",
    "PlacementGroupID",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
    "validate_placement_group",
]

VALID_PLACEMENT_GROUP_STRATEGIES = set(STRATEGIES)
WAIT_SECONDS = 30
REMOVAL_SECONDS = 10.0  # the head may be away: it is removed when that is back
RESOURCES_MAX = 1_000  # of one bundle
NAME_CHARACTERS_MAX = 1_000


class PlacementGroupID(bytes):
    """Id of a placement group: 16 bytes, or none for the empty group."""

    def binary(self) -> bytes:
        """The id as bytes."""
        return bytes(self)

    def is_nil(self) -> bool:
        """Whether the id is that of the empty group."""
        return not self

    def __repr__(self) -> str:
        return f"PlacementGroupID({self.hex()})"

    def __str__(self) -> str:
        return repr(self)


class PlacementGroup:
    """Handle of a placement group, free to be passed on and stored.  The group does not end with its handles."""

    def __init__(self, id: bytes, bundle_cache: list[dict[str, float]] | None = None) -> None:
        self.id = PlacementGroupID(id)
        self._bundles = bundle_cache
        self._ready: ObjectRef | None = None

    @staticmethod
    def empty() -> PlacementGroup:
        """Make the empty group: tasks scheduled with it run in no group, even if their parent does."""
        return PlacementGroup(b"", [])

    @property
    def is_empty(self) -> bool:
        """Whether this is the empty group."""
        return self.id.is_nil()

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """Resources of each bundle, by name.

        Raises:
            ValueError: the group was removed, and this handle is not its creator's.
        """
        if self._bundles is None:
            found = _find(self.id)
            if found is None:
                raise ValueError(f"The placement group {self.id.hex()} has been removed.")
            self._bundles = _bundles_of(found)
        return self._bundles

    @property
    def bundle_count(self) -> int:
        """Number of bundles."""
        return len(self.bundle_specs)

    def ready(self) -> ObjectRef:
        """Return a ref on this handle that becomes ready when all bundles are placed.

        get() on the ref raises TaskPlacementGroupRemoved if the group is removed before that.  get() raises
        TaskUnschedulableError if no node can ever hold the group and infeasible="raise" holds (zray.init).
        A node that joins later has the group placed again: call ready() again then.
        """
        strategy = self._strategy(-1, False)
        return _is_placed.options(name="PlacementGroup.ready", scheduling_strategy=strategy).remote(self)

    def _strategy(self, index: int, captures: bool | None) -> PlacementGroupSchedulingStrategy:
        """Scheduling strategy for tasks in this group."""
        from .scheduling_strategies import PlacementGroupSchedulingStrategy

        return PlacementGroupSchedulingStrategy(self, index, captures)

    def wait(self, timeout_seconds: float = WAIT_SECONDS) -> bool:
        """Wait until all bundles are placed.

        Args:
            timeout_seconds: seconds.  Default: 30.

        Returns:
            True if the bundles are placed, False after the timeout.

        Raises:
            TaskPlacementGroupRemoved, TaskUnschedulableError: the bundles will never be placed.
        """
        ref = self._ready = self._ready or self.ready()  # one task, however often a program looks
        ready, _ = objects.wait([ref], timeout=timeout_seconds)
        if not ready:
            return False
        self._ready = None  # what it says may not be so for ever
        objects.get(ref)
        return True

    def __reduce__(self) -> Any:
        return PlacementGroup, (bytes(self.id), self._bundles)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()})"


@remote(num_cpus=0, max_retries=-1)
def _is_placed(group: PlacementGroup) -> PlacementGroup:
    """Return the group: a task run in the group proves the placement of the bundles."""
    return group


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str = PACK,
    name: str = "",
    lifetime: str | None = None,
    **further: Any,
) -> PlacementGroup:
    """Reserve bundles of resources on nodes, all of them or none.  Returns at once.

        group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
        group.wait(timeout_seconds=60)

    Args:
        bundles: a list with the amounts of each bundle, as {"CPU": 1, "GPU": 0.5, "disk": 2}.
        strategy: "PACK" (few nodes), "SPREAD" (many nodes), "STRICT_PACK" (one node), "STRICT_SPREAD" (a node each).
            Default: "PACK".
        name: name for get_placement_group, in this program's namespace.  Default: none.
        lifetime: None ends the group with this program; "detached" keeps it until it is removed.

    Returns:
        A PlacementGroup; PlacementGroup.ready and PlacementGroup.wait tell when the bundles are placed.

    Raises:
        ValueError: bad bundles, an unknown strategy or lifetime, or a name that is taken.
        TypeError: a value has a wrong type, or an unknown argument.
        NotImplementedError: an argument of Ray's that zray does not have yet.
    """
    for argument, value in further.items():
        if argument not in absent.PLACEMENT_GROUP_ARGUMENTS:
            raise TypeError(f"placement_group() has no argument {argument!r}.")
        if value is not None:
            subject = f"the argument {argument!r} of placement_group()"
            raise absent.not_built(absent.PLACEMENT_GROUP_ARGUMENTS, argument, subject)
    validate_placement_group(bundles, strategy, lifetime)
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}.")
    if len(name) > NAME_CHARACTERS_MAX:
        raise ValueError(f"name has {len(name)} characters; at most {NAME_CHARACTERS_MAX}.")
    runtime = sessions.require_runtime()
    submitter = runtime.submitter()
    task_id, namespace = submitter.next_task_id(), runtime.namespace
    group_id = named_group_id(task_id, namespace, name) if name else task_id
    units = [{resource: in_units(amount) for resource, amount in bundle.items() if amount} for bundle in bundles]
    spec = GroupSpec(units, strategy, name, namespace, lifetime == "detached", submitter.actor_id)
    reply = runtime.ask(lambda request: CreateGroup(request, group_id, spec), timeout=None)
    if reply.holder:
        raise ValueError(f"A placement group named {name!r} exists already in namespace {namespace!r}.")
    return PlacementGroup(group_id, [_amounts(bundle) for bundle in units])


def validate_placement_group(bundles: Any, strategy: str = PACK, lifetime: str | None = None) -> bool:
    """Check the arguments of placement_group(), and return True.

    Args:
        bundles, strategy, lifetime: as of placement_group().

    Raises:
        ValueError, TypeError: placement_group() would raise the same.
    """
    if strategy not in VALID_PLACEMENT_GROUP_STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}.")
    if lifetime not in (None, "detached"):
        raise ValueError(f"lifetime of a placement group must be None or 'detached', not {lifetime!r}.")
    if not isinstance(bundles, list):
        raise ValueError(f"bundles must be a list of dicts of names to amounts, not {type(bundles).__name__}.")
    if not 1 <= len(bundles) <= BUNDLES_MAX:
        raise ValueError(f"A placement group has from 1 to {BUNDLES_MAX} bundles, not {len(bundles)}.")
    for index, bundle in enumerate(bundles):
        _check_bundle(f"bundles[{index}]", bundle)
    return True


def _check_bundle(what: str, bundle: Any) -> None:
    if not isinstance(bundle, dict):
        raise ValueError(f"{what} must be a dict of names to amounts, not {type(bundle).__name__}.")
    if len(bundle) > RESOURCES_MAX:
        raise ValueError(f"{what} names {len(bundle)} resources; at most {RESOURCES_MAX}.")
    for resource, amount in bundle.items():
        if not isinstance(resource, str) or not resource or len(resource) > 200 or not resource.isprintable():
            raise ValueError(f"A resource's name must be a str of 1 to 200 printable characters, not {resource!r}.")
        if resource == STORE_MEMORY:
            raise ValueError(
                f"{what}: {STORE_MEMORY!r} is the size of a node's object store: no bundle can reserve a part of it."
            )
        if resource == MEMORY:
            check_memory(f"{what}['memory']", amount)
            continue
        if not 0 <= check_number(f"{what}[{resource!r}]", amount) <= 1e9:
            raise ValueError(f"{what}[{resource!r}] must be from 0 to a thousand million, not {amount}.")
    if not any(map(in_units, bundle.values())):
        raise ValueError(f"{what} is empty: a bundle needs an amount above 0 of a resource, not {bundle!r}.")


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Remove a placement group, and give its bundles back.  A second call does nothing.

    Tasks and actors in the group end with TaskPlacementGroupRemoved or ActorPlacementGroupRemoved.  The call returns
    when the nodes are told, after 10 s at most.

    Args:
        placement_group: the group.

    Raises:
        TypeError: the argument is no placement group.
    """
    _require_group(placement_group)
    if placement_group.is_empty:
        return
    runtime = sessions.require_runtime()
    group_id = bytes(placement_group.id)
    runtime.say(RemoveGroup(group_id, "remove_placement_group() was called"))
    try:
        runtime.ask(lambda request: FindGroups(request, group_id), timeout=REMOVAL_SECONDS)  # answered behind it
    except GetTimeoutError:
        pass


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Find a placement group by its name, in this program's namespace.

    Args:
        placement_group_name: the name given to placement_group().

    Raises:
        ValueError: no group has the name, or the name is empty.
    """
    if not isinstance(placement_group_name, str) or not placement_group_name:
        raise ValueError("get_placement_group() needs a name that is not empty.")
    runtime = sessions.require_runtime()
    namespace = runtime.namespace
    reply = runtime.ask(
        lambda request: FindGroups(request, b"", namespace, placement_group_name),
        timeout=None,
    )
    if not reply.groups:
        raise ValueError(f"There is no placement group named {placement_group_name!r} in namespace {namespace!r}.")
    found = reply.groups[0]
    return PlacementGroup(found.group_id, _bundles_of(found))


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Show the facts on one placement group, or on all.

    Args:
        placement_group: the group; None shows all.

    Returns:
        A dict of facts on the group, or a dict of such dicts by id in hexadecimal.  "state" is PENDING, CREATED,
        RESCHEDULING (a node is lost), REMOVED, or UNSCHEDULABLE (no nodes could ever hold the group).
        "bundles_to_node_id" has "" where a bundle has no place.  "stats" has "scheduling_state", with Ray's words:
        QUEUED, INFEASIBLE (the present nodes could never hold the group), FINISHED or REMOVED.
    """
    if placement_group is None:
        reply = sessions.require_runtime().ask(lambda request: FindGroups(request), timeout=None)
        return {fact.group_id.hex(): _row(fact) for fact in reply.groups}
    _require_group(placement_group)
    found = _find(placement_group.id)
    if found is None:
        bundles = placement_group._bundles or []
        nowhere = GroupFact(bytes(placement_group.id), GroupSpec([], ""), REMOVED, [""] * len(bundles))
        return {**_row(nowhere), "bundles": dict(enumerate(bundles))}
    return _row(found)


def _row(fact: GroupFact) -> dict[str, Any]:
    return {
        "placement_group_id": fact.group_id.hex(),
        "name": fact.spec.name,
        "bundles": dict(enumerate(_bundles_of(fact))),
        "bundles_to_node_id": {index: place.partition("/")[0] for index, place in enumerate(fact.places)},
        "strategy": fact.spec.strategy,
        "state": fact.state,
        "stats": {"scheduling_state": _scheduling_state(fact)},
    }


def _scheduling_state(fact: GroupFact) -> str:
    """In Ray's words."""
    if fact.state == REMOVED:
        return "REMOVED"
    if fact.state == CREATED:
        return "FINISHED"
    return "INFEASIBLE" if fact.reason else "QUEUED"


def get_current_placement_group() -> PlacementGroup | None:
    """Return the placement group that the current task or actor runs in; None outside of groups."""
    group_id = runtime_context.get_runtime_context().get_placement_group_id()
    return PlacementGroup(bytes.fromhex(group_id)) if group_id else None


def _find(group_id: bytes) -> GroupFact | None:
    reply = sessions.require_runtime().ask(lambda request: FindGroups(request, bytes(group_id)), timeout=None)
    return reply.groups[0] if reply.groups else None


def _bundles_of(fact: GroupFact) -> list[dict[str, float]]:
    return [_amounts(bundle) for bundle in fact.spec.bundles]


def _amounts(units: dict[str, int]) -> dict[str, float]:
    return {name: amount / RESOURCE_UNIT for name, amount in units.items()}


def _require_group(found: Any) -> None:
    if not isinstance(found, PlacementGroup):
        raise TypeError(f"A PlacementGroup is needed, not an object of type {type(found).__name__}: {found!r}.")


shadows.name_absent(__name__)
