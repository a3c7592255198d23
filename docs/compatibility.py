"""Writes the table of absent names in docs/compatibility.md: `scripts/compatibility`.

The names are those of docs/names_of_ray.py and docs/names_of_rllib.py, and the sentences those of
zray/ray_names/absent.py.  tests/docs/test_names_of_ray.py walks the names, and tests/docs/test_compatibility.py
compares the table.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping

from docs import names_of_ray, names_of_rllib
from zray.ray_names import absent

NAMES: Mapping[str, str] = {**names_of_ray.NAMES, **names_of_rllib.NAMES}
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compatibility.md")
HEADING = "## Absent names\n"


def main() -> None:
    """Write the table.  Names that neither work nor have a sentence go to standard error, and the status is 1."""
    with open(PAGE) as file:
        before, heading, behind = file.read().partition(HEADING)
    rest = behind[behind.index("\n## ") :]
    with open(PAGE, "w") as file:
        file.write(before + heading + section() + rest)
    unknown = [name for name, state in walk() if state == "unknown"]
    if unknown:
        print(
            "Write a sentence into absent_names.py or absent_rllib.py of zray/ray_names for:",
            file=sys.stderr,
        )
        print(*unknown, sep="\n", file=sys.stderr)
        sys.exit(1)


def section() -> str:
    """The text below the heading."""
    rows = "\n".join(f"| `{name}` | {advice} |" for name, advice in absent.NAMES.items())
    return (
        "\nAn import or use of the names raises an error with the same sentence. A row of a module stands for all\n"
        "below it. A row of Tune, Train, AIR or RLlib stands for its last name in all modules of the library.\n"
        "The names are those of `docs/names_of_ray.py` and `docs/names_of_rllib.py`: Ray 1.13, 2.2, 2.9 and 2.60.\n"
        f"\n| name | instead |\n|---|---|\n{rows}\n"
    )


def walk(names: Mapping[str, str] = NAMES) -> Iterator[tuple[str, str]]:
    """Each name with its state: "works", "absent" (it has a sentence), "extra" (a package is missing) or "unknown".

    Args:
        names: modules behind `ray.`, and their names.
    """
    for module, found in names.items():
        full = f"zray.{module}" if module else "zray"
        state = _state_of_module(full)
        yield full, state
        for name in found.split():
            yield f"{full}.{name}", _state_of_name(full, name) if state == "works" else state


def _state_of_module(name: str) -> str:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return _state(error)
    return "works"


def _state_of_name(module: str, name: str) -> str:
    """Try the attribute and the import of one name: both say the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # former names say what today's name is
        try:
            getattr(importlib.import_module(module), name)
        except (AttributeError, ImportError) as error:
            state = _state(error)
            if state != "absent":
                return state
        try:
            exec(f"from {module} import {name}", {})
        except ImportError as error:
            return _state(error)
    return "works"


def _state(error: Exception) -> str:
    text = str(error)
    if any(text.endswith(advice) for advice in absent.NAMES.values()):
        return "absent"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return "extra" if missing and not missing.startswith("zray") else "unknown"


if __name__ == "__main__":
    main()
