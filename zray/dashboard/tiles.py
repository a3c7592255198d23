"""Tiles of the task stream: what ran in a window of time, row by row.

Up to RECTS_MAX runs are sent one by one.  More are summed up: by row and bucket of time, how busy the row was, with
which function for the longest, and whether a run failed.  The cost of drawing follows the screen, not the tasks.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np

from zray.util.recorded_runs import Runs, Track

from .session import Row

RECTS_MAX = 4_000
ROWS_MAX = 200
BUCKETS_MAX = 1_200
# Further names share the last number.
NAMES_MAX = 250
OTHER = "(other)"
STILL_RUNNING = 3  # beside the outcomes of runs that have ended


class Open(NamedTuple):
    """A task that runs."""

    node_id: str
    pid: int
    name: str
    task_id: str
    begin: float


def tile(runs: Runs, still: list[Open], begin: float, end: float, buckets: int) -> Row:
    """Return what ran between two times.

    Args:
        still: tasks that run now.
        buckets: into how many parts the time is divided, where runs are summed up.
    """
    runs = with_open(runs, still, end)
    columns = runs.columns
    inside = (columns["end"] > begin) & (columns["begin"] < end)
    part = {name: column[inside] for name, column in columns.items()}
    rows, row_of_track, is_by_node = _rows(runs.tracks, part["track"])
    row = row_of_track[part["track"]]
    names, number = _names(runs.names, part["name"], part["end"] - part["begin"])
    found: Row = {"begin": begin, "end": end, "rows": rows, "names": names, "by_node": is_by_node, "runs": len(row)}
    hidden = row < 0
    found["rows_left_out"] = int(len(np.unique(part["track"][hidden])))
    part, row, number = {name: column[~hidden] for name, column in part.items()}, row[~hidden], number[~hidden]
    if len(row) <= RECTS_MAX and not is_by_node:
        found["rects"] = {
            "row": row.tolist(),
            "name": number.tolist(),
            "outcome": part["outcome"].tolist(),
            "begin": np.round(part["begin"] - begin, 6).tolist(),
            "end": np.round(part["end"] - begin, 6).tolist(),
            "task_id": [bytes(each).hex() for each in part["task_id"]],
        }
    else:
        threads = np.array([each["threads"] for each in rows])
        found["bins"] = _binned(row, number, part, begin, end, max(min(buckets, BUCKETS_MAX), 1), threads)
    return found


def with_open(runs: Runs, still: list[Open], now: float) -> Runs:
    """Return the runs, and those that have not ended."""
    if not still:
        return runs
    tracks = {(track.node_id, track.pid): number for number, track in reversed([*enumerate(runs.tracks)])}
    names = {name: number for number, name in enumerate(runs.names)}
    places, numbers, all_tracks = [], [], [*runs.tracks]
    for task in still:
        key = task.node_id, task.pid
        if key not in tracks:
            tracks[key] = len(all_tracks)
            all_tracks.append(Track(task.node_id, task.pid, "worker", 0))
        places.append(tracks[key])
        numbers.append(names.setdefault(task.name, len(names)))
    more = {
        "track": np.array(places, "<u4"),
        "name": np.array(numbers, "<u4"),
        "outcome": np.full(len(still), STILL_RUNNING, "u1"),
        "begin": np.array([task.begin for task in still]),
        "end": np.array([max(now, task.begin) for task in still]),
        "task_id": np.array([np.void(bytes.fromhex(task.task_id)) for task in still], "V16"),
    }
    columns = {name: np.concatenate([column, more[name]]) for name, column in runs.columns.items()}
    return runs._replace(tracks=all_tracks, names=[*names], columns=columns)


def _rows(tracks: list[Track], used: Any) -> tuple[list[Row], Any, bool]:
    """The rows of a tile, the row of each track (-1: none), and whether a row is a node."""
    place = np.full(max(len(tracks), 1), -1)
    numbers = sorted(np.unique(used).tolist(), key=lambda each: _order(tracks[each]))
    if len(numbers) <= ROWS_MAX:
        place[numbers] = np.arange(len(numbers))
        return [{**tracks[each]._asdict(), "threads": 1} for each in numbers], place, False
    node_ids = [*dict.fromkeys(tracks[each].node_id for each in numbers)]
    row_of_node = {node_id: row for row, node_id in enumerate(node_ids[:ROWS_MAX])}
    threads = dict.fromkeys(node_ids, 0)
    for each in numbers:
        place[each] = row_of_node.get(tracks[each].node_id, -1)
        threads[tracks[each].node_id] += 1
    rows = [{"node_id": each, "pid": 0, "label": "", "lane": 0, "threads": threads[each]} for each in row_of_node]
    return rows, place, True


def _order(track: Track) -> tuple[Any, ...]:
    is_driver = track.label.startswith("driver")
    # The length first: worker 10 comes after worker 9.
    return track.node_id, not is_driver, len(track.label), track.label, track.pid, track.lane


def _names(names: list[str], number: Any, seconds: Any) -> tuple[list[str], Any]:
    """The names that are used, those with the most time first, and their new numbers."""
    if not len(number):
        return [], number
    total = np.bincount(number, weights=seconds, minlength=len(names))
    used = np.unique(number)
    order = used[np.argsort(-total[used], kind="stable")]
    shown = [names[each] for each in order[:NAMES_MAX]] + [OTHER] * (len(order) > NAMES_MAX)
    new = np.full(len(names), NAMES_MAX)
    new[order[:NAMES_MAX]] = np.arange(min(len(order), NAMES_MAX))
    return shown, new[number]


def _binned(row: Any, name: Any, part: dict[str, Any], begin: float, end: float, buckets: int, threads: Any) -> Row:
    """Three bytes for each row and bucket: share of time that is busy, number of the name and 1, whether one failed."""
    width = (end - begin) / buckets
    first = np.clip(((part["begin"] - begin) / width).astype(int), 0, buckets - 1)
    last = np.clip(np.ceil((part["end"] - begin) / width).astype(int) - 1, first, buckets - 1)
    count = last - first + 1
    run: Any = np.repeat(np.arange(len(row)), count)
    bucket = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count) + first[run]
    left = np.maximum(part["begin"][run], begin + bucket * width)
    busy = np.maximum(np.minimum(part["end"][run], begin + (bucket + 1) * width) - left, 0)
    cell = row[run] * buckets + bucket
    size = len(threads) * buckets
    total = np.bincount(cell, weights=busy, minlength=size) / width / np.repeat(np.maximum(threads, 1), buckets)
    pair, place = np.unique(cell * (NAMES_MAX + 1) + name[run], return_inverse=True)
    weight = np.bincount(place, weights=busy, minlength=len(pair))
    best: Any = np.zeros(size, "u1")
    order = np.argsort(weight, kind="stable")  # the longest is written last
    best[pair[order] // (NAMES_MAX + 1)] = pair[order] % (NAMES_MAX + 1) + 1
    failed = np.bincount(cell, weights=np.isin(part["outcome"][run], (1, 2)), minlength=size) > 0
    shares = np.where(total > 0, np.clip(np.ceil(total * 255), 1, 255), 0).astype("u1")
    data = np.stack([shares, best, failed.astype("u1")], axis=1)
    return {"buckets": buckets, "data": base64.b64encode(data.tobytes()).decode()}
