"""Names and options of Ray missing in zray: for each, a sentence with an alternative.

docs/compatibility.md shows the same tables.  Whoever builds one of them removes its row here and there.
"""

from __future__ import annotations

from .absent_names import NAMES as _NAMES
from .absent_rllib import NAMES as _RLLIB

# Functions, classes and modules, by full name.
NAMES = {**_NAMES, **_RLLIB}
# Libraries whose names Ray has in several modules.
LIBRARIES = ("air", "rllib", "train", "tune")
# Packages in which a program of Ray may look for a name that no row has.
PACKAGES = (*LIBRARIES, "dag", "experimental", "internal", "util")

# Options of remote functions, actor classes and methods.
OPTIONS = {
    "accelerator_type": "Give nodes a label (`zray start --labels gpu=a100`), and tasks "
    '`label_selector={"gpu": "a100"}`.',
}

INIT_ARGUMENTS = {
    "_temp_dir": "Set the environment variable `ZRAY_TMPDIR`.",
}

RUNTIME_ENV_FIELDS = {
    "conda": "Activate the environment where `zray start` runs, on all nodes.",
    "py_executable": "Start nodes with the Python that tasks need.",
    "container": "Run `zray start` in the container.",
    "image_uri": "Run `zray start` in the container.",
    "java_jars": "Start Java as a process of a task.",
    "nsight": "Start the profiler as a process of a task.",
    "mpi": "Start `mpirun` in a task.",
    "worker_process_setup_hook": "Call the function at the beginning of tasks.",
}

PLACEMENT_GROUP_ARGUMENTS = {
    "bundle_label_selector": "Give `label_selector` to the tasks, without a group.",
    "_max_cpu_fraction_per_node": "Reserve smaller bundles.",
    "_soft_target_node_id": "Give tasks a `NodeAffinitySchedulingStrategy`, without a group.",
}

ABILITIES = {
    "`PYTHONHASHSEED` in `env_vars`": "Set it in the environment of `zray start --head`, or of the program.",
    "addresses in `working_dir` and `py_modules`": "Download the archive, and name the file on this machine.",
}

COMMANDS = {
    "monitor": "Run `zray status --watch`.",
    "get-head-ip": "Read `head:` of the file of hosts, or run `zray exec hostname -I`.",
    "get-worker-ips": "Read `nodes:` of the file of hosts, or run `zray exec --all hostname -I`.",
    "kill-random-node": "Kill nodes by `zray.testing.faults`.",
}


def not_built(table: dict[str, str], name: str, subject: str = "") -> NotImplementedError:
    """The error for a row of a table.  subject: what the error names in place of the row's name."""
    return NotImplementedError(_said(subject or name, table[name]))


def attribute_error(module: str, name: str) -> AttributeError:
    """The error for an attribute that a module of zray does not have."""
    full = f"{module}.{name}"
    row = row_of(full)
    reason = f": {_said(full, NAMES[row])}" if row else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{reason}")


def row_of(full: str) -> str | None:
    """Return the row of NAMES for a full name; None: no row.

    Ray has many names in several modules, so a row of the same library that ends in the same name speaks for it.
    In the library itself that holds for classes: a module of that name may be there, and not be imported yet.
    """
    if full in NAMES:
        return full
    parts = full.split(".")
    if len(parts) < (3 if parts[-1][:1].isupper() else 4) or parts[1] not in LIBRARIES:
        return None
    begin, end = f"zray.{parts[1]}.", f".{parts[-1]}"
    return next((row for row in NAMES if row.startswith(begin) and row.endswith(end)), None)


def placeholder(name: str, module: str) -> type:
    """Return the class for a name that programs import, with an error at each use.

    Args:
        name: the row's name.
        module: the module that is asked for it.

    Raises:
        AttributeError: no row has the name.
    """
    row = row_of(name)
    if row is None:
        raise attribute_error(module, name.rpartition(".")[2])

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise not_built(NAMES, row, name)

    return type(name.rpartition(".")[2], (), {"__init__": refuse, "__module__": module, "__doc__": NAMES[row]})


def refuse_import(name: str) -> None:
    """Raise the error for an absent module; do nothing for any other name.

    The error's own `name` is None: `from zray import tune` would replace an error of that name by one without a reason.

    Raises:
        ModuleNotFoundError: the module is a row of the table.
    """
    row = row_of(name)
    if row is not None:
        raise ModuleNotFoundError(_said(name, NAMES[row]))


def refuse_unknown(name: str) -> None:
    """Raise the error for a module, or a name in `from module import name`, that neither is there nor has a row.

    Raises:
        ModuleNotFoundError: Ray may have the name, and the program may be written for it.
    """
    parent, _, last = name.rpartition(".")
    if parent.partition(".")[2].partition(".")[0] not in PACKAGES or last.startswith("__"):
        return
    import difflib
    import sys

    if last in dir(sys.modules.get(parent, object)):
        raise ModuleNotFoundError(f"{name} is no module, and has none inside: `from {parent} import {last}`.")
    close = difflib.get_close_matches(last, dir(sys.modules[parent]) if parent in sys.modules else (), 1, 0.8)
    meant = f"  Did you mean {close[0]!r}?" if close else ""
    raise ModuleNotFoundError(
        f"cannot import name {last!r} from {parent!r}: zray has no such module, class or function.{meant}  "
        "docs/compatibility.md lists names of Ray with what replaces them; a program that works without this one "
        "catches ImportError."
    )


def _said(subject: str, advice: str) -> str:
    return f"zray does not have {subject} yet.  {advice}"
