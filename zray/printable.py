"""Words that somebody else has chosen, for a terminal or a log: nothing in them acts on whoever reads (USERS B28)."""

from __future__ import annotations

# Of one text: what is longer is no message to a person.
CHARACTERS_MAX = 64 << 10


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


def _shown(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()
