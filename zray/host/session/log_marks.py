"""Marks in the logs of workers: the name of the task or actor whose lines follow, and their stream.

    \\x1e:task_name:train
    \\x1e:stream:error
    \\x1e:stream:upto:4096

A worker writes a mark ahead of the first line of a task if the name differs from the last mark.  Output past Python's
streams (a library in C, a child process) is marked when the task has run for a quarter of a second; earlier output
carries the name of the last mark.

Output of C code and child processes to descriptor 2 is in a separate file beside the log.  A mark `upto` says how many
bytes of that file are older than the text behind the mark.

Text of sys.stderr stands between a mark `error` and a mark `output`.  A line that is drawn repeatedly, as by a progress
bar, has no marks, nor has the line above: a mark would end the line.
"""

from __future__ import annotations

import re

MARK = b"\x1e:task_name:"
STREAM = b"\x1e:stream:"
UPTO = "upto:"
TO_ERROR, TO_OUTPUT = "\x1e:stream:error\n", "\x1e:stream:output\n"
NAME_MAX = 60  # characters
# A longer line behind a mark is no name, but output.
_LINE_MAX = len(MARK) + 4 * NAME_MAX + 1
_MARKS = re.compile("\x1e:(?:task_name|stream):[^\n]*\n")
_BRACKETS = str.maketrans("()", "[]")


def shown_name(name: str) -> str:
    """Return a task's name for the label of its lines: without enclosing functions, and printable."""
    name = (name.rpartition("<locals>.")[2] or name)[:NAME_MAX].translate(_BRACKETS)
    return "".join(character if character.isprintable() else "?" for character in name)


def mark_of(name: str) -> bytes:
    """Return the mark ahead of the lines of that name."""
    return MARK + name.encode("utf-8", "backslashreplace")[: 4 * NAME_MAX] + b"\n"


def upto_mark(size: int) -> bytes:
    """Return the mark which says that so many bytes of standard error past Python's streams are older."""
    return STREAM + f"{UPTO}{size}\n".encode()


def errors_name(name: str) -> str:
    """Return the name of the file beside a log, for text written to descriptor 2."""
    return f"{name.removesuffix('.log')}.err"


def index_name(name: str) -> str:
    """Return the name of the file beside a log that says which task has written which part (output/task_index.py)."""
    return f"{name.removesuffix('.log')}.tasks"


def unmarked(text: str) -> str:
    """Return the text of a log without its marks."""
    return _MARKS.sub("", text) if "\x1e" in text else text


def split_at_marks(data: bytes) -> tuple[list[tuple[bytes, bytes, str]], bytes, bytes]:
    """Return (text, kind and name of the mark behind it) for each mark; the text behind the last; the start
    of another.
    """
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
