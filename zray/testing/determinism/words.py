"""The result of all runs in words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .comparison import Difference
    from .runs import Verdict

__all__ = ["words_of"]

# How a task differs, by kind; the submitter and the runs stand in between.
KINDS = {
    "value": "Its arguments are the same, and its value differs in {runs}.",
    "items": "Its arguments are the same, and its items differ in {runs}.",
    "error": "Its arguments are the same, and it ends in another way in {runs}.",
    "attempts": "Two attempts of one run have the same arguments and different values; compared with {runs}.",
    "killed": "It has no value in {runs}, since a worker was killed.",
    "arguments": "{parent} submits it with other arguments in {runs}; all earlier tasks have the same values.",
    "submissions": "{parent} submits it in some runs only: see {runs}; all earlier tasks have the same values.",
}


def words_of(verdict: Verdict) -> list[str]:
    """Return the result in lines."""
    if verdict.is_same:
        count = verdict.runs[0].tasks
        tasks = f"{count:,} task{'s' * (count != 1)} with the same values in each run" if count else "no tasks"
        return [f"Same: {tasks}."]
    lines = []
    if verdict.first is not None:
        lines += _of(verdict.first, verdict.shown)
    elif verdict.runs[0].tasks:
        lines.append("All tasks have the same values.")
    return lines + verdict.outcome


def _of(first: Difference, shown: dict[int, str]) -> list[str]:
    if first.kind == "sessions":
        return ["The number of sessions differs.", *(f"  run {number}: {text}" for number, text in shown.items())]
    place = f", submission {first.index} of {first.of}" if first.of > 1 else ""
    path, _, line = first.site.rpartition(":")
    folder = os.getcwd() + os.sep
    site = f", at {path.removeprefix(folder)}:{line}" if path else ""
    lines = [f"The first task that differs: {first.name}{place}{site}"]
    if first.path:
        lines.append(f"Submitted by: {' > '.join(first.path)}")
    numbers = [str(number) for number in shown if number != 1]
    runs = f"run{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
    parent = first.path[-1] if first.path else "The program"
    lines.append(KINDS[first.kind].format(runs=runs, parent=parent))
    lines += [f"  run {number}: {text}" for number, text in shown.items() if text and first.kind != "attempts"]
    if first.kind == "attempts":
        lines.append(f"  attempts: {', '.join(dict.fromkeys([first.here, first.there]))}")
    return lines + [f"Likely reason: {hint}" for hint in first.hints]
