"""Text of users and peers, made safe for terminals and logs: no escape sequence in it takes effect."""

from __future__ import annotations

import re

# Of one text: what is longer is no message to a person.
CHARACTERS_MAX = 64 << 10
_COLOUR = "\x1b\\[[0-9;:]*m"  # SGR: colours, bold, underlined
# Control characters but for tabs and ends of lines, what a terminal may take for an end of a line, marks and brackets
# that turn the direction.  Not what is merely invisible: scripts and emoji are written with it.
_ACTS = re.compile(f"{_COLOUR}|[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_NO_COLOUR = "\x1b[0m"


def printable(text: str) -> str:
    """The text in one paragraph: control characters and marks that turn the direction are shown as escapes.

    Further lines follow a bar, so that none passes for a line of another program.
    """
    if len(text) > CHARACTERS_MAX:
        text = f"{text[:CHARACTERS_MAX]} [... {len(text) - CHARACTERS_MAX:,} more characters are left out]"
    if text.isprintable():
        return text
    return "\n  | ".join("".join(map(_shown, line)) for line in text.rstrip("\n").split("\n"))


def escaped(text: str) -> str:
    """The text with its lines and tabs; other control characters are shown as escapes.  For errors."""
    if text.isprintable():
        return text
    return "\n".join("".join(map(_shown, line)) for line in text.split("\n"))


def coloured(lines: str) -> str:
    """The output of a program, with colours and tabs; other control characters are shown as escapes.

    A colour ends with its line, since another program may have printed the next line.
    """
    lines = _ACTS.sub(_but_colours, lines.replace("\r\n", "\n"))
    return lines if "\x1b" not in lines else "\n".join(map(_ended, lines.split("\n")))


def _but_colours(found: re.Match[str]) -> str:
    text = found.group()
    return text if len(text) > 1 else _shown(text)


def _ended(line: str) -> str:
    """The line with its colour ended, where colours are the only escapes left."""
    last = line[line.rfind("\x1b") :] if "\x1b" in line else _NO_COLOUR
    return line if last.startswith((_NO_COLOUR, "\x1b[m")) else line + _NO_COLOUR


def _shown(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()
