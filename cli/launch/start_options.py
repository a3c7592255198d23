"""Options of `zray start` in a file of hosts: checked like those of the command, and made arguments of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from ..counts import CountRange
from ..start import HEAD_OPTIONS, start
from . import marked
from .marked import Marked, Mistake

# Options that `zray up` itself gives.
OURS = ("head", "address", "host", "token_file", "token_stdin", "block", "drain")
NODE_OPTIONS = ("advertise", "head_wait", "no_replicas")
TABLES = {"resources": float, "labels": str}


def parameters() -> dict[str, click.Option]:
    """The options that a file may have, by the name of the file: as on the command line, with underscores."""
    found = {}
    for option in start.params:
        name = option.opts[0].lstrip("-").replace("-", "_")
        if isinstance(option, click.Option) and name not in OURS:
            found[name] = option
    return found


def checked(entries: dict[str, marked.Entry]) -> dict[str, Any]:
    """Return the options of a table.

    Raises:
        Mistake: an option is unknown, or its value is wrong.
    """
    known, found = parameters(), {}
    for key, entry in entries.items():
        name = key.replace("-", "_")
        if name not in known:
            raise marked.unknown(entry.line, key, known, " among the options of `zray start`")
        found[name] = _value(known[name], name, entry.value)
    return found


def _value(option: click.Option, name: str, value: Marked) -> Any:
    what = f"`{name}:`"
    if name in TABLES:
        entries = marked.table_of(value, what)
        return {key: marked.plain_of(entry.value, TABLES[name], f"`{key}:`") for key, entry in entries.items()}
    if option.is_flag:
        return marked.plain_of(value, bool, what)
    if isinstance(option.type, click.types.IntRange | CountRange):
        is_range = isinstance(option.type, CountRange) and isinstance(value.plain, str)
        number: Any = marked.plain_of(value, str if is_range else int, what)
        try:
            return option.type.convert(number, option, None)
        except click.BadParameter as error:
            raise Mistake(value.line, f"{what} is wrong: {error.message}") from None
    if isinstance(option.type, click.types.FloatParamType):
        found = marked.plain_of(value, float, what)
        if not 0 <= found < float("inf"):
            raise Mistake(value.line, f"{what} must be a number of at least 0, not {found!r}.")
        return int(found) if found.is_integer() else found
    return marked.plain_of(value, str, what)


def arguments(options: dict[str, Any], *, is_head: bool) -> list[str]:
    """Return the arguments of `zray start` for a head or another node: options of the other kind are left out."""
    return list(_arguments(options, NODE_OPTIONS if is_head else HEAD_OPTIONS))


def _arguments(options: dict[str, Any], left_out: tuple[str, ...]) -> Iterator[str]:
    for name, value in sorted(options.items()):
        if name in left_out or value is False:
            continue
        yield f"--{name.replace('_', '-')}"
        if value is not True:
            yield json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
