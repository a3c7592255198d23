"""Fills the README's table from the JSON of a microbenchmark.

python -m benchmarks.microbenchmark --json figures.json
python -m benchmarks.readme_table figures.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .microbenchmark import shown

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- table -->\n", "<!-- /table -->"


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown, and under them what they were measured on."""
    lines = ["| figure | measured | of the machine's floor |", "|---|---:|---:|"]
    for row in report["figures"].values():
        floor = f"{shown(row['ratio'])} x {row['floor_name']}" if row.get("ratio") is not None else ""
        lines.append(f"| {row['what']} | {shown(row['measured'])} {row['unit']} | {floor} |")
    machine = report["machine"]
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    where = f"{machine['processor']}, {machine['cores']} cores, {memory}, {machine['system']}"
    lines += ["", f"Measured on {where}; Python {report['python']}, commit {report['commit'] or 'unknown'}."]
    return "\n".join(lines) + "\n"


def filled(readme: str, report: dict[str, Any]) -> str:
    """The README with the table between its markers.  ValueError where there are none."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no {BEGIN.strip()} ... {END}")
    return head + BEGIN + table(report) + END + tail


def main(path: str) -> None:
    """Write the figures in the file at `path` into the README."""
    report = json.loads(Path(path).read_text())
    README.write_text(filled(README.read_text(), report))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.readme_table FILE.json")
    main(sys.argv[1])
