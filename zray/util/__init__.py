"""Helpers on the public API, under Ray's names.

Names are loaded on first use, so that `import zray.util` takes no time.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..api.freeing import free
    from ..store.values import deregister_serializer, register_serializer
    from . import (
        actor_pool,
        check_serialize,
        collective,
        dask,
        executor,
        joblib,
        multiprocessing,
        queue,
        scheduling_strategies,
    )
    from .actor_pool import ActorPool
    from .bars import tqdm
    from .check_serialize import inspect_serializability
    from .completion import as_completed
    from .lookups import get_node_ip_address, list_named_actors
    from .mapping import map, map_unordered
    from .placement_group import (
        get_current_placement_group,
        get_placement_group,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from .random_numbers import rng

_GROUPS = (
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
)
_MODULE_BY_NAME = {
    "ActorPool": "zray.util.actor_pool",
    "as_completed": "zray.util.completion",
    "deregister_serializer": "zray.store.values",
    "free": "zray.internal",
    "get_node_ip_address": "zray.util.lookups",
    "disable_log_once_globally": "zray.util.debug",
    "enable_periodic_logging": "zray.util.debug",
    "inspect_serializability": "zray.util.check_serialize",
    "list_named_actors": "zray.util.lookups",
    "log_once": "zray.util.debug",
    "map": "zray.util.mapping",
    "map_unordered": "zray.util.mapping",
    "register_serializer": "zray.store.values",
    "rng": "zray.util.random_numbers",
    "tqdm": "zray.util.bars",
    **dict.fromkeys(_GROUPS, "zray.util.placement_group"),
}
_MODULES = (
    "actor_pool",
    "check_serialize",
    "collective",
    "dask",
    "executor",
    "joblib",
    "multiprocessing",
    "queue",
    "scheduling_strategies",
    # Not in dir(zray.util): few programs need them.
    *("accelerators", "annotations", "debug", "metrics", "rpdb", "state"),
)

__all__ = [
    "ActorPool",
    "actor_pool",
    "as_completed",
    "check_serialize",
    "collective",
    "dask",
    "deregister_serializer",
    "executor",
    "free",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "joblib",
    "list_named_actors",
    "map",
    "map_unordered",
    "multiprocessing",
    "placement_group",
    "placement_group_table",
    "queue",
    "register_serializer",
    "remove_placement_group",
    "rng",
    "scheduling_strategies",
    "tqdm",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULE_BY_NAME:
        value = getattr(import_module(_MODULE_BY_NAME[name]), name)
    elif name == "pdb":  # as in Ray, and no module of its own
        value = import_module("zray.util.rpdb")
    elif name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise import_module("zray.ray_names.absent").attribute_error(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """The package itself, in which `placement_group` is the function, although a module has the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "placement_group" and isinstance(value, ModuleType):  # Python has imported the module
            value = value.__dict__.get(name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
