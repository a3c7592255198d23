"""The task stream of `zray top`: a row a process, the last seconds from left to right, a cell a part of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len

from .asking import Sample, node_of
from .history import History, Lane
from .tables import cut, padded, text_of

# Of a cell: nothing ran, or a task waited in get() or wait().  Others are numbers of functions.
IDLE, WAITS = -1, -2
SIGNS = {IDLE: ".", WAITS: "="}
# A cell is full if something ran for half of it, and empty below a tenth.
FULL, SOME = 0.5, 0.1
# Cells in which the beginning of a name says something.
NAME_CELLS_MIN = 5


class Stretch(NamedTuple):
    """Cells of a row that look alike.

    function: a number of History.names, IDLE or WAITS.  is_full: whether it ran for most of the time.  text: what
    stands in the cells: the name of the function, as far as it fits, and X where a run failed.
    """

    function: int
    is_full: bool
    text: str


class StreamRow(NamedTuple):
    """A row of the stream: id and name of the process, and its cells."""

    id: str
    label: str
    stretches: list[Stretch]
    busy: float  # share of the time


def stream(history: History, sample: Sample, now: float, seconds: float, width: int, rows_max: int) -> list[StreamRow]:
    """The rows of the stream; busy processes come first where there are too many."""
    with history.lock:
        found = _of_lanes(history, sample, now, seconds, width)
        names = [text_of(name, 40) for name in history.names]
    rows = []
    for lane, shares in found:
        cells, full, failed = shares
        stretches = _stretches(cells, full, failed, names)
        busy = float((cells != IDLE).mean())
        label = f"{lane.node[:4]} {label_of(lane)}" if len(sample.nodes) > 1 else label_of(lane)
        rows.append(StreamRow(f"{lane.node}/{lane.pid}", label, stretches, busy))
    if len(rows) > rows_max:
        rows = sorted(rows, key=lambda row: -row.busy)[:rows_max]
    return rows


def label_of(lane: Lane) -> str:
    """The name of a process, as "worker 3"."""
    return text_of(lane.label or f"pid {lane.pid}", 40)


def _of_lanes(history: History, sample: Sample, now: float, seconds: float, width: int) -> list[Any]:
    running: dict[tuple[str, int], list[tuple[float, int]]] = {}
    for task in sample.tasks:
        if task.state == "RUNNING" and task.pid and task.run_ms:
            begin = sample.at - task.run_ms / 1e3
            running.setdefault((node_of(task), task.pid), []).append((begin, history.number_of(task.name)))
    living = {(node_of(worker), worker.pid) for worker in sample.workers}
    lanes = [lane for lane in history.lanes.values() if not lane.is_program]
    found = []
    for lane in sorted(lanes, key=lambda lane: (lane.node, len(lane.label), lane.label)):
        own = running.get((lane.node, lane.pid), [])
        if (lane.node, lane.pid) in living or own or lane.last_end > now - seconds:
            found.append((lane, _cells(lane, own, now, seconds, width)))
    return found


def _cells(lane: Lane, running: Sequence[tuple[float, int]], now: float, seconds: float, width: int) -> Any:
    """The function of each cell, whether it is full, and whether a run failed in it."""
    first, step = now - seconds, seconds / width
    pieces = [piece for piece in lane.pieces if piece.end.max() > first]
    begin = np.concatenate([*(piece.begin for piece in pieces), [each[0] for each in running]])
    end = np.concatenate([*(piece.end for piece in pieces), [now] * len(running)])
    functions = np.concatenate([*(piece.functions for piece in pieces), [each[1] for each in running]]).astype(int)
    is_run = np.concatenate([*(piece.is_run for piece in pieces), [True] * len(running)]).astype(bool)
    failed = np.concatenate([*(piece.has_failed for piece in pieces), [False] * len(running)]).astype(bool)
    cells, full, marks = np.full(width, IDLE), np.zeros(width, bool), np.zeros(width, bool)
    chosen = (end > first) & (begin < now)
    if not chosen.any():
        return cells, full, marks
    begin, end = (begin[chosen] - first) / step, np.minimum((end[chosen] - first) / step, width)
    keys = np.where(is_run[chosen], functions[chosen], WAITS)
    kinds, which = np.unique(keys, return_inverse=True)
    shares = coverage(np.maximum(begin, 0.0), end, which.reshape(-1), len(kinds), width)
    if kinds[0] == WAITS:  # a wait lies within the run of its task
        runs = shares[1:].sum(axis=0)
        shares[1:] *= np.where(runs > 0, np.maximum(runs - shares[0], 0) / np.maximum(runs, 1e-9), 1.0)
        shares[0] = np.minimum(shares[0], runs)  # a program's own wait is none of a task
    best = shares.argmax(axis=0)
    total = shares.sum(axis=0)
    cells = np.where(total > SOME, kinds[best], IDLE)
    marks[np.minimum(end[failed[chosen]], width - 1).astype(int)] = True
    return cells, total >= FULL, marks


def coverage(begin: Any, end: Any, which: Any, kinds: int, width: int) -> Any:
    """The share of each cell that spans of each kind cover, as rows of kinds.

    Args:
        begin, end: of the spans, in cells.
        which: the kind of each span.
    """
    shares = np.zeros((kinds, width + 1))
    first, last = begin.astype(int), np.minimum(end.astype(int), width)
    is_inside = first == last
    np.add.at(shares, (which[is_inside], first[is_inside]), (end - begin)[is_inside])
    is_long = ~is_inside
    np.add.at(shares, (which[is_long], first[is_long]), (first + 1 - begin)[is_long])
    np.add.at(shares, (which[is_long], last[is_long]), (end - last)[is_long])
    steps = np.zeros((kinds, width + 2))
    np.add.at(steps, (which[is_long], first[is_long] + 1), 1.0)
    np.add.at(steps, (which[is_long], last[is_long]), -1.0)
    shares[:, : width + 1] += np.cumsum(steps, axis=1)[:, : width + 1]
    return np.minimum(shares[:, :width], 1.0)


def _stretches(cells: Any, full: Any, failed: Any, names: Sequence[str]) -> list[Stretch]:
    """Cells that look alike as one, with the name of the function where there is room for it."""
    found, place = [], 0
    while place < len(cells):
        end = place + 1
        while end < len(cells) and cells[end] == cells[place] and full[end] == full[place] and not failed[end - 1]:
            end += 1
        size, function = end - place, int(cells[place])
        has_failed = bool(failed[end - 1])
        room = size - has_failed
        text = SIGNS[WAITS] * room if function == WAITS else " " * room
        if 0 <= function < len(names):
            name = names[function]
            # The space behind a name parts it from an X, which marks a failure.
            if cell_len(name) < room or room >= NAME_CELLS_MIN:
                text = padded(cut(name, room - 1), room)
        found.append(Stretch(function, bool(full[place]), text + "X" * has_failed))
        place = end
    return found


def axis(seconds: float, width: int) -> str:
    """The line of times below the stream."""
    line = [" "] * width
    parts = 6 if width >= 72 else 3
    for part in range(parts):
        text = f"-{seconds - seconds * part / parts:.0f} s"
        place = part * width // parts
        line[place : place + len(text)] = text
    line[-3:] = "now"
    return "".join(line)[:width]


def as_text(row: StreamRow) -> str:
    """The cells of a row as signs, for a pipe: names, # for a run, + for short ones, = in get(), X for a failure."""
    found = ""
    for stretch in row.stretches:
        sign = SIGNS.get(stretch.function, "#" if stretch.is_full else "+")
        ends = "X" if stretch.text.endswith("X") else ""
        name = stretch.text[: len(stretch.text) - len(ends)].rstrip() if stretch.function >= 0 else ""
        found += name + sign * (len(stretch.text) - len(name) - len(ends)) + ends
    return found
