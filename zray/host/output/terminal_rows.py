"""The rows of a log that are not ended yet, as a terminal would show them.

A progress bar draws its row repeatedly: behind a carriage return (tqdm, Keras), behind backspaces, or after a move of
the cursor to a row above (several bars of tqdm).  Overwritten text does not matter, so each row holds its latest text
only.  Moves that no progress bar makes, behind text printed once, stay in the text.
"""

from __future__ import annotations

import re

from msgspec import Struct

LINE_BYTES_MAX = 64 << 10
# More bars than a program shows at a time; further bars are lines.
ROWS_MAX = 64
# Limit of the search for the move of the cursor back to a bar above: the text of a row, with colours.
_LOOK_AHEAD_BYTES_MAX = 2_000
# Cursor to a row above (A, F) and to the first column (G); erase in a row (K); insert a row (L).
_MOVES = re.compile(rb"\x1b\[([0-9]{0,3})([AFGKL])")
_VERTICAL = re.compile(rb"\x1b\[([0-9]{0,3})[AF]|\n")
# Cursor hidden, and shown again: around bars of rich.
_CURSOR = re.compile(rb"\x1b\[\?25[hl]")
_TORN = re.compile(rb"\x1b(?:\[\??[0-9]{0,3})?\Z")
_TORN_BYTES_MAX = 6


class Row(Struct, eq=False):
    """One of them."""

    is_above: bool = False  # made by a move of the cursor: nothing was printed there, for all we know
    text: bytes = b""
    left_out: int = 0  # bytes that are not kept
    is_redrawn: bool = False  # some of it was overwritten
    is_returned: bool = False  # the cursor is at its beginning: the next text overwrites it
    is_shown: bool = False  # its beginning was shown already, and is not in `text`
    is_inserted: bool = False  # above one that is drawn again and again: a line of its own

    def is_blank(self) -> bool:
        """Return whether nothing of the row is visible; a bar is often wiped out with spaces."""
        return not (self.text.strip() if self.is_redrawn else self.text)

    def is_bar(self) -> bool:
        """Return whether the row is drawn repeatedly."""
        return self.is_redrawn or self.is_returned

    def add(self, piece: bytes) -> None:
        """Add text without cursor moves."""
        free = LINE_BYTES_MAX - len(self.text)
        self.text += piece[:free]
        self.left_out += max(0, len(piece) - free)

    def clear(self) -> None:
        """Clear the row: all of its text is overwritten."""
        self.text, self.left_out, self.is_redrawn = b"", 0, True

    def write(self, piece: bytes) -> None:
        """Write text, which may have carriage returns and backspaces."""
        body = piece.rstrip(b"\r")
        if body:
            start = body.rfind(b"\r") + 1
            if start or self.is_returned:
                self.clear()
            if b"\b" in body:
                self._write_over(body[start:])
            else:
                self.add(body[start:])
            self.is_returned = False
        if len(body) < len(piece):
            self.is_returned = True

    def _write_over(self, piece: bytes) -> None:
        """Write text in which each backspace removes the character before."""
        text = bytearray(self.text)
        first, *others = piece.split(b"\b")
        text += first
        for other in others:
            while text and text[-1] & 0xC0 == 0x80:  # not the first byte of a character
                del text[-1]
            del text[-1:]
            text += other
        self.clear()
        self.add(bytes(text))


class Rows:
    """The rows of a log, and the position of the cursor."""

    def __init__(self) -> None:
        self.rows = [Row()]
        self.at = 0
        self.top = 0  # the highest row with the cursor since the last `end_left`
        self.held = b""  # the beginning of a move of the cursor

    @property
    def row(self) -> Row:
        """The row with the cursor."""
        return self.rows[self.at]

    @property
    def is_redrawn(self) -> bool:
        """Whether there is more than the beginning of a plain line."""
        return len(self.rows) > 1 or self.row.is_bar()

    def plain(self, data: bytes) -> bytes | None:
        """Return further bytes with simple ends of lines; None if any text was or is overwritten."""
        if self.held or self.is_redrawn or b"\b" in data:
            return None
        if b"\x1b" in data and (
            _CURSOR.search(data) or _MOVES.search(data) or _TORN.search(data, max(0, len(data) - _TORN_BYTES_MAX))
        ):
            return None  # not only colours
        if b"\r" in data:
            if data[-1:] == b"\r" or data.count(b"\r") != data.count(b"\r\n"):
                return None
            data = data.replace(b"\r\n", b"\n")
        return data

    def take(self, data: bytes) -> list[Row]:
        """Return the rows ended by further bytes."""
        data, self.held = self.held + data, b""
        if b"\x1b" in data:
            data = _CURSOR.sub(b"", data)
        torn = _TORN.search(data, max(0, len(data) - _TORN_BYTES_MAX))
        first, *others = (data[: torn.start()] if torn else data).split(b"\n")
        self._write(first)
        ended = []
        upto = len(first)
        for line in others:
            if not self._begin_row_below(data, upto + 1):
                ended += self._end_row()
            self._write(line)
            upto += 1 + len(line)
        self.held = torn.group() if torn else b""
        return ended

    def _begin_row_below(self, data: bytes, start: int) -> bool:
        """Return whether the last row is a continuing bar: a row begins below, from which the cursor comes back.

        Several bars get another row: rich moves them down to write a line above.
        """
        if self.at + 1 < len(self.rows) or not self.row.is_bar() or len(self.rows) >= ROWS_MAX:
            return False
        if self.at == 0 and not self._comes_back(data, start):
            return False
        self.rows.append(Row())
        self.at += 1
        return True

    @staticmethod
    def _comes_back(data: bytes, start: int) -> bool:
        below = 1
        for move in _VERTICAL.finditer(data, start, start + _LOOK_AHEAD_BYTES_MAX):
            below += 1 if move.group() == b"\n" else -int(move.group(1) or 1)
            if below <= 0:
                return True
        return False

    def _write(self, piece: bytes) -> None:
        start = 0
        if b"\x1b" in piece:
            for move in _MOVES.finditer(piece):
                self.row.write(piece[start : move.start()])
                start = move.start()
                row = self.row
                if move.group(2) in b"GK" or row.is_redrawn or row.is_returned or not row.text:
                    self._move(move.group(2), int(move.group(1) or 0))
                    start = move.end()
        self.row.write(piece[start:])

    def _move(self, letter: bytes, number: int) -> None:
        if letter in b"AF":
            count = min(number or 1, ROWS_MAX)
            missing = min(max(0, count - self.at), ROWS_MAX - len(self.rows))
            self.rows[:0] = [Row(is_above=True) for _ in range(missing)]
            self.at = max(0, self.at + missing - count)
            self.top = min(self.top + missing, self.at)
        row = self.row
        if letter == b"L":
            if len(self.rows) <= ROWS_MAX:
                self.rows.insert(self.at, Row())
                self.row.is_inserted = True
        elif letter == b"K":
            if number == 2 or (number == 0 and row.is_returned):
                row.clear()
        elif letter != b"A":
            row.is_returned = True

    def _end_row(self) -> list[Row]:
        if self.at + 1 == len(self.rows):
            return self.end_all()
        if self.row.is_inserted:
            return [self.rows.pop(self.at)]
        self.at += 1
        self.row.is_returned = True
        return []

    def end_all(self) -> list[Row]:
        """End all rows, with the withheld bytes; a new row begins."""
        self.row.write(self.held)
        ended = [row for row in self.rows if row.text or not row.is_above]
        self.rows, self.at, self.top, self.held = [Row()], 0, 0, b""
        return ended

    def end_above(self) -> list[Row]:
        """End the rows above the cursor, if the cursor is in an empty last row, as behind the last bar."""
        if self.at == 0 or self.at + 1 < len(self.rows) or self.row.text.strip():
            return []
        return self._end_first(self.at)

    def end_left(self) -> list[Row]:
        """End the rows above all cursor positions since the last call: bars that have ended, while others continue."""
        ended = self._end_first(self.top)
        self.top = self.at
        return ended

    def _end_first(self, count: int) -> list[Row]:
        ended = [row for row in self.rows[:count] if not row.is_blank()]
        del self.rows[:count]
        self.at -= count
        self.top = max(0, self.top - count)
        return ended

    def latest(self) -> list[bytes]:
        """Return the text of each row."""
        return [text for row in self.rows if (text := row.text.rstrip())]
