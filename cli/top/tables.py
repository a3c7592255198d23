"""Tables of `zray top`: rows of text with an order, a filter, and columns that fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zray.exceptions.printable import printable

# Rows of a table that are shown; the others are counted.
ROWS_MAX = 1_000
CUT = "…"
# Kinds of rows whose ids are whole in a pipe.
WHOLE_IDS = ("task", "actor", "node")
# Characters of a column that grows, at most: eyes follow a row no farther.
GROWN = 48


class Column(NamedTuple):
    """A column.

    width: characters; the first column with `grows` gets what is left, up to GROWN.  rank: columns with high numbers go
    first where there is no room.  keeps_end: a long text is cut at its beginning, as that of a path.
    """

    title: str
    width: int
    is_right: bool = False
    rank: int = 0
    grows: bool = False
    keeps_end: bool = False


class Row(NamedTuple):
    """A row of a table.

    id: names the thing, whatever its place in the table.  keys: the values by which rows are ordered, a column each.
    kind: "task", "actor", "function", "place", "node" or "worker".  role: the state, for its colour.
    """

    id: str
    kind: str
    cells: tuple[str, ...]
    keys: tuple[Any, ...]
    command: str
    role: str = ""
    node: str = ""
    pid: int = 0


class Table(NamedTuple):
    """A table.

    sort: the column by which rows are ordered at first; is_falling: from the largest value on.  empty: the sentence in
    place of rows.  note: a sentence about what the table lacks.
    """

    name: str
    columns: tuple[Column, ...]
    rows: list[Row]
    sort: int = 0
    is_falling: bool = False
    empty: str = ""
    note: str = ""


def text_of(value: str, width_max: int = 200) -> str:
    """A text of a program as one line, without control characters and marks that turn the direction."""
    shown = printable(value[: 4 * width_max].replace("\n", " ").replace("\t", " ")).replace("\n", " ")
    return cut(shown, width_max)


def cut(text: str, width: int) -> str:
    """The text with at most so many cells of a terminal; "…" says that more follows."""
    if text.isascii():
        return text if len(text) <= width else text[: max(width - 1, 0)] + CUT
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + CUT


def padded(text: str, width: int, is_right: bool = False) -> str:
    """The text with exactly so many cells."""
    from rich.cells import cell_len

    text = cut(text, width)
    room = " " * max(width - (len(text) if text.isascii() else cell_len(text)), 0)
    return room + text if is_right else text + room


def chosen(table: Table, text: str) -> list[Row]:
    """The rows that have each word of the filter in one of their cells, or in their id; case does not matter."""
    words = text.lower().split()
    if not words:
        return table.rows
    return [row for row in table.rows if all(word in "\n".join((*row.cells, row.id)).lower() for word in words)]


def ordered(rows: Sequence[Row], column: int, is_falling: bool) -> list[Row]:
    """The rows in the order of a column; unknown values come last."""
    known = [row for row in rows if row.keys[column] is not None]
    unknown = [row for row in rows if row.keys[column] is None]
    return sorted(known, key=lambda row: row.keys[column], reverse=is_falling) + unknown


def widths(columns: Sequence[Column], width: int) -> list[int]:
    """The width of each column with one space between two; 0: there is no room for it."""
    shown = {*range(len(columns))}

    def needed() -> int:
        return sum(columns[place].width for place in shown) + len(shown) - 1

    for place in sorted(shown, key=lambda place: -columns[place].rank):
        if needed() <= width or len(shown) == 1:
            break
        if columns[place].rank:
            shown.remove(place)
    found = [column.width if place in shown else 0 for place, column in enumerate(columns)]
    growing = next((place for place, column in enumerate(columns) if column.grows), None)
    if growing is not None and found[growing]:
        found[growing] = max(min(found[growing] + width - needed(), GROWN), 4)
    return found


def head_of(table: Table, sizes: Sequence[int], sort: int, is_falling: bool) -> str:
    """The line of titles, with an arrow at the column of the order."""
    parts = []
    for place, (column, size) in enumerate(zip(table.columns, sizes, strict=True)):
        if size:
            mark = ("▼" if is_falling else "▲") if place == sort else ""
            parts.append(padded(cut(column.title, size - len(mark)) + mark, size, column.is_right))
    return " ".join(parts)


def line_of(table: Table, row: Row, sizes: Sequence[int]) -> str:
    """The line of a row."""
    parts = zip(table.columns, row.cells, sizes, strict=True)
    return " ".join(_cell(column, cell, size) for column, cell, size in parts if size)


def _cell(column: Column, cell: str, size: int) -> str:
    if column.keeps_end and len(cell) > size:
        cell = CUT + cell[len(cell) - size + 1 :]
    return padded(cell, size, column.is_right)


def plain(table: Table, rows_max: int) -> list[str]:
    """The table as lines of text, for a pipe: each cell is whole."""
    rows = ordered(table.rows, table.sort, table.is_falling)
    if not rows:
        return [table.empty]
    shown = [row._replace(cells=(row.id, *row.cells[1:])) if row.kind in WHOLE_IDS else row for row in rows[:rows_max]]
    sizes = [
        max(len(column.title), *(len(row.cells[place]) for row in shown)) for place, column in enumerate(table.columns)
    ]
    lines = [head_of(table, sizes, -1, False), *(line_of(table, row, sizes) for row in shown)]
    if len(rows) > rows_max:
        lines.append(f"and {len(rows) - rows_max:,} more")
    return [line.rstrip() for line in lines] + ([table.note] if table.note else [])
