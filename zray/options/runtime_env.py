"""Environments of tasks (Ray's runtime_env): variables, files, packages.

    zray.init(runtime_env={"env_vars": {"MODE": "fast"}, "working_dir": "."})    for all tasks of a program
    @zray.remote(runtime_env={"pip": ["emoji==2.12"]})    for these tasks, and their children

env_vars      environment variables; ${NAME} in a value is the former value of NAME
working_dir   folder, or .zip archive, that tasks run in and import from
py_modules    folders of packages, .py files, .zip and .whl archives to import from
excludes      patterns of files that stay behind, as in .gitignore
pip, uv       packages that are installed first
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..ray_names import absent

EnvVars = tuple[tuple[str, str], ...]

FIELDS = ("env_vars", "working_dir", "py_modules", "excludes", "pip", "uv", "config")
# Ray's, without a meaning here that a program could miss.
FIELDS_WITHOUT_EFFECT = ("_ray_release", "_ray_commit", "_inject_current_ray")
CONFIG_FIELDS = ("setup_timeout_seconds", "eager_install", "log_files")
# They travel with every task of theirs.
ENV_VARS_BYTES_MAX = 64 << 10
_PACKAGE_FIELDS = {
    "pip": {"packages": list, "pip_check": bool, "pip_version": str, "pip_install_options": list},
    "uv": {"packages": list, "uv_check": bool, "uv_version": str, "uv_pip_install_options": list},
}


class RuntimeEnv(dict[str, Any]):
    """Environment of tasks, checked: a dict made of its fields.

        zray.init(runtime_env=RuntimeEnv(env_vars={"MODE": "fast"}, pip=["emoji==2.12"]))

    Raises:
        ValueError, TypeError: an unknown field, or a bad value.
        NotImplementedError: a field of Ray's that zray does not have yet.
    """

    __module__ = "zray.runtime_env"  # as programs import it

    def __init__(self, **fields: Any) -> None:
        super().__init__(check_runtime_env(fields, "RuntimeEnv()"))


class RuntimeEnvConfig(dict[str, Any]):
    """Field `config` of a RuntimeEnv, checked: a dict made of its fields.

        zray.init(runtime_env={"pip": ["emoji"], "config": RuntimeEnvConfig(setup_timeout_seconds=60)})

    Args:
        fields: setup_timeout_seconds, after which an installation fails (default: 600; -1: no limit).  eager_install
            and log_files have no effect.

    Raises:
        ValueError, TypeError: an unknown field, or a bad value.
    """

    __module__ = "zray.runtime_env"  # as programs import it

    def __init__(self, **fields: Any) -> None:
        _check_config("config", fields)
        super().__init__(fields)


def check_runtime_env(given: Any, what: str) -> dict[str, Any]:
    """Check a runtime_env, and return its effective fields.

    Raises:
        TypeError: a value has a wrong type.
        ValueError: an unknown field, a bad value, or a path that does not exist.
        NotImplementedError: a field of Ray's that zray does not have yet.
    """
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env of {what} must be a dict, not {type(given).__name__}.")
    found = {}
    for name, value in given.items():
        if value is None or value in ({}, []) or name in FIELDS_WITHOUT_EFFECT:
            continue
        if name in absent.RUNTIME_ENV_FIELDS:
            raise absent.not_built(absent.RUNTIME_ENV_FIELDS, name, f"the field {name!r} of runtime_env")
        if name not in FIELDS:
            raise ValueError(f"runtime_env has no field {name!r}.  It has: {', '.join(FIELDS)}.")
        _CHECKS[name](name, value)
        found[name] = value
    if "pip" in found and "uv" in found:
        raise ValueError("runtime_env has both pip and uv: name all packages in one of them.")
    return found


def _check_env_vars(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"env_vars must be a dict of names to values, not {type(value).__name__}.")
    size = 0
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"env_vars must map str to str, but {key!r} is mapped to {text!r}.")
        if not key or "=" in key or "\0" in key or "\0" in text:
            raise ValueError(f"{key!r} cannot be an environment variable.")
        if key == "PYTHONHASHSEED":  # Python reads it as it starts, and workers are forked
            raise absent.not_built(absent.ABILITIES, "`PYTHONHASHSEED` in `env_vars`", f"{key} in env_vars")
        size += len(os.fsencode(key)) + len(os.fsencode(text))
    if size > ENV_VARS_BYTES_MAX:
        raise ValueError(f"env_vars take {size:,} bytes, but at most {ENV_VARS_BYTES_MAX:,} can be given.")


class PackedFiles:
    """Files of a path, packed by another process: the replacement for the path in a pickled runtime_env."""

    def __init__(self, ref: Any, digest: bytes, size: int, source: str) -> None:
        self.ref = ref  # on the bytes
        self.digest = digest
        self.size = size
        self.source = source

    def __reduce__(self) -> Any:
        return PackedFiles, (self.ref, self.digest, self.size, self.source)


def _is_elsewhere() -> bool:
    """Whether the process is a worker, which may lack the program's files, to be requested when packed."""
    from ..host import context

    return context.runtime is not None and context.runtime.is_worker


def _check_folder(name: str, value: Any) -> None:
    if isinstance(value, PackedFiles):
        return
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"working_dir must be a path, not {type(value).__name__}.")
    _refuse_address(str(value), name)
    if not is_working_dir(value) and not _is_elsewhere():
        raise ValueError(f"working_dir: the folder or .zip archive {os.path.abspath(value)} does not exist.")


def is_working_dir(path: Any) -> bool:
    """Whether tasks can run in the path: in a folder, or an unpacked .zip archive."""
    return os.path.isdir(path) or (os.path.isfile(path) and str(path).endswith(".zip"))


def _check_modules(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"py_modules must be a list of paths, not {type(value).__name__}.")
    for item in value:
        if isinstance(item, PackedFiles):
            continue
        if not isinstance(item, (str, os.PathLike, ModuleType)):
            raise TypeError(f"py_modules must list paths of packages or modules, not {type(item).__name__}.")
        path = path_of_module(item)
        _refuse_address(path, name)
        if not os.path.exists(path) and not _is_elsewhere():
            raise ValueError(f"py_modules: the path {os.path.abspath(path)} does not exist.")


def path_of_module(item: Any) -> str:
    """The path behind an item of py_modules, which may be an imported module.

    Raises:
        ValueError: the module has no file.
    """
    if not isinstance(item, ModuleType):
        return os.fspath(item)
    folders = list(getattr(item, "__path__", ()))
    path = folders[0] if folders else getattr(item, "__file__", None)
    if not path:
        raise ValueError(f"py_modules: the module {item.__name__!r} has no file.")
    return str(path)


def _refuse_address(path: str, name: str) -> None:
    if "://" in path:
        from .package_passwords import masked

        row = "addresses in `working_dir` and `py_modules`"
        raise absent.not_built(absent.ABILITIES, row, f"addresses as `{name}` ({masked(path)!r})")


def _check_patterns(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise TypeError("excludes must be a list of patterns (str).")


def _check_packages(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        valid = _PACKAGE_FIELDS[name]
        for field, part in value.items():
            if field not in valid:
                raise ValueError(f"{name} of runtime_env has no field {field!r}.  It has: {', '.join(valid)}.")
            if part is not None and valid[field] is not list and not isinstance(part, valid[field]):
                raise TypeError(f"{field} of {name} must be a {valid[field].__name__}, not {type(part).__name__}.")
            if valid[field] is list and part is not None and not (field == "packages" and _is_path(part)):
                _check_texts(f"{field} of {name}", part)
        if not value.get("packages"):
            raise ValueError(f"{name} of runtime_env names no packages.")
        value = value["packages"]
    if not _is_path(value):
        _check_texts(name, value)
    from .package_requests import requirement_lines

    if not _is_path(value) or not _is_elsewhere():
        requirement_lines(value)  # a file that cannot be read is refused here


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _check_texts(what: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{what} must be a list of requirements or a path, not {type(value).__name__}.")
    for item in value:
        if not isinstance(item, str):
            raise TypeError(f"{what} must be a list of str, not of {type(item).__name__}.")
        if not item.strip() or "\n" in item or "\0" in item:
            raise ValueError(f"{what}: {item!r} is no requirement.")


def _check_config(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"config must be a dict, not {type(value).__name__}.")
    for field, part in value.items():
        if field not in CONFIG_FIELDS:
            raise ValueError(f"config of runtime_env has no field {field!r}.  It has: {', '.join(CONFIG_FIELDS)}.")
        if field == "setup_timeout_seconds":
            if isinstance(part, bool) or not isinstance(part, (int, float)):
                raise TypeError(f"setup_timeout_seconds must be a number, not {type(part).__name__}.")
            if part != -1 and not 0 < part < float("inf"):
                raise ValueError(f"setup_timeout_seconds must be above 0, or -1 for no limit, not {part}.")


_CHECKS = {
    "env_vars": _check_env_vars,
    "working_dir": _check_folder,
    "py_modules": _check_modules,
    "excludes": _check_patterns,
    "pip": _check_packages,
    "uv": _check_packages,
    "config": _check_config,
}


def env_vars_of(runtime_env: dict[str, Any] | None, inherited: EnvVars = ()) -> EnvVars:
    """The variables of a checked runtime_env, on top of inherited ones."""
    own = (runtime_env or {}).get("env_vars") or {}
    return tuple(sorted({**dict(inherited), **own}.items()))


def shared_and_own(runtime_env: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a program's runtime_env: the part shared by the program's own node, and the workers' environment.

    Folders and .py files are shared.  Archives and packages are no part of the program's own process.
    """
    own = {name: value for name, value in runtime_env.items() if name in ("pip", "uv", "config")}
    archives = (".zip", ".whl")
    if str(runtime_env.get("working_dir") or "").endswith(archives) and not os.path.isdir(runtime_env["working_dir"]):
        own["working_dir"] = runtime_env["working_dir"]
    modules = [path_of_module(item) for item in runtime_env.get("py_modules") or ()]
    if any(path.endswith(archives) and not os.path.isdir(path) for path in modules):
        own["py_modules"] = modules
    shared = {name: value for name, value in runtime_env.items() if name not in own}
    if "excludes" in runtime_env:
        own["excludes"] = runtime_env["excludes"]
    return shared, own if own.keys() - {"config", "excludes"} else {}


def in_words(shared: dict[str, Any]) -> str:
    """Return the part of a program's runtime_env shared by its node, as JSON, without variables; "" if none."""
    import json

    found = {name: os.fspath(value) for name, value in shared.items() if name == "working_dir"}
    if shared.get("py_modules"):
        found["py_modules"] = list(map(path_of_module, shared["py_modules"]))
    if shared.get("excludes"):
        found["excludes"] = list(shared["excludes"])
    return json.dumps(found) if found else ""


def from_words(text: str) -> dict[str, Any]:
    """What in_words was given; {} for a text that is none of its own."""
    import json

    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
