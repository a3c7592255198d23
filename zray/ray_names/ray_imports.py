"""`import ray` as zray: a finder that gives zray's modules under Ray's names.

The modules are the same objects: `ray.util is zray.util`, so a class is one class under both names.  A Ray that is
installed is neither imported nor changed.  Workers import this module ahead of user code; it is light.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..version import __ray_version__

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# On the path of child processes: its module `ray` installs the finder there.
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ray_path")
# Modules of Ray whose names are found in a module of another name here.
MOVED = {
    "ray.data": "zray._private.data",
    "ray.services": "zray._private.services",
    "ray.worker": "zray._private.worker",
    "ray.dag.class_node": "zray.dag",
    "ray.dag.compiled_dag_node": "zray.dag",
    "ray.dag.dag_node": "zray.dag",
    "ray.dag.function_node": "zray.dag",
    "ray.dag.input_node": "zray.dag",
    "ray.dag.output_node": "zray.dag",
    "ray.internal.internal_api": "zray.internal",
    "ray.util.state.api": "zray.util.state",
    "ray.experimental.state": "zray.util.state",
    "ray.experimental.state.api": "zray.util.state",
}


def install(runtime: Any = None) -> None:
    """Make `import ray` mean zray, as zray.util.as_ray.install() does.

    Args:
        runtime: the session that this process is in; None: none.

    Raises:
        RuntimeError: another module `ray` is imported already, or the workers of the session know nothing of `ray`.
    """
    if is_installed():
        return
    other = sys.modules.get("ray")
    if other is not None:
        place = getattr(other, "__file__", None) or "another module"
        if os.path.dirname(os.path.abspath(place)) != FOLDER:
            raise RuntimeError(
                f"`import ray` has already found {place} in this program: call zray.util.as_ray.install() before the "
                "first `import ray`."
            )
    if runtime is not None and not runtime.facts.as_ray:
        raise RuntimeError(
            "The workers of this session know nothing of `ray`: call zray.util.as_ray.install() before zray.init()."
        )
    zray = sys.modules["zray"]
    sys.meta_path.insert(0, RayModules)  # type: ignore[arg-type]
    sys.modules["ray"] = zray
    mirror()
    zray.__version__ = __ray_version__  # type: ignore[attr-defined]
    os.environ["PYTHONPATH"] = path_of_children(os.environ.get("PYTHONPATH", ""))


def is_installed() -> bool:
    """Tell whether `import ray` means zray in this process."""
    return RayModules in sys.meta_path


def is_wanted() -> bool:
    """Whether the workers of a session that starts now are to import zray as `ray`."""
    return is_installed() or FOLDER in sys.path


def mirror() -> None:
    """Register all modules imported by now under Ray's names too.

    The import system binds a module that it loads as an attribute of its package.  `zray.util.placement_group` is a
    function whose module has the same name: a load of that module under a second name would replace the function.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("zray."):
            sys.modules.setdefault(name[1:], module)
    for name, own in MOVED.items():
        if own in sys.modules:  # where the parent is no package, Python asks no finder
            sys.modules.setdefault(name, sys.modules[own])


def moved(name: str) -> ModuleSpec | None:
    """Return the specification of zray's module under a name of Ray; None: not in MOVED."""
    own = MOVED.get(name.removeprefix("z"))
    return ModuleSpec(name, OwnModule(own), is_package=True) if own is not None else None  # type: ignore[arg-type]


def path_of_children(path: str) -> str:
    """PYTHONPATH with the folder in front, where `import ray` finds zray."""
    return os.pathsep.join([FOLDER, *(entry for entry in path.split(os.pathsep) if entry and entry != FOLDER)])


def address() -> str:
    """Address that programs of Ray find in RAY_ADDRESS; "" in other programs."""
    return os.environ.get("RAY_ADDRESS", "") if is_wanted() else ""


class RayModules:
    """Finder ahead of all others in sys.meta_path: `ray.x.y` is the module `zray.x.y`."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the module of zray; None, for a missing module, makes Python report the module as not found.

        Raises:
            ModuleNotFoundError: the module is known to be absent; says what to do instead.
        """
        if name != "ray" and not name.startswith("ray."):
            return None
        from importlib.util import find_spec

        own = MOVED.get(name) or "z" + name
        try:
            found = find_spec(own)
        except ModuleNotFoundError:
            found = None
        if found is not None:
            is_package = found.submodule_search_locations is not None
            return ModuleSpec(name, OwnModule(own), origin=found.origin, is_package=is_package)  # type: ignore[arg-type]
        asking = sys._getframe(1)
        if asking.f_back is None or asking.f_back.f_globals.get("__name__") != "importlib.util":
            from . import absent

            absent.refuse_import(own)
        return None

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[Distribution]:
        """What importlib.metadata knows of `ray`: the version alone.  A search for all has no name."""
        if getattr(context, "name", None) in ("ray", None):
            from .ray_metadata import RayDistribution

            yield RayDistribution()

    @staticmethod
    def invalidate_caches() -> None:
        """Nothing is cached."""


class OwnModule:
    """Loader of a module of zray under a name of Ray's."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module under its own name."""
        module = importlib.import_module(self.own)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, replaced by the import system before the module ran."""
        module.__spec__ = self.spec
        mirror()
