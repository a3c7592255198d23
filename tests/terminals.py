"""A terminal for programs under test, and what a person sees on it."""

import fcntl
import io
import os
import pty
import re
import select
import struct
import termios

_PARTS = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Terminal:
    """A pseudo terminal that understands what zray writes: carriage returns, erasing to the end, wrapping or not."""

    def __init__(self, columns=60):
        self.columns = columns
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream = io.TextIOWrapper(io.FileIO(self.slave, "w", closefd=False), encoding="utf-8", write_through=True)
        self.text = ""  # all that was written
        self.lines = [""]
        self.column = 0
        self.wraps = True

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
            for private, number, letter, character in _PARTS.findall(text):
                self._act(private, number, letter) if letter else self._put(character)

    def _act(self, private, number, letter):
        if letter == "K":
            self.lines[-1] = self.lines[-1][: self.column]
        elif private and number == "7":
            self.wraps = letter == "h"
        else:
            assert letter == "m", f"nothing moves the cursor: {letter}"

    def _put(self, character):
        if character == "\n":
            self.lines.append("")
            self.column = 0
        elif character == "\r":
            self.column = 0
        else:
            assert character.isprintable(), repr(character)
            if self.column == self.columns and self.wraps:
                self.lines.append("")
                self.column = 0
            self.column = min(self.column, self.columns - 1)
            line = self.lines[-1].ljust(self.column)
            self.lines[-1] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def shown(self):
        """The rows that are not empty."""
        self.read()
        return [line for line in self.lines if line]

    def close(self):
        self.stream.detach()
        os.close(self.slave)
        os.close(self.master)
