"""View of experiments of Tune and RLlib: trials with their last results, and the curves of a metric.

Text files of a folder of experiments are read (`result.json`, else `progress.csv`), and no pickled state: looking at
a folder runs no code of it.  A file is read on from where the last look has ended.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator
from typing import Any

from zray.tune.records.files import flattened
from zray.tune.state_file import read_summary
from zray.tune.storage import default_storage_path

from .session import Row, Session
from .views import Asked, Seen, Table, head

EXPERIMENTS_MAX, TRIALS_MAX, CURVES_MAX, POINTS_MAX = 100, 500, 20, 400
# Of one file in one look; a longer one is read on at the next.
READ_BYTES_MAX = 8 << 20
FILES_KEPT_MAX = 2_000
RESULTS = ("result.json", "progress.csv")
# Metrics of RLlib and of examples that are shown where the experiment names none, best first.
LIKELY = ("env_runners/episode_return_mean", "episode_return_mean", "episode_reward_mean", "loss", "accuracy", "score")
# Metrics that each result has, which say how long a trial has run.
COMMON = frozenset(
    "training_iteration time_this_iter_s time_total_s timestamp pid iterations_since_restore time_since_restore".split()
)
CONFIG_CHARACTERS_MAX = 300


class Results:
    """Results of a trial, as far as read: columns of numbers by metric."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._begin()

    def _begin(self) -> None:
        self.path = next((path for name in RESULTS if os.path.exists(path := os.path.join(self.folder, name))), "")
        self.upto, self.count, self.changed = 0, 0, 0.0
        self.columns: dict[str, list[tuple[float, float]]] = {}  # (iteration, value)
        self.last: Row = {}
        self._heads: list[str] = []

    def read(self) -> None:
        """Read what has been written since the last time."""
        try:
            facts = os.stat(self.path)
            if facts.st_size < self.upto:
                self._begin()  # the file was written anew
            self.changed = facts.st_mtime
            with open(self.path, "rb") as file:
                file.seek(self.upto)
                data = file.read(READ_BYTES_MAX)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        self.upto += whole
        text = data[:whole].decode("utf-8", "replace")
        for result in self._of_csv(text) if self.path.endswith(".csv") else _of_json(text):
            self._take(result)

    def _of_csv(self, text: str) -> Iterator[Row]:
        rows = csv.reader(io.StringIO(text))
        for row in rows:
            if not self._heads:
                self._heads = row
                continue
            found: Row = {}
            for name, cell in zip(self._heads, row, strict=False):
                try:
                    found[name] = float(cell)
                except ValueError:
                    found[name] = cell
            yield found

    def _take(self, result: Row) -> None:
        self.count += 1
        self.last = result
        flat = flattened({name: value for name, value in result.items() if name != "config"})
        iteration: Any = flat.get("training_iteration")
        at = float(iteration) if _is_number(iteration) else float(self.count)
        for name, value in flat.items():
            if _is_number(value):
                self.columns.setdefault(name, []).append((at, float(value)))


def _of_json(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


class Experiments:
    """The experiments of a folder."""

    def __init__(self) -> None:
        self._results: dict[str, Results] = {}

    def view(self, session: Session, asked: Asked) -> Seen:
        """Experiments, and the trials of one.  Words: experiment (a name; default: the newest), metric."""
        root = os.path.expanduser(session.results or default_storage_path())
        names, total = _experiments(root)
        facts: Row = {"session": head(session), "root": root, "experiments": names, "experiments_total": total}
        wanted = asked.words.get("experiment") or (names[0]["name"] if names else "")
        if all(wanted != each["name"] for each in names):
            return Seen({**facts, "experiment": "", "metrics": [], "curves": []}, {"trials": Table("trial", [], 0)})
        folder = os.path.join(root, wanted)
        trials = self._read(folder)
        metric, mode, planned = read_summary(folder)
        metrics = sorted({name for each in trials for name in each.columns} - COMMON) + sorted(COMMON)
        chosen = asked.words.get("metric") or metric or next((name for name in LIKELY if name in metrics), "")
        chosen = chosen if chosen in metrics else next(iter(metrics), "")
        mode = (mode if chosen == metric else None) or ("min" if "loss" in chosen else "max")
        rows = [_row(each, _name(each, folder), chosen, mode) for each in trials]
        rows.sort(key=lambda row: _rank(row["best"], mode))
        drawn = {row["trial"] for row in rows[:CURVES_MAX]}
        curves = [
            {"trial": _name(each, folder), "points": _thinned(each.columns.get(chosen, []))}
            for each in trials
            if _name(each, folder) in drawn
        ]
        facts |= {"experiment": wanted, "metrics": metrics, "metric": chosen, "mode": mode, "planned": planned}
        facts["curves"] = [curve for curve in curves if curve["points"]]
        return Seen(facts, {"trials": Table("trial", rows[: asked.limit], max(len(rows), planned))})

    def _read(self, folder: str) -> list[Results]:
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        except OSError:
            return []
        places = [os.path.join(folder, name) for name in names]
        places = [place for place in places if _has_results(place)][:TRIALS_MAX]
        if _has_results(folder):
            places.append(folder)
        for place in places:
            one = self._results.pop(place, None) or Results(place)
            self._results[place] = one
            one.read()
        while len(self._results) > FILES_KEPT_MAX:
            del self._results[next(iter(self._results))]
        return [self._results[place] for place in places]


def _has_results(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in RESULTS)


def _experiments(root: str) -> tuple[list[Row], int]:
    """The experiments of a folder, the one that was written to last first, and how many there are."""
    found: list[Row] = []
    try:
        entries = [entry for entry in os.scandir(root) if entry.is_dir()]
    except OSError:
        return [], 0
    for entry in entries:
        try:
            inside = [each.stat().st_mtime for each in os.scandir(entry.path)]
        except OSError:
            continue
        if inside:
            found.append({"name": entry.name, "changed": round(max(inside), 1)})
    found.sort(key=lambda row: -row["changed"])
    return found[:EXPERIMENTS_MAX], len(found)


def _name(results: Results, folder: str) -> str:
    return "." if results.folder == folder else os.path.basename(results.folder)


def _row(results: Results, name: str, metric: str, mode: str) -> Row:
    values = [value for _, value in results.columns.get(metric, [])]
    best = (min if mode == "min" else max)(values, default=None)
    config = results.last.get("config")
    has_error = os.path.exists(os.path.join(results.folder, "error.txt"))
    is_done = results.last.get("done") in (True, "True")
    seconds = results.last.get("time_total_s")
    return {
        "trial": name,
        "state": "ERROR" if has_error else "TERMINATED" if is_done else "REPORTED",
        "changed": round(results.changed, 1),
        "iterations": results.count,
        "last": values[-1] if values else None,
        "best": best,
        "seconds": seconds if _is_number(seconds) else None,
        "config": json.dumps(config, default=str)[:CONFIG_CHARACTERS_MAX] if config else "",
    }


def _rank(value: float | None, mode: str) -> float:
    return math.inf if value is None else value if mode == "min" else -value


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most POINTS_MAX of the points, the last one among them."""
    step = -(-len(points) // POINTS_MAX)
    return points if step <= 1 else [*points[:-1:step], points[-1]]
