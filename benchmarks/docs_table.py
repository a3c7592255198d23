"""Table of figures in docs/benchmarks.md, filled from the JSON of a microbenchmark.

python -m benchmarks.microbenchmark --json figures.json
python -m benchmarks.docs_table figures.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .microbenchmark import shown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- table -->\n", "<!-- /table -->"
BESIDE = "## Beside other libraries"


def with_subjects(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names of figures in their order, each with the figure that "the same" stands for."""
    subject = ""
    for name in names:
        subject = subject if name.startswith("the same") else name
        yield subject, name


def found_in(page: str) -> set[tuple[str, str]]:
    """Figures of the table beside other libraries, as of `with_subjects`."""
    section = page.partition(BESIDE)[2].partition("\n## ")[0]
    return set(with_subjects(re.findall(r"^\| ([^|]+) \| [^|]+ \| [\d.,]+ \|", section, re.M)))


def table(report: dict[str, Any], beside: set[tuple[str, str]]) -> str:
    """Figures as Markdown, and below them the machine that they were measured on.

    Of a figure that the table beside other libraries has, the number is there: two runs would have two numbers.
    """
    lines = ["| figure | measured | of the machine's baseline |", "|---|---:|---:|"]
    figures = list(report["figures"].values())
    for key, row in zip(with_subjects(row["what"] for row in figures), figures, strict=True):
        measured = f"{shown(row['measured'])} {row['unit']}" if key not in beside else ""
        floor = f"{shown(row['ratio'])} x {row['floor_name']}" if row.get("ratio") is not None else ""
        if measured or floor:
            lines.append(f"| {row['what']} | {measured} | {floor} |")
    machine = report["machine"]
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    where = f"{machine['processor']}, {machine['cores']} cores, {memory}, {machine['system']}"
    when = f"{report['date']} on " if report.get("date") else "on "
    lines += ["", f"Measured {when}{where}; Python {report['python']}, commit {report['commit'] or 'unknown'}."]
    return "\n".join(lines) + "\n"


def filled(page: str, report: dict[str, Any]) -> str:
    """Page with the table between its markers.

    Raises:
        ValueError: the page has no markers.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN.strip()} ... {END}")
    return head + BEGIN + table(report, found_in(page)) + END + tail


def main(path: str) -> None:
    """Write the figures in the file at `path` into the page."""
    report = json.loads(Path(path).read_text())
    PAGE.write_text(filled(PAGE.read_text(), report))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.docs_table FILE.json")
    main(sys.argv[1])
