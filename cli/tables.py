"""Tables for people: as wide as the terminal; in a pipe or a file each row is one line, whole; and counts in words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# No row that we print comes near it; rich takes 80 columns where there is no terminal, and cuts what is longer.
WIDE = 100_000


def show(table: Table) -> None:
    """Print the text uncut."""
    from rich.console import Console

    for column in table.columns:
        column.overflow = "fold"  # by default an ellipsis takes the place of what has no room
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def literal(text: str) -> Text:
    """Return a text that rich prints as it is, without markup and terminal escapes."""
    from rich.text import Text

    from zray.exceptions.printable import printable

    return Text(printable(text))


def counted(count: int, noun: str) -> str:
    """A number with its noun, as "1 task" and "2 tasks"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
