"""Widgets of `zray top`: a table with a cursor that stays on its row's id, and the task stream.

Only the rows in sight are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget

from .stream import IDLE, WAITS, StreamRow, axis
from .tables import Row, Table, chosen, cut, head_of, line_of, ordered, padded, widths

# Seven colours that people with any colour vision tell apart, on a dark ground; and their like among sixteen.
# Source: M. Okabe and K. Ito, Color Universal Design.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#9aa7b3")
SIXTEEN = ("yellow", "cyan", "green", "bright_yellow", "blue", "red", "magenta", "white")
ROLES = {
    "running": ("#4576fb", "bright_blue"),
    "at worker": ("#4576fb", "bright_blue"),
    "alive": ("#4576fb", "bright_blue"),
    "failed": ("#fc3940", "bright_red"),
    "dead": ("#fc3940", "bright_red"),
    "cancelled": ("#fc3940", "bright_red"),
    "resource": ("#f1c517", "bright_yellow"),
    "order": ("#f1c517", "bright_yellow"),
    "starting": ("#f1c517", "bright_yellow"),
    "restarts": ("#f1c517", "bright_yellow"),
    "disk": ("#38faf2", "bright_cyan"),
    "finished": ("#90d19e", "bright_green"),
    "input": ("#81878c", "white"),
}
MARK = "● "


class Palette:
    """Colours of states and functions, for terminals of sixteen colours too."""

    def __init__(self, is_sixteen: bool) -> None:
        self.is_sixteen = is_sixteen

    def role(self, name: str) -> str:
        """The colour of a state."""
        return ROLES.get(name, ROLES["input"])[self.is_sixteen]

    def function(self, number: int) -> str:
        """The colour of a function."""
        colours = SIXTEEN if self.is_sixteen else COLOURS
        return colours[number % len(colours)]

    def on(self, number: int) -> Style:
        """The style of text on the colour of a function."""
        colour = self.function(number)
        return Style(color="white" if colour in ("#0072b2", "blue") else "black", bgcolor=colour)


class Grid(Widget, can_focus=True):
    """A table.  The cursor stays on its row, wherever that moves."""

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, grid: Grid) -> None:
            super().__init__()
            self.grid = grid

    class Opened(Moved):
        """The row of the cursor was chosen."""

    def __init__(self, palette: Palette, title: str, id: str) -> None:
        super().__init__(id=id)
        self.palette, self.title = palette, title
        self.table: Table | None = None
        self.filter = ""
        self.sort: tuple[int, bool] | None = None  # None: the table's own
        self.selected = ""  # id of the row of the cursor
        self.is_chosen = False  # by a person; until then, the cursor stays in the first row
        self.numbers: dict[str, int] = {}  # of functions, for their colours
        self.rows: list[Row] = []  # in their order
        self._at = self._top = 0

    @property
    def row(self) -> Row | None:
        """The row of the cursor."""
        return self.rows[self._at] if self.rows else None

    def show(self, table: Table) -> None:
        """Show a table in place of the former."""
        self.table = table
        self._arrange()

    def set_filter(self, text: str) -> None:
        """Show the rows that have these words."""
        self.filter = text
        self._arrange()

    def sort_next(self) -> None:
        """Order by the next column in sight."""
        if self.table is not None:
            sizes = widths(self.table.columns, self._width())
            column, _ = self._order()
            places = [place for place, size in enumerate(sizes) if size]
            column = next((place for place in places if place > column), places[0])
            self.sort = column, self.table.columns[column].is_right
            self._arrange()

    def turn(self) -> None:
        """Turn the order round."""
        if self.table is not None:
            column, is_falling = self._order()
            self.sort = column, not is_falling
            self._arrange()

    def _order(self) -> tuple[int, bool]:
        assert self.table is not None
        return self.sort or (self.table.sort, self.table.is_falling)

    def _arrange(self) -> None:
        assert self.table is not None
        self.rows = ordered(chosen(self.table, self.filter), *self._order())
        ids = (place for place, row in enumerate(self.rows) if row.id == self.selected)
        place = next(ids, None) if self.is_chosen else 0
        # A row that has gone leaves the cursor where it is; the next one there is another thing.
        self._at = place if place is not None else max(min(self._at, len(self.rows) - 1), 0)
        self._settle()

    def _settle(self) -> None:
        before = self.selected
        self.selected = self.rows[self._at].id if self.rows else ""
        room = max(self.size.height - self._lines_around(), 1)
        self._top = min(max(self._top, self._at - room + 1), self._at)
        self._top = max(min(self._top, len(self.rows) - room), 0)
        self.refresh()
        if before != self.selected:
            self.post_message(self.Moved(self))

    def _lines_around(self) -> int:
        return 2 if self.title else 1

    def _width(self) -> int:
        return max(self.size.width - len(MARK), 10)

    def move(self, rows: int) -> None:
        """Move the cursor by so many rows."""
        self._at = max(min(self._at + rows, len(self.rows) - 1), 0)
        self.is_chosen = self._at > 0
        self._settle()

    def on_resize(self, event: events.Resize) -> None:
        self._settle()

    def on_key(self, event: events.Key) -> None:
        page = max(self.size.height - self._lines_around(), 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "home": -len(self.rows), "end": len(self.rows)}
        if event.key in steps:
            event.stop()
            self.move(steps[event.key])
        elif event.key == "enter" and self.row is not None:
            event.stop()
            self.post_message(self.Opened(self))

    def on_click(self, event: events.Click) -> None:
        place = self._top + event.y - self._lines_around()
        if self._top <= place < len(self.rows):
            is_second = place == self._at and event.chain > 1
            self._at, self.is_chosen = place, True
            self._settle()
            if is_second:
                self.post_message(self.Opened(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-3)

    def on_focus(self) -> None:
        self.post_message(self.Moved(self))

    def _title(self) -> str:
        assert self.table is not None
        shown, known = len(self.rows), len(self.table.rows)
        parts = [f"{shown:,} of {known:,}, filter: {self.filter}" if self.filter else f"{known:,}"]
        if self.table.note:
            parts.append(self.table.note)
        return f"{self.title}  {'  '.join(parts)}"

    def render(self) -> Text:
        """The rows in sight."""
        width, height = self.size
        text = Text(no_wrap=True, overflow="crop", end="")
        if self.table is None:
            return text
        sizes = widths(self.table.columns, self._width())
        if self.title:
            text.append(padded(self._title(), width) + "\n", "bold")
        text.append(padded(" " * len(MARK) + head_of(self.table, sizes, *self._order()), width), "underline")
        if not self.rows:
            empty = f"No row has {self.filter!r}." if self.filter else self.table.empty
            text.append(f"\n{' ' * len(MARK)}{cut(empty, self._width())}", "dim")
        for place in range(self._top, min(self._top + height - self._lines_around(), len(self.rows))):
            row = self.rows[place]
            is_here = place == self._at and self.has_focus
            style = "reverse" if is_here else ""
            number = self.numbers.get(row.id) if row.kind == "function" else None
            colour = self.palette.role(row.role) if number is None else self.palette.function(number)
            text.append("\n")
            text.append("■ " if number is not None else MARK if row.role else "  ", colour)
            text.append(line_of(self.table, row, sizes).ljust(self._width()), style)
        return text


class Stream(Widget):
    """The task stream: a row a process."""

    label = 10  # cells for the name of a process

    def __init__(self, palette: Palette, seconds: float, id: str) -> None:
        super().__init__(id=id)
        self.palette, self.seconds = palette, seconds
        self.rows: Sequence[StreamRow] = []
        self.hidden = 0

    @property
    def cells(self) -> int:
        """The cells of a row."""
        return max(self.size.width - self.label - 1, 10)

    def show(self, rows: Sequence[StreamRow], count: int) -> None:
        """Show other rows.  count: of all processes, also those that have no room."""
        self.rows, self.hidden = rows, count - len(rows)
        self.refresh()

    def render(self) -> Text:
        """The rows."""
        text = Text(no_wrap=True, overflow="crop", end="")
        more = f"  and {self.hidden:,} more that did less" if self.hidden > 0 else ""
        title = f"STREAM  the last {self.seconds:.0f} s{more}"
        legend = "= in get()  X failed"
        text.append(padded(title, max(self.size.width - len(legend) - 1, 0)), "bold")
        text.append(f" {legend}", "dim")
        for row in self.rows:
            text.append("\n")
            text.append(padded(row.label, self.label) + " ")
            for stretch in row.stretches:
                self._append(text, stretch)
        text.append(f"\n{' ' * self.label} {axis(self.seconds, self.cells)}", "dim")
        return text

    def _append(self, text: Text, stretch: Any) -> None:
        if stretch.function == IDLE:
            text.append(stretch.text.replace(" ", "·"), "dim")
        elif stretch.function == WAITS:
            text.append(stretch.text, "dim")
        elif stretch.is_full:
            ends = stretch.text.endswith("X")
            text.append(stretch.text[:-1] if ends else stretch.text, self.palette.on(stretch.function))
            if ends:
                text.append("X", Style(color="white", bgcolor=self.palette.role("failed"), bold=True))
        else:
            ends = stretch.text.endswith("X")
            text.append("▄" * (len(stretch.text) - ends), self.palette.function(stretch.function))
            if ends:
                text.append("X", Style(color=self.palette.role("failed"), bold=True))
