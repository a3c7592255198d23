"""Trees in which figures are measured: this one as it lies in its folder, and commits of its repository, in turns."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from zray.sim.against import Tree

from .compare import Samples
from .figures import Figure
from .measure import WHY

HERE = Path(__file__).resolve().parents[2]
GROUP_SECONDS = 900.0
# A million tasks take long; and what is counted is the same in each turn.
TURNS_MAX = {"ended": 3, "bytecodes": 1, "waiting": 1}


def measure_in(tree: Tree, group: str, scale: float) -> dict[str, float] | dict[str, str]:
    """Measure a group once in a process of that tree, with the measuring code of this one.

    Raises:
        RuntimeError: the process failed; its stderr has been shown.
    """
    environment = tree.environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(tree.folder), str(HERE)])
    command = [sys.executable, "-m", "benchmarks.yardsticks.measure", group, str(scale), str(tree.folder)]
    done = subprocess.run(
        command, cwd=tree.folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=GROUP_SECONDS
    )
    if done.returncode:
        raise RuntimeError(f"{tree.name} could not measure {group}: its process ended with {done.returncode}")
    found: dict[str, float] | dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_all(
    trees: Sequence[Tree], groups: dict[str, tuple[Figure, ...]], turns: int, scale: float
) -> list[dict[str, Samples]]:
    """The samples of each tree, by figure: turn by turn, each tree first in every other turn."""
    for tree in trees:
        compileall.compile_dir(tree.folder / "zray", quiet=1)
    found: list[dict[str, Samples]] = [{} for _ in trees]
    for group, figures in groups.items():
        turns_of_group = min(turns, TURNS_MAX.get(group, turns))
        for turn in range(turns_of_group):
            places = list(range(len(trees)))
            for place in places if turn % 2 else reversed(places):
                print(
                    f"  {group}, turn {turn + 1} of {turns_of_group}: {trees[place].name}", file=sys.stderr, flush=True
                )
                add(found[place], figures, measure_in(trees[place], group, scale))
    return found


def add(found: dict[str, Samples], figures: Iterable[Figure], measured: dict[str, float] | dict[str, str]) -> None:
    """Note what one turn has measured."""
    for figure in figures:
        samples = found.setdefault(figure.name, Samples())
        value = measured.get(figure.name)
        if isinstance(value, (int, float)):
            samples.values.append(float(value))
        else:
            samples.why = str(measured.get(WHY, "it was not measured"))
