"""Tables for people: as wide as the terminal; in a pipe or a file each row is one line, whole; and counts in words."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# No row that we print comes near it; rich takes 80 columns where there is no terminal, and cuts what is longer.
WIDE = 100_000
# rich needs 0.8 ms for a row of ten columns.
ROWS_MAX = 1_000


def show(table: Table) -> None:
    """Print the text uncut."""
    from rich.console import Console

    for column in table.columns:
        column.overflow = "fold"  # by default an ellipsis takes the place of what has no room
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def show_rows(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of texts.  One of very many rows looks as rich prints it into a pipe, and takes much less time."""
    if len(rows) > ROWS_MAX and (sys.stdout.encoding or "").lower().startswith("utf"):
        for some in plain_lines(titles, rows):
            print(some)
        return
    from rich.table import Table

    table = Table(*titles)
    for row in rows:
        table.add_row(*map(literal, row))
    show(table)


def plain_lines(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, as wide as its texts."""
    from zray.exceptions.printable import printable

    shown = [[printable(text).expandtabs() for text in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(titles, *shown, strict=True)]

    def line(cells: Iterable[str], side: str) -> str:
        texts = (text + " " * (width - _width(text)) for text, width in zip(cells, widths, strict=True))
        return f"{side} {f' {side} '.join(texts)} {side}"

    def rule(left: str, stroke: str, middle: str, right: str) -> str:
        return left + middle.join(stroke * (width + 2) for width in widths) + right

    plain = f"│ {' │ '.join(f'{{:<{width}}}' for width in widths)} │"
    yield from (rule(*"┏━┳┓"), line(titles, "┃"), rule(*"┡━╇┩"))
    for row in shown:
        if (text := "".join(row)).isascii() and "\n" not in text:
            yield plain.format(*row)
        else:
            for part in zip_longest(*(text.split("\n") for text in row), fillvalue=""):
                yield line(part, "│")
    yield rule(*"└─┴┘")


def _width(text: str) -> int:
    if text.isascii() and "\n" not in text:
        return len(text)
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))


def literal(text: str) -> Text:
    """Return a text that rich prints as it is, without markup and terminal escapes."""
    from rich.text import Text

    from zray.exceptions.printable import printable

    return Text(printable(text))


def counted(count: int, noun: str) -> str:
    """A number with its noun, as "1 task" and "2 tasks"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
