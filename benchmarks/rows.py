"""The rows of a table of figures."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table.

    needed: in words.  is_reached: None: nothing is asked for, or the machine's load decides too.
    """

    figure: str
    measured: str
    needed: str = ""
    is_reached: bool | None = None
