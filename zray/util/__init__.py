"""Helpers on the public API, under Ray's names."""

from typing import Any

from ..internal import free
from ..store.values import deregister_serializer, register_serializer
from . import check_serialize, scheduling_strategies
from .bars import tqdm
from .check_serialize import inspect_serializability
from .completion import as_completed
from .lookups import get_node_ip_address, list_named_actors
from .placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from .random_numbers import rng

__all__ = [
    "as_completed",
    "check_serialize",
    "deregister_serializer",
    "free",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
    "rng",
    "scheduling_strategies",
    "tqdm",
]


def __getattr__(name: str) -> Any:
    from .. import absent

    raise absent.attribute_error(__name__, name)


def __dir__() -> list[str]:
    return __all__
