"""A program's side of environments: a runtime_env becomes the form sent with its tasks (wire/environment.py).

Each remote function calls this module once, so modules for environments are imported only if a program has any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...options.runtime_env import PackedFiles, env_vars_of, path_of_module
from ...wire.environment import Environment, Parcel
from .. import context

if TYPE_CHECKING:
    from ...object_ref import ObjectRef
    from ..client.runtime import Runtime


def environment_for(
    runtime: Runtime, given: dict[str, Any] | None, *, uses_gpus: bool = False
) -> tuple[Environment, list[ObjectRef[Any]]]:
    """Return the environment of a task or actor with this checked runtime_env, and refs that keep its files alive.

    Absent fields are taken from the submitter.

    Args:
        uses_gpus: whether the environment is for a task with GPUs.

    Raises:
        ValueError, ObjectStoreFullError: as Packer.pack.
    """
    environment = runtime.environment
    if given:
        runtime.check_fields(given)
        environment = extended(runtime, environment, given)
    if environment.uses_gpus != uses_gpus:
        environment = replace(environment, uses_gpus=uses_gpus)
    return environment, [runtime.another_ref(parcel.object_id) for parcel in environment.parcels]


def extended(runtime: Runtime, base: Environment, given: dict[str, Any]) -> Environment:
    """The environment with the fields of a runtime_env on top."""
    env_vars = env_vars_of(given, base.env_vars)
    working_dir, modules, packages = base.working_dir, base.py_modules, base.packages
    excludes = tuple(given.get("excludes") or ())
    if path := given.get("working_dir"):
        working_dir = _parcel(runtime, "working_dir", path, excludes)
    if paths := given.get("py_modules"):
        modules = tuple(dict.fromkeys(_parcel(runtime, "py_modules", item, excludes) for item in paths))
    for tool in ("pip", "uv"):
        if given.get(tool):
            from ...options.package_requests import request_of

            seconds = (given.get("config") or {}).get("setup_timeout_seconds")
            variables = {**dict(runtime.facts.env_vars), **dict(env_vars)}
            packages = request_of(tool, given[tool], variables, seconds)
    return Environment(env_vars, working_dir, modules, packages)


def _parcel(runtime: Runtime, field: str, item: Any, excludes: tuple[str, ...]) -> Parcel:
    if isinstance(item, PackedFiles):
        return Parcel(item.digest, item.ref.id, item.size, item.source)
    return runtime.packer.pack(field, path_of_module(item), excludes)


def portable(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a remote function for other processes, which may lack the files of this machine."""
    runtime, given = context.runtime, options.get("runtime_env")
    if runtime is None or not given or not given.keys() & {"working_dir", "py_modules", "pip", "uv"}:
        return options
    excludes = tuple(given.get("excludes") or ())
    found = dict(given)
    if path := given.get("working_dir"):
        found["working_dir"] = _packed(runtime, "working_dir", path, excludes)
    if paths := given.get("py_modules"):
        found["py_modules"] = [_packed(runtime, "py_modules", item, excludes) for item in paths]
    for tool in ("pip", "uv"):
        if request := given.get(tool):
            from ...options.package_requests import requirement_lines

            fields = request if isinstance(request, Mapping) else {"packages": request}
            found[tool] = {**fields, "packages": requirement_lines(fields["packages"])}
    return {**options, "runtime_env": found}


def _packed(runtime: Runtime, field: str, item: Any, excludes: tuple[str, ...]) -> PackedFiles:
    if isinstance(item, PackedFiles):
        return item
    parcel = _parcel(runtime, field, item, excludes)
    return PackedFiles(runtime.another_ref(parcel.object_id), parcel.digest, parcel.size, parcel.source)


def described(environment: Environment) -> dict[str, Any]:
    """Return the environment as a runtime_env, with the program's paths."""
    found: dict[str, Any] = {}
    if environment.env_vars:
        found["env_vars"] = dict(environment.env_vars)
    if environment.working_dir is not None:
        found["working_dir"] = environment.working_dir.source
    if environment.py_modules:
        found["py_modules"] = [parcel.source for parcel in environment.py_modules]
    if environment.packages:
        from ...options.package_requests import given_by

        found.update(given_by(environment.packages))
    return found
