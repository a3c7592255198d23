"""Scheduling strategies, for `.options(scheduling_strategy=...)` beside "DEFAULT" and "SPREAD".

NodeAffinitySchedulingStrategy(zray.get_runtime_context().get_node_id(), soft=False)
NodeLabelSchedulingStrategy(hard={"disk": In("ssd", "nvme")}, soft={"zone": In("a")})
PlacementGroupSchedulingStrategy(zray.util.placement_group([{"CPU": 1}]), placement_group_bundle_index=0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..options.checks import check_whole
from ..wire.groups import BUNDLES_MAX
from ..wire.task_spec import RESOURCE_UNIT
from ..wire.where import LABELS_MAX, LabelRule, Where
from .placement_group import PlacementGroup

__all__ = [
    "DoesNotExist",
    "Exists",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]


class NodeAffinitySchedulingStrategy:
    """Strategy: run on a given node.

    Args:
        node_id: id of the node in hexadecimal, as `zray.nodes()` shows it.
        soft: run on another node if that one is gone or could never run the task.  Default: False.

    Raises:
        TypeError, ValueError: node_id is no id of a node.
    """

    def __init__(self, node_id: str, soft: bool = False) -> None:
        if not isinstance(node_id, str):
            raise TypeError(f"node_id must be a str (in hexadecimal, as nodes() has it), not {type(node_id).__name__}.")
        if not node_id:
            raise ValueError("node_id must not be empty.")
        self.node_id = node_id
        self.soft = bool(soft)

    def _where(self) -> Where:
        return Where(node=self.node_id, is_soft=self.soft)

    def __repr__(self) -> str:
        return f"NodeAffinitySchedulingStrategy({self.node_id!r}, soft={self.soft})"


class _Operator:
    """Rule for the value of a label."""

    is_negated = False

    def __init__(self, *values: str) -> None:
        for value in values:
            if not isinstance(value, str):
                raise TypeError(f"The values of a label are str, not {type(value).__name__}.")
        self.values = values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"


class In(_Operator):
    """Rule: the label has one of the values."""

    def __init__(self, *values: str) -> None:
        if not values:
            raise ValueError("In() needs a value.")
        super().__init__(*values)


class NotIn(In):
    """Rule: the label has none of the values, or is absent."""

    is_negated = True


class Exists(_Operator):
    """Rule: the label is present."""

    def __init__(self) -> None:
        super().__init__()


class DoesNotExist(Exists):
    """Rule: the label is absent."""

    is_negated = True


class NodeLabelSchedulingStrategy:
    """Strategy: run on a node whose labels (`zray start --labels`) meet rules.

    Args:
        hard: rules by label that the node must meet, as {"disk": In("ssd", "nvme")}.
        soft: rules that the node meets if possible.

    Raises:
        TypeError, ValueError: no rules, or values that are none.
    """

    def __init__(self, hard: Mapping[str, Any] | None = None, soft: Mapping[str, Any] | None = None) -> None:
        if not hard and not soft:
            raise ValueError("NodeLabelSchedulingStrategy needs rules: hard, soft, or both.")
        self.hard = _rules("hard", hard or {})
        self.soft = _rules("soft", soft or {})

    def _where(self) -> Where:
        return Where(hard=self.hard, soft=self.soft)

    def __repr__(self) -> str:
        return f"NodeLabelSchedulingStrategy(hard={self.hard!r}, soft={self.soft!r})"


def _rules(what: str, given: Mapping[str, Any]) -> tuple[LabelRule, ...]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a dict of labels to In, NotIn, Exists or DoesNotExist, not {given!r}.")
    if len(given) > LABELS_MAX:
        raise ValueError(f"{what} has {len(given)} rules; at most {LABELS_MAX}.")
    rules = []
    for key, operator in given.items():
        if not isinstance(key, str) or not isinstance(operator, _Operator):
            raise TypeError(
                f"{what} must map labels to In, NotIn, Exists or DoesNotExist, not {key!r} to {operator!r}."
            )
        rules.append(LabelRule(key, operator.values, operator.is_negated))
    return tuple(rules)


class PlacementGroupSchedulingStrategy:
    """Strategy: run in a bundle of a placement group.

    Args:
        placement_group: the group; None or PlacementGroup.empty() means no group.
        placement_group_bundle_index: index of the bundle, from 0.  Default: -1, any bundle.
        placement_group_capture_child_tasks: run children in the group too, unless they have a strategy of their own.
            Default: None, as for the task that submits.

    Raises:
        TypeError, ValueError: the group is none, or has no bundle of that index.
    """

    def __init__(
        self,
        placement_group: PlacementGroup | None,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        if placement_group is not None and not isinstance(placement_group, PlacementGroup):
            raise TypeError(f"placement_group must be a PlacementGroup, not {type(placement_group).__name__}.")
        placement_group_bundle_index = check_whole(
            "placement_group_bundle_index", placement_group_bundle_index, -1, BUNDLES_MAX - 1
        )
        if placement_group is None or placement_group.is_empty:
            count = 0
        elif placement_group_bundle_index == -1:
            count = 1
        else:
            count = placement_group.bundle_count
        if not -1 <= placement_group_bundle_index < max(count, 0):
            raise ValueError(
                f"placement_group_bundle_index is {placement_group_bundle_index}, but the placement group has {count} "
                f"bundle{'s' * (count != 1)}: indexes count from 0, and -1 means any bundle."
            )
        if placement_group_capture_child_tasks not in (None, False, True):
            raise TypeError("placement_group_capture_child_tasks must be a bool or None.")
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks

    def _where(self) -> Where | None:
        group = self.placement_group
        if group is None or group.is_empty:
            return None
        captures = bool(self.placement_group_capture_child_tasks)
        return Where(group=bytes(group.id), bundle=self.placement_group_bundle_index, captures=captures)

    def _check(self, request: Mapping[str, int]) -> None:
        """Refuse a request that no bundle can meet.

        Raises:
            ValueError: the text shows the request and the bundles.
        """
        group, index = self.placement_group, self.placement_group_bundle_index
        if group is None or group.is_empty or not any(request.values()):
            return
        specs = group.bundle_specs
        bundles = specs if index == -1 else [specs[index]]
        for bundle in bundles:
            if all(round(bundle.get(name, 0) * RESOURCE_UNIT) >= amount for name, amount in request.items()):
                return
        asked = {name: amount / RESOURCE_UNIT for name, amount in request.items()}
        raise ValueError(f"The request {asked} fits into no bundle of the placement group: {bundles}.")

    def __repr__(self) -> str:
        return f"PlacementGroupSchedulingStrategy({self.placement_group!r}, {self.placement_group_bundle_index})"
