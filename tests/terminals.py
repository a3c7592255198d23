"""A terminal for programs under test, and what a person sees on it."""

import fcntl
import io
import os
import pty
import re
import select
import struct
import termios

_PARTS = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\x1b([78D])|(.)", re.DOTALL)


class Terminal:
    """A pseudo terminal that understands what zray writes: moves of the cursor, erasing, scrolling, wrapping or not."""

    def __init__(self, columns=60, height=24):
        self.master, self.slave = pty.openpty()
        self.stream = io.TextIOWrapper(io.FileIO(self.slave, "w", closefd=False), encoding="utf-8", write_through=True)
        self.text = ""  # all that was written
        self.lines = [""]  # those that have scrolled out of sight, too
        self.row = self.column = 0  # the cursor, in `lines`
        self.top = 0  # the first row in sight
        self.saved = (0, 0)  # row below `top`, and column
        self.wraps = True
        self.resize(columns, height)

    def resize(self, columns, height):
        """Programs are told the new size.  What is on the screen stays as it is."""
        self.columns, self.height = columns, height
        self.top = max(self.top, self.row + 1 - height)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, columns, 0, 0))

    def read(self):
        """What has been written since."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return  # the program has ended, and nobody else has the terminal
            if not data:
                return
            text = data.decode()
            self.text += text
            for private, number, letter, short, character in _PARTS.findall(text):
                if letter:
                    self._act(private, number, letter)
                elif short:
                    self._act_shortly(short)
                else:
                    self._put(character)

    def _act(self, private, number, letter):
        if private:
            assert number == "7" and letter in "hl", f"nothing else is switched: {number}{letter}"
            self.wraps = letter == "h"
        elif letter in "JK":
            assert not number, "only from the cursor on"
            self.lines[self.row] = self.lines[self.row][: self.column]
            if letter == "J":
                del self.lines[self.row + 1 :]
        elif letter == "A":
            self.row = max(self.top, self.row - int(number or 1))
        elif letter == "B":
            self._go_to(min(self.top + self.height - 1, self.row + int(number or 1)))
        else:
            assert letter == "m", f"nothing else acts: {letter}"

    def _act_shortly(self, letter):
        if letter == "7":
            self.saved = self.row - self.top, self.column
        elif letter == "8":
            row, self.column = self.saved
            self._go_to(self.top + row)
        else:
            self._go_to(self.row + 1)

    def _go_to(self, row):
        """Scrolls where it must."""
        self.row = row
        self.top = max(self.top, row + 1 - self.height)
        self.lines += [""] * (row + 1 - len(self.lines))

    def _put(self, character):
        if character == "\n":
            self._go_to(self.row + 1)
            self.column = 0  # as ONLCR
        elif character == "\r":
            self.column = 0
        else:
            assert character.isprintable(), repr(character)
            if self.column == self.columns and self.wraps:
                self._go_to(self.row + 1)
                self.column = 0
            self.column = min(self.column, self.columns - 1)
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def shown(self):
        """The rows that are not empty."""
        self.read()
        return [line for line in self.lines if line]

    def is_clean(self):
        """Whether the cursor is in an empty row, with nothing below it."""
        self.read()
        return self.column == 0 and not any(self.lines[self.row :])

    def close(self):
        self.stream.detach()
        os.close(self.slave)
        os.close(self.master)
