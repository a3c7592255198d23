"""A program's side of environments: a runtime_env becomes what travels with its tasks (wire/environment.py).

Each remote function asks here once, so nothing that only environments need is imported for those without one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..runtime_env import env_vars_of, path_of_module
from ..wire.environment import Environment

if TYPE_CHECKING:
    from ..object_ref import ObjectRef
    from .runtime import Runtime


def environment_for(runtime: Runtime, given: dict[str, Any] | None) -> tuple[Environment, list[ObjectRef[Any]]]:
    """The environment of a task or an actor with this checked runtime_env, and refs that keep its files.

    Fields that are not given are those of whoever submits it.

    Raises:
        ValueError, ObjectStoreFullError: as Packer.pack.
    """
    environment = runtime.environment
    if given:
        environment = extended(runtime, environment, given)
    return environment, [runtime.another_ref(parcel.object_id) for parcel in environment.parcels]


def extended(runtime: Runtime, base: Environment, given: dict[str, Any]) -> Environment:
    """The environment with the fields of a runtime_env on top."""
    env_vars = env_vars_of(given, base.env_vars)
    working_dir, modules, packages = base.working_dir, base.py_modules, base.packages
    excludes = tuple(given.get("excludes") or ())
    if path := given.get("working_dir"):
        working_dir = runtime.packer.pack("working_dir", os.fspath(path), excludes)
    if paths := given.get("py_modules"):
        found = (runtime.packer.pack("py_modules", path_of_module(item), excludes) for item in paths)
        modules = tuple(dict.fromkeys(found))
    for tool in ("pip", "uv"):
        if given.get(tool):
            from .packages import request_of

            seconds = (given.get("config") or {}).get("setup_timeout_seconds")
            variables = {**dict(runtime.facts.env_vars), **dict(env_vars)}
            packages = request_of(tool, given[tool], variables, seconds)
    return Environment(env_vars, working_dir, modules, packages)


def described(environment: Environment) -> dict[str, Any]:
    """The environment as a runtime_env; paths are those that the program named."""
    found: dict[str, Any] = {}
    if environment.env_vars:
        found["env_vars"] = dict(environment.env_vars)
    if environment.working_dir is not None:
        found["working_dir"] = environment.working_dir.source
    if environment.py_modules:
        found["py_modules"] = [parcel.source for parcel in environment.py_modules]
    if environment.packages:
        from .packages import given_by

        found.update(given_by(environment.packages))
    return found
