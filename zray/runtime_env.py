"""Surroundings of tasks (Ray's runtime_env): environment variables, a working folder, modules.

    zray.init(runtime_env={"env_vars": {"MODE": "fast"}, "working_dir": "."})    for all tasks of a program
    @zray.remote(runtime_env={"env_vars": {...}})    for these tasks, and their children

env_vars      environment variables; ${NAME} in a value is the former value of NAME
working_dir   folder that tasks run in, and import from; other nodes get a copy
py_modules    folders of packages, or .py files, to import from
excludes      patterns of files that stay behind
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import absent

EnvVars = tuple[tuple[str, str], ...]

# Of a program, and of a task or an actor.
JOB_FIELDS = ("env_vars", "working_dir", "py_modules", "excludes")
TASK_FIELDS = ("env_vars",)
# Ray's, without a meaning here that a program could miss.
FIELDS_WITHOUT_EFFECT = ("config", "_ray_release", "_ray_commit", "_inject_current_ray")
# They travel with every task of theirs.
ENV_VARS_BYTES_MAX = 64 << 10


class RuntimeEnv(dict[str, Any]):
    """Surroundings of tasks, checked: a dict made of its fields.

        zray.init(runtime_env=RuntimeEnv(env_vars={"MODE": "fast"}, working_dir="."))

    Raises:
        ValueError, TypeError: an unknown field, or a bad value.
        NotImplementedError: a field of Ray's that zray does not have yet.
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__(check_runtime_env(fields, JOB_FIELDS, "RuntimeEnv()"))


def check_runtime_env(given: Any, valid: Iterable[str], what: str) -> dict[str, Any]:
    """Check a runtime_env, and return its fields that have an effect.

    Raises:
        TypeError: a value has a wrong type.
        ValueError: an unknown field, or a bad value.
        NotImplementedError: a field of Ray's that zray does not have yet, or not for a task or an actor.
    """
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env of {what} must be a dict, not {type(given).__name__}.")
    found = {}
    for name, value in given.items():
        if value is None or value in ({}, []) or name in FIELDS_WITHOUT_EFFECT:
            continue
        if name in absent.RUNTIME_ENV_FIELDS:
            raise absent.not_built(absent.RUNTIME_ENV_FIELDS, name, f"the field {name!r} of runtime_env")
        if name not in JOB_FIELDS:
            raise ValueError(f"runtime_env has no field {name!r}.  It has: {', '.join(JOB_FIELDS)}.")
        if name not in valid:
            raise absent.not_built(
                absent.ABILITIES,
                "`working_dir`, `py_modules` of a task or an actor",
                f"the field {name!r} of runtime_env for {what}",
            )
        _CHECKS[name](value)
        found[name] = value
    return found


def _check_env_vars(value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"env_vars must be a dict of names to values, not {type(value).__name__}.")
    size = 0
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"env_vars must map str to str, but {name!r} is mapped to {text!r}.")
        if not name or "=" in name or "\0" in name or "\0" in text:
            raise ValueError(f"{name!r} cannot be an environment variable.")
        if name == "PYTHONHASHSEED":  # Python reads it as it starts, and workers are forked
            raise absent.not_built(absent.ABILITIES, "`PYTHONHASHSEED` in `env_vars`", f"{name} in env_vars")
        size += len(os.fsencode(name)) + len(os.fsencode(text))
    if size > ENV_VARS_BYTES_MAX:
        raise ValueError(f"env_vars take {size:,} bytes, but at most {ENV_VARS_BYTES_MAX:,} can be given.")


def _check_folder(value: Any) -> None:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"working_dir must be a path, not {type(value).__name__}.")
    if "://" in str(value):
        name = "addresses as `working_dir`"
        raise absent.not_built(absent.ABILITIES, name, f"{name} ({value!r})")
    if not os.path.isdir(value):
        raise ValueError(f"working_dir: the folder {os.path.abspath(value)} does not exist.")


def _check_modules(value: Any) -> None:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"py_modules must be a list of paths, not {type(value).__name__}.")
    for path in value:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"py_modules must list paths of packages or modules, not {type(path).__name__}.")
        if "://" in str(path) or str(path).endswith((".whl", ".zip")):
            name = "archives and addresses in `py_modules`"
            raise absent.not_built(absent.ABILITIES, name, f"{name} ({str(path)!r})")
        if not os.path.exists(path):
            raise ValueError(f"py_modules: the path {os.path.abspath(path)} does not exist.")


def _check_patterns(value: Any) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise TypeError("excludes must be a list of patterns (str).")


_CHECKS = {
    "env_vars": _check_env_vars,
    "working_dir": _check_folder,
    "py_modules": _check_modules,
    "excludes": _check_patterns,
}


def env_vars_of(runtime_env: dict[str, Any] | None, inherited: EnvVars = ()) -> EnvVars:
    """The variables of a checked runtime_env, on top of inherited ones."""
    own = (runtime_env or {}).get("env_vars") or {}
    return tuple(sorted({**dict(inherited), **own}.items()))
