"""zray: Ray's programming model as a small, fast, secure message bus.  `import zray as ray` runs Ray programs.

Names are loaded on first use: control processes import this package too, and must import neither pickle nor
numpy; and `import zray` costs next to nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import on_import
from .on_import import shadows, uncaught
from .version import __ray_version__, __version__

if TYPE_CHECKING:
    from . import actor, cloudpickle, exceptions, experimental, internal, runtime_env, util
    from .api.actor_class import ActorClassInheritanceException, exit_actor, method
    from .api.actors import get_actor, kill
    from .api.cluster_info import available_resources, cluster_resources, nodes
    from .api.decorator import remote
    from .api.generators import ObjectRefGenerator
    from .api.objects import as_completed, cancel, get, put, wait
    from .api.runtime_context import get_gpu_ids, get_runtime_context
    from .api.sessions import init, is_initialized, shutdown
    from .api.timeline import profile, timeline
    from .object_ref import DynamicObjectRefGenerator, ObjectID, ObjectRef

_MODULE_BY_NAME = {
    **dict.fromkeys(("LOCAL_MODE", "SCRIPT_MODE", "WORKER_MODE", "logger"), "_private.worker"),
    **dict.fromkeys(("available_resources", "cluster_resources", "nodes"), "api.cluster_info"),
    "ActorClassInheritanceException": "exceptions",
    "ObjectID": "object_ref",
    "DynamicObjectRefGenerator": "object_ref",
    "ObjectRefGenerator": "api.generators",
    "ObjectRef": "object_ref",
    "remote": "api.decorator",
    **dict.fromkeys(("as_completed", "cancel", "get", "put", "wait"), "api.objects"),
    **dict.fromkeys(("exit_actor", "method"), "api.actor_class"),
    **dict.fromkeys(("get_actor", "kill"), "api.actors"),
    **dict.fromkeys(("get_gpu_ids", "get_runtime_context"), "api.runtime_context"),
    **dict.fromkeys(("init", "is_initialized", "shutdown"), "api.sessions"),
    **dict.fromkeys(("profile", "timeline"), "api.timeline"),
}
_MODULES = (
    *("actor", "cloudpickle", "exceptions", "experimental", "internal", "runtime_env", "util"),
    # Not in dir(zray): few programs need them.
    *("_private", "_raylet", "cluster_utils", "dag", "job_config", "remote_function", "runtime_context", "types"),
    *("air", "dashboard", "job_submission", "rllib", "testing", "train", "tune"),
)

on_import.end_if_marked()
uncaught.install()
sys.meta_path.append(shadows.AbsentModules)

# Written out: type checkers and editors read it.
__all__ = [
    "ActorClassInheritanceException",
    "DynamicObjectRefGenerator",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
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
    "profile",
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
        raise import_module(".ray_names.absent", __name__).attribute_error(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
