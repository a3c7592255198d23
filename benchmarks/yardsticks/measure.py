"""Measures one group in the tree that `zray` is imported from, which may be older or newer than this file.

    python -m benchmarks.yardsticks.measure GROUP SCALE FOLDER

Prints one line of JSON: figures by name; or why there are none in this tree.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from .names import NotThere

MODULES = {
    "tasks": "sessions",
    "spilled": "sessions",
    "actors": "sessions",
    "ready": "roles",
    "departing": "roles",
    "ended": "roles",
    "bytecodes": "roles",
    "waiting": "roles",
    "simulation": "simulation",
    "life": "life",
}
WHY = "why"


def measure(group: str, scale: float) -> dict[str, float] | dict[str, str]:
    """The figures of a group, or {WHY: why they are not there}."""
    try:
        module = importlib.import_module(f"{__package__}.{MODULES[group]}")
        found: dict[str, float] = getattr(module, group)(scale)
        return found
    except (NotThere, ImportError) as error:
        return {WHY: f"{type(error).__name__}: {error}" if isinstance(error, ImportError) else str(error)}


def main() -> None:
    """Measure in the tree that is wanted, and in no other."""
    import zray

    group, scale, folder = sys.argv[1:]
    place = Path(zray.__file__).resolve().parents[1]
    assert place == Path(folder).resolve(), f"zray is imported from {place}, not from {folder}"
    print(json.dumps(measure(group, float(scale))))


if __name__ == "__main__":
    main()
