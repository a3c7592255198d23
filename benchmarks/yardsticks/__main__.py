"""Cost of the core in this tree, and beside another one.

    python -m benchmarks.yardsticks --out FILE                     measure this tree
    python -m benchmarks.yardsticks --against COMMIT               this tree beside a commit, in turns
    python -m benchmarks.yardsticks --of COMMIT --against COMMIT   two commits
    python -m benchmarks.yardsticks --of FILE --against FILE       what --out has written, without measuring

Exit status 1: a figure is worse by more than 5 %, or is not there any more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zray.sim.against import this_tree, unpacked

from .compare import Samples, rows_of, table
from .figures import FIGURES, chosen
from .trees import measure_all

THIS = this_tree().name


def options(argv: list[str] | None) -> argparse.Namespace:
    """Options of a run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.yardsticks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--against", default="", metavar="COMMIT|FILE", help="the tree before")
    parser.add_argument("--of", default="", metavar="COMMIT|FILE", help="instead of this tree")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", default="", metavar="NAME,...", help="figures or groups of them")
    parser.add_argument("--out", default="", metavar="FILE", help="for the figures as JSON")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of tasks: 0.01 tries the tool")
    given = parser.parse_args(argv)
    if given.turns < 1 or not 0 < given.scale <= 1:
        parser.error("--turns must be at least 1, and --scale above 0 and at most 1")
    try:
        given.groups = chosen(filter(None, given.only.split(",")))
    except ValueError as error:
        parser.error(str(error))
    return given


def is_file(name: str) -> bool:
    """Whether this is a file of --out, and no commit."""
    return name.endswith(".json")


def read(name: str, wanted: set[str]) -> dict[str, Samples]:
    """The figures of a file that are asked for."""
    figures = json.loads(Path(name).read_text())["figures"]
    return {key: Samples(one["values"], one["why"]) for key, one in figures.items() if key in wanted}


def write(name: str, samples: dict[str, Samples], tree: str, given: argparse.Namespace) -> None:
    """The figures, with the circumstances."""
    from ..microbenchmark import circumstances

    found: dict[str, Any] = {
        "tree": tree,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "circumstances": circumstances(),
        "turns": given.turns,
        "scale": given.scale,
        "figures": {
            key: {"unit": FIGURES[key].unit, "median": one.median() if one.is_there() else None, **asdict(one)}
            for key, one in samples.items()
        },
    }
    Path(name).write_text(json.dumps(found, indent=1) + "\n")


def measured(given: argparse.Namespace, names: list[str]) -> dict[str, dict[str, Samples]]:
    """The samples of each name: read from files; commits and this tree in turns."""
    wanted = {figure.name for group in given.groups.values() for figure in group}
    found = {name: read(name, wanted) for name in names if is_file(name)}
    with contextlib.ExitStack() as stack:
        trees = [
            this_tree() if name == THIS else stack.enter_context(unpacked(name)) for name in names if not is_file(name)
        ]
        for tree, samples in zip(trees, measure_all(trees, given.groups, given.turns, given.scale), strict=True):
            found[tree.name] = samples
    return found


def main(argv: list[str] | None = None) -> int:
    """Exit status 1: something is worse, or gone."""
    given = options(argv)
    name = given.of or THIS
    names = list(dict.fromkeys([*filter(None, [given.against]), name]))
    found = measured(given, names)
    if given.out:
        write(given.out, found[name], name, given)
    if not given.against:
        for key, samples in found[name].items():
            print(f"{key:18} {samples.told(FIGURES[key]):>14}   {FIGURES[key].words}  {samples.why}".rstrip())
        return 0
    is_paired = not is_file(name) and not is_file(given.against)
    rows = rows_of(found[given.against], found[name], is_paired=is_paired)
    print(table(rows, (given.against, name)))
    return int(any(row.mark() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
