"""Words that somebody else has chosen, for a terminal or a log: nothing in them acts on whoever reads (USERS B28)."""

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
    """The same text; what is not to be seen (escapes, NUL, marks that turn the direction) as an escape in it.

    Its further lines stand behind a bar, so that none passes for a line of somebody else's.
    """
    if len(text) > CHARACTERS_MAX:
        text = f"{text[:CHARACTERS_MAX]} [... {len(text) - CHARACTERS_MAX:,} more characters are left out]"
    if text.isprintable():
        return text
    return "\n  | ".join("".join(map(_shown, line)) for line in text.rstrip("\n").split("\n"))


def escaped(text: str) -> str:
    """The same text with its lines and tabs; what else is not to be seen, as an escape in it.  For errors, whose lines
    are their own.
    """
    if text.isprintable():
        return text
    return "\n".join("".join(map(_shown, line)) for line in text.split("\n"))


def coloured(lines: str) -> str:
    """What a program has printed: colours and tabs stay, and what else acts on a terminal is an escape.

    A colour ends with its line: the next one may be somebody else's.
    """
    lines = _ACTS.sub(_but_colours, lines.replace("\r\n", "\n"))
    return lines if "\x1b" not in lines else "\n".join(map(_ended, lines.split("\n")))


def _but_colours(found: re.Match[str]) -> str:
    text = found.group()
    return text if len(text) > 1 else _shown(text)


def _ended(line: str) -> str:
    """Of a line in which all that is left of escapes is colours."""
    last = line[line.rfind("\x1b") :] if "\x1b" in line else _NO_COLOUR
    return line if last.startswith((_NO_COLOUR, "\x1b[m")) else line + _NO_COLOUR


def _shown(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()
