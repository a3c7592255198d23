"""Marks in the logs of workers: the name of the task or actor that prints the lines behind it, and their stream.

    \\x1e:task_name:train
    \\x1e:stream:error
    \\x1e:stream:upto:4096

A worker writes a mark ahead of the first line of a task with another name than the last one that printed.  Output that
does not come from Python's streams (a library in C, a child process) is marked when the task has run for a quarter of a
second; before that it carries the name of the last mark.

What C code and child processes write to descriptor 2 is in a file of its own beside the log.  A mark `upto` says how
many bytes of that file are older than the text behind the mark.

Text of sys.stderr stands between a mark `error` and a mark `output`.  A line that is drawn again and again, as that of
a progress bar, has none, and no line above it: a mark would end it.
"""

from __future__ import annotations

import re

MARK = b"\x1e:task_name:"
STREAM = b"\x1e:stream:"
UPTO = "upto:"
TO_ERROR, TO_OUTPUT = "\x1e:stream:error\n", "\x1e:stream:output\n"
NAME_MAX = 60  # characters
# A longer line behind a mark is no name, so it is output.
_LINE_MAX = len(MARK) + 4 * NAME_MAX + 1
_MARKS = re.compile("\x1e:(?:task_name|stream):[^\n]*\n")
_BRACKETS = str.maketrans("()", "[]")


def shown_name(name: str) -> str:
    """A task's name for the label of its lines: without the functions that its own was defined in, and in one piece."""
    name = (name.rpartition("<locals>.")[2] or name)[:NAME_MAX].translate(_BRACKETS)
    return "".join(character if character.isprintable() else "?" for character in name)


def mark_of(name: str) -> bytes:
    """The mark ahead of the lines of that name."""
    return MARK + name.encode("utf-8", "backslashreplace")[: 4 * NAME_MAX] + b"\n"


def upto_mark(size: int) -> bytes:
    """The mark that so many bytes of standard error past Python's streams are older."""
    return STREAM + f"{UPTO}{size}\n".encode()


def errors_name(name: str) -> str:
    """Name of the file beside the log of that name: text written to descriptor 2 is there."""
    return f"{name.removesuffix('.log')}.err"


def unmarked(text: str) -> str:
    """The text of a log without its marks."""
    return _MARKS.sub("", text) if "\x1e" in text else text


def split_at_marks(data: bytes) -> tuple[list[tuple[bytes, bytes, str]], bytes, bytes]:
    """(text, kind and name of the mark behind it) for each; the text behind the last one; the beginning of another."""
    pieces: list[tuple[bytes, bytes, str]] = []
    start = at = 0
    while (at := data.find(MARK[:1], at)) >= 0:
        end = data.find(b"\n", at, at + _LINE_MAX)
        if end < 0:
            rest = data[at:]
            if len(rest) < _LINE_MAX and any(rest.startswith(kind) or kind.startswith(rest) for kind in (MARK, STREAM)):
                return pieces, data[start:at], rest
        elif data.startswith((MARK, STREAM), at):
            kind = MARK if data.startswith(MARK, at) else STREAM
            name = data[at + len(kind) : end].decode("utf-8", "backslashreplace")
            pieces.append((data[start:at], kind, name))
            start = at = end + 1
            continue
        at += 1
    return pieces, data[start:], b""
