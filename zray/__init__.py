"""zray: Ray's programming model as a small, fast, secure message bus.  `import zray as ray` runs Ray programs.

Names are loaded on first use: control processes import this package too, and must import neither pickle nor
numpy; and `import zray` costs next to nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import second_start, shadows, uncaught
from .version import __ray_version__, __version__

if TYPE_CHECKING:
    from . import actor, cloudpickle, exceptions, experimental, internal, runtime_env, util
    from .actor import ActorClassInheritanceException, exit_actor, method
    from .api import (
        as_completed,
        cancel,
        get,
        get_actor,
        get_gpu_ids,
        get_runtime_context,
        init,
        is_initialized,
        kill,
        put,
        shutdown,
        timeline,
        wait,
    )
    from .cluster_info import available_resources, cluster_resources, nodes
    from .decorator import remote
    from .object_ref import ObjectID, ObjectRef

_MODULE_BY_NAME = {
    **dict.fromkeys(("LOCAL_MODE", "SCRIPT_MODE", "WORKER_MODE", "logger"), "_private.worker"),
    **dict.fromkeys(("available_resources", "cluster_resources", "nodes"), "cluster_info"),
    "ActorClassInheritanceException": "actor",
    "ObjectID": "object_ref",
    "ObjectRef": "object_ref",
    "exit_actor": "actor",
    "method": "actor",
    "remote": "decorator",
    **dict.fromkeys(
        (
            "as_completed",
            "cancel",
            "get",
            "get_actor",
            "get_gpu_ids",
            "get_runtime_context",
            "init",
            "is_initialized",
            "kill",
            "put",
            "shutdown",
            "timeline",
            "wait",
        ),
        "api",
    ),
}
_MODULES = (
    *("actor", "cloudpickle", "exceptions", "experimental", "internal", "runtime_env", "util"),
    # Not in dir(zray): few programs need them.
    *("_private", "_raylet", "cluster_utils", "dag", "job_config", "remote_function", "runtime_context", "types"),
    *("air", "rllib", "train", "tune"),
)

second_start.end_if_marked()
uncaught.install()
sys.meta_path.append(shadows.AbsentModules)

# Written out: type checkers and editors read it.
__all__ = [
    "ActorClassInheritanceException",
    "ObjectID",
    "ObjectRef",
    "__ray_version__",
    "__version__",
    "actor",
    "as_completed",
    "available_resources",
    "cancel",
    "cloudpickle",
    "cluster_resources",
    "exceptions",
    "exit_actor",
    "experimental",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "internal",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "runtime_env",
    "shutdown",
    "timeline",
    "util",
    "wait",
]


def __getattr__(name: str) -> Any:
    if sys.meta_path is None:
        raise RuntimeError(f"The interpreter is ending: zray.{name} cannot be used any more.")
    from importlib import import_module

    module = _MODULE_BY_NAME.get(name)
    if module is not None:
        if f"{__name__}.{module}" not in sys.modules:
            shadows.refuse()
        value = getattr(import_module(f".{module}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        # Not `from . import absent`: that asks for the attribute "absent" first, and comes back here.
        raise import_module(".absent", __name__).attribute_error(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
